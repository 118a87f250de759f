"""docs/your-own.md works word for word: its file, its commands in order, and its code."""

import re
import shlex
import sys
from pathlib import Path

from cli_kit import taciturn
from taciturn.experiments import workers
from taciturn.experiments.recorder import read_runs

HOME = Path(__file__).parent.parent
PAGE = (HOME / "docs" / "your-own.md").read_text(encoding="utf-8")
README = (HOME / "README.md").read_text(encoding="utf-8")


def blocks(kind, text=PAGE):
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def test_the_page_works_word_for_word_in_an_empty_folder(tmp_path, monkeypatch):
    """As printed, except that runs are carried out in this process, which has compiled what they need."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(workers, "default_jobs", lambda: 1)
    Path("mine.csv").write_text(blocks("csv")[0])
    Path("mine.toml").write_text(blocks("toml")[0])
    assert blocks("sh") == [(HOME / "examples" / "counts.sh").read_text(encoding="utf-8")]
    Path("counts.sh").write_text(blocks("sh")[0])
    (agent,) = (code for code in blocks("python", README) if "class Prototypes" in code)
    Path("prototypes.py").write_text(agent)
    for code in blocks("python"):
        exec(compile(code, "your-own.md", "exec"), {"__name__": "page"})  # noqa: S102 - our own documentation
    commands = re.findall(r"^\$ taciturn (.*)", PAGE, re.MULTILINE)
    assert len(commands) == 7
    for command in commands:
        ran = taciturn(tmp_path, *shlex.split(command.replace("--jobs 2", "--jobs 1")))
        assert ran.returncode == 0, f"{command}: {ran.stderr}"
        assert ran.stdout
    runs = list(read_runs(Path("results")))
    assert {record.dataset for record in runs} == {"mine", "digits"}
    assert {"prototypes:Prototypes", "command:sh counts.sh"} <= {record.method for record in runs}
    assert all(record.error is None for record in runs)
    routed = list(read_runs(Path("routing")))
    assert sorted(record.method for record in routed) == ["linucb", "linucb", "viewucb", "viewucb"]
    assert all(record.mean_reward > 0.4 and record.cost_weight == 0.2 for record in routed)
