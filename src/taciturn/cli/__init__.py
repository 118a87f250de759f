"""The command line: reads arguments, prints, and leaves the work to the rooms below."""

from typing import Annotated

import typer

from taciturn import __version__
from taciturn.cli import datasets, paper, run, serve
from taciturn.cli.shared import fail, out
from taciturn.errors import TaciturnError, how_to_install

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Decisions that learn from silence.",
    epilog="Example: taciturn demo",
)
for commands in (run.app, paper.app, serve.app):
    app.add_typer(commands)
app.add_typer(datasets.app, name="datasets")
app.add_typer(serve.keys, name="keys")


def _print_version(asked: bool) -> None:
    if asked:
        out.print(__version__)
        raise typer.Exit


@app.callback()
def _taciturn(
    _: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Nothing: all the work is in the commands."""


def main() -> None:
    """Run the command line: bad input ends in one line and exit code 2, never in a traceback."""
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if not message:  # called with nothing at all: the help was the answer
            raise SystemExit(2) from None
        fail(message)
    except ModuleNotFoundError as error:
        extra = "plot" if error.name == "matplotlib" else "postgres" if error.name == "psycopg" else "serve"
        fail(f"this needs {error.name}, which is not installed; {how_to_install(extra)} brings it")
    except (TaciturnError, OSError) as error:
        fail(error)
    except (KeyboardInterrupt, typer.Abort):
        fail("interrupted; the runs that finished are kept", 130)
    raise SystemExit(code if isinstance(code, int) else 0)
