"""Linear agents over more features than matrices can have: through the history, and with a sketch."""

import numpy as np
import pytest
import scipy.sparse as sp

import taciturn
import taciturn.errors
from oracles.covariance import check, folding
from oracles.evidence import check_evidence
from taciturn.agents.parts import linear_arms
from taciturn.agents.parts.history_ridge import HistoryRidge
from taciturn.agents.parts.ridge import ArmRidge
from taciturn.agents.parts.sketch_ridge import SketchRidge
from taciturn.errors import TaciturnError
from taciturn.kernels import ridge


def words(rng, vocabulary, count=6):
    """A context of a few words, of which later ones are rarer."""
    return {f"word {int(vocabulary ** rng.random())}": 1.0 for _ in range(count)}


def form_of(agent):
    return agent.health().covariance.form


def step(agent, rng, vocabulary):
    decision = agent.decide(words(rng, vocabulary))
    agent.feedback(decision.id, (1, 0, None, 0.5)[rng.integers(4)])
    return decision


@pytest.mark.parametrize("name", ["linucb", "bilinucb-random"])
def test_a_growing_vocabulary_goes_from_exact_matrices_over_the_history_to_a_sketch(monkeypatch, name):
    monkeypatch.setattr(linear_arms, "EXACT_ENTRIES", 3 * 40**2)
    agent, rng, forms = taciturn.make(name, arms=3, rank=24), np.random.default_rng(0), []
    for number in range(80):
        decision = step(agent, rng, 20 + 5 * number)
        if form_of(agent) not in forms:
            forms.append(form_of(agent))
        if number % 3 == 0:
            agent.feedback(decision.id, 0.25)
        if number % 10 == 9:
            agent.withdraw(decision.id)
        if number % 8 == 0:
            check_evidence(agent)
    assert forms == ["exact", "history", "sketch"]
    assert "covariance  sketch of rank 24" in repr(agent)


def test_decisions_through_the_history_are_those_of_exact_matrices(monkeypatch):
    """One agent leaves its matrices at 40 features, the other keeps them."""
    rng, others = np.random.default_rng(1), np.random.default_rng(1)
    exact = taciturn.LinUCB(arms=4, covariance="exact")
    monkeypatch.setattr(linear_arms, "EXACT_ENTRIES", 4 * 40**2)
    agent = taciturn.LinUCB(arms=4, rank=128)
    for number in range(120):
        one, other = step(agent, rng, 20 + 5 * number), step(exact, others, 20 + 5 * number)
        assert one.arm == other.arm
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-9)
        np.testing.assert_allclose(one.widths, other.widths, atol=1e-9)
    assert (form_of(agent), form_of(exact)) == ("history", "exact")


@pytest.mark.parametrize("max_nodes", [None, 30])
def test_what_no_example_says_survives_the_change_to_a_sketch(monkeypatch, max_nodes):
    """Contexts that were evicted, and the arm that another was copied from, stay in θ and in the widths."""
    monkeypatch.setattr(linear_arms, "EXACT_ENTRIES", 3 * 40**2)
    rng = np.random.default_rng(2)
    agent = taciturn.LinUCB(arms=["a", "b"], max_nodes=max_nodes, rank=16, scaling="none")
    for _ in range(60):
        step(agent, rng, 25)
    if max_nodes is None:
        agent.add_arm("c", like="a")
    exact = agent._ridge._form
    assert isinstance(exact, ArmRidge)
    theta, width = exact.theta, agent._contexts.n_features
    inverses = [ridge.whole_inverse(exact.state, k) for k in range(len(theta))]
    agent.decide({f"new {i}": 1.0 for i in range(40)})
    sketch = agent._ridge._form
    assert isinstance(sketch, SketchRidge)
    np.testing.assert_allclose(sketch.theta[:, :width], theta[:, :width], atol=1e-12)
    P = folding(inverses[0].shape[0], 16)
    for k in (2,) if max_nodes is None else (0, 1):
        evidence = np.linalg.inv(inverses[k]) - np.eye(P.shape[1])
        expected = np.linalg.inv(P @ evidence @ P.T + np.eye(16))
        np.testing.assert_allclose(ridge.whole_inverse(sketch.widths.state, k), expected, atol=1e-9)
    if max_nodes is None:
        agent.feedback(0, 0.75)  # a correction: the copy keeps what it began with
        np.testing.assert_array_equal(sketch.theta[2, :width], theta[2, :width])


