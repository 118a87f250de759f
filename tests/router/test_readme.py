"""The README of the example works as printed, from an empty folder: every command, and what it shows."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "router"
README = (EXAMPLES / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
SERVERS = (
    "taciturn route support.yaml",
    "python stand_in.py",
    "taciturn route models.yaml --port 8421 --data-dir models-data",
)


def steps():
    """The commands, each with the lines that it shows; a here-document belongs to its command."""
    found = []
    for block in BLOCKS:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            document = re.match(r".*?<<'YAML'\n.*?^YAML\n", part, re.DOTALL | re.MULTILINE)
            command = document[0] if document else part.partition("\n")[0] + "\n"
            found.append((command.strip(), part[len(command) :].rstrip("\n")))
    return found


def shows(expected, output):
    """Whether the output is what the README shows, where … stands for anything."""
    pattern = ".*".join(re.escape(piece) for piece in expected.split("…"))
    return re.fullmatch(pattern, output.rstrip("\n"), re.DOTALL) is not None


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@pytest.fixture
def shell(tmp_path):
    """Runs commands in an empty folder in which `taciturn` and `python` are those under test."""
    programs, folder = tmp_path / "bin", tmp_path / "empty"
    folder.mkdir()
    programs.mkdir()
    for name, arguments in (("taciturn", "-m taciturn"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (programs / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "TACITURN_LOG_LEVEL": "error"}
    started = []

    def run(command, lines=None):
        if lines is None:
            return subprocess.check_output(["/bin/sh", "-c", command], cwd=folder, env=environment, text=True)
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE
        )
        started.append(process)
        return "".join(process.stdout.readline() for _ in range(lines))

    yield run, folder
    for process in started:
        process.terminate()
        process.stdout.close()
        process.wait()


def test_the_readme_word_for_word(shell):
    run, folder = shell
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    ports = {port: str(free_port()) for port in ("8420", "8421", "8500")}  # those printed may be in use

    def ported(text):
        return re.sub("8420|8421|8500", lambda match: ports[match[0]], text)

    (install, nothing), *rest = steps()
    assert install == "pip install '…/taciturn[route]'"
    assert not nothing
    served = []
    for command, expected in rest:
        if command == "python stand_in.py":  # from here on in the folder of the README
            for name in ("models.yaml", "stand_in.py"):
                (folder / name).write_text(ported((EXAMPLES / name).read_text(encoding="utf-8")), encoding="utf-8")
        server = command in SERVERS
        served += [command] if server else []
        more = f" --port {ports['8420']}" if command == SERVERS[0] else ""
        output = run(ported(command) + more, expected.count("\n") + 1 if server else None)
        assert shows(ported(expected), output), f"{command}\nshows\n{output}\nin place of\n{expected}"
    assert tuple(served) == SERVERS
    assert yaml.safe_load((folder / "support.yaml").read_text()) == yaml.safe_load(
        (EXAMPLES / "support.yaml").read_text()
    )
