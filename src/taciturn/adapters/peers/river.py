"""The contextual bandit of river."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from river.bandit import LinUCBDisjoint

from taciturn.adapters.peers.base import Peer
from taciturn.adapters.peers.library import Events, named_rows
from taciturn.agents.parts.part import Sizes
from taciturn.validate import check_number


class Disjoint:
    """River's LinUCB, whose contexts are dicts."""

    def __init__(self, bandit: Any, n_arms: int) -> None:
        self._bandit, self._n_arms = bandit, n_arms
        self._asked: dict[int, float] = {}

    def learn(self, events: Events) -> None:
        """One update for each event; of a context without entries there is nothing to learn, and river fails."""
        rest = (part.tolist() for part in (events.arms, events.rewards))
        for features, arm, reward in zip(named_rows(events.rows), *rest, strict=True):
            if features:
                self._bandit.update(arm, features, reward)

    def scores(self, row: sp.csr_matrix) -> NDArray[np.float64]:
        """1 for the arm that it pulls and 0 for others (K,): it tells no more."""
        (self._asked,) = named_rows(row)
        return self.pull(np.ones(self._n_arms, np.bool_))

    def pull(self, offered: NDArray[np.bool_]) -> NDArray[np.float64]:
        """1 for the arm that it pulls of some arms (K,) at the last context."""
        arm = self._bandit.pull(np.flatnonzero(offered).tolist(), context=self._asked)
        return np.asarray(np.arange(self._n_arms) == arm, np.float64)


@dataclass(kw_only=True, eq=False)
class RiverLinUCB(Peer):
    """River's ``LinUCBDisjoint``: a Bayesian linear regression for each arm, chosen by mean plus standard deviation.

    Arguments, beside those of `Peer`:
        alpha: the precision of the prior of the weights.
        beta: the precision of the noise: how far it explores falls with its root.
        smoothing: how much of the past is kept at each update, below 1; None keeps all.
    """

    package: ClassVar[str] = "river"

    alpha: float = 1.0
    beta: float = 1.0
    smoothing: float | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_number("alpha", self.alpha, 1e-9, 1e9)
        check_number("beta", self.beta, 1e-9, 1e9)
        if self.smoothing is not None:
            check_number("smoothing", self.smoothing, 0, 1)

    def _new_library(self, n_arms: int, n_features: int) -> Disjoint:
        settings: dict[str, Any] = {"alpha": self.alpha, "beta": self.beta, "smoothing": self.smoothing}
        return Disjoint(LinUCBDisjoint(**settings, seed=self._library_seed), n_arms)

    def _upper_bounds(self, scores: Any, widths: Any, selectable: NDArray[np.bool_] | None) -> NDArray[np.float64]:
        library = self._held.library
        if selectable is not None and isinstance(library, Disjoint) and not selectable[int(np.argmax(scores))]:
            scores = library.pull(selectable)  # it has named an arm that cannot be chosen
        return super()._upper_bounds(scores, widths, selectable)

    def _library_nbytes(self, sizes: Sizes) -> float:
        return 2 * 8.0 * sizes.arms * sizes.features**2
