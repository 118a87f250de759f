"""Processes that tests start once, and ask again and again."""

import json
import os
import subprocess
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
