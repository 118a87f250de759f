"""The view of random Fourier features: its regressions, its bandwidth, and files from before there was one."""

import numpy as np
import pytest

import taciturn
from golden import files
from oracles import fourier as oracle
from oracles import views
from taciturn.agents.parts.fourier_view import FourierView
from taciturn.agents.table import NodeTable
from taciturn.contracts import SparseRow

K, D = 3, 5


def view_of(contexts, targets, weights, *, ridge=0.5, seed=4):
    """A view of some contexts, and its table."""
    table = NodeTable(K)
    columns = [table.column(name, np.float32, "arm") for name in ("targets", "weights")]
    view = FourierView(table.contexts, *columns, seed=seed, ridge=ridge)
    table.contexts.allocate(K, D)
    view.allocate(K, D)
    for node, x in enumerate(contexts):
        table.append(SparseRow(np.flatnonzero(x).astype(np.int32), x[x != 0]), 0, 0.0, 0.0)
        view.add(node)
        for column, row in zip(columns, (targets[node], weights[node]), strict=True):
            column.data[node] = row
    return view, table


def evidence(count, seed=0):
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(count, D)) * (rng.random((count, D)) < 0.8)
    weights = rng.choice([0.0, 0.3, 1.0], size=(count, K)) * (rng.random((count, 1)) < 0.7)
    return contexts, rng.random((count, K)), weights


@pytest.mark.parametrize("count", [1, 2, 40])
def test_the_solution_is_that_of_the_ridge_regressions(count):
    contexts, targets, weights = evidence(count)
    view, _ = view_of(contexts, targets, weights)
    view.begin()
    for _ in range(40):
        view.step()
    view.publish()
    known = np.arange(count)
    phi = oracle.features(contexts, *oracle.draws(4, D), view.state_dict()["bandwidth"])
    theta = views.solutions([phi], weights.astype(np.float32), targets.astype(np.float32), 0.5)
    lengths = np.linalg.norm(theta, axis=0)
    expected = phi @ (theta / np.where(lengths > 0, lengths, 1.0))
    np.testing.assert_allclose(view.predict(known, slice(None)), expected, atol=2e-4)
    for node in known:
        np.testing.assert_allclose(view.scores(node), view.predict(known, slice(None))[node], atol=1e-6)


@pytest.mark.parametrize("size", [1e-18, 1e-23, 1e-40])
def test_a_solution_that_has_nearly_vanished_is_of_unit_length_too(size):
    """Its squares vanished in single precision, and the file of an agent with such a θ was refused."""
    view, _ = view_of(*evidence(2))
    view._theta.data[...] = size * np.random.default_rng(1).normal(size=view._theta.data.shape)
    view.publish()
    np.testing.assert_allclose(np.linalg.norm(view._unit_theta.data.astype(float), axis=0), 1.0, atol=1e-3)


def test_the_bandwidth_follows_the_distances():
    """It is measured at doublings, and stays while it is within a tenth."""
    contexts, targets, weights = evidence(64)
    view, _ = view_of(
        np.concatenate([contexts, 100 * contexts]), *[np.tile(part, (2, 1)) for part in (targets, weights)]
    )
    measured = view.state_dict()["bandwidth"]
    assert measured == pytest.approx(oracle.bandwidth(np.concatenate([contexts, 100 * contexts])[:128]), rel=0.1)
    assert measured > 10 * oracle.bandwidth(contexts)


def test_a_view_at_its_cap_is_not_measured_again_and_again():
    """Each time all features would be made anew, in one decision."""
    agent = taciturn.ViewUCB(arms=2, max_nodes=16, scaling="none")
    for step in range(200):
        agent.decide([1.0, step % 7])
        if step > 16:
            assert agent.state_dict()["parts"]["fourier"]["measured_at"] > 8, "twice that is more than the cap"


def test_contexts_that_are_all_equal_are_taken():
    agent = taciturn.ViewUCB(arms=2)
    for step in range(40):
        decision = agent.decide([1.0, 2.0])
        agent.feedback(decision.id, float(step % 2))
    assert np.isfinite(decision.scores).all()


def test_an_agent_of_a_file_from_before_goes_on_without_the_view():
    agent = taciturn.load(files.FOLDER / "viewucb-in-solve.taciturn")
    assert not agent.fourier
    assert agent.soft_label_weight == 0.3
    assert "fourier" not in agent.state_dict()["parts"]
    for step in range(60):
        decision = agent.decide(files.context(step), at=100.0)
        agent.feedback(decision.id, 1.0)
        agent.train_pending()
    assert np.isfinite(decision.scores).all()


@pytest.mark.parametrize(("arms", "weight"), [(3, 0.3), (9, 0.3), (17, 0.15), (81, 0.03)])
def test_soft_labels_of_many_arms_weigh_less(arms, weight):
    agent = taciturn.ViewUCB(arms=arms)
    agent.feedback(agent.decide([1.0, 2.0]).id, 0)
    weights = agent.state_dict()["table"]["columns"]["target_weights"][0]
    np.testing.assert_allclose(np.sort(weights), [weight] * (arms - 1) + [1.0], rtol=1e-6)
