"""The service's commands: serve, keys, backup, restore, repair."""

from pathlib import Path
from typing import Annotated

import typer

from taciturn.cli.shared import AsJson, lazy, out, print_json
from taciturn.errors import TaciturnError

running = lazy("taciturn.service.run")
repairs = lazy("taciturn.service.journal.repair")
keyring = lazy("taciturn.service.api.keys")
journals = lazy("taciturn.service.journal.base")

app = typer.Typer()
keys = typer.Typer(no_args_is_help=True, help="API keys: who may read, who may write.")

DataDir = Annotated[Path, typer.Option(help="The folder of the journal and its snapshots; made if need be.")]
Postgres = Annotated[
    str | None,
    typer.Option(envvar="TACITURN_POSTGRES", help="Keep the journal in PostgreSQL: host=… dbname=… (extra postgres)."),
]
HERE = Path("taciturn-data")


@app.command(epilog="Example: taciturn serve --data-dir ./taciturn-data")
def serve(
    host: Annotated[
        str, typer.Option(help="Where to listen; elsewhere than on this machine only with a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8420,
    data_dir: DataDir = HERE,
    postgres: Postgres = None,
    durability: Annotated[
        str, typer.Option(help="full survives the loss of power; normal only the loss of the process, and is faster.")
    ] = "full",
    learn_budget_ms: Annotated[
        float, typer.Option(min=0.1, help="How long learning may keep a decision of the same agent waiting.")
    ] = 10.0,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Decide over HTTP: one process, one folder, nothing acknowledged is ever lost."""
    if log_level not in ("debug", "info", "warning", "error"):
        raise TaciturnError(f"--log-level {log_level} is not allowed; debug, info, warning or error is")
    running.log_to_stderr(log_level)
    with running.opened_journal(data_dir, postgres=postgres, durability=durability) as journal:
        keyed = bool(list(journal.keys()))
        running.check_host(host, keyed=keyed)
        with running.opened_app(journal, data_dir, learn_budget_ms=learn_budget_ms) as application:
            shown, kept = "localhost" if host == "127.0.0.1" else host, "" if postgres else f", kept in {data_dir}"

            def announce(port: int) -> None:
                out.print(f"taciturn decides at http://{shown}:{port}/{kept}; stop with Ctrl-C", soft_wrap=True)

            running.serve(application, host=host, port=port, announce=announce)


@keys.command("add", epilog="Example: taciturn keys add shop --scope write")
def add_key(
    name: Annotated[str, typer.Argument(help="What the key is called.")],
    scope: Annotated[str, typer.Option(help="read, or write (which may read too).")] = "write",
    data_dir: DataDir = HERE,
    postgres: Postgres = None,
    as_json: AsJson = False,
) -> None:
    """Make a key, or a new one of its name, and show its token, this once; the service takes it at its next start."""
    if scope not in keyring.SCOPES:
        raise TaciturnError(f"--scope {scope} is not allowed; read or write is")
    token = keyring.new_token()
    with running.opened_journal(data_dir, postgres=postgres) as journal:
        journal.put_key(journals.Key(name, keyring.digest(token), scope))
    if as_json:
        print_json({"name": name, "scope": scope, "token": token})
    else:
        out.print(f"{name} may {scope} with this token, which is not shown again:\n{token}", soft_wrap=True)


@keys.command("list", epilog="Example: taciturn keys list")
def list_keys(data_dir: DataDir = HERE, postgres: Postgres = None, as_json: AsJson = False) -> None:
    """All keys and what they may do."""
    with running.opened_journal(data_dir, postgres=postgres) as journal:
        found = [{"name": key.name, "scope": key.scope} for key in journal.keys()]  # noqa: SIM118 - not a dictionary
    if as_json:
        print_json(found)
    else:
        out.print("\n".join(f"{key['name']}\t{key['scope']}" for key in found) or "there is no key")


@keys.command("drop", epilog="Example: taciturn keys drop shop")
def drop_key(
    name: Annotated[str, typer.Argument(help="Which key.")], data_dir: DataDir = HERE, postgres: Postgres = None
) -> None:
    """Take a key away."""
    with running.opened_journal(data_dir, postgres=postgres) as journal:
        if not journal.drop_key(name):
            raise TaciturnError(f"there is no key {name!r}; taciturn keys list shows them")
    out.print(f"{name} is gone")


@app.command(epilog="Example: taciturn backup taciturn.backup --data-dir ./taciturn-data")
def backup(target: Annotated[Path, typer.Argument(help="The file to write.")], data_dir: DataDir = HERE) -> None:
    """Copy the journal to one file that is checked, also while the service runs."""
    last = repairs.backup(data_dir / running.JOURNAL, target)
    out.print(f"{target} holds the journal up to entry {last}")


@app.command(epilog="Example: taciturn restore taciturn.backup --data-dir ./new")
def restore(source: Annotated[Path, typer.Argument(help="A backup.")], data_dir: DataDir = HERE) -> None:
    """Make a data folder from a backup; one that has a journal is not touched."""
    last = repairs.restore(source, data_dir / running.JOURNAL)
    out.print(f"{data_dir} holds the journal up to entry {last}")


@app.command(epilog="Example: taciturn repair --data-dir ./taciturn-data")
def repair(data_dir: DataDir = HERE) -> None:
    """Keep what is good of a damaged journal, and move the damaged file aside."""
    kept, dropped = repairs.repair(data_dir / running.JOURNAL)
    out.print(f"kept {kept} entries" + (f" and dropped {dropped}" if dropped else "; nothing was wrong"))
