"""The settings of a service: from flags, `TACITURN_*` variables and a TOML file, in this order of precedence."""

import difflib
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from taciturn.errors import TaciturnError
from taciturn.service.core.limits import Count, Limits, Seconds

PREFIX, LIMIT_PREFIX = "TACITURN_", "TACITURN_LIMIT_"
LIMIT_TYPES = get_type_hints(Limits, include_extras=True)
ELSEWHERE = ("CONFIG", "DATA", "KEY", "URL")
"""`TACITURN_*` variables that are no settings of the service: its file of settings, and those of other parts."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of `taciturn serve`.

    Arguments:
        host, port: where to listen; port 0 is any free one.
        data_dir: the folder of the journal and its snapshots.
        postgres: conninfo of the database that has the journal instead; None for the folder.
        durability: "full" survives the loss of power, "normal" only that of the process.
        learn_budget_ms: how long learning may delay a decision of the same agent.
        snapshot_every, snapshot_seconds: decisions of an agent between two snapshots, or seconds of its computing.
        engine: "local" for this process alone, "ray" for shards and fronts on Ray.
        address: of a running Ray cluster; None starts a local one.
        shards: processes that own agents, with the engine "ray"; 0 for as many as there were, at first 2.
        fronts: processes that answer HTTP, with the engine "ray".
        workers: the engine "ray" on this machine with so many shards; 0 for the engine that is named.
        lease_seconds: after how long without a word from a shard another process may take its place.
        snapshots: where snapshots are, if not in the data folder: a folder or an address such as s3://bucket/prefix,
            which all shards reach.
        log_level: the least important lines that are logged; "info" has one for every request.
        log_contexts: whether these lines have the bodies of requests to decide.
        otel: whether requests have spans of OpenTelemetry.
        limits: how much is accepted.
    """

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8420
    data_dir: Annotated[str, Meta(min_length=1)] = "taciturn-data"
    postgres: str | None = None
    durability: Literal["full", "normal"] = "full"
    learn_budget_ms: Annotated[float, Meta(ge=0.1, le=60_000)] = 10.0
    snapshot_every: Count = 20_000
    snapshot_seconds: Seconds = 5.0
    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    shards: Annotated[int, Meta(ge=0, le=1024)] = 0
    fronts: Annotated[int, Meta(ge=1, le=1024)] = 2
    workers: Annotated[int, Meta(ge=0, le=64)] = 0
    lease_seconds: Annotated[float, Meta(ge=0.5, le=600)] = 5.0
    snapshots: str | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_contexts: bool = False
    otel: bool = False
    limits: Limits = Limits()

    @property
    def is_cluster(self) -> bool:
        """Whether the service runs on Ray."""
        return self.engine == "ray" or self.workers > 0


TYPES = get_type_hints(Settings, include_extras=True)
NAMES = tuple(name for name in TYPES if name != "limits")


class Source(NamedTuple):
    """Where values come from: a word for messages, the values by name, and those of limits."""

    origin: str
    values: Mapping[str, Any]
    limits: Mapping[str, Any]


def from_file(path: Path) -> Source:
    """The settings in a TOML file."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TaciturnError(f"--config {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TaciturnError(f"--config {path}: is no TOML: {error}") from None
    limits = values.pop("limits", {})
    if not isinstance(limits, dict):
        raise TaciturnError(f"--config {path}: limits is a table, with a line [limits] before its settings")
    return Source(str(path), values, limits)


def from_environment(environment: Mapping[str, str]) -> Source:
    """The settings in `TACITURN_*` variables, and the limits in `TACITURN_LIMIT_*`; others are not ours."""
    values = {name: environment[PREFIX + name.upper()] for name in NAMES if environment.get(PREFIX + name.upper())}
    limits = {
        name.removeprefix(LIMIT_PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(LIMIT_PREFIX)
    }
    return Source("environment", values, limits)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A line for each `TACITURN_*` variable that nothing reads, with the one that may have been meant.

    A limit that there is not is an error of `resolve` instead.
    """
    known = [*ELSEWHERE, *(name.upper() for name in NAMES)]
    given = sorted(name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX))
    return [
        f"{PREFIX}{name} is ignored, since there is no such setting{_did_you_mean(name, known, PREFIX)}"
        for name in given
        if name not in known and not name.startswith("LIMIT_")
    ]


