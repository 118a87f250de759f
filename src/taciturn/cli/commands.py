"""All commands as one, and what becomes of their errors."""

import atexit
import gc
from typing import Annotated

import typer

from taciturn import __version__
from taciturn.cli import bakeoff, datasets, mcp, paper, route, run, serve
from taciturn.cli.shared import fail, out
from taciturn.errors import TaciturnError, how_to_install

INTERRUPTED = 130
"""The exit code after Ctrl-C, which typer returns in place of raising `KeyboardInterrupt`."""

EXTRAS = {"matplotlib": "plot", "psycopg": "postgres", "yaml": "route"}
"""The extra that installs a package that a command did not find; for all others it is serve."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Contextual bandits whose reward often never comes.",
    epilog="Example: taciturn demo",
)
for commands in (run.app, paper.app, bakeoff.app, serve.app, route.app, mcp.app):
    app.add_typer(commands)
app.add_typer(datasets.app, name="datasets")
app.add_typer(serve.keys, name="keys")


def _print_version(requested: bool) -> None:
    if requested:
        out.print(__version__)
        raise typer.Exit


@app.callback()
def _taciturn(
    _: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Declare the options of `taciturn` itself."""


def run_command() -> None:
    """Carry out what the arguments say, and end the process; see `main`."""
    atexit.register(gc.freeze)  # looking for garbage at the end would take a third of a second
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if not message:  # called without arguments: the help has been printed
            raise SystemExit(2) from None
        fail(message)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "", "serve")
        fail(f"this needs {error.name}, which is not installed; {how_to_install(extra)} installs it")
    except (TaciturnError, ImportError, OSError) as error:
        fail(error)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        fail("interrupted; the runs that finished are kept", INTERRUPTED)
    raise SystemExit(code if isinstance(code, int) else 0)
