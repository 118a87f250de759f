"""Compile the kernels of agents before they are needed, so that no decision waits for it."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from taciturn.agents import storage
from taciturn.registry import make

FEATURES = 8


def compile_kernels(kinds: Iterable[str]) -> None:
    """Compile, or read from the cache, all kernels that agents of some kinds (names of `METHODS`) use.

    A small agent of each kind goes through everything that agents do. With an empty cache the first takes half a
    minute; with a full one all kinds take less than a second.
    """
    for kind in kinds:
        _exercise(kind, make(kind, arms=["a", "b"], max_nodes=16))


def _exercise(kind: str, agent: Any) -> None:
    """Decide on dense and sparse contexts with and without a graph, learn, correct, evict, train and grow."""
    dense = np.random.default_rng(0).random((40, FEATURES))
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
    for row in dense[:20]:
        agent.decide(dict(zip(names, row, strict=True)))
    for scaling in ("auto", "none"):  # features by position
        by_position = type(agent)(**agent.params | {"arms": 2, "scaling": scaling})
        for row in dense[:6, :3] * [1.0, 1.0, 0.0]:
            by_position.feedback(by_position.decide(row).id, 1)
