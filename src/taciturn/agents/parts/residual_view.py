"""A view of what the other views get wrong nearby: residuals of targets, smoothed over the graph."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.part import Array, Part, require
from taciturn.agents.table import NodeTable
from taciturn.kernels import views

Singles = NDArray[np.float32]

PRIOR = 0.2
"""As much evidence for a residual of 0 as an edge of this weight to an answered context is for its own."""


class ResidualView(Part):
    """Scores by the residuals of targets q that the other views expected to be p, m being their weights.

        s_ik = Σ_j a_ij m_jk (q_jk − p_jk) / (Σ_j a_ij m_jk + c)        a = Σ_{h=1…H} Â^h

    A linear view cannot follow an arm that is right in a small region; the contexts there have residuals of one sign.
    p is renewed at every solve of the regressions, and of a target that came since it is what was expected at the
    decision. A context that has no target itself, and none within H hops, is scored 0.

    Arguments:
        table: where the residuals are a column (T, K).
        targets, weights: columns (T, K): q and m.
        hops: H.
    """

    def __init__(self, table: NodeTable, targets: Array, weights: Array, *, hops: int) -> None:
        super().__init__()
        self._targets, self._weights, self._hops = targets, weights, hops
        self._residuals = table.column("residuals", np.float32, "arm")

    def update(self, nodes: NDArray[np.int64], expected: NDArray[np.float64]) -> None:
        """The targets of some contexts are expected to be these (N, K), by the other views."""
        # Rewards are from 0 to 1, but not what may be learned in silence.
        self._residuals.data[nodes] = np.clip(self._targets.data[nodes] - expected, -1.0, 1.0)

    def scores(self, members: NDArray[np.int64], walk: views.Walk) -> Singles:
        """The scores (K,) of a context that has no target yet, by the members of its neighborhood."""
        reach = walk.weights[1 : self._hops + 1].sum(axis=0)
        return views.smoothed(reach, members, self._weights.data, self._residuals.data, PRIOR)

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Residuals, which the table has loaded, are from −1 to 1."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        require((np.abs(self._residuals.data) <= 1.0).all(), "residuals are not from −1 to 1")  # false for NaN too
