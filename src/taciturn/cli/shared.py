"""Shared by the commands: lazy imports, common options, output and errors."""

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

Label = Annotated[str | None, typer.Option(help="The column of your own file that holds the right arm.")]
Edges = Annotated[Path | None, typer.Option(help="A file of pairs of row indices, the graph of your own data.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="The number of processes; by default that of cores.")]
Engine = Annotated[
    str, typer.Option(help="local: processes on this machine; ray: the cluster at --address, or a local one.")
]
Address = Annotated[str | None, typer.Option(help="The address of a Ray cluster.")]
Host = Annotated[
    str | None,
    typer.Option(help="The address to listen on, 127.0.0.1 by default; other machines reach it only with a key."),
]
Port = Annotated[int | None, typer.Option(help="8420 by default; 0 takes any free port.")]
Folder = Annotated[
    str | None, typer.Option(help="The folder of the journal and its snapshots, ./taciturn-data by default.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


def lazy(name: str) -> ModuleType:
    """Return a module that is loaded on first use, so that ``--help`` does not wait for numba and scipy."""
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
    """Return the items of a comma-separated list; None for None."""
    return None if text is None else [item.strip() for item in text.split(",") if item.strip()]


def print_json(value: Any) -> None:
    """Print one line of JSON on stdout."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def fail(message: object, code: int = 2) -> NoReturn:
    """Print one line on stderr and exit with a code."""
    errors.print(f"taciturn: {message}", style="red", soft_wrap=True, markup=False, highlight=False)
    raise SystemExit(code)
