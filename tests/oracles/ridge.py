"""The ridge regressions that an agent's decisions call for: dense, one example at a time."""

import numpy as np

from taciturn.kernels.ridge import RidgeState


def state_of(part):
    """The kernel's state of a ridge part, from the part's state dict."""
    return RidgeState(*(part[name] for name in RidgeState._fields))


def from_decisions(agent, width, ridge, unit_rows=False, imputed=True):
    """A (K, D, D) and b (K, D) of everything learned, for `width` features; without imputed rewards on request."""
    held, arms = agent.decisions, len(agent.arm_names)
    n_arms_known = agent.state_dict()["table"]["columns"]["n_arms_known"]
    A = np.stack([ridge * np.eye(width)] * arms)
    b = np.zeros((arms, width))
    columns = held.learned_rewards, held.states == 2, held.arms, n_arms_known
    for x, value, silent, arm, known in zip(contexts_of(agent, width), *columns, strict=True):
        if np.isnan(value) or (silent and not imputed):
            continue
        if unit_rows:
            x = x * np.where(np.arange(width) == 0, agent.constant if agent.scaling == "auto" else 1.0, 1.0)  # noqa: PLW2901
            x = x / np.linalg.norm(x) if x.any() else x  # noqa: PLW2901
        b[arm] += value * x
        for k in range(known) if value == 1 and not silent and agent.one_right_arm else [arm]:
            A[k] += np.outer(x, x)
    return A, b


def contexts_of(agent, width):
    """All contexts that an agent holds, dense (T, width)."""
    rows = agent._contexts.state_dict()
    dense = np.zeros((len(rows["indptr"]) - 1, width))
    for node, x in enumerate(dense):
        entries = slice(rows["indptr"][node], rows["indptr"][node + 1])
        x[rows["columns"][entries]] = rows["values"][entries]
    return dense


def written_out(state: RidgeState):
    """The inverses (K, D, D) that a state stands for, and θ (K, D)."""
    inverses = np.where((state.folds > 0)[:, None, None], state.inverse, np.eye(state.theta.shape[1]) * state.scale[0])
    for k, count in enumerate(state.counts):
        for j in range(count):
            inverses[k] -= state.gains[k, j] * np.outer(state.pending_updates[k, j], state.pending_updates[k, j])
    return inverses, state.theta


def check(state: RidgeState, A, b, tolerance=1e-8):
    """The state holds A⁻¹, and θ = A⁻¹b."""
    inverses, theta = written_out(state)
    expected = np.linalg.inv(A)
    np.testing.assert_allclose(inverses, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(theta, np.einsum("kde,ke->kd", expected, b), rtol=tolerance, atol=tolerance)
