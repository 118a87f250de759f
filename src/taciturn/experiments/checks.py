"""`check_agent`: the promises that every agent keeps, ours and yours."""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from taciturn.agents.base import BaseAgent
from taciturn.agents.storage import load
from taciturn.contracts import Agent, Arm, Dataset, Decision
from taciturn.errors import AlreadyAnswered, TaciturnError, UnknownDecision
from taciturn.experiments.evaluate import evaluate
from taciturn.streams.stream import Stream
from taciturn.tracking import track

AgentFactory = Callable[..., Agent]
ARMS: list[Arm] = ["left", "middle", "right"]


class AgentCheckError(AssertionError):
    """An agent breaks a promise that all agents make; the message says which."""


def check_agent(make_agent: AgentFactory) -> None:
    """Raise `AgentCheckError` unless an agent keeps the promises of the two verbs.

    Arguments:
        make_agent: called with ``arms=[…]`` and ``seed=…``, returns a fresh agent: a class as `taciturn.LinUCB`, or
            ``functools.partial(taciturn.make, "gcnucb", warmup=5)``.
    """
    checks = (
        _decides_before_learning,
        _answers_are_well_formed,
        _takes_all_kinds_of_context,
        _does_not_keep_or_change_its_input,
        _equal_seeds_give_equal_traces,
        _a_batch_is_its_contexts_one_by_one,
        _saving_and_loading_changes_nothing,
        _order_of_feedback_is_free,
        _the_same_feedback_again_changes_nothing,
        _neighbors_may_be_named_at_any_time,
        _corrections_leave_the_last_reward_alone,
        _arms_come_and_go,
        _memory_is_bounded_and_features_come_later,
        _refuses_bad_input_and_stays_as_it_was,
        _learns_something,
    )
    for check in track(checks, len(checks), "promises"):
        check(make_agent)


