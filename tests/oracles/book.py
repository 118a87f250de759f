"""What must be inside an agent, from its book of decisions alone."""

import numpy as np

import taciturn
from oracles import ridge


def ridges(agent):
    """The regressions over contexts that an agent holds, each with what it must be made of."""
    if isinstance(agent, taciturn.ViewUCB):
        yield agent._widths, ridge.from_book(agent, agent._rows.dimension, agent.ridge, unit_rows=True)
        return
    if hasattr(agent, "_linear"):
        yield agent._linear, ridge.from_book(agent, agent._rows.dimension, agent.ridge)
    if getattr(agent, "_linucb", None) is not None:
        yield agent._linucb, ridge.from_book(agent, agent._rows.dimension, agent.ridge, supposed=False)


def check_against_the_book(agent):
    """All evidence inside an agent is what its book of decisions says, from scratch."""
    for held, (A, b) in ridges(agent):
        if isinstance(agent, taciturn.ViewUCB):
            inverses, _ = ridge.written_out(held._state)
            np.testing.assert_allclose(inverses, np.linalg.inv(A), atol=1e-8)
        else:
            ridge.check(held, A, b)
    ledger, n = agent._ledger, agent._ledger.count
    value, arm, silent = ledger.value[:n], ledger.arm[:n], ledger.state[:n] == 2
    seen, right = ~silent & ~np.isnan(value), ~silent & (value > 0.5)
    every = (value == 1) & ~silent & agent.one_right_arm
    labels = np.where(right, arm, -1)
    if isinstance(agent, taciturn.ROGCN):
        np.testing.assert_array_equal(agent._encoder.labels[:n, 0], labels)
    if isinstance(agent, taciturn.GCNUCB):
        expected = np.full((n, len(agent.arm_names)), np.nan)
        known = ~np.isnan(value)
        expected[known, arm[known]] = value[known]
        for node in np.flatnonzero(every):
            expected[node, : ledger.arms[node]] = np.arange(ledger.arms[node]) == arm[node]
        np.testing.assert_array_equal(agent._rewards[:n], expected)
        told = np.where(np.isnan(expected) | silent[:, None], -1, expected > 0.5)
        np.testing.assert_array_equal(agent._encoder.labels[:n], told)
    if isinstance(agent, taciturn.BILinUCB):
        imputer = agent._imputer
        if hasattr(imputer, "_encoder"):
            np.testing.assert_array_equal(imputer._encoder.labels[:n, 0], labels)
        if hasattr(imputer, "_cluster"):
            np.testing.assert_array_equal(imputer._reward[:n], np.where(seen, value, np.nan))
        if hasattr(imputer, "estimator"):
            np.testing.assert_array_equal(imputer._labels[:n], labels)
    if isinstance(agent, taciturn.ViewUCB):
        wrong = seen & (value == 0) & agent.one_right_arm
        np.testing.assert_array_equal(agent._wrong[:n], np.where(wrong, arm, -1))
        weights, targets = agent._weights[:n], agent._targets[:n]
        assert (weights[np.isnan(value)] == 0).all()
        assert all((weights[node, : ledger.arms[node]] == 1).all() for node in np.flatnonzero(every))
        np.testing.assert_array_equal(targets[every].argmax(axis=1), arm[every])
        plain = ~np.isnan(value) & ~every
        assert (weights[plain, arm[plain]] == 1).all()
        np.testing.assert_allclose(targets[plain, arm[plain]], value[plain])
    if hasattr(agent, "_earned"):
        expected = np.bincount(arm, np.nan_to_num(value), minlength=len(agent.arm_names))
        np.testing.assert_allclose(agent._earned, expected, atol=1e-12)
    if hasattr(agent, "_told"):
        np.testing.assert_array_equal(agent._labels[:n], labels)
