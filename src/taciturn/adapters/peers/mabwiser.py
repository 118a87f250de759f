"""Contextual bandits of MABWiser."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from mabwiser.mab import MAB, LearningPolicy, NeighborhoodPolicy
from numpy.typing import NDArray

from taciturn.adapters.peers.base import Peer
from taciturn.adapters.peers.library import Events, Library
from taciturn.agents.parts.part import Sizes
from taciturn.validate import check_choice, check_number


class Bandit:
    """A bandit of MABWiser, which cannot choose before it has learned some events: until then scores are random."""

    def __init__(self, mab: Any, n_arms: int, seed: int, needed: int = 1) -> None:
        self._mab, self._n_arms, self._rng = mab, n_arms, np.random.default_rng(seed)
        self._learned, self._needed = 0, needed

    def learn(self, events: Events) -> None:
        """Fit it, and from then on fit it further."""
        fit = self._mab.partial_fit if self._learned else self._mab.fit
        fit(events.arms, events.rewards, events.rows.toarray())
        self._learned += len(events.arms)

    def scores(self, row: sp.csr_matrix) -> NDArray[np.float64]:
        """The expectations of all arms (K,), as its own rule of choice has them."""
        if self._learned < self._needed:
            return self._rng.random(self._n_arms)
        expected = self._mab.predict_expectations(row.toarray())
        return np.array([expected[arm] for arm in range(self._n_arms)], np.float64)


@dataclass(kw_only=True, eq=False)
class MABWiserLinear(Peer):
    """MABWiser's LinUCB or LinTS: a ridge regression of the reward for each arm.

    Arguments, beside those of `Peer`:
        policy: "LinUCB" adds a confidence width to the expected reward, "LinTS" draws the weights from their posterior.
        alpha: how wide the confidence, or the posterior, is.
        l2_lambda: the ridge.
    """

    package: ClassVar[str] = "mabwiser"

    policy: str = "LinUCB"
    alpha: float = 1.0
    l2_lambda: float = 1.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_choice("policy", self.policy, ("LinUCB", "LinTS"))
        check_number("alpha", self.alpha, 0 if self.policy == "LinUCB" else 1e-9, 1e6)
        check_number("l2_lambda", self.l2_lambda, 1e-9, 1e9)

    def _new_library(self, n_arms: int, n_features: int) -> Library:
        policy = getattr(LearningPolicy, self.policy)(alpha=self.alpha, l2_lambda=self.l2_lambda)
        return Bandit(MAB(list(range(n_arms)), policy, seed=self._library_seed), n_arms, self._library_seed)

    def _library_nbytes(self, sizes: Sizes) -> float:
        return 3 * 8.0 * sizes.arms * sizes.features**2  # the matrix, its inverse, and the copy that is fitted


@dataclass(kw_only=True, eq=False)
class MABWiserKNearest(Peer):
    """MABWiser's UCB1 among the rewards of the nearest contexts.

    Several rewards at one context would count as several neighbors, so that it hears of one arm at a time.

    Arguments, beside those of `Peer`:
        k: how many of them.
        alpha: how far it explores.
        metric: the distance, as scipy's ``cdist`` names it.
    """

    package: ClassVar[str] = "mabwiser"
    tells_all: ClassVar[bool] = False

    k: int = 10
    alpha: float = 1.0
    metric: str = "euclidean"

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_number("k", self.k, 1, 10_000, whole=True)
        check_number("alpha", self.alpha, 0, 1e6)
        check_choice("metric", self.metric, ("euclidean", "cosine", "cityblock", "correlation"))

    def _new_library(self, n_arms: int, n_features: int) -> Library:
        policies = LearningPolicy.UCB1(alpha=self.alpha), NeighborhoodPolicy.KNearest(self.k, self.metric)
        mab = MAB(list(range(n_arms)), *policies, seed=self._library_seed)
        return Bandit(mab, n_arms, self._library_seed, needed=self.k)

    def _library_nbytes(self, sizes: Sizes) -> float:
        return 2 * 8.0 * sizes.nodes * sizes.features  # its contexts, and a copy while one is added
