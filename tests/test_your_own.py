"""docs/your-own.md works word for word: its file, its commands in order, and its code."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from taciturn.experiments.recorder import read_runs

HOME = Path(__file__).parent.parent
PAGE = (HOME / "docs" / "your-own.md").read_text(encoding="utf-8")
README = (HOME / "README.md").read_text(encoding="utf-8")


def block(kind, text=PAGE):
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def python(*arguments, folder):
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_the_page_works_word_for_word_in_an_empty_folder(tmp_path):
    (tmp_path / "mine.csv").write_text(block("csv")[0])
    (tmp_path / "mine.toml").write_text(block("toml")[0])
    (agent,) = (code for code in block("python", README) if "class Prototypes" in code)
    (tmp_path / "prototypes.py").write_text(agent)
    for i, code in enumerate(block("python")):
        (tmp_path / f"block{i}.py").write_text(code)
        ran = python(f"block{i}.py", folder=tmp_path)
        assert ran.returncode == 0, ran.stderr
    commands = re.findall(r"^\$ taciturn (.*)", PAGE, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        ran = python("-m", "taciturn", *shlex.split(command), folder=tmp_path)
        assert ran.returncode == 0, f"{command}: {ran.stderr}"
        assert ran.stdout
    runs = list(read_runs(tmp_path / "results"))
    assert {record.dataset for record in runs} == {"mine", "digits"}
    assert "prototypes:Prototypes" in {record.method for record in runs}
    assert all(record.error is None for record in runs)
