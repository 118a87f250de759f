"""Brings the agent of a router to what its file says: made once, and changed where the file has changed."""

import hashlib
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from taciturn.errors import ForgottenDecision, TaciturnError
from taciturn.router.config import RouterConfig
from taciturn.service.core.errors import SetAside
from taciturn.service.core.jobs import Job, Query
from taciturn.service.core.operations import AddArm, Create, Label, LabelledRow, Op, RetireArm, Withdraw
from taciturn.service.core.remembered import label_key
from taciturn.service.core.service import Service
from taciturn.service.core.session import Session
from taciturn.service.journal.notes import BUDGET_FILE, MODE_FILE
from taciturn.service.journal.sqlite_file import PRIVATE
from taciturn.system import atomic_write

T = TypeVar("T", bound=msgspec.Struct)
REMEMBERED = ["text", "session"]
AT_ONCE = 100
"""Examples that are taught in one operation."""

PATIENCE = 600.0
"""Seconds that one operation may take at the start."""


class Changes(NamedTuple):
    """What was done to the agent so that it has the arms and examples of the file."""

    created: bool
    added: list[str]
    retired: list[str]
    taught: int
    withdrawn: int


def set_up(config: RouterConfig, service: Service, progress: Callable[[int, int], object]) -> Changes:
    """Make the agent, or bring it to what the file says; `progress` is told how many of the examples are taught."""
    if config.name in service.set_aside:
        raise SetAside(config.name, service.set_aside[config.name])
    created = config.name not in service.names()
    if created:
        _call(service, config.name, service.limits.bounded_create(_creation(config)))
    added, retired = _set_arms(config, service)
    taught, withdrawn = _set_examples(config, service, progress)
    return Changes(created, added, retired, taught, withdrawn)


def _call(service: Service, name: str, what: Op | Query) -> Any:
    future: Future[Any] = Future()
    service.put(name, Job(what, future))
    return future.result(PATIENCE)


def _params(config: RouterConfig) -> dict[str, Any]:
    """The parameters of the agent that the file decides about, by the key of the file."""
    return {
        "right": ("one_right_arm", not config.several_right),
        "silence_after": ("expire_after", config.silence_after),
        "explore": ("epsilon", config.explore),
    }


def _creation(config: RouterConfig) -> Create:
    features = {"text": ["text"], "ignore": ["session"], "embed": "wordllama"}
    scaling = {"scaling": "none"}  # the only column is an embedding, whose length is 1
    params: dict[str, Any] = dict(_params(config).values()) | scaling | {"features": features}
    return Create(config.name, [arm.name for arm in config.arms], params=params, remember=REMEMBERED)


def _set_arms(config: RouterConfig, service: Service) -> tuple[list[str], list[str]]:
    """Add and retire arms; returns their names."""

    def read(session: Session) -> tuple[dict[str, Any], list[str], tuple[Any, ...]]:
        return session.agent.params, list(session.remembered.columns), session.agent.active_arms

    params, remembered, active = _call(service, config.name, read)
    if remembered != REMEMBERED:
        raise TaciturnError(
            f"the data folder has an agent {config.name!r} that is no router; give the router another name: name: …"
        )
    for key, (name, wanted) in _params(config).items():
        if params[name] != wanted:
            raise TaciturnError(
                f"{key} was another when the router {config.name!r} began, and cannot change under it; "
                "put it back, or begin anew with another name: or --data-dir"
            )
    names = [arm.name for arm in config.arms]
    added, retired = [arm for arm in names if arm not in active], [arm for arm in active if arm not in names]
    for arm in added:
        _call(service, config.name, AddArm(arm))
    for arm in retired:
        _call(service, config.name, RetireArm(arm))
    return added, retired


def _set_examples(config: RouterConfig, service: Service, progress: Callable[[int, int], object]) -> tuple[int, int]:
    """Teach the examples that are new in the file, and take back those that are gone; returns how many."""
    rows = [LabelledRow({"text": example}, arm.name) for arm in config.arms for example in arm.examples]
    wanted = {label_key(row.context, row.arm): row for row in rows}
    known: dict[str, int] = _call(service, config.name, lambda session: dict(session.remembered.labels))
    withdrawn = 0
    for key, id in known.items():
        if key not in wanted:
            try:
                _call(service, config.name, Withdraw(id))
                withdrawn += 1
            except ForgottenDecision:  # evicted: what it taught stays
                continue
    new = [row for key, row in wanted.items() if key not in known]
    for start in range(0, len(new), AT_ONCE):
        progress(start, len(new))
        _call(service, config.name, Label(new[start : start + AT_ONCE]))
    return len(new), withdrawn


class _Begun(msgspec.Struct):
    """The terms of a budget, as a hash, and how often each arm had been chosen when they began to hold."""

    terms: str
    counts: dict[str, int]


class _Mode(msgspec.Struct):
    """A mode, and the id of the first decision that could be made in it."""

    observe: bool
    since: int


def begin_budget(config: RouterConfig, service: Service, folder: Path) -> dict[str, int]:
    """How often each arm had been chosen when the budget of the file began: now, unless a file in `folder` says.

    The budget begins anew when it, an arm or a cost changes.
    """
    counts: dict[str, int] = _call(
        service, config.name, lambda s: dict(zip(s.agent.arm_names, s.agent.times_chosen, strict=True))
    )
    given = msgspec.json.encode([config.budget, sorted(config.costs.items())])
    terms, path = hashlib.blake2b(given, digest_size=16).hexdigest(), folder / BUDGET_FILE
    routers = _noted(path, _Begun)
    begun = routers.get(config.name)
    held = begun is not None and begun.terms == terms
    if begun is None or not held or any(begun.counts.get(arm, 0) > count for arm, count in counts.items()):
        begun = _Begun(terms, counts)
        _note(path, routers | {config.name: begun})
    return begun.counts


def begin_mode(config: RouterConfig, service: Service, folder: Path) -> int:
    """The id of the first decision since the router has been in the mode of the file.

    That is the next one, unless a file in `folder` says that the last start was in this mode too.
    """
    next_id: int = _call(service, config.name, lambda session: session.agent.next_id)
    path = folder / MODE_FILE
    routers = _noted(path, _Mode)
    mode = routers.get(config.name)
    if mode is None or mode.observe != config.observe or mode.since > next_id:
        mode = _Mode(config.observe, next_id)
        _note(path, routers | {config.name: mode})
    return mode.since


def _noted(path: Path, kind: type[T]) -> dict[str, T]:
    """What a file says of each router; nothing if it is not there or damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, kind])  # type: ignore[valid-type]
    except (OSError, msgspec.DecodeError):
        return {}


def _note(path: Path, routers: dict[str, T]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)  # with all else in PostgreSQL, there may be none yet
    atomic_write(path, msgspec.json.encode(routers), PRIVATE)
