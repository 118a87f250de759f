"""Processes that tests start once, and ask again and again."""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager


@contextmanager
def answering(*command):
    """A function that writes a line to a new process and returns the line of JSON that it answers.

    Its coverage is not measured: fixtures that start it are set up before that of a test is switched off.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:

        def ask(line):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


@contextmanager
def served(folder, *options):
    """The address of a service that is started in a folder, with its data in `data`, and stopped at the end."""
    command = [sys.executable, "-m", "taciturn", "serve", "--port", "0", "--data-dir", "data", *options]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            line = process.stdout.readline()
            assert line, (folder / "log").read_text()
            yield f"http://127.0.0.1:{re.search(r':([0-9]+)/', line)[1]}"
        finally:
            process.terminate()


def printed_with_and_without_numba(code):
    """What Python code prints where kernels are compiled, and where numba is told not to."""
    return [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"NUMBA_DISABLE_JIT": flag},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for flag in "01"
    ]
