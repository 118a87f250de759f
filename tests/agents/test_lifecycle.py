"""The lifecycle of decisions: evidence is always that of the last feedback of each decision alone."""

from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import taciturn
from oracles import ridge
from oracles.evidence import check_evidence, ridge_states
from oracles.zoo import AGENTS, ARMS, contexts
from taciturn.agents.base import BaseAgent
from taciturn.agents.parts.imputers.base import BaseImputer
from taciturn.errors import AlreadyAnswered, ForgottenDecision, TaciturnError

REWARDS = [0, 1, 0.25, 0.75, None]


def theta(agent):
    """θ (K, D) of an agent's ridge regressions."""
    return agent.state_dict()["parts"]["ridge"]["theta"]


@pytest.mark.parametrize("scaling", ["none", "auto"])
@pytest.mark.parametrize("name", AGENTS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_evidence_is_that_of_the_last_feedback_after_any_history(name, scaling, data):
    X = contexts(14, data.draw(st.integers(0, 5)))
    agent = AGENTS[name](arms=ARMS, seed=1, scaling=scaling)
    agent.warm_start(X[:2], ARMS[:2])
    held, last = [], {}
    for x in X[2:]:
        id = agent.decide(x, neighbors=held[-1:] if data.draw(st.booleans()) else None).id
        held.append(id)
        last[id] = "pending"
        for _ in range(data.draw(st.integers(0, 3))):
            if not held:
                break
            other = data.draw(st.sampled_from(held))
            if data.draw(st.integers(0, 6)) == 6:
                agent.withdraw(other)
                held.remove(other)
            else:
                last[other] = data.draw(st.sampled_from(REWARDS))
                agent.feedback(other, last[other])
    check_evidence(agent)
    states = {id: agent.state(id) for id in held}
    names = {"pending": "pending", None: "silent"}
    assert states == {id: names.get(last[id], "rewarded") for id in held}
    log = agent.log()
    np.testing.assert_array_equal(log["ids"], held)
    rewards = [np.nan if isinstance(last[id], str) or last[id] is None else last[id] for id in held]
    np.testing.assert_array_equal(log["rewards"], rewards)
    assert agent.state_dict()["policy"]["times_chosen"].sum() == len(held)


IMPUTES_NOTHING = [name for name in AGENTS if not name.startswith(("bilinucb", "gcnucb"))]


@pytest.mark.parametrize("name", IMPUTES_NOTHING)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_an_agent_with_only_the_last_feedback_holds_the_same_evidence(name, data):
    """The other agent chooses the same arms, by `allowed`, and gets each final reward once, at the end.

    Contexts are taken as they are: the scale of one agent has seen contexts that were withdrawn later.
    """
    X = contexts(12, data.draw(st.integers(0, 5)))
    agent, other = (AGENTS[name](arms=ARMS, seed=1, scaling="none") for _ in range(2))
    last, chosen, withdrawn = {}, [], set()
    for id, x in enumerate(X):
        chosen.append(agent.decide(x).arm)
        for _ in range(data.draw(st.integers(0, 3))):
            which = data.draw(st.integers(0, id))
            if which not in withdrawn:
                last[which] = data.draw(st.sampled_from(REWARDS))
                agent.feedback(which, last[which])
        if data.draw(st.integers(0, 5)) == 5 and id < len(X) - 1:
            agent.withdraw(id)
            withdrawn.add(id)
    stay = [id for id in range(len(X)) if id not in withdrawn]
    decisions = [other.decide(X[id], allowed=[chosen[id]]) for id in stay]
    for decision, id in zip(decisions, stay, strict=True):
        if id in last:
            other.feedback(decision.id, last[id])
    for (mine, _), (theirs, _) in zip(ridge_states(agent), ridge_states(other), strict=True):
        for one, two in zip(ridge.written_out(mine), ridge.written_out(theirs), strict=True):
            np.testing.assert_allclose(one, two, atol=1e-8)
    check_evidence(agent)
    check_evidence(other)
    for mine, theirs in zip(graphs(agent), graphs(other), strict=True):
        np.testing.assert_array_equal(mine["slots"]["nodes"], theirs["slots"]["nodes"])
        for one, two in zip(mine["slots"]["lists"], theirs["slots"]["lists"], strict=True):
            np.testing.assert_array_equal(one[:2], two[:2])  # those behind the k nearest are spare
        for end in ("sources", "targets"):
            np.testing.assert_array_equal(mine["edges"][end], theirs["edges"][end])


def graphs(agent):
    """The state of the graph over an agent's contexts, if it has one."""
    parts = agent.state_dict()["parts"]
    return [holder["graph"] for holder in (parts, parts.get("encoder", {})) if "graph" in holder]


class Echo(BaseImputer):
    """Imputes a function of the context and the arm alone."""

    def impute(self, node, arm):
        row = self._table.contexts[node]
        return float(row.values.sum() * (arm + 1) % 1)


def test_a_late_reward_replaces_the_imputed_reward():
    agent = taciturn.BILinUCB(arms=2, imputer=Echo(), bounded=False, warmup=0, ties="first", scaling="none")
    first, second = (agent.decide(x) for x in ([0.3, 0.0], [0.0, 0.7]))
    for decision in (first, second):
        agent.feedback(decision.id, None)
    assert agent.explain(first.id).imputed_reward == pytest.approx(0.3)
    agent.feedback(first.id, 1)
    agent.feedback(second.id, 0)
    health = agent.health()
    assert (health.late, health.corrected, health.silent, health.imputed_share) == (2, 0, 0, 0.0)
    imputed = np.array([0.3, 0.7 * (agent.arm_names.index(second.arm) + 1) % 1])
    assert health.calibration.truths == 2
    assert health.calibration.brier == pytest.approx(np.mean((imputed - [1, 0]) ** 2))
    assert sum(count for *_, count in health.calibration.bins) == 2
    check = taciturn.LinUCB(arms=2, ties="first", scaling="none")
    for x, decision, reward in (([0.3, 0.0], first, 1), ([0.0, 0.7], second, 0)):
        check.feedback(check.decide(x, allowed=[decision.arm]).id, reward)
    np.testing.assert_allclose(theta(agent), theta(check), atol=1e-12)


@pytest.mark.parametrize("scaling", ["none", "auto"])
@settings(max_examples=40, deadline=None)
@example(events=[(0, 0), (0, None)], weight=1e-3, size=100.0)
@given(
    events=st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0, 1, 0.5, None])), max_size=40),
    weight=st.sampled_from([1e-3, 1.0]),
    size=st.sampled_from([1e-6, 1.0, 1e2, 1e4]),
)
def test_undo_is_exact_even_where_subtraction_would_lose_all_digits(scaling, events, weight, size):
    """Beside a context of length 1e4 the prior is so small that subtracting the context would leave rounding errors."""
    X = contexts(10) * size
    agent = taciturn.LinUCB(arms=3, alpha=1.0, ridge=weight, scaling=scaling)
    for x in X:
        agent.decide(x)
    for id, reward in events:
        agent.feedback(id, reward)
    fresh = taciturn.LinUCB(arms=3, alpha=1.0, ridge=weight, scaling=scaling)
    for id, x in enumerate(X):
        fresh.decide(x, allowed=[agent.decisions[id].arm])
    for id, reward in dict(events).items():
        fresh.feedback(id, reward)
    for x in contexts(5, seed=9) * size:
        mine, theirs = agent.fork().decide(x), fresh.fork().decide(x)
        np.testing.assert_allclose(mine.scores, theirs.scores, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(mine.widths, theirs.widths, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", AGENTS)
def test_pending_decisions_expire_after_so_many_decisions(name):
    agent = AGENTS[name](arms=ARMS, expire_after=3)
    X = contexts(12)
    for x in X[:3]:
        agent.decide(x)
    agent.feedback(1, 1)
    assert [agent.state(id) for id in range(3)] == ["pending", "rewarded", "pending"]
    agent.decide(X[3])  # when the fourth is made, the first is three decisions old
    assert [agent.state(id) for id in range(4)] == ["silent", "rewarded", "pending", "pending"]
    assert agent.expire() == []
    agent.decide(X[4])
    agent.decide(X[5])
    assert [agent.state(id) for id in (2, 3)] == ["silent", "pending"]
    agent.feedback(0, 1)  # a late reward
    agent.decide(X[6])
    assert agent.state(0) == "rewarded"
    assert agent.health().expired == 3
    check_evidence(agent)


def test_times_given_by_the_caller_never_run_backwards():
    agent = taciturn.LinUCB(arms=2, expire_after=60.0)
    first = agent.decide([1.0], at=1000.0)
    second = agent.decide([1.0], at=900.0)
    assert agent.expire(now=1059.9) == []
    assert agent.expire(now=1060.0) == [first.id, second.id]
    third = agent.decide([1.0], at=500.0)  # a time before the latest counts as the latest, 1060
    assert agent.expire(now=1119.9) == []
    assert agent.expire(now=1120.0) == [third.id]
    with pytest.raises(TaciturnError, match="at="):
        agent.decide([1.0])
    with pytest.raises(TaciturnError, match="number"):
        agent.decide([1.0], at=float("nan"))
    other = taciturn.LinUCB(arms=2)
    other.decide([1.0])
    with pytest.raises(TaciturnError, match="without a time"):
        other.decide([1.0], at=1.0)


def test_silence_can_be_ignored_or_count_as_a_constant_reward():
    def after(silence):
        agent = taciturn.BILinUCB(arms=2, imputer="random", warmup=0, silence=silence, ties="first", scaling="none")
        agent.feedback(agent.decide([1.0, 0.5]).id, None)
        return theta(agent)

    assert not after("ignore").any()
    np.testing.assert_allclose(after(0.5), [[1 / 4.5, 0.5 / 4.5], [0, 0]])
    assert after("impute").any()
    for wrong in ("forget", 1.5, -1, None):
        with pytest.raises(TaciturnError, match="silence="):
            taciturn.LinUCB(arms=2, silence=wrong)


def test_errors_name_withdrawn_decisions_and_labelled_rows():
    agent = taciturn.LinUCB(arms=2)
    (labelled,) = agent.warm_start([[1.0]], [0])
    decision = agent.decide([1.0])
    agent.withdraw(decision.id)
    for verb in (agent.withdraw, agent.state, agent.explain, partial(agent.feedback, reward=1)):
        with pytest.raises(ForgottenDecision, match="decision 1 is forgotten: it was withdrawn$"):
            verb(decision.id)
    with pytest.raises(AlreadyAnswered, match="labelled row"):
        agent.feedback(labelled, 0)
    assert agent.decide([1.0], neighbors=[decision.id]).id == 2, "ids are never used twice"
    agent.withdraw(labelled)
    assert agent.health().labelled == 0


class Simple(BaseAgent):
    """An agent with the three required hooks and no more."""

    def _build(self):
        self.learned = []
        return {}

    def _score(self, node):
        return np.zeros(2), np.zeros(2)

    def _learn(self, example):
        self.learned.append(example.reward)


def test_an_agent_without_unlearn_refuses_corrections_and_changes_nothing():
    agent = Simple(arms=2)
    first, second = agent.decide([1.0]), agent.decide([2.0])
    agent.feedback(first.id, None)
    agent.feedback(first.id, 1)
    with pytest.raises(AlreadyAnswered, match="Simple cannot take it back"):
        agent.feedback(first.id, 0)
    assert (agent.learned, agent.state(first.id), agent.log()["rewards"][0]) == ([1.0], "rewarded", 1.0)
    agent.withdraw(second.id)