def from_flags(values: Mapping[str, Any], limits: Iterable[str]) -> Source:
    """The settings in flags, None for those not given; limits as NAME=VALUE."""
    pairs = [text.partition("=") for text in limits]
    given = {name: value for name, value in values.items() if value is not None}
    return Source("flag", given, {name.strip(): value.strip() for name, _, value in pairs})


def resolve(sources: Iterable[Source]) -> tuple[Settings, dict[str, str]]:
    """The settings of several sources, the most important first; and the origin of each that is not the default.

    Limits are called `limits.body` and so on in the origins and in errors.
    """
    values: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source in sources:
        for name, value in source.values.items():
            found = _known(name, NAMES, "a setting", source.origin)
            if found not in values:
                values[found] = _converted(found, value, TYPES[found], source.origin)
                origins[found] = source.origin
        for name, value in source.limits.items():
            found = _known(name, LIMIT_TYPES, "a limit", source.origin)
            if found not in limits:
                limits[found] = _converted(f"limits.{found}", value, LIMIT_TYPES[found], source.origin)
                origins[f"limits.{found}"] = source.origin
    return Settings(**values, limits=Limits(**limits)), origins


def _known(name: str, names: Iterable[str], what: str, origin: str) -> str:
    if name in names:
        return name
    hint = _did_you_mean(name, names) or f"; there are {', '.join(names)}"
    raise TaciturnError(f"{origin}: {name} is not {what}{hint}")


def _did_you_mean(name: str, names: Iterable[str], prefix: str = "") -> str:
    near = difflib.get_close_matches(name, list(names), 1, 0.5)
    return f"; did you mean {prefix}{near[0]}?" if near else ""


def _converted(name: str, value: Any, kind: Any, origin: str) -> Any:
    """One value as its type; text, as variables and flags have it, may stand for a number."""
    try:
        found = msgspec.convert(value, kind, strict=not isinstance(value, str))
    except (msgspec.ValidationError, OverflowError):
        found = math.nan
    if isinstance(found, float) and math.isnan(found):  # which no comparison refuses
        shown = json.dumps(value, default=str)
        raise TaciturnError(f"{origin}: {name} = {shown} is not allowed; {_allowed(kind)} is")
    return found


def _allowed(kind: Any) -> str:
    """What a value of a type may be: `a whole number from 0 to 65535`."""
    if kind is bool:
        return "true or false"
    first, *_, last = get_args(kind)
    if isinstance(last, str):
        return f"{', '.join(get_args(kind)[:-1])} or {last}"
    if first is str:
        return "text that is not empty"
    return f"{'a whole number' if first is int else 'a number'} from {last.ge:g} to {last.le:g}"


def to_toml(settings: Settings, origins: Mapping[str, str]) -> str:
    """The settings as a TOML file, with the origin of each in a comment; passwords are left out."""
    lines = [_line(name, getattr(settings, name), origins.get(name, "default")) for name in NAMES]
    lines += ["", "[limits]"]
    for field in fields(Limits):
        origin = origins.get(f"limits.{field.name}", "default")
        lines.append(_line(field.name, getattr(settings.limits, field.name), origin))
    return "\n".join(lines) + "\n"


def _line(name: str, value: Any, origin: str) -> str:
    if value is None:
        return f"# {name} is not set"
    if name == "postgres":
        return f"# {name} is set ({origin}), and not shown, since it can hold a password"
    return f"{name} = {json.dumps(value)}  # {origin}"
