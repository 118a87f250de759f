"""An agent and imputers of a user: what the base class does for them without further code."""

from typing import ClassVar

import numpy as np
import pytest

import taciturn
from oracles.evidence import check_evidence
from oracles.zoo import ARMS, contexts
from taciturn.agents import storage
from taciturn.agents.base import BaseAgent
from taciturn.agents.intake import Intake
from taciturn.agents.parts.imputers.base import BaseImputer
from taciturn.agents.parts.part import Part
from taciturn.agents.rows import RawRows
from taciturn.agents.table import NodeTable
from taciturn.errors import InvalidContext, TaciturnError
from taciturn.experiments.checks import check_agent


class Centroids(BaseAgent):
    """Scores an arm by the product of the context with the sum of the contexts that were rewarded for it."""

    def _build(self):
        part = Part()
        self._sums = part.array("sums", float, "arm", "feature")
        return {"centroids": part}

    def _score(self, node):
        columns, values = self._contexts[node]
        return self._sums.data[:, columns] @ values, np.zeros(len(self._sums.data))

    def _learn(self, example, sign=1.0):
        columns, values = self._contexts[example.node]
        self._sums.data[: len(example.mask), columns] += sign * np.outer(example.mask * (example.targets - 0.5), values)

    def _unlearn(self, example):
        self._learn(example, -1.0)


def sums(agent):
    """The array of a `Centroids` (K, D)."""
    return agent.state_dict()["parts"]["centroids"]["sums"]


def expected_sums(contexts, arms, rewards, n_arms):
    """The same from scratch, for decisions that were made when there were `n_arms` arms."""
    found = np.zeros((n_arms, contexts.shape[1]))
    for x, arm, reward in zip(contexts, arms, rewards, strict=True):
        for k in range(n_arms) if reward == 1 else [arm]:
            found[k] += ((reward if k == arm else 0.0) - 0.5) * x
    return found


def test_it_passes_check_agent():
    check_agent(Centroids)


def test_corrections_and_withdrawals_are_undone():
    agent, X = Centroids(arms=ARMS, scaling="none"), contexts(12)
    ids = [agent.decide(x).id for x in X]
    for id in ids:
        agent.feedback(id, id % 2)
    for id in ids[:6]:
        agent.feedback(id, None if id % 3 == 0 else 0.75)
    agent.withdraw(ids[7])
    held = agent.decisions
    learned = ~np.isnan(held.learned_rewards)
    assert learned.sum() == 9
    kept = X[held.ids][learned], held.arms[learned], held.learned_rewards[learned]
    np.testing.assert_allclose(sums(agent), expected_sums(*kept, 3), atol=1e-12)
    for id in held.ids.tolist():
        agent.withdraw(id)
    np.testing.assert_allclose(sums(agent), 0.0, atol=1e-12)


def test_a_new_arm_copies_another_or_begins_empty_and_arms_retire():
    agent = Centroids(arms=ARMS, scaling="none")
    agent.warm_start(contexts(6), ARMS * 2)
    before = sums(agent).copy()
    agent.add_arm("copy", like="middle")
    agent.add_arm("new")
    np.testing.assert_array_equal(sums(agent), [*before, before[1], np.zeros(5)])
    scores = agent.decide(contexts(1, 2)[0]).scores
    assert scores[3] == scores[1]
    for arm in ARMS:
        agent.retire_arm(arm)
    decision = agent.decide(contexts(1, 3)[0])
    assert decision.arm in ("copy", "new")
    agent.feedback(decision.id, 1)
    agent.feedback(decision.id, 0)
    agent.withdraw(decision.id)
    np.testing.assert_allclose(sums(agent), [*before, before[1], np.zeros(5)], atol=1e-12)


def test_features_that_come_later_are_zero_before():
    agent = Centroids(arms=["x", "y"], scaling="none")
    agent.warm_start([{"a": 1.0}, {"b": 1.0}], ["x", "y"])
    before = sums(agent).copy()
    assert agent.decide({"a": 1.0, "c": 2.0}).arm == "x"
    np.testing.assert_array_equal(sums(agent), np.pad(before, ((0, 0), (0, 1))))
    agent.feedback(2, 1)
    np.testing.assert_array_equal(sums(agent)[:, 2], [1.0, -1.0])


@pytest.mark.parametrize("forget", ["oldest", "reservoir"])
def test_bounded_memory_and_files(forget, tmp_path):
    agent = Centroids(arms=ARMS, max_nodes=16, forget=forget, epsilon=0.2)
    for step, x in enumerate(contexts(60)):
        if step % 20 == 10:
            agent.save(tmp_path / "agent")
            loaded = taciturn.load(tmp_path / "agent")
            assert type(loaded) is Centroids
            one, other = agent.fork().decide(x), loaded.decide(x)
            assert (one.id, one.arm, one.propensity) == (other.id, other.arm, other.propensity)
            np.testing.assert_array_equal(one.scores, other.scores)
        decision = agent.decide(x)
        agent.feedback(decision.id, (1, 0, None)[step % 3])
        assert len(agent.decisions) <= 16
    assert agent.health().forgotten > 40
    assert agent.memory_estimate(5) > sums(agent).nbytes


