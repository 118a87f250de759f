"""Journals of schema 1, which held questions and no answers: their entries get the answers by one last computation.

In schema 1 a `decide` had only its request, and a `create` only the parameters that were given. The defaults that stood
for the others then are written down here, whatever they are today. Decisions are computed by the kernels of today, so
migrate a journal on a machine of the kind that wrote it.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from taciturn.service.core.encoding import encode
from taciturn.service.core.operations import OPERATIONS, Create, Decide, Op, decide_entry, entry_of, operation_of
from taciturn.service.core.session import Session
from taciturn.service.journal.base import Entry, Record

log = logging.getLogger("taciturn.service")

COMMON: dict[str, Any] = {
    "seed": 0,
    "one_right_arm": True,
    "expire_after": None,
    "silence": "impute",
    "max_nodes": None,
    "forget": "oldest",
    "ties": "balance",
    "epsilon": 0.0,
    "temperature": 0.0,
    "memory_limit": None,
}
LINUCB: dict[str, Any] = {"alpha": 0.25, "ridge": 1.0, "normalize_theta": False}
BILINUCB: dict[str, Any] = LINUCB | {"warmup": 300, "imputer_params": {}}
GCN: dict[str, Any] = {
    "hidden": 16,
    "learning_rate": 0.01,
    "weight_decay": 0.0005,
    "dropout": 0.5,
    "neighbors": 5,
    "start_epochs": 100,
    "steps_per_arrival": 1,
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "viewucb": {"alpha": 4.0, "ridge": 0.5, "hops": 3, "neighbors": 5, "soft_label_weight": 0.3, "refit_growth": 0.01},
    "linucb": LINUCB,
    "rogcn": GCN,
    "gcnucb": GCN | {"alpha": 0.25, "ridge": 1.0, "normalize_theta": True, "warmup": 300},
    **{
        f"bilinucb-{imputer}": BILINUCB | {"imputer": imputer, "bounded": True}
        for imputer in ("gcn", "kmeans", "random")
    },
    **{
        f"ilinucb-{imputer}": BILINUCB | {"imputer": imputer, "bounded": False}
        for imputer in ("gcn", "kmeans", "random")
    },
}
"""The defaults of each kind of agent in version 0.1."""


def upgrade(records: Iterable[Record]) -> Iterator[Entry]:
    """Yield an entry of schema 2 for each record of schema 1: `create` with all parameters, `decide` with its answers.

    The entries of an agent that cannot be replayed stay as they are from there on; it will be set aside.
    """
    sessions: dict[str, Session] = {}
    for record in records:
        if record.kind in ("create", "import"):
            sessions[record.agent] = Session()
        entry = Entry(record.agent, record.kind, record.body)
        if record.agent in sessions and record.kind in OPERATIONS:
            try:
                entry = _answered(sessions[record.agent], record)
            except Exception:
                log.exception("agent %s cannot be migrated from entry %d on", record.agent, record.position)
                del sessions[record.agent]
        yield entry


def _answered(session: Session, record: Record) -> Entry:
    op: Op = operation_of(record.kind, record.body)
    if isinstance(op, Create):
        op = msgspec.structs.replace(op, params=COMMON | DEFAULTS[op.kind] | op.params)
    result = session.apply(op)
    if isinstance(op, Decide):
        return decide_entry(record.agent, op, encode(result))
    return entry_of(record.agent, op)
