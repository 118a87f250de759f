"""Linear regressions in forms other than exact matrices, against dense ones from scratch."""

import numpy as np

from oracles import ridge
from taciturn.agents.parts.history_ridge import HistoryRidge
from taciturn.contracts import SparseRow
from taciturn.kernels.ridge import fold


def folding(n_features, rank):
    """P (rank, D), which folds features onto the first ones."""
    P = np.zeros((min(rank, n_features), n_features))
    for column in range(n_features):
        to, sign = fold(np.array([column], np.int32), np.ones(1), len(P))
        P[to, column] = sign
    return P


def check(agent, part, tolerance=1e-7):
    """Means are those of the ridge solution; widths are exact in a history, and those of folded rows in a sketch."""
    width = agent._contexts.n_features
    form, imputed = part._form, part._imputed
    A, b = ridge.from_decisions(agent, width, agent.ridge, imputed=imputed)
    theta = np.linalg.solve(A, b[..., None])[..., 0]
    is_history = isinstance(form, HistoryRidge)
    P = np.eye(width) if is_history else folding(width, form.rank)
    sketched = P @ (A - agent.ridge * np.eye(width)) @ P.T + agent.ridge * np.eye(len(P))
    size = 1.0 + np.abs(theta).max()
    np.testing.assert_allclose(form.theta, theta, atol=(tolerance if is_history else 0.02) * size)
    probes = np.vstack([np.eye(width), ridge.contexts_of(agent, width)[-5:]])
    for x in probes:
        columns = np.flatnonzero(x).astype(np.int32)
        means, widths = part.scores(SparseRow(columns, x[columns]), 1.0)
        np.testing.assert_allclose(means, form.theta @ x, atol=1e-9 * (1 + np.abs(x).max()))
        exact = np.einsum("i,kij,j->k", P @ x, np.linalg.inv(sketched), P @ x)
        np.testing.assert_allclose(widths**2, exact, rtol=tolerance, atol=tolerance * (1 + x @ x))
