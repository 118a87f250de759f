"""The command line: parses arguments and prints; the other packages do the work."""

import sys

from taciturn.experiments import workers


def main() -> None:
    """Run the command line; bad input ends with one line on stderr and exit code 2, without a traceback."""
    if sys.argv[1:2] in (["demo"], ["reproduce"]) and workers.default_jobs() > 1:
        workers.start()  # it imports what runs need, while this process imports what commands need
    from taciturn.cli.commands import run_command  # noqa: PLC0415 - see above

    run_command()
