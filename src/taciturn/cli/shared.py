"""What the commands share: modules that load late, options, and how to print and to fail."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NoReturn

import msgspec
import typer
from rich.console import Console

out = Console()
errors = Console(stderr=True)

Label = Annotated[str | None, typer.Option(help="The label column of your own file.")]
Edges = Annotated[Path | None, typer.Option(help="A file of row pairs, the graph of your own file.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="How many processes; the cores unless said otherwise.")]
Engine = Annotated[str, typer.Option(help="local: processes of this machine; ray: a Ray cluster, or one started here.")]
Address = Annotated[str | None, typer.Option(help="The address of a Ray cluster.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for a script to read.")]


def lazy(name: str) -> ModuleType:
    """A module that loads when it is first used, so that ``--help`` does not wait for numba and scipy."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def split(text: str | None) -> list[str] | None:
    """The items of a list with commas; None stays None."""
    return None if text is None else [item.strip() for item in text.split(",") if item.strip()]


def print_json(value: Any) -> None:
    """One line of JSON on stdout."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def fail(message: object, code: int = 2) -> NoReturn:
    """One line on stderr, and the exit code that says so."""
    errors.print(f"taciturn: {message}", style="red", soft_wrap=True, markup=False, highlight=False)
    raise SystemExit(code)