def test_a_copied_arm_ends_the_history():
    agent = taciturn.LinUCB(arms=["a", "b"], rank=32, scaling="none")
    assert "ridge" in agent._parts.state_dict()
    agent._ridge._most_entries = 0
    rng = np.random.default_rng(3)
    for _ in range(12):
        step(agent, rng, 50)
    assert isinstance(agent._ridge._form, HistoryRidge)
    agent.add_arm("new")
    assert form_of(agent) == "history"
    check_evidence(agent)
    theta = agent._ridge.theta
    agent.add_arm("copy", like="a")
    assert form_of(agent) == "sketch"
    np.testing.assert_allclose(agent._ridge.theta[3], theta[0], atol=1e-12)
    widths = agent.decide(words(rng, 50)).widths
    assert widths[3] == pytest.approx(widths[0])


def test_more_arms_than_matrices_have_room_for_make_a_sketch(monkeypatch):
    monkeypatch.setattr(linear_arms, "EXACT_ENTRIES", 3 * 10**2)
    agent, rng = taciturn.LinUCB(arms=3, max_nodes=100, scaling="none"), np.random.default_rng(4)
    for _ in range(20):
        agent.feedback(agent.decide(rng.random(9)).id, 1)
    assert form_of(agent) == "exact"
    agent.add_arm(3)
    assert form_of(agent) == "sketch"
    check(agent, agent._ridge)


@pytest.mark.parametrize("covariance", ["auto", "sketch"])
@pytest.mark.parametrize("scaling", ["none", "auto"])
def test_extreme_contexts_leave_scores_finite(monkeypatch, covariance, scaling):
    monkeypatch.setattr(linear_arms, "EXACT_ENTRIES", 0)
    rng = np.random.default_rng(5)
    agent = taciturn.LinUCB(arms=2, covariance=covariance, rank=8, scaling=scaling)
    sizes = [0.0, 1e-320, 1e-160, 1e-3, 1.0, 1e3, 1e15, 1.0, 1e15, 1e-160]
    for number in range(60):
        decision = agent.decide(sizes[number % len(sizes)] * rng.choice([0.0, 1.0, -1.0], 12))
        assert np.isfinite(decision.scores).all() and np.isfinite(decision.widths).all()
        agent.feedback(decision.id, number % 2)
        if number % 3 == 0:
            agent.feedback(decision.id, 1 - number % 2)
    assert np.isfinite(agent._ridge.theta).all()
    agent.health()


def test_the_ratio_of_widths_is_what_the_sketch_loses():
    rng = np.random.default_rng(6)
    agent = taciturn.LinUCB(arms=2, covariance="sketch", rank=8, scaling="none")
    for _ in range(80):
        agent.feedback(agent.decide(rng.normal(size=60)).id, 1)
    exact = taciturn.LinUCB(arms=2, covariance="exact", scaling="none")
    for node in range(80):
        decision = exact.decide(np.asarray(agent._contexts[node].values), allowed=[agent.decision(node).arm])
        exact.feedback(decision.id, 1)
    ratios = [
        agent._ridge.scores(agent._contexts[node], 1.0)[1][k] / exact._ridge.scores(exact._contexts[node], 1.0)[1][k]
        for k, node in zip((0, 1, 0, 1), range(76, 80), strict=True)
    ]
    found = agent.health().covariance
    assert found.width_ratio == pytest.approx(np.median(ratios), rel=1e-6)
    assert found.rank == 8 and 0 <= found.unsolved < 0.5
    assert "sketch of rank 8 (widths 0." in repr(agent.health())
    narrow = taciturn.LinUCB(arms=2, covariance="sketch", rank=64, scaling="none")
    narrow.feedback(narrow.decide(rng.normal(size=60)).id, 1)
    assert narrow.health().covariance.width_ratio is None, "there is nothing to lose yet"


