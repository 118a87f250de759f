"""What the README shows is run, word for word."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=lambda code: code.strip().splitlines()[2][:30])
def test_python_blocks_run(code, request):
    if "load_dataset" in code:
        request.getfixturevalue("real_folder")
    names = {"__name__": "readme"}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own words
    assert "tacit" in names


def test_both_commands_are_there():
    assert "$ make demo" in README
    assert "$ make test" in README