class RefusesThird(BaseImputer):
    """An imputer that refuses the third context which it is shown, once."""

    tag: ClassVar[str] = "test/refuses-third"
    shown = 0

    def add_context(self, node, neighbors):
        self.shown += 1
        if self.shown == 3:
            raise TaciturnError("this context is refused")

    def impute(self, node, arm):
        return 0.5


@pytest.mark.parametrize("before", [0, 2])
def test_a_warm_start_that_is_refused_half_way_leaves_nothing_behind(before):
    """The rows before the refused one stayed in the table, and the next warm start came on top of them."""
    agent = taciturn.BILinUCB(arms=ARMS, imputer=RefusesThird(), warmup=4)
    fresh = taciturn.BILinUCB(arms=ARMS, imputer="random", warmup=4, silence=0.5)
    for one in (agent, fresh):
        for x in contexts(before, 5):
            one.feedback(one.decide(x).id, 1)
    with pytest.raises(TaciturnError, match="this context is refused"):
        agent.warm_start(contexts(6), ARMS * 2)
    assert len(agent.decisions) == agent.health().remembered == before
    assert agent.health().labelled == 0
    check_evidence(agent)
    if before == 0:
        for part in (agent.state_dict()["parts"]["ridge"], agent.state_dict()["parts"]["warmup"]["linucb"]):
            assert not any(part[name].any() for name in ("theta", "folds", "counts", "inverse"))
    ids = agent.warm_start(contexts(6), ARMS * 2)
    assert len(ids) == len(set(ids)) == 6
    assert [agent.state(id) for id in ids] == ["labelled"] * 6
    fresh.warm_start(contexts(6), ARMS * 2)
    check_evidence(agent)
    for step, x in enumerate(contexts(12, 1)):
        one, other = agent.decide(x), fresh.decide(x)
        assert one.arm == other.arm
        np.testing.assert_array_equal(one.scores, other.scores)
        np.testing.assert_array_equal(one.widths, other.widths)
        agent.feedback(one.id, (1, 0)[step % 2])
        fresh.feedback(other.id, (1, 0)[step % 2])
    mine, theirs = agent.state_dict(), fresh.state_dict()
    columns, others = mine["table"]["columns"], theirs["table"]["columns"]
    assert columns.keys() == others.keys()
    for name in columns.keys() - {"id", "evict_order"}:  # which count ids
        np.testing.assert_array_equal(columns[name], others[name], err_msg=name)
    for name, array in mine["intake"]["contexts"].items():
        np.testing.assert_array_equal(array, theirs["intake"]["contexts"][name])
    assert mine["lifecycle"]["decisions"] == theirs["lifecycle"]["decisions"]


class BuildsWhat(taciturn.BaseAgent):
    """Returns from `_build` what a test says."""

    parts = None

    def _build(self):
        return self.parts(self) if callable(self.parts) else self.parts

    def _score(self, node):
        return np.zeros(2), np.zeros(2)

    def _learn(self, example):
        pass


PART = taciturn.Part()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (None, "a dict of parts is needed"),
        (PART, "a dict of parts is needed"),
        ({"x": np.zeros(2)}, "must be a Part"),
        ({"one": PART, "two": PART}, "must be a Part of its own"),
        (lambda _: {"x": taciturn.Part().array("a", float, "node")}, "use self._table.column"),
        (lambda agent: {"x": agent._table.column("a", float, "feature")}, "sparse contexts are self._contexts"),
    ],
)
def test_parts_that_cannot_be_are_named_each_time(parts, message):
    """A `_build` that failed once left an agent without parts, which decided on."""
    agent = BuildsWhat(arms=2)
    agent.parts = parts
    for _ in range(2):
        with pytest.raises(TaciturnError, match=message):
            agent.decide([1.0])


def test_a_tag_belongs_to_one_class(tmp_path):
    with pytest.raises(TaciturnError, match="'linucb' belongs to taciturn"):
        type("Mine", (BuildsWhat,), {"tag": "linucb"})
    first = type("Notebook", (BuildsWhat,), {"parts": {}})
    agent = first(arms=2)
    type("Notebook", (BuildsWhat,), {"parts": {}})
    with pytest.raises(TaciturnError, match="another class took its tag"):
        agent.save(tmp_path / "agent")


def scoring(scores, widths):
    """An agent with three arms whose `_score` returns just these."""

    class Fixed(Centroids):
        def _score(self, node):
            return scores, widths

    return Fixed(arms=["a", "b", "c"], scaling="none")


PLAIN = np.array([0.25, 0.75, 0.5])


@pytest.mark.parametrize(
    ("scores", "widths"),
    [
        (PLAIN, np.zeros(3)),
        (PLAIN.astype(np.float32), np.zeros(3, np.float32)),
        (PLAIN.tolist(), [0, 0, 0]),
        (PLAIN, 0.0),
        (PLAIN, np.zeros(1)),
        (np.repeat(PLAIN, 2)[::2], np.zeros((3, 2))[:, 1]),
    ],
    ids=["float64", "float32", "lists", "one width", "one width in an array", "views"],
)
def test_scores_can_be_any_numbers_for_each_arm(scores, widths):
    agent = scoring(scores, widths)
    assert agent.decide([1.0, 2.0]).arm == "b"
    columns = agent.state_dict()["table"]["columns"]
    np.testing.assert_array_equal([columns["scores"][0], columns["widths"][0]], [PLAIN, np.zeros(3)])


