"""Commands in this process: most of a command's time is the start of its interpreter and the imports."""

import contextlib
import io
import subprocess
import sys
from unittest import mock

from taciturn.cli import main


def taciturn(folder, *words):
    """What `taciturn WORDS` returns and prints where it is called in a folder."""
    command, out, errors = ["taciturn", *map(str, words)], io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        mock.patch.object(sys, "argv", command),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return subprocess.CompletedProcess(command, code, out.getvalue(), errors.getvalue())
