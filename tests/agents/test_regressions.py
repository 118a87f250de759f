"""Regression tests; each docstring names the bug."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.naive_bayes import MultinomialNB

import taciturn
from oracles.zoo import contexts
from taciturn.agents import storage
from taciturn.agents.parts.imputers.base import BaseImputer
from taciturn.errors import TaciturnError, UnknownName
from taciturn.registry import METHODS


def theta(agent):
    """A copy of θ (K, D)."""
    return agent.state_dict()["parts"]["ridge"]["theta"].copy()


@pytest.mark.parametrize("kind", [taciturn.ViewUCB, taciturn.ROGCN, taciturn.GCNUCB])
def test_train_pending_ends_when_every_decision_was_withdrawn(kind):
    """ViewUCB trained without end; networks took the maximum of an empty array of labels."""
    agent = kind(arms=2)
    agent.defer_training()
    agent.withdraw(agent.decide([1.0, 0.0]).id)
    assert agent.train_pending(1000) <= 1


def test_a_copied_arm_keeps_its_targets_through_solves_and_corrections():
    """A solve of ViewUCB overwrote a copied arm's targets of 0, and so did a correction of the original arm."""
    agent = taciturn.ViewUCB(arms=3)
    for x in contexts(20):
        agent.feedback(agent.decide(x, allowed=[0]).id, 0)
    agent.add_arm("copy", like=0)
    for x in contexts(2, 1):
        agent.decide(x)
    assert agent.state_dict()["parts"]["solver"]["solved_at"] > 20
    columns = agent.state_dict()["table"]["columns"]
    np.testing.assert_array_equal(columns["target_weights"][:20, 3], 1)
    np.testing.assert_array_equal(columns["targets"][:20, 3], 0)
    agent.feedback(0, 1)
    columns = agent.state_dict()["table"]["columns"]
    assert (columns["target_weights"][0, 3], columns["targets"][0, 3]) == (1, 0)


def test_a_correction_keeps_what_evicted_contexts_taught():
    """Relearning an arm from the contexts held dropped the evidence of evicted ones."""
    agent, rng = taciturn.LinUCB(arms=2, max_nodes=16, scaling="none"), np.random.default_rng(0)
    for _ in range(300):
        decision = agent.decide([*rng.random(2), 0.0])
        agent.feedback(decision.id, float(decision.arm == 0))
    before = theta(agent)
    decision = agent.decide([0.0, 0.0, 1000.0])
    agent.feedback(decision.id, 1)
    agent.feedback(decision.id, 0)
    np.testing.assert_allclose(theta(agent), before, atol=1e-6)


def test_k_means_continues_when_contexts_are_withdrawn():
    """K-means restarted when as many contexts were left as it has clusters, and stopped when there were fewer."""
    agent = taciturn.BILinUCB(arms=2, imputer="kmeans", imputer_params={"clusters": 5}, warmup=0)
    ids = [agent.decide(x).id for x in contexts(8)]
    clusters = agent.state_dict()["table"]["columns"]["cluster"].copy()
    for id in ids[:4]:
        agent.withdraw(id)
    agent.decide(contexts(1, 3)[0])
    found = agent.state_dict()["table"]["columns"]["cluster"]
    np.testing.assert_array_equal(found[:4], clusters[4:])
    assert found[4] >= 0


def test_a_warm_start_that_fails_while_learning_leaves_nothing_behind():
    agent = taciturn.BILinUCB(arms=2, imputer=MultinomialNB(), warmup=0, scaling="none")
    with pytest.raises(TaciturnError, match="refuses"):
        agent.warm_start([[1.0, 0.0], [1.0, -1.0], [0.0, 1.0]], [0, 1, 0])
    assert (agent.health().remembered, theta(agent).any()) == (0, False)


def test_a_refused_correction_changes_nothing():
    agent = taciturn.BILinUCB(arms=2, imputer=MultinomialNB(), warmup=0, scaling="none")
    decision = agent.decide([1.0, -1.0])
    agent.feedback(decision.id, 0.4)
    before = theta(agent)
    with pytest.raises(TaciturnError, match="refuses"):
        agent.feedback(decision.id, 1)
    assert (agent.state(decision.id), agent.log()["rewards"][0]) == ("rewarded", 0.4)
    np.testing.assert_allclose(theta(agent), before, atol=1e-12)


def test_decisions_behind_a_labelled_row_expire():
    agent = taciturn.LinUCB(arms=2, expire_after=10)
    agent.warm_start([[1.0, 0.0]], [0])
    decision = agent.decide([1.0, 0.0], at=-100.0)
    assert agent.expire(-50.0) == [decision.id]


def test_a_refused_decision_does_not_set_the_clock():
    agent = taciturn.LinUCB(arms=2, memory_limit=100_000)
    with pytest.raises(TaciturnError, match="memory_limit"):
        agent.decide(np.ones(2000), at=5.0)
    assert agent.decide([1.0, 2.0]).id == 0


