"""The commands of the service: serve, keys, backup, restore, repair, compact."""

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from taciturn.cli.shared import AsJson, Folder, Host, Port, lazy, out, print_json
from taciturn.errors import TaciturnError

service = lazy("taciturn.service.run")
configuration = lazy("taciturn.service.config")
repairs = lazy("taciturn.service.journal.repair")
keyring = lazy("taciturn.service.api.keys")
journal_base = lazy("taciturn.service.journal.base")

app = typer.Typer()
keys = typer.Typer(no_args_is_help=True, help="API keys: who may read, who may write.")

DataDir = Annotated[
    Path,
    typer.Option(
        envvar="TACITURN_DATA_DIR",
        file_okay=False,
        help="The folder of the journal and its snapshots; created if it does not exist.",
    ),
]
Postgres = Annotated[
    str | None,
    typer.Option(envvar="TACITURN_POSTGRES", help="Keep the journal in PostgreSQL: host=… dbname=… (extra postgres)."),
]
HERE = Path("taciturn-data")


@app.command(epilog="Example: taciturn serve --data-dir ./taciturn-data")
def serve(
    host: Host = None,
    port: Port = None,
    data_dir: Folder = None,
    postgres: Annotated[str | None, typer.Option(help="Keep the journal in PostgreSQL: host=… dbname=….")] = None,
    durability: Annotated[
        str | None, typer.Option(help="full (default) survives the loss of power; normal only that of the process.")
    ] = None,
    learn_budget_ms: Annotated[
        float | None, typer.Option(help="How long learning may delay a decision of the same agent; 10 by default.")
    ] = None,
    snapshot_every: Annotated[
        int | None, typer.Option(help="Decisions of an agent between two snapshots; 20000 by default.")
    ] = None,
    snapshot_seconds: Annotated[
        float | None, typer.Option(help="Seconds of an agent's computing between two snapshots; 5 by default.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="local (default): this process; ray: shards and fronts on Ray, with --postgres.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="A running Ray cluster; without it one is started here.")] = None,
    shards: Annotated[
        int | None,
        typer.Option(help="Processes that own agents, on Ray; by default as many as there were, at first 2."),
    ] = None,
    fronts: Annotated[int | None, typer.Option(help="Processes that answer HTTP, on Ray; 2 by default.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Use several cores: --engine ray on this machine, with so many shards.")
    ] = None,
    lease_seconds: Annotated[
        float | None, typer.Option(help="After how long without a word a shard is replaced; 5 by default.")
    ] = None,
    snapshots: Annotated[
        str | None, typer.Option(help="A folder or an s3://… that all shards reach; by default in --data-dir.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info (default: a line for every request), warning or error.")
    ] = None,
    log_contexts: Annotated[
        bool | None, typer.Option("--log-contexts/--no-log-contexts", help="Log the bodies of requests to decide.")
    ] = None,
    otel: Annotated[
        bool | None,
        typer.Option("--otel/--no-otel", help="Send OpenTelemetry spans to where OTEL_EXPORTER_OTLP_ENDPOINT says."),
    ] = None,
    limit: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A limit, for example body=1000000; can be repeated.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(envvar="TACITURN_CONFIG", help="A TOML file; see --show-config.")
    ] = None,
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print all settings and where each comes from, as TOML, and exit.")
    ] = False,
) -> None:
    """Serve decisions over HTTP; nothing that was acknowledged is lost.

    One process and one folder, or with --workers or --engine ray many processes and a PostgreSQL database.

    Every flag is also a TACITURN_* variable (TACITURN_PORT, TACITURN_LIMIT_BODY) and a line of the file that --config
    names. Flags come before variables, and variables before the file.
    """
    given = locals()  # the flags by their names
    flags = {name: given[name] for name in configuration.NAMES}
    sources = [configuration.from_flags(flags, limit or ()), configuration.from_environment(os.environ)]
    if config is not None:
        sources.append(configuration.from_file(config))
    settings, origins = configuration.resolve(sources)
    if show_config:
        sys.stdout.write(configuration.to_toml(settings, origins))
        return
    shown = "localhost" if settings.host == "127.0.0.1" else settings.host
    kept = "" if settings.postgres else f", kept in {settings.data_dir}"

    def announce(port: int) -> None:
        out.print(f"taciturn decides at http://{shown}:{port}/{kept}; stop with Ctrl-C", soft_wrap=True)

    service.run(settings, announce, configuration.unknown_variables(os.environ))


@app.command(epilog="Example: taciturn scale 4 --postgres 'host=db dbname=taciturn'")
def scale(
    shards: Annotated[int, typer.Argument(help="How many shards there should be.", min=1, max=1024)],
    postgres: Annotated[str, typer.Option(envvar="TACITURN_POSTGRES", help="The database: host=… dbname=….")],
) -> None:
    """Change the number of shards of a service on Ray while it runs; agents move one by one."""
    from taciturn.service.journal.directory import Directory  # noqa: PLC0415 - its driver is an extra

    with closing(Directory(postgres)) as tables:
        before = tables.wanted()
        tables.create(shards)
    out.print(f"{shards} shards are wanted, {before} were; /readyz says when they serve")


