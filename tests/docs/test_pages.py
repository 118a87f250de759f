"""The code of every page runs as printed, and every command on it could be given."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from cli_kit import taciturn
from docs_kit import HOME, PAGES, blocks, check_command, check_mentioned, served, words_of
from leaderboard_kit import big_bakeoff, write_runs
from taciturn.datasets.catalog import INCLUDED
from taciturn.experiments import workers
from taciturn.experiments.recorder import read_runs

ELSEWHERE = {"from mcp import": "tests/adapters/test_mcp.py"}
"""Code that another test runs, which has what it needs, by a part of it."""


STEPS = "60"
"""How many decisions of a run that a page has the reader start are made here."""


class Reader:
    """Somebody who does in an empty folder what a page says, from top to bottom."""

    def __init__(self, page, folder, capsys, port):
        self.page, self.folder, self.capsys, self.port = page, folder, capsys, port
        self.names, self.runs_commands = {"__name__": "page"}, page == "your-own.md"
        self.printed, self.answers, self.absent = [""], [], []

    def follow(self, block):
        if block.language == "python":
            self.run(block)
        elif block.language == "console":
            for command in block.commands:
                self.give(command)
        elif block.language == "text":
            assert self.printed[-1] == block.code
        elif block.file:
            (self.folder / block.file).write_text(block.code, encoding="utf-8")

    def run(self, block):
        if elsewhere := [test for part, test in ELSEWHERE.items() if part in block.code]:
            assert (HOME / elsewhere[0]).exists()
            return
        absent = [name for name in re.findall(r'load_dataset\("([\w-]+)"', block.code) if name not in INCLUDED]
        if absent and "TACITURN_DATA" not in os.environ:
            self.absent += absent
            return
        self.capsys.readouterr()
        exec(compile(self.here(block.code), self.page, "exec"), self.names)  # noqa: S102 - our own documentation
        self.printed.append(self.capsys.readouterr().out)
        assert all(line in self.printed[-1] for line in re.findall(r"# shows: (.*)", block.code))
        assert block.said in (None, " ".join(self.printed[-1].split()))

    def give(self, command):
        check_command(command)
        if command.startswith("curl "):
            self.answers.append(json.loads(subprocess.check_output(["/bin/sh", "-c", self.here(command)], text=True)))
        elif self.runs_commands and command.startswith("taciturn "):
            words = words_of(command.replace("--jobs 2", "--jobs 1"))[1:]
            ran = taciturn(self.folder, *words, *(["--steps", STEPS] if words[0] == "run" else []))
            assert ran.returncode == 0, f"{command}: {ran.stderr}"
            assert ran.stdout

    def here(self, text):
        """The text with the port of the service that runs, since the one that is printed may be in use."""
        return text.replace("8420", self.port or "8420")


@pytest.fixture
def reader(request, tmp_path, monkeypatch, capsys):
    """Somebody who has followed the page `request.param`, with a service where the page asks one."""
    page, text = request.param.name, request.param.read_text(encoding="utf-8")
    found = blocks(text)
    if "$ curl" in text and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(workers, "default_jobs", lambda: 1)  # this process has compiled what runs need
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # for `taciturn`
    PREPARED.get(page, lambda: None)()
    with ExitStack() as stack:
        port = None
        if any("localhost:8420" in block.code and block.language in ("python", "console") for block in found):
            port, greeting = stack.enter_context(served(tmp_path))
            assert "taciturn decides" not in text or greeting.replace(port, "8420") in text
        reader = Reader(page, tmp_path, capsys, port)
        for block in found:
            reader.follow(block)
        yield reader


@pytest.mark.parametrize("reader", PAGES, ids=lambda page: page.stem, indirect=True)
def test_the_code_of_a_page_runs_in_an_empty_folder(reader):
    CHECKS.get(reader.page, lambda _: None)(reader)
    if reader.absent:
        pytest.skip(f"TACITURN_DATA does not name a folder with {', '.join(reader.absent)}; the other blocks have run")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_that_the_text_mentions_exist(page):
    check_mentioned(page.read_text(encoding="utf-8"))


def test_the_readme_names_what_make_does():
    text = (HOME / "README.md").read_text(encoding="utf-8")
    assert all(f"$ make {target}" in text for target in ("demo", "test", "docs"))


def results_of_a_bakeoff():
    """The page on the bake-off shows what to do with a folder of results."""
    write_runs(Path("results"), big_bakeoff(["viewucb", "linucb"], ["digits", "wine"], rates=[0.5, 0.9], seeds=1))


def agent_of_the_readme():
    """The page on agents of your own has the reader copy one."""
    (agent,) = (block.code for block in blocks(PAGES[0].read_text(encoding="utf-8")) if "class Proto" in block.code)
    Path("prototypes.py").write_text(agent, encoding="utf-8")


def readme_is_followed(reader):
    created, decided, rewarded = reader.answers
    assert created["arms"] == ["refund", "order", "human"]
    assert decided["id"] == rewarded["id"] == 0
    assert any(out.startswith("decision 0 is rewarded: ") for out in reader.printed)
    assert "shop" in requests.get(f"http://localhost:{reader.port}/", timeout=30).text
    assert (reader.folder / "taciturn-data" / "journal.db").exists()


def production_is_followed(reader):
    *account, counts = reader.printed[-1].splitlines()
    assert counts == "0 1 1"
    assert account[0].startswith("decision 0 is rewarded: ")


def your_own_is_followed(_):
    assert Path("counts.sh").read_text(encoding="utf-8") == (HOME / "examples" / "counts.sh").read_text(
        encoding="utf-8"
    )
    runs = list(read_runs(Path("results")))
    assert {record.dataset for record in runs} == {"mine", "digits"}
    assert {"prototypes:Prototypes", "command:sh counts.sh"} <= {record.method for record in runs}
    assert all(record.error is None for record in runs)
    routed = list(read_runs(Path("routing")))
    assert sorted(record.method for record in routed) == ["linucb", "linucb", "viewucb", "viewucb"]
    assert all(record.mean_reward > 0.4 and record.cost_weight == 0.2 for record in routed)


PREPARED = {"bakeoff.md": results_of_a_bakeoff, "your-own.md": agent_of_the_readme}
CHECKS = {
    "README.md": readme_is_followed,
    "production.md": production_is_followed,
    "your-own.md": your_own_is_followed,
}
