"""What the README and the pages show is run, word for word."""

import re
from pathlib import Path

import pytest

HOME = Path(__file__).parent.parent
README = (HOME / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PRODUCTION = (HOME / "docs" / "production.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", BLOCKS, ids=lambda code: code.strip().splitlines()[2][:30])
def test_python_blocks_run(code, request):
    if "load_dataset" in code:
        request.getfixturevalue("real_folder")
    names = {"__name__": "readme"}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own words
    assert "tacit" in names


def test_the_page_from_notebook_to_production_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PRODUCTION, re.DOTALL)
    exec(compile(code, "production.md", "exec"), {"__name__": "page"})  # noqa: S102 - our own words
    *account, counts = capsys.readouterr().out.splitlines()
    assert counts == "0 1 1"
    assert account[0].startswith("decision 0 is rewarded: ")


def test_both_commands_are_there():
    assert "$ make demo" in README
    assert "$ make test" in README