@keys.command("add", epilog="Example: taciturn keys add shop --scope write")
def add_key(
    name: Annotated[str, typer.Argument(help="What the key is called.")],
    scope: Annotated[str, typer.Option(help="read, or write (which may read too).")] = "write",
    data_dir: DataDir = HERE,
    postgres: Postgres = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the key of this name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a key and show its token once; a running service accepts it at once."""
    if scope not in keyring.SCOPES:
        raise TaciturnError(f"--scope {scope} is not allowed; read or write is")
    if not name.strip() or not name.isprintable():
        raise TaciturnError(f"{name!r} cannot be the name of a key; printable text can")
    token = keyring.new_token()
    key = journal_base.Key(name, keyring.digest(token), scope)
    with service.opened_tables(data_dir, postgres=postgres) as tables:
        if tables is not None:
            if not replace and any(known.name == name for known in tables.keys()):  # noqa: SIM118 - not a dictionary
                raise TaciturnError(f"there is a key {name!r}; --replace gives it a new token, and ends the old one")
            tables.put_key(key)
    if tables is None:
        with service.opened_journal(data_dir, postgres=postgres) as journal:
            journal.put_key(key)
    if as_json:
        print_json({"name": name, "scope": scope, "token": token})
    else:
        out.print(f"{name} may {scope} with this token, which is not shown again:\n{token}", soft_wrap=True)


@keys.command("list", epilog="Example: taciturn keys list")
def list_keys(data_dir: DataDir = HERE, postgres: Postgres = None, as_json: AsJson = False) -> None:
    """All keys and what they may do."""
    with service.opened_tables(data_dir, postgres=postgres) as tables:
        found = [{"name": name, "scope": scope} for name, _, scope in (tables.keys() if tables else ())]
    if as_json:
        print_json(found)
    else:
        out.print("\n".join(f"{key['name']}\t{key['scope']}" for key in found) or "there is no key")


@keys.command("drop", epilog="Example: taciturn keys drop shop")
def drop_key(
    name: Annotated[str, typer.Argument(help="Which key.")], data_dir: DataDir = HERE, postgres: Postgres = None
) -> None:
    """Remove a key; a running service refuses it at once."""
    with service.opened_tables(data_dir, postgres=postgres) as tables:
        if tables is None or not tables.drop_key(name):
            raise TaciturnError(f"there is no key {name!r}; taciturn keys list shows them")
    out.print(f"{name} is removed")


@app.command(epilog="Example: taciturn backup taciturn.backup --data-dir ./taciturn-data")
def backup(
    target: Annotated[Path, typer.Argument(help="The file to write.")],
    data_dir: DataDir = HERE,
    force: Annotated[bool, typer.Option("--force", help="Replace a file of this name.")] = False,
) -> None:
    """Copy the journal to one verified file, also while the service runs."""
    last = repairs.backup(data_dir / service.JOURNAL, target, force=force)
    out.print(f"{target} holds the journal up to entry {last}")


@app.command(epilog="Example: taciturn restore taciturn.backup --data-dir ./new")
def restore(source: Annotated[Path, typer.Argument(help="A backup.")], data_dir: DataDir = HERE) -> None:
    """Create a data folder from a backup; an existing journal is not overwritten."""
    last = repairs.restore(source, data_dir / service.JOURNAL)
    out.print(f"{data_dir} holds the journal up to entry {last}")


@app.command(epilog="Example: taciturn repair --data-dir ./taciturn-data")
def repair(data_dir: DataDir = HERE) -> None:
    """Keep the good entries of a damaged journal, and move the damaged file aside."""
    kept, dropped = repairs.repair(data_dir / service.JOURNAL)
    out.print(f"kept {kept} entries" + (f" and dropped {dropped}" if dropped else "; nothing was wrong"))


@app.command(epilog="Example: taciturn compact --data-dir ./taciturn-data")
def compact(data_dir: DataDir = HERE, postgres: Postgres = None) -> None:
    """Remove the entries of deleted agents; a running service does it when half of the journal is theirs."""
    with service.opened_tables(data_dir, postgres=postgres) as tables:
        if tables is None:
            raise TaciturnError(f"{data_dir if postgres is None else 'PostgreSQL'}: there is no journal")
    try:
        removed = service.compact(data_dir, postgres=postgres)
    except journal_base.JournalInUse:
        with service.opened_tables(data_dir, postgres=postgres) as tables:
            tables.request_compaction()
        out.print("the service is running and compacts the journal now; its log says when it is done")
    else:
        out.print(f"removed {removed} entries of deleted agents")
