"""A decision's life: whatever happened on the way, an agent knows what the last word alone would have taught it."""

from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import taciturn
import taciturn.agents.base
from oracles import ridge
from oracles.book import check_against_the_book, ridges
from oracles.zoo import AGENTS, ARMS, contexts
from taciturn.agents.imputers import BaseImputer
from taciturn.contracts import SparseRow
from taciturn.errors import AlreadyAnswered, ForgottenDecision, TaciturnError

REWARDS = [0, 1, 0.25, 0.75, None]


@pytest.mark.parametrize("name", AGENTS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_whatever_happened_the_evidence_is_that_of_the_last_word(name, data):
    X = contexts(14, data.draw(st.integers(0, 5)))
    agent = AGENTS[name](arms=ARMS, seed=1)
    agent.warm_start(X[:2], ARMS[:2])
    alive, last, row = [], {}, {}
    for x in X[2:]:
        id = agent.decide(x, neighbors=alive[-1:] if data.draw(st.booleans()) else None).id
        alive.append(id)
        last[id], row[id] = "pending", x
        for _ in range(data.draw(st.integers(0, 3))):
            if not alive:
                break
            other = data.draw(st.sampled_from(alive))
            if data.draw(st.integers(0, 6)) == 6:
                agent.withdraw(other)
                alive.remove(other)
            else:
                last[other] = data.draw(st.sampled_from(REWARDS))
                agent.feedback(other, last[other])
    check_against_the_book(agent)
    states = {id: agent.state(id) for id in alive}
    words = {"pending": "pending", None: "silent"}
    assert states == {id: words.get(last[id], "rewarded") for id in alive}
    log = agent.log()
    np.testing.assert_array_equal(log["ids"], alive)
    told = [np.nan if isinstance(last[id], str) or last[id] is None else last[id] for id in alive]
    np.testing.assert_array_equal(log["rewards"], told)
    assert agent._times_chosen.sum() == len(alive)


SUPPOSES_NOTHING = [name for name in AGENTS if not name.startswith(("bilinucb", "gcnucb"))]


@pytest.mark.parametrize("name", SUPPOSES_NOTHING)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_another_agent_that_heard_the_last_word_only_knows_the_same(name, data):
    """The same arms, by `allowed`, and the final rewards at the end; nothing was ever said twice or taken back."""
    X = contexts(12, data.draw(st.integers(0, 5)))
    agent, other = AGENTS[name](arms=ARMS, seed=1), AGENTS[name](arms=ARMS, seed=1)
    last, chosen, gone = {}, [], set()
    for id, x in enumerate(X):
        chosen.append(agent.decide(x).arm)
        for _ in range(data.draw(st.integers(0, 3))):
            which = data.draw(st.integers(0, id))
            if which not in gone:
                last[which] = data.draw(st.sampled_from(REWARDS))
                agent.feedback(which, last[which])
        if data.draw(st.integers(0, 5)) == 5 and id < len(X) - 1:
            agent.withdraw(id)
            gone.add(id)
    stay = [id for id in range(len(X)) if id not in gone]
    decisions = [other.decide(X[id], allowed=[chosen[id]]) for id in stay]
    for decision, id in zip(decisions, stay, strict=True):
        if id in last:
            other.feedback(decision.id, last[id])
    for held, expected in zip(ridges(agent), ridges(other), strict=True):
        for mine, theirs in zip(ridge.written_out(held[0]._state), ridge.written_out(expected[0]._state), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-8)
    check_against_the_book(agent)
    check_against_the_book(other)
    for part in ("_graph", "_encoder"):
        if hasattr(agent, part):
            mine, theirs = (getattr(a, part) for a in (agent, other))
            mine, theirs = (getattr(g, "graph", g).adjacency for g in (mine, theirs))
            for a, b in zip(mine, theirs, strict=True):
                np.testing.assert_array_equal(a, b)


class Echo(BaseImputer):
    """Supposes what the context says, whatever it has seen."""

    def impute(self, node, arm):
        row: SparseRow = self._rows[node]
        return float(row.values.sum() * (arm + 1) % 1)


def test_the_truth_that_lands_late_replaces_what_was_supposed():
    agent = taciturn.BILinUCB(arms=2, imputer=Echo(), bounded=False, warmup=0, ties="first")
    first, second = (agent.decide(x) for x in ([0.3, 0.0], [0.0, 0.7]))
    for decision in (first, second):
        agent.feedback(decision.id, None)
    assert agent.explain(first.id).imputed_reward == pytest.approx(0.3)
    agent.feedback(first.id, 1)
    agent.feedback(second.id, 0)
    health = agent.health()
    assert (health.late, health.corrected, health.silent, health.imputed_share) == (2, 0, 0, 0.0)
    supposed = np.array([0.3, 0.7 * (agent.arm_names.index(second.arm) + 1) % 1])
    assert health.calibration.truths == 2
    assert health.calibration.brier == pytest.approx(np.mean((supposed - [1, 0]) ** 2))
    assert sum(count for *_, count in health.calibration.bins) == 2
    check = taciturn.LinUCB(arms=2, ties="first")
    for x, decision, reward in (([0.3, 0.0], first, 1), ([0.0, 0.7], second, 0)):
        check.feedback(check.decide(x, allowed=[decision.arm]).id, reward)
    np.testing.assert_allclose(agent._linear.theta, check._linear.theta, atol=1e-12)


@settings(max_examples=60, deadline=None)
@example([(0, 0), (0, None)], 1e-3, 100.0)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0, 1, 0.5, None])), max_size=40),
    st.sampled_from([1e-3, 1.0]),
    st.sampled_from([1e-6, 1.0, 1e2, 1e4]),
)
def test_undoing_is_exact_even_where_subtraction_would_lose_all_digits(events, weight, size):
    """A context of length 1e4 drowns the prior: what is left after subtracting it would be rounding errors."""
    X = contexts(10) * size
    agent = taciturn.LinUCB(arms=3, ridge=weight)
    for x in X:
        agent.decide(x)
    for id, reward in events:
        agent.feedback(id, reward)
    fresh = taciturn.LinUCB(arms=3, ridge=weight)
    for id, x in enumerate(X):
        fresh.decide(x, allowed=[int(agent._ledger.arm[id])])
    for id, reward in dict(events).items():
        fresh.feedback(id, reward)
    for x in contexts(5, seed=9) * size:
        mine, theirs = agent._linear.scores(row_of(x), 1.0), fresh._linear.scores(row_of(x), 1.0)
        np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(mine[1], theirs[1], rtol=1e-4, atol=1e-4)