def test_label_spreading_accepts_features_that_are_new_after_a_fit():
    """scikit-learn's model refused rows with more features than it was fitted to."""
    agent = taciturn.make("labelspreading", arms=2, every=2)
    agent.warm_start([{"a": 1.0}, {"b": 1.0}], [0, 1])
    assert agent.decide({"a": 1.0, "c": 0.1}).arm == 0


class RefusesSuccess(BaseImputer):
    def learn(self, example):
        if example.reward == 1:
            raise TaciturnError("it refuses")

    def impute(self, node, arm):
        return 0.5


def test_a_refused_correction_labels_the_arms_that_it_labelled_before():
    """The rollback of a refused correction learned the old reward for arms that had been added since."""
    agent = taciturn.BILinUCB(arms=2, imputer=RefusesSuccess(), warmup=0)
    decision = agent.decide([1.0, -1.0])
    agent.feedback(decision.id, 0.4)
    agent.add_arm("new")
    with pytest.raises(TaciturnError, match="refuses"):
        agent.feedback(decision.id, 1)
    assert agent.state_dict()["table"]["columns"]["n_arms_known"].tolist() == [2]


def test_settings_of_an_imputer_without_any_are_refused():
    """An imputer that is no dataclass made this an AttributeError."""
    with pytest.raises(UnknownName, match="parameter of imputer random 'clusters'"):
        taciturn.BILinUCB(arms=2, imputer="random", imputer_params={"clusters": 3})


@pytest.mark.parametrize("name", METHODS)
def test_contexts_of_zeros_are_contexts(name):
    """ViewUCB could not reshape the coefficients of no features."""
    agent = taciturn.make(name, arms=2)
    agent.warm_start([[0.0, 0.0], [1.0, 0.0]], [0, 1])
    for x in ([0.0, 0.0], [1.0, 0.0], sp.csr_matrix((1, 2))):
        decision = agent.decide(x)
        assert np.isfinite(decision.scores).all()
        agent.feedback(decision.id, 1)
    assert len(agent.decide_batch(np.zeros((3, 2)))) == 3


def test_a_sparse_row_that_names_columns_out_of_range_is_refused():
    """Kernels read wherever the column said."""
    row = sp.csr_matrix([[0.0, 1.0, 2.0]])
    row.indices = np.array([1, 900_000_000], np.int32)
    row.has_canonical_format = True
    for kind in (taciturn.ViewUCB, taciturn.LinUCB):
        with pytest.raises(TaciturnError, match="column that does not exist"):
            kind(arms=2).decide(row)
    with pytest.raises(TaciturnError, match="4294967296 features"):
        taciturn.make("majority", arms=2).decide(sp.csr_matrix((1, 2**32)))


def test_numbers_of_arms_of_any_integer_type_are_saved_and_loaded(tmp_path):
    """A file with a NumPy integer as its number of arms could not be read."""
    for arms in (np.int64(3), np.uint8(3), 3):
        agent = taciturn.LinUCB(arms=arms)
        agent.decide([1.0])
        agent.save(tmp_path / "agent")
        assert taciturn.load(tmp_path / "agent").arm_names == (0, 1, 2)


def test_the_right_arm_is_checked_before_anything_is_unlearned():
    agent = taciturn.make("oracle-full", arms=2)
    (labelled,) = agent.warm_start([[1.0]], [0])
    decision = agent.decide([1.0])
    agent.feedback(decision.id, 1)
    with pytest.raises(TaciturnError, match="unknown arm"):
        agent.reveal(decision.id, "nobody")
    assert agent.state(decision.id) == "rewarded"
    with pytest.raises(TaciturnError, match="labelled row"):
        agent.reveal(labelled, 1)


class Imputes(BaseImputer):
    value = 0.5

    def impute(self, node, arm):
        return self.value


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e300])
def test_an_imputed_reward_that_is_no_number_is_refused(value):
    imputer = Imputes()
    imputer.value = value
    agent = taciturn.BILinUCB(arms=2, imputer=imputer, bounded=False, warmup=0)
    decision = agent.decide([1.0])
    with pytest.raises(TaciturnError, match="was imputed"):
        agent.feedback(decision.id, None)
    assert agent.state(decision.id) == "pending"


def test_a_feature_named_nan_is_refused():
    with pytest.raises(TaciturnError, match="named NaN"):
        taciturn.LinUCB(arms=2).decide({float("nan"): 1.0})


@pytest.mark.parametrize("first", [1, 9])
def test_contexts_without_entries_far_from_all_others_are_scored(first):
    """Nearly all pairs coincided, σ was tiny, and a view of almost no length was scaled to infinity."""
    agent = taciturn.ViewUCB(arms=2)
    for i in range(30):
        empty = i == 0 if first == 1 else i == 9
        decision = agent.decide([0.0, 0.0] if empty else [1.0, 0.0])
        assert np.isfinite(decision.scores).all()
        agent.feedback(decision.id, i % 2)
    assert np.isfinite(storage.loads(storage.dumps(agent), "agent").decide([0.0, 1.0]).scores).all()
