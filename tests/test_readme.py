"""The code of the README and of the documentation runs as printed."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parent.parent
README = (HOME / "README.md").read_text(encoding="utf-8")
SERVE = README[README.index("## Serve") : README.index("## Speed")]
BLOCKS = re.findall(r"```python\n(.*?)```", README.replace(SERVE, ""), re.DOTALL)
PRODUCTION = (HOME / "docs" / "production.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", BLOCKS, ids=lambda code: code.strip().splitlines()[2][:30])
def test_python_blocks_run(code, request):
    if "load_dataset" in code:
        request.getfixturevalue("real_folder")
    names = {"__name__": "readme"}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own documentation
    assert "taciturn" in names


def test_the_code_of_production_md_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PRODUCTION, re.DOTALL)
    exec(compile(code, "production.md", "exec"), {"__name__": "page"})  # noqa: S102 - our own documentation
    *account, counts = capsys.readouterr().out.splitlines()
    assert counts == "0 1 1"
    assert account[0].startswith("decision 0 is rewarded: ")


def test_the_readmes_commands_for_serving_run_in_an_empty_folder(tmp_path, capsys):
    """As printed, except for the port, which may be in use."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    commands = re.findall(r"^\$ (.*)", SERVE, re.MULTILINE)
    assert commands[:2] == ["pip install '.[serve]'", "taciturn serve"]
    serve = [sys.executable, "-m", "taciturn", "serve", "--port", "0"]
    with subprocess.Popen(serve, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
        line = service.stdout.readline()
        port = re.search(r":(\d+)/", line)[1]
        try:
            assert line.strip().replace(port, "8420") in SERVE
            answers = [
                json.loads(subprocess.check_output(["/bin/sh", "-c", command.replace("8420", port)], text=True))
                for command in commands[2:]
            ]
            assert answers[0]["arms"] == ["refund", "order", "human"]
            assert answers[1]["id"] == answers[2]["id"] == 0
            (code,) = re.findall(r"```python\n(.*?)```", SERVE, re.DOTALL)
            exec(compile(code.replace("8420", port), "README.md", "exec"), {"__name__": "readme"})  # noqa: S102
            assert capsys.readouterr().out.startswith("decision 0 is rewarded: ")
            page = subprocess.check_output([shutil.which("curl"), "-s", f"http://localhost:{port}/"], text=True)
            assert "shop" in page
        finally:
            service.terminate()
    assert (tmp_path / "taciturn-data" / "journal.db").exists()


def test_the_readme_names_make_demo_and_make_test():
    assert "$ make demo" in README
    assert "$ make test" in README


def test_the_page_on_contexts_runs_and_prints_what_it_says(capsys):
    page = (HOME / "docs" / "contexts.md").read_text(encoding="utf-8")
    names = {"__name__": "page"}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(code, "contexts.md", "exec"), names)  # noqa: S102 - our own documentation
    said = [" ".join(line.split()) for line in re.findall(r"^prints `(.*?)`", page, re.DOTALL | re.MULTILINE)]
    assert capsys.readouterr().out.splitlines() == said


def test_the_page_on_large_problems_runs_and_shows_what_it_says(capsys):
    page = (HOME / "docs" / "large.md").read_text(encoding="utf-8")
    names = {"__name__": "page"}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(code, "large.md", "exec"), names)  # noqa: S102 - our own documentation
    shown = re.findall(r"# shows: (.*)", page)
    out = capsys.readouterr().out
    assert shown and all(line in out for line in shown)