def row_of(x):
    return SparseRow(np.arange(len(x), dtype=np.int32), x)


@pytest.mark.parametrize("name", AGENTS)
def test_time_makes_silence(name):
    agent = AGENTS[name](arms=ARMS, expire_after=3)
    X = contexts(12)
    for x in X[:3]:
        agent.decide(x)
    agent.feedback(1, 1)
    assert [agent.state(id) for id in range(3)] == ["pending", "rewarded", "pending"]
    agent.decide(X[3])  # the fourth decision: the first has waited for three
    assert [agent.state(id) for id in range(4)] == ["silent", "rewarded", "pending", "pending"]
    assert agent.expire() == []
    agent.decide(X[4])
    agent.decide(X[5])
    assert [agent.state(id) for id in (2, 3)] == ["silent", "pending"]
    agent.feedback(0, 1)  # the truth lands after all
    agent.decide(X[6])
    assert agent.state(0) == "rewarded"
    assert agent.health().expired == 3
    check_against_the_book(agent)


def test_time_is_the_callers_and_never_runs_backwards():
    agent = taciturn.LinUCB(arms=2, expire_after=60.0)
    first = agent.decide([1.0], at=1000.0)
    second = agent.decide([1.0], at=900.0)
    assert agent.expire(now=1059.9) == []
    assert agent.expire(now=1060.0) == [first.id, second.id]
    third = agent.decide([1.0], at=500.0)  # the clock was set back: for all we know it is still 1060
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


def test_silence_can_be_ignored_or_be_a_constant():
    def after(silence):
        agent = taciturn.BILinUCB(arms=2, imputer="random", warmup=0, silence=silence, ties="first")
        agent.feedback(agent.decide([1.0, 0.5]).id, None)
        return agent._linear.theta

    assert not after("ignore").any()
    np.testing.assert_allclose(after(0.5), [[1 / 4.5, 0.5 / 4.5], [0, 0]])
    assert after("impute").any()
    for wrong in ("forget", 1.5, -1, None):
        with pytest.raises(TaciturnError, match="silence="):
            taciturn.LinUCB(arms=2, silence=wrong)


def test_what_is_withdrawn_or_given_says_so():
    agent = taciturn.LinUCB(arms=2)
    (given,) = agent.warm_start([[1.0]], [0])
    decision = agent.decide([1.0])
    agent.withdraw(decision.id)
    for verb in (agent.withdraw, agent.state, agent.explain, partial(agent.feedback, reward=1)):
        with pytest.raises(ForgottenDecision, match="decision 1 is forgotten: it was withdrawn$"):
            verb(decision.id)
    with pytest.raises(AlreadyAnswered, match="labelled row"):
        agent.feedback(given, 0)
    assert agent.decide([1.0], neighbors=[decision.id]).id == 2, "ids are never used twice"
    agent.withdraw(given)
    assert agent.health().labelled == 0


class Simple(taciturn.agents.base.BaseAgent):
    """An agent of a user who has filled in what must be, and no more."""

    def _begin(self):
        self.heard = []

    def _score(self, node):
        return np.zeros(2), np.zeros(2)

    def _learn(self, node, arm, reward, *, imputed):
        self.heard.append(reward)


def test_an_agent_that_cannot_unlearn_refuses_corrections_and_keeps_what_it_has():
    agent = Simple(arms=2)
    first, second = agent.decide([1.0]), agent.decide([2.0])
    agent.feedback(first.id, None)
    agent.feedback(first.id, 1)
    with pytest.raises(AlreadyAnswered, match="Simple cannot take it back"):
        agent.feedback(first.id, 0)
    assert (agent.heard, agent.state(first.id), agent.log()["rewards"][0]) == ([1.0], "rewarded", 1.0)
    agent.withdraw(second.id)