def toy_data(rows: int = 90, seed: int = 7, *, edges: bool = False) -> Dataset:
    """Three easy clusters in ten dimensions, with equal rows among them; optionally a graph within the clusters."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(rows) % len(ARMS))
    X = np.abs(rng.normal(0.0, 0.3, (rows, 10)))
    X[np.arange(rows), y] += 2.0
    X[X < 0.15] = 0.0
    X[1], y[1] = X[0], y[0]
    pairs = None
    if edges:
        near = [(i, j) for i in range(rows) for j in range(i) if y[i] == y[j] and rng.random() < 0.1]
        pairs = np.array(near, dtype=np.int64)
    return Dataset("toy", sp.csr_matrix(X / X.sum(axis=1, keepdims=True)), y, ARMS, pairs)


def _require(condition: object, promise: str) -> None:
    if not condition:
        raise AgentCheckError(promise)


def _rows(data: Dataset) -> list[Any]:
    return list(data.X.toarray())


def _decides_before_learning(make_agent: AgentFactory) -> None:
    agent = make_agent(arms=ARMS, seed=0)
    decision = agent.decide(_rows(toy_data())[0])
    _require(decision.arm in ARMS, f"an agent decides before it has learned anything; this one chose {decision.arm!r}")


def _answers_are_well_formed(make_agent: AgentFactory) -> None:
    agent = make_agent(arms=ARMS, seed=0)
    ids = set()
    for step, row in enumerate(_rows(toy_data())[:40]):
        decision = agent.decide(row)
        ids.add(decision.id)
        _require(decision.arm in ARMS, f"the arm is one of its arms, not {decision.arm!r}")
        for name in ("scores", "widths"):
            values = np.asarray(getattr(decision, name))
            _require(values.shape == (len(ARMS),), f"{name} has one number an arm, not shape {values.shape}")
            _require(np.isfinite(values).all(), f"{name} are finite, not {values} (step {step})")
        _require((np.asarray(decision.widths) >= 0).all(), f"widths are not negative, as in {decision.widths}")
        _require(0 < decision.propensity <= 1, f"the propensity is a probability, not {decision.propensity}")
        agent.feedback(decision.id, (1, 0, None)[step % 3])
    _require(len(ids) == 40, "every decision has an id of its own")


def _takes_all_kinds_of_context(make_agent: AgentFactory) -> None:
    data = toy_data()
    kinds: list[Callable[[int], Any]] = [
        lambda i: data.X[i],
        lambda i: data.X[i].toarray()[0],
        lambda i: data.X[i].toarray()[0].tolist(),
        lambda i: dict(zip(data.X[i].indices.tolist(), data.X[i].data.tolist(), strict=True)),
    ]
    for kind in kinds:
        agent = make_agent(arms=ARMS, seed=0)
        for i in range(12):
            decision = agent.decide(kind(i))
            agent.feedback(decision.id, 1 if decision.arm == ARMS[data.y[i]] else 0)
    single = _trace(make_agent, kinds[0], data)
    _require(single == _trace(make_agent, kinds[1], data), "a sparse row and the same row as an array mean the same")


def _trace(make_agent: AgentFactory, context: Callable[[int], Any], data: Dataset) -> list[Arm]:
    agent = make_agent(arms=ARMS, seed=3)
    chosen = []
    for i in range(30):
        decision = agent.decide(context(i))
        agent.feedback(decision.id, 1 if decision.arm == ARMS[data.y[i]] else None)
        chosen.append(decision.arm)
    return chosen


def _does_not_keep_or_change_its_input(make_agent: AgentFactory) -> None:
    data = toy_data()
    kept, reused = make_agent(arms=ARMS, seed=0), make_agent(arms=ARMS, seed=0)
    buffer = np.empty(data.X.shape[1])
    for i, row in enumerate(_rows(data)[:30]):
        buffer[:] = row
        first, second = kept.decide(row.copy()), reused.decide(buffer)
        _require(np.array_equal(buffer, row), "a context is not written to")
        buffer[:] = -1.0  # the caller uses the array for something else
        reward = 1 if i % 2 else None
        kept.feedback(first.id, reward)
        reused.feedback(second.id, reward)
        _require(_same(first, second), "a context is copied: changing it later changes nothing")


def _equal_seeds_give_equal_traces(make_agent: AgentFactory) -> None:
    for edges in (False, True):
        stream = Stream(toy_data(edges=edges), missing=0.4, seed=1)
        one, two = (evaluate(make_agent(arms=ARMS, seed=5), stream, progress=False) for _ in range(2))
        _require(np.array_equal(one.choices, two.choices), "equal seeds give equal decisions")


def _a_batch_is_its_contexts_one_by_one(make_agent: AgentFactory) -> None:
    agents: list[Any] = [make_agent(arms=ARMS, seed=0) for _ in range(2)]
    if not hasattr(agents[0], "decide_batch"):
        return
    data = toy_data()
    together = agents[0].decide_batch(data.X[:20])
    single = [agents[1].decide(data.X[i]) for i in range(20)]
    _require(all(map(_same, together, single)), "a batch of contexts is decided as one after the other")


def _saving_and_loading_changes_nothing(make_agent: AgentFactory) -> None:
    agent = make_agent(arms=ARMS, seed=0)
    if not hasattr(agent, "save") or not getattr(agent, "resumes", True):  # a peer says that it cannot be saved
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "agent.taciturn"
        rows = _rows(toy_data())
        going_on: Any = make_agent(arms=ARMS, seed=0)
        fresh: Any = make_agent(arms=ARMS, seed=0)
        fresh.save(file)
        stopped = load(file)
        for step, row in enumerate(rows[:60]):
            one, two = going_on.decide(row), stopped.decide(row)
            _require(_same(one, two), f"save and load change nothing, up to the last bit (step {step})")
            if step % 7 == 3 or step == 0:
                stopped.save(file)
                stopped = load(file)
            if step % 5 != 4:  # some decisions stay without feedback
                for agent in (going_on, stopped):
                    agent.feedback(one.id, (1, 0, None)[step % 3])


def _order_of_feedback_is_free(make_agent: AgentFactory) -> None:
    agent = make_agent(arms=ARMS, seed=0)
    decisions = [agent.decide(row) for row in _rows(toy_data())[:25]]
    for decision in [*decisions[::2], *decisions[1::2][::-1]]:
        agent.feedback(decision.id, (1, 0, None, 0.5)[decision.id % 4])
    last = agent.decide(_rows(toy_data())[30])
    _require(np.isfinite(last.scores).all(), "feedback may come late and in any order")


def _the_same_feedback_again_changes_nothing(make_agent: AgentFactory) -> None:
    once, twice = make_agent(arms=ARMS, seed=0), make_agent(arms=ARMS, seed=0)
    for step, row in enumerate(_rows(toy_data())[:30]):
        one, two = once.decide(row), twice.decide(row)
        _require(_same(one, two), f"the same feedback again changes nothing (step {step})")
        reward = (1, 0, None, 0.5)[step % 4]
        once.feedback(one.id, reward)
        for _ in range(2):
            twice.feedback(two.id, reward)


def _neighbors_may_be_named_at_any_time(make_agent: AgentFactory) -> None:
    agent = make_agent(arms=ARMS, seed=0)
    data = toy_data()
    ids = list(agent.warm_start(data.X[:6], [ARMS[k] for k in data.y[:6]]))
    for i in range(6, 30):
        decision = agent.decide(data.X[i], neighbors=ids[-2:] if i % 2 else None)
        _require(np.isfinite(decision.scores).all(), "neighbors may be named, or not, at any time")
        agent.feedback(decision.id, None)
        ids.append(decision.id)


def _corrections_leave_the_last_reward_alone(make_agent: AgentFactory) -> None:
    """Decisions that were rewarded wrongly and corrected count as decisions that were rewarded rightly at once."""
    corrected: Any = make_agent(arms=ARMS, seed=0)
    plain: Any = make_agent(arms=ARMS, seed=0)
    if not isinstance(corrected, BaseAgent):
        return
    rows = _rows(toy_data())
    for agent in (corrected, plain):  # no training in between: networks go on from what they have learned
        agent.defer_training()
        ids = [agent.decide(row, allowed=[ARMS[i % 3]]).id for i, row in enumerate(rows[:12])]
    try:
        for id in ids:
            corrected.feedback(id, (0, 1, 0.5)[id % 3])
        for id in ids[::-1]:
            corrected.feedback(id, (1, 0, 0.25)[id % 3])
    except AlreadyAnswered:
        return  # feedback is final: `_unlearn` is optional
    for id in ids[::-1]:
        plain.feedback(id, (1, 0, 0.25)[id % 3])
    one, two = corrected.decide(rows[20]), plain.decide(rows[20])
    same = np.allclose(one.scores, two.scores, atol=1e-6) and np.allclose(one.widths, two.widths, atol=1e-6)
    _require(same, f"a correction leaves the last reward alone: scores are {one.scores} and not {two.scores}")
    for id in ids[:6]:
        corrected.withdraw(id)
    _require(len(corrected.decisions) == 7, "a withdrawn decision is gone")
    _require(np.isfinite(corrected.decide(rows[21]).scores).all(), "an agent goes on after decisions are withdrawn")


def _arms_come_and_go(make_agent: AgentFactory) -> None:
    agent: Any = make_agent(arms=ARMS, seed=0)
    if not isinstance(agent, BaseAgent):
        return
    rows = _rows(toy_data())
    for i, row in enumerate(rows[:30]):
        if i == 10:
            agent.add_arm("new")
        if i == 15:
            agent.add_arm("copy", like="left")
        if i == 20:
            agent.retire_arm("middle")
        decision = agent.decide(row)
        names = agent.arm_names
        _require(len(decision.scores) == len(decision.widths) == len(names), "a new arm has a score and a width")
        _require(np.isfinite(decision.scores).all(), f"scores stay finite when arms are added, not {decision.scores}")
        _require(i < 20 or decision.arm != "middle", "a retired arm is not chosen")
        agent.feedback(decision.id, (1, 0, None)[i % 3])


def _memory_is_bounded_and_features_come_later(make_agent: AgentFactory) -> None:
    agent: Any = make_agent(arms=ARMS, seed=0)
    if not isinstance(agent, BaseAgent):
        return
    agent.max_nodes = 16
    for i in range(60):
        decision = agent.decide({f"feature {i % (3 + i // 10)}": 1.0, "always": 0.5})
        agent.feedback(decision.id, (1, 0, None)[i % 3])
        _require(len(agent.decisions) <= 16, f"max_nodes=16 bounds the contexts; there are {len(agent.decisions)}")
        _require(np.isfinite(decision.scores).all(), "scores stay finite when contexts are evicted and features added")


def _refuses_bad_input_and_stays_as_it_was(make_agent: AgentFactory) -> None:
    rows = _rows(toy_data())
    tried, spared = make_agent(arms=ARMS, seed=0), make_agent(arms=ARMS, seed=0)
    for agent in (tried, spared):
        first = agent.decide(rows[0])
        agent.feedback(first.id, 1)
    broken = rows[1].copy()
    broken[2] = np.inf
    bad: list[tuple[type[Exception], Callable[[], object]]] = [
        (TaciturnError, lambda: tried.decide(broken)),
        (TaciturnError, lambda: tried.decide(rows[1][:-1])),
        (TaciturnError, lambda: tried.decide([])),
        (TaciturnError, lambda: tried.decide(rows[1] * 1e200)),
        (TaciturnError, lambda: tried.decide({"a": 1.0})),
        (TaciturnError, lambda: tried.feedback(first.id + 1000, 1)),
        (UnknownDecision, lambda: tried.decide(rows[1], neighbors=[first.id + 1000])),
        (TaciturnError, lambda: tried.warm_start(rows[:2], ["left", "nowhere"])),
    ]
    for error, attempt in bad:
        _require_raises(error, attempt)
    pending = tried.decide(rows[2]), spared.decide(rows[2])
    wrong_rewards: list[Any] = [-0.1, 1.1, float("nan"), "1"]
    for wrong in wrong_rewards:
        _require_raises(TaciturnError, partial(tried.feedback, pending[0].id, wrong))
    for agent, decision in zip((tried, spared), pending, strict=True):
        agent.feedback(decision.id, None)
    _require(_same(tried.decide(rows[3]), spared.decide(rows[3])), "what was refused has changed nothing")


def _require_raises(error: type[Exception], attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except error as caught:
        _require(str(caught) and "\n" not in str(caught), f"an error is one line, not {caught!r}")
    else:
        raise AgentCheckError(f"bad input raises {error.__name__}")


def _learns_something(make_agent: AgentFactory) -> None:
    stream = Stream(toy_data(240), missing=0.3, seed=2)
    accuracy = evaluate(make_agent(arms=ARMS, seed=0), stream, progress=False).accuracy
    _require(accuracy > 0.5, f"three easy clusters are told apart better than by chance; this one has {accuracy:.0%}")


def _same(one: Decision, two: Decision) -> bool:
    pairs: Sequence[tuple[Any, Any]] = [(one.scores, two.scores), (one.widths, two.widths)]
    return one.arm == two.arm and one.id == two.id and all(np.array_equal(a, b) for a, b in pairs)