@pytest.mark.parametrize(
    ("scores", "widths", "shape"),
    [
        (PLAIN[:2], PLAIN[:2], r"\(2,\)"),
        (PLAIN[:1], PLAIN[:1], r"\(1,\)"),
        (0.5, 0.0, r"\(\)"),
        (PLAIN[None], PLAIN[None], r"\(1, 3\)"),
        (PLAIN[:, None], PLAIN[:, None], r"\(3, 1\)"),
        (np.ones((3, 3)), np.ones((3, 3)), r"\(3, 3\)"),
    ],
)
def test_scores_of_another_shape_are_refused_and_leave_nothing_behind(scores, widths, shape):
    agent = scoring(scores, widths)
    with pytest.raises(TaciturnError, match=rf"_score returned arrays of shape {shape}; there are 3 arms"):
        agent.decide([1.0, 2.0])
    assert (agent.next_id, len(agent.decisions), agent.times_chosen) == (1, 0, (0, 0, 0))


@pytest.mark.parametrize("scores", [PLAIN * 1j, np.array(["1", "2", "3"])], ids=["complex", "text"])
def test_scores_that_are_no_numbers_are_refused(scores):
    agent = scoring(scores, np.zeros(3))
    with pytest.raises(TypeError):
        agent.decide([1.0, 2.0])
    assert len(agent.decisions) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", ["scores", "widths"])
def test_scores_that_are_not_finite_are_refused(bad, place):
    parts = {"scores": PLAIN.copy(), "widths": np.zeros(3)}
    parts[place][2] = bad
    agent = scoring(**parts)
    with pytest.raises(InvalidContext, match="overflows"):
        agent.decide([1.0, 2.0])
    assert len(agent.decisions) == 0


class Failing(Centroids):
    """Cannot learn what is told on a bad day."""

    bad_day = False

    def _learn(self, example, sign=1.0):
        if self.bad_day:
            raise RuntimeError("a bad day")
        super()._learn(example, sign)


@pytest.mark.parametrize("before", [(), (0.0,), (1.0,), (None,), (None, 1.0)])
def test_feedback_that_cannot_be_learned_changes_nothing(before):
    agent = Failing(arms=ARMS, scaling="none")
    ids = [agent.decide(x).id for x in contexts(4)]
    for reward in before:
        agent.feedback(ids[1], reward)
    agent.add_arm("another")
    held = storage.dumps(agent)
    agent.bad_day = True
    with pytest.raises(RuntimeError, match="a bad day"):
        agent.feedback(ids[1], 0.5)
    agent.bad_day = False
    if not any(reward is not None for reward in before):  # what was learned and unlearned again is rounded anew
        assert storage.dumps(agent) == held
    assert agent.state(ids[1]) == ("pending" if not before else "silent" if before == (None,) else "rewarded")


@pytest.mark.parametrize("method", ["linucb", "viewucb"])
@pytest.mark.parametrize(
    ("place", "name"), [(RawRows, "append"), (NodeTable, "append"), (Intake, "observe"), (BaseAgent, "_choose")]
)
def test_a_decision_that_is_broken_off_leaves_an_agent_that_goes_on_as_if_it_had_not_begun(
    method, place, name, monkeypatch, tmp_path
):
    """Rows were appended outside of what is taken back: stores of different lengths crashed later, or were refused."""

    def run_out(*_, **__):
        raise MemoryError

    X, said = np.random.default_rng(0).normal(size=(60, 8)), []
    for is_broken in (False, True):
        agent = taciturn.make(method, arms=3)
        for step, x in enumerate(X):
            if is_broken and step in (0, 30):
                with monkeypatch.context() as patched, pytest.raises(MemoryError):
                    patched.setattr(place, name, run_out)
                    agent.decide(X[7])
            decision = agent.decide(x)
            agent.feedback(decision.id, (1, 0, None)[step % 3])
            said.append(np.concatenate([decision.scores, decision.widths]))
            if step in (30, 59):
                agent.save(tmp_path / "agent")
                agent = taciturn.load(tmp_path / "agent")
    assert np.isfinite(said).all()
    if method == "linucb":  # the regressions of the other may be solved in a decision, and stay so
        np.testing.assert_allclose(said[60:], said[:60], rtol=1e-6, atol=1e-7)


def test_a_fork_of_an_agent_that_replays_decides_by_itself():
    agent, X = Centroids(arms=ARMS, scaling="none"), contexts(3)
    recorded = [agent.decide(x) for x in X]
    again = Centroids(arms=ARMS, scaling="none")
    with again.replaying(recorded):
        again.decide(X[0])
        fork = again.fork()
        fork.decide(X[2])
        fork.decide(X[1])
        again.decide(X[1])
    assert fork.next_id == 3
