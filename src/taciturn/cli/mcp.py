"""The command that makes agents of a service tools of assistants."""

import os
from typing import Annotated

import typer

from taciturn import __version__
from taciturn.cli.shared import lazy
from taciturn.errors import TaciturnError

client = lazy("taciturn.client")

app = typer.Typer()
PATIENCE = 5.0
"""Seconds for which a request is sent again: an assistant waits meanwhile."""


@app.command(epilog="Example: taciturn mcp --url http://localhost:8420")
def mcp(
    url: Annotated[str, typer.Option(envvar="TACITURN_URL", help="The running service.")] = "http://localhost:8420",
    key_env: Annotated[
        str | None,
        typer.Option(help="The variable that has the key, if the service needs one; TACITURN_KEY by default."),
    ] = None,
) -> None:
    """Let assistants use the agents of a running service: MCP tools over stdin and stdout.

    The tools are list_agents, decide, feedback and explain. Assistants start this command themselves; docs/interop.md
    says what they have to be told.
    """
    from taciturn.adapters.mcp import mcp_server  # noqa: PLC0415 - an extra

    key = os.environ.get(key_env or "TACITURN_KEY") or None
    if key_env and key is None:
        raise TaciturnError(f"--key-env {key_env}: there is no such variable, or it is empty")
    with client.Client(url, key, patience=PATIENCE) as connection:
        mcp_server(connection, __version__).run()
