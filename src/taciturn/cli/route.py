"""The command `taciturn route`."""

import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from taciturn.cli.shared import Folder, Host, Port, errors, lazy, out

router = lazy("taciturn.router.run")
configuration = lazy("taciturn.service.config")

app = typer.Typer()
PATIENCE = 2.0
"""Seconds after which a start says what it is doing."""


@app.command(epilog="Example: taciturn route support.yaml")
def route(
    file: Annotated[Path, typer.Argument(help="The YAML file of the arms.", dir_okay=False)],
    host: Host = None,
    port: Port = None,
    data_dir: Folder = None,
    observe: Annotated[
        bool, typer.Option("--observe", help="Decide and log, but answer with the default arm of the file always.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Check the file, print what it says, and exit.")] = False,
) -> None:
    """Route texts to arms (queues, tools, prompts, models) and learn from thumbs and silence.

    Text in, the arm out, over HTTP; with upstreams in the file also as a proxy for chat completions. The settings of
    `taciturn serve` hold here too, as TACITURN_* variables.
    """
    try:
        from taciturn.router.config import read_config  # noqa: PLC0415 - its YAML is an extra
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(str(error), name="yaml") from None
    config = read_config(file)
    config = config.observing() if observe else config
    if check:
        out.print(_described(config), soft_wrap=True, markup=False, highlight=False)
        return
    flags = {name: {"host": host, "port": port, "data_dir": data_dir}.get(name) for name in configuration.NAMES}
    sources = [configuration.from_flags(flags, ()), configuration.from_environment(os.environ)]
    settings, _ = configuration.resolve(sources)
    shown = "localhost" if settings.host == "127.0.0.1" else settings.host
    started = time.monotonic()

    def say(what: str) -> None:
        if errors.is_terminal or time.monotonic() - started > PATIENCE:
            errors.print(f"taciturn: {what}", soft_wrap=True, markup=False, highlight=False)

    def announce(port: int, changes: Any) -> None:
        out.print(f"taciturn: {_changed(changes)}", soft_wrap=True, markup=False, highlight=False)
        mode = "observes" if config.observe else "routes"
        out.print(
            f"taciturn {mode} {config.name} at http://{shown}:{port}/router, kept in {settings.data_dir}; "
            "stop with Ctrl-C",
            soft_wrap=True,
        )

    router.run_router(config, settings, announce, say)


def _described(config: Any) -> str:
    """What a file says, in a few lines."""
    mode = f"observes, and answers {config.default} always" if config.observe else "routes"
    budget = "" if config.budget is None else f", at {config.budget:g} a decision on average"
    sticky = (
        f"a session stays with its arm for {config.session_seconds:g} s" if config.sticky else "sessions do not stick"
    )
    lines = [f"{config.name} {mode}{budget}; {sticky}; silent after {config.silence_after:g} s"]
    for arm in config.arms:
        cost = f", costs {arm.cost:g}" if arm.cost else ""
        upstream = (
            "" if arm.upstream is None else f", answered by {arm.upstream.model or 'any model'} at {arm.upstream.url}"
        )
        lines.append(f"  {arm.name}: {_examples(len(arm.examples))}{cost}{upstream}")
    return "\n".join(lines)


def _examples(count: int) -> str:
    return "1 example" if count == 1 else f"{count} examples"


def _changed(changes: Any) -> str:
    """What a start has changed, in a line."""
    parts = ["a new router" if changes.created else "the router goes on where it stopped"]
    if changes.added:
        parts.append(f"new arms: {', '.join(changes.added)}")
    if changes.retired:
        parts.append(f"retired arms: {', '.join(changes.retired)}")
    if changes.taught:
        parts.append(f"{_examples(changes.taught)} learned")
    if changes.withdrawn:
        parts.append(f"{_examples(changes.withdrawn)} taken back")
    return "; ".join(parts)
