"""What an agent's regressions must hold, straight from its book: dense, one fact at a time."""

import numpy as np

from taciturn.kernels.ridge import RidgeState


def from_book(agent, dimension, ridge, unit_rows=False, supposed=True):
    """A (K, D, D) and b (K, D) of all that is known at the moment."""
    ledger, arms = agent._ledger, len(agent.arm_names)
    A = np.stack([ridge * np.eye(dimension)] * arms)
    b = np.zeros((arms, dimension))
    for node in range(ledger.count):
        value, silent = ledger.value[node], ledger.state[node] == 2
        if np.isnan(value) or (silent and not supposed):
            continue
        x = agent._rows.matrix(node, node + 1).toarray()[0]
        x = x / np.linalg.norm(x) if unit_rows and x.any() else x
        x = np.pad(x, (0, dimension - len(x)))
        if value == 1 and not silent and agent.one_right_arm:
            for k in range(ledger.arms[node]):
                A[k] += np.outer(x, x)
            b[ledger.arm[node]] += x
        else:
            A[ledger.arm[node]] += np.outer(x, x)
            b[ledger.arm[node]] += value * x
    return A, b


def written_out(state: RidgeState):
    """The inverses (K, D, D) that a state stands for, and θ (K, D)."""
    inverses = np.where((state.folds > 0)[:, None, None], state.inverse, np.eye(state.theta.shape[1]) * state.scale[0])
    for k, count in enumerate(state.counts):
        for j in range(count):
            inverses[k] -= state.gains[k, j] * np.outer(state.pending_updates[k, j], state.pending_updates[k, j])
    return inverses, state.theta


def check(ridge_of_arms, A, b, tolerance=1e-8):
    inverses, theta = written_out(ridge_of_arms._state)
    expected = np.linalg.inv(A)
    np.testing.assert_allclose(inverses, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(theta, np.einsum("kde,ke->kd", expected, b), rtol=tolerance, atol=tolerance)
