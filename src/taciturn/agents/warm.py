"""Compile the kernels of agents before they are needed, so that no decision waits for it."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents import storage
from taciturn.agents.base import BaseAgent
from taciturn.agents.rows import WIDE
from taciturn.kernels.ridge import BLOCK, FEW
from taciturn.registry import METHODS, make

FEATURES = 8

MANY_FEATURES = 3000
"""So many that two arms have more evidence than agents keep of each by default."""


def compile_kernels(kinds: Iterable[str]) -> None:
    """Compile, or read from the cache, all kernels that agents of some kinds (names of `METHODS`) use.

    A small agent of each kind goes through everything that agents do. With an empty cache that takes seconds, with a
    full one a tenth of a second, and in a process that has done it before, or was forked from one, nothing.
    """
    for kind in kinds:
        _prepare_kind(kind)


def prepare(agent: object) -> None:
    """Compile the kernels that an agent is going to use, so that no time that is taken of it includes compilation.

    Once in a process for all agents of a kind. Of an agent that is not of taciturn, those of `BaseAgent`.
    """
    if isinstance(agent, BaseAgent):
        _prepare_kind(_kind_of(agent))


_prepare_kind = cache(lambda kind: _exercise(kind, make(kind, arms=["a", "b"], max_nodes=16)))


def _kind_of(agent: BaseAgent) -> str:
    """The method that uses the same kernels: of its class and parameters, else of its class, else of a base class."""
    for base in type(agent).__mro__:
        path = f"{base.__module__}:{base.__qualname__}"
        kinds = [kind for kind, method in METHODS.items() if method.target == path]
        alike = [kind for kind in kinds if METHODS[kind].params.items() <= agent.params.items()]
        if kinds:
            return (alike or kinds)[0]
    return "linucb"


def _exercise(kind: str, agent: Any) -> None:
    """Decide on dense and sparse contexts with and without a graph, learn, correct, evict, train and grow."""
    dense = np.random.default_rng(0).random((28, FEATURES))
    names = [f"{i}" for i in range(FEATURES)]
    agent.warm_start([dict(zip(names, row, strict=True)) for row in dense[:4]], ["a", "b", "a", "b"])
    for step, row in enumerate(dense[4:]):
        width = FEATURES if step % 2 else 2
        near = [agent.next_id - 1] if step % 5 == 0 else None
        decision = agent.decide(dict(zip(names[:width], row, strict=False)), near)
        agent.feedback(decision.id, (1, 0, None)[step % 3])
        agent.feedback(decision.id, step % 2)
        if step == 20:
            agent.defer_training()
        agent.train_pending(30)
    agent.decide_batch([{names[0]: 1.0, "new": 1.0}, dict(zip(names, dense[0], strict=True))])
    agent.add_arm("c", like="a")
    agent.withdraw(agent.decide({names[0]: 1.0}).id)
    agent.explain(agent.next_id - 2)
    agent.feedback(agent.next_id - 2, 1)
    agent.train_pending(30)
    agent = storage.loads(storage.dumps(agent), kind)  # which knows no spare neighbors, so that eviction looks for some
    for row in dense[:8]:
        agent.decide(dict(zip(names, row, strict=True)))
    alike = agent.params | {"arms": 2} | ({"warmup": 0} if "warmup" in agent.params else {})
    for scaling in ("auto", "none"):  # features by position
        by_position = type(agent)(**alike | {"scaling": scaling})
        for row in dense[:6, :3] * [1.0, 1.0, 0.0]:
            by_position.feedback(by_position.decide(row).id, 1)
        by_position.decide(sp.csr_matrix(dense[:1, :3]))
    if "hops" in agent.params:  # neighbors of wide rows are found in another way
        _learn(type(agent)(**alike), np.random.default_rng(0).random((FEATURES, WIDE)))
    if "ridge" in agent.params:
        _exercise_regressions(wide="covariance" in agent.params)


@cache
def _exercise_regressions(*, wide: bool) -> None:
    """Score sparse contexts and fold updates, by kernels that all agents share; and sketch those of many features."""
    _learn(make("linucb", arms=2), np.random.default_rng(0).random((BLOCK, FEATURES)))
    _fill(make("linucb", arms=2), FEW + 1, 1)
    if wide:
        _fill(make("linucb", arms=2, rank=4), 1, 120)
        _fill(make("linucb", arms=2, rank=4), MANY_FEATURES, 15)


def _learn(agent: Any, rows: NDArray[np.float64]) -> None:
    """Decide on rows, and learn that each decision was right."""
    for row in rows:
        agent.feedback(agent.decide(row).id, 1)


def _fill(agent: Any, n_features: int, steps: int) -> None:
    """Learn so much, beginning with so many features, that updates which are kept are folded or sketched."""
    agent.decide({f"{i}": 1.0 for i in range(n_features)})
    for step in range(steps):
        decision = agent.decide({f"{step * i % 101}": 1.0 for i in range(1, 4)})
        agent.feedback(decision.id, (1, 0, None)[step % 3])
        if step % 10 == 0:
            agent.feedback(decision.id, 0.5)