def test_thirty_thousand_words_fit_where_matrices_of_a_few_hundred_do():
    rng = np.random.default_rng(7)
    agent = taciturn.LinUCB(arms=10, memory_limit=100e6)
    for number in range(1000):
        agent.feedback(agent.decide({f"word {number} {i}": 1.0 for i in range(30)}).id, rng.integers(2))
    assert agent.n_features == 30_000
    assert agent.memory_in_use() < 30e6
    exact = taciturn.LinUCB(arms=10, covariance="exact", memory_limit=100e6)
    with pytest.raises(TaciturnError, match="memory_limit"):
        for number in range(1000):
            exact.decide({f"word {number} {i}": 1.0 for i in range(30)})
    assert exact.n_features < 1500


@pytest.mark.parametrize("params", [{"covariance": "exat"}, {"covariance": None}, {"rank": 2}, {"rank": 1e9}])
def test_wrong_settings_are_refused(params):
    [name] = params
    with pytest.raises(ValueError, match=name):
        taciturn.LinUCB(arms=2, **params)


FORGERIES = {
    "form": "other",
    "rank": 2**20,
    ("state", "nodes"): np.full(3, 10**6),
    ("state", "inverse"): np.full((2, 3, 3), np.nan),
    ("state", "targets"): np.zeros((2, 99)),
}


@pytest.mark.parametrize("where", FORGERIES, ids=str)
def test_forged_histories_are_refused(where):
    agent = taciturn.LinUCB(arms=2, scaling="none")
    assert "ridge" in agent._parts.state_dict()
    agent._ridge._most_entries = 0
    for x in np.eye(3):
        agent.feedback(agent.decide(x).id, 1)
    state = agent.state_dict()
    state["parts"]["ridge"]["state"] = dict(state["parts"]["ridge"]["state"])
    holder = state["parts"]["ridge"] if isinstance(where, str) else state["parts"]["ridge"][where[0]]
    key = where if isinstance(where, str) else where[1]
    assert key in holder
    taciturn.LinUCB.from_state_dict(state)
    holder[key] = FORGERIES[where]
    with pytest.raises(ValueError):
        taciturn.LinUCB.from_state_dict(state)


FORGED_MEANS = {
    "theta": np.full((6, 2), np.nan),
    "squares": np.full((6, 2), -1.0),
    "pull": np.zeros((6, 5)),
    "changes": -1,
    "next_arm": 2,
}


@pytest.mark.parametrize("name", FORGED_MEANS)
def test_forged_means_are_refused(name):
    agent = taciturn.LinUCB(arms=2, covariance="sketch", rank=4, scaling="none")
    for x in np.eye(6):
        agent.feedback(agent.decide(x).id, 1)
    state = agent.state_dict()
    means = state["parts"]["ridge"]["state"]["means"]
    assert taciturn.LinUCB.from_state_dict(state).n_features == 6
    assert name in means
    means[name] = FORGED_MEANS[name]
    with pytest.raises(ValueError):
        taciturn.LinUCB.from_state_dict(state)


@pytest.mark.parametrize("scaling", ["auto", "none"])
@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_corrections_of_a_sketch_leave_what_is_expected_near_the_exact_solution(scaling, size):
    """Through its dual variables a correction once made a sketch expect a reward of 97 000."""
    X = size * np.random.default_rng(0).normal(size=(400, 60))
    agent, exact = (taciturn.LinUCB(arms=2, scaling=scaling, rank=32, covariance=form) for form in ("sketch", "exact"))
    for x in X:
        arm = agent.decide(x).arm
        exact.decide(x, allowed=[arm])
        for one in (agent, exact):
            one.feedback(one.next_id - 1, float((x[0] > 0) == arm))
    off = []
    for id in range(380, 400):
        reward = 1 - agent.log()["rewards"][id]
        for one in (agent, exact):
            one.feedback(id, reward)
        rows = [agent._contexts[node] for node in range(380, 400)]
        found = [[one._ridge.scores(row, 1.0)[0] for row in rows] for one in (agent, exact)]
        off.append(np.abs(np.subtract(*found)).max())
    assert max(off) < 0.15
    assert agent.health().covariance.unsolved < 0.1


