"""Pages of the documentation as blocks of code, and commands of the command line that are read but not run."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import typer
from typer._click.exceptions import NoSuchOption, UsageError

HOME = Path(__file__).parent.parent
TOOLS = os.environ | {"PYTHONPATH": os.pathsep.join([str(HOME / "src"), str(HOME / "tools")])}
"""The environment of `python -m docsite`."""
PAGES = [HOME / "README.md", HOME / "CONTRIBUTING.md", *sorted((HOME / "docs").glob("*.md"))]
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w.-]+\.\w+)`[^`]*:\s*$")
EXTRAS = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
TARGETS = set(re.findall(r"^(\w+):", (HOME / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


class Block(NamedTuple):
    """Code of a page: its language, the file that the text before it calls it, and the text up to the next block."""

    language: str
    code: str
    file: str | None
    after: str

    @property
    def commands(self):
        return re.findall(r"^\$ (.*)", self.code, re.MULTILINE)

    @property
    def said(self):
        """What the text after it says that it prints: "prints `…`."."""
        found = re.match(r"\s*prints `(.*?)`", self.after, re.DOTALL)
        return " ".join(found[1].split()) if found else None


def blocks(text):
    matches = list(FENCE.finditer(text))
    starts = [0, *(match.end() for match in matches)]
    ends = [*(match.start() for match in matches), len(text)]
    between = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    return [
        Block(match[2], match[3], (found := FILE.search(before)) and found[1], after)
        for match, before, after in zip(matches, between[:-1], between[1:], strict=True)
    ]


def check_mentioned(text):
    """Fail where the text mentions a subcommand or flag of taciturn that there is not; arguments may be left out."""
    for command in re.findall(r"`taciturn ([a-z][^`\n>]*)", FENCE.sub("", text)):
        try:
            parse_command([word for word in shlex.split(command) if word != "…"])
        except UsageError as error:
            assert not isinstance(error, NoSuchOption) and "No such command" not in error.format_message(), command


def words_of(command):
    """The words of a command, without comments, brackets around options, and `time` and variables before it."""
    words = shlex.split(re.sub(r"\[(--[^\]]*)\]", r"\1", command), comments=True)
    while re.fullmatch(r"[A-Z_]+=\S*|time", words[0]):
        words.pop(0)
    return words


def check_command(command):
    """Fail where a command could not be given: of taciturn the subcommand, its arguments and flags; extras; targets."""
    words = words_of(command)
    if words[0] == "taciturn":
        parse_command(words[1:])
    elif words[:2] == ["pip", "install"]:
        extras = re.fullmatch(r"\.\[(.*)\]", words[2])[1].split(",")
        assert set(extras) <= set(EXTRAS)
    elif words[0] == "make":
        assert words[1] in TARGETS
    elif words[0] == "python" and words[1] == "-m":
        assert (HOME / "src" / Path(*words[2].split("."))).with_suffix(".py").exists()
    elif words[0] == "python":
        assert (HOME / words[1]).exists()
    elif words[0] == "cd":
        assert (HOME / words[1]).is_dir()
    else:
        assert words[0] == "curl", f"nobody checks {command}"


def parse_command(words):
    """Read the words as the command line does, down to the last subcommand, without running it."""
    from taciturn.cli.commands import app

    command, context = typer.main.get_command(app), None
    while hasattr(command, "resolve_command"):
        context = command.make_context(command.name or "taciturn", list(words), parent=context)
        words = [*context._protected_args, *context.args]
        if not words and command.invoke_without_command:
            return
        _, command, words = command.resolve_command(context, words)
    command.make_context(command.name, list(words), parent=context)


@contextmanager
def served(folder):
    """A service as `taciturn serve` starts it in a folder, but for the port: its port, and its first line."""
    serve = [sys.executable, "-m", "taciturn", "serve", "--port", "0"]
    with subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
        line = service.stdout.readline()
        try:
            yield re.search(r":(\d+)/", line)[1], line.strip()
        finally:
            service.terminate()