@pytest.mark.parametrize("is_named", [False, True])
def test_nothing_is_expected_once_all_that_a_sketch_learned_is_undone(is_named):
    """Without examples nothing was solved, so that θ stayed where the last one had moved it, and `unsolved` was 0."""
    rng = np.random.default_rng(0)
    contexts = [
        {f"w{word}": 1.0 for word in rng.integers(0, 300, size=6).tolist()} if is_named else rng.normal(size=300)
        for _ in range(120)
    ]
    agent = taciturn.LinUCB(arms=3, covariance="sketch", rank=16)
    for step, context in enumerate(contexts):
        agent.feedback(agent.decide(context).id, float(step % 2))
    for id in range(119):
        agent.feedback(id, None)
        assert 0 <= agent.health().covariance.unsolved <= 2
    agent.withdraw(119)
    agent._ridge._form.means.solve()
    assert not agent._ridge.theta.any()
    assert agent.health().covariance.unsolved == 0
    agent.decide(contexts[0])
    agent.feedback(agent.decide(contexts[1]).id, 1)
    agent.feedback(agent.next_id - 1, None)
    assert agent._ridge._form.means._is_due or agent.health().covariance.unsolved in (0, pytest.approx(1))


def test_a_sketch_of_more_rank_than_features_is_exact():
    rng, w = np.random.default_rng(0), np.random.default_rng(1).normal(size=50)
    agent, exact = (taciturn.LinUCB(arms=2, covariance=form) for form in ("sketch", "exact"))
    for _ in range(200):
        x = rng.normal(size=50)
        one = agent.decide(x)
        other = exact.decide(x, allowed=[one.arm])
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-8)
        np.testing.assert_allclose(one.widths, other.widths, atol=1e-8)
        for of in (agent, exact):
            of.feedback(one.id, float((w @ x > 0) == one.arm))


def test_a_rank_that_many_arms_cannot_have_is_lowered_and_files_are_read_again(tmp_path):
    agent = taciturn.LinUCB(arms=65, covariance="sketch", rank=4096)
    agent.feedback(agent.decide(np.random.default_rng(0).random(10)).id, 1)
    agent.save(tmp_path / "agent")
    assert taciturn.load(tmp_path / "agent").health() == agent.health()
    assert taciturn.LinUCB(arms=2, covariance="sketch", rank=np.int64(64)).decide(np.ones(80)).id == 0


def test_a_history_of_more_arms_has_less_rank(monkeypatch):
    monkeypatch.setattr(linear_arms, "EXACT_ENTRIES", 2**20)
    agent = taciturn.LinUCB(arms=2, scaling="none")
    for number in range(20):
        agent.feedback(agent.decide({f"a {number * 400 + i}": 1.0 for i in range(400)}).id, 1)
    assert agent._ridge._form.rank == 512
    for number in range(100):
        agent.add_arm(f"arm {number}")
    assert agent._ridge._form.rank <= 128
    assert agent._ridge._form._inverse.nbytes <= 8 * 102 * 128**2


def test_sparse_rows_with_room_behind_their_entries_are_read_as_they_are():
    matrix = sp.csr_matrix(np.array([[1.0, 0.0, 2.0, 0.0]]))
    matrix.data, matrix.indices = np.append(matrix.data, 99.0), np.append(matrix.indices, np.int32(3))
    agent = taciturn.LinUCB(arms=2, scaling="none")
    agent.decide(np.ones(4))
    np.testing.assert_array_equal(agent.decide(matrix).widths, agent.decide(matrix.toarray()).widths)
    matrix.data = matrix.data[:1]
    with pytest.raises(taciturn.errors.InvalidContext, match="fewer entries"):
        agent.decide(matrix)


def test_contexts_of_zeros_have_no_ratio_of_widths():
    agent = taciturn.LinUCB(arms=2, covariance="sketch", rank=4, scaling="none")
    for x in (np.zeros(9), np.full(9, 1e-160)):
        agent.feedback(agent.decide(x).id, 1)
    assert agent.health().covariance.width_ratio is None
