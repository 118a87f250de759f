"""Bandits of contextualbandits."""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from contextualbandits import online
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from taciturn.adapters.peers.base import Peer
from taciturn.adapters.peers.library import Events, Library
from taciturn.agents.parts.part import Sizes
from taciturn.validate import check_choice, check_number


class Online:
    """A policy that learns as it goes, from dense rows."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def learn(self, events: Events) -> None:
        """Fit it further."""
        self._policy.partial_fit(events.rows.toarray(), events.arms, events.rewards)

    def scores(self, row: sp.csr_matrix) -> NDArray[np.float64]:
        """What it takes the highest of (K,)."""
        return np.asarray(self._policy.decision_function(row.toarray())[0], np.float64)


class Refitted:
    """A policy over classifiers, which are fitted to all events each time; rewards are 0 or 1."""

    def __init__(self, policy: Any, seed: int) -> None:
        self._policy, self._seed = policy, seed

    def learn(self, events: Events) -> None:
        """Fit it to all events; a reward between 0 and 1 is rounded at random, up as often as it says."""
        draws = np.random.default_rng(self._seed).random(len(events.rewards))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._policy.fit(events.rows, events.arms, (draws < events.rewards).astype(np.float64))

    def scores(self, row: sp.csr_matrix) -> NDArray[np.float64]:
        """What it takes the highest of (K,)."""
        return np.asarray(self._policy.decision_function(row)[0], np.float64)


@dataclass(kw_only=True, eq=False)
class ContextualBanditsLinUCB(Peer):
    """LinUCB of contextualbandits.

    Arguments, beside those of `Peer`:
        alpha: how wide the confidence is.
        lambda_: the ridge.
        from_empty: whether arms without rewards have a confidence width, as in the paper; otherwise arms of few rewards
            have random scores by a prior, as its documentation recommends where there are many arms.
    """

    package: ClassVar[str] = "contextualbandits"

    alpha: float = 1.0
    lambda_: float = 1.0
    from_empty: bool = False

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_number("alpha", self.alpha, 1e-9, 1e6)
        check_choice("from_empty", self.from_empty, (True, False))
        check_number("lambda_", self.lambda_, 1e-9, 1e9)

    def _new_library(self, n_arms: int, n_features: int) -> Library:
        settings: dict[str, Any] = {"alpha": float(self.alpha), "lambda_": float(self.lambda_)}
        settings |= {"ucb_from_empty": self.from_empty, "beta_prior": None if self.from_empty else "auto"}
        settings |= {"random_state": self._library_seed}
        return Online(online.LinUCB(n_arms, **settings))

    def _library_nbytes(self, sizes: Sizes) -> float:
        return 2 * 4.0 * sizes.arms * (sizes.features + 1) ** 2


@dataclass(kw_only=True, eq=False)
class LogisticPeer(Peer):
    """A policy over scikit-learn's logistic regressions, one for each arm; a subclass says which.

    Arguments, beside those of `Peer`:
        growth: it is refitted each time what it learned has grown by this share.
        C: how weak the ridge of the regressions is, as scikit-learn's.
    """

    package: ClassVar[str] = "contextualbandits"
    refitted: ClassVar[bool] = True

    growth: float = 0.1
    C: float = 1.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_number("growth", self.growth, 0, 10)
        check_number("C", self.C, 1e-9, 1e9)

    def _is_due(self, waiting: int, learned: int) -> bool:
        return waiting >= self.growth * learned

    def _regression(self) -> LogisticRegression:
        return LogisticRegression(C=self.C, max_iter=200)


@dataclass(kw_only=True, eq=False)
class ContextualBanditsBootstrapped(LogisticPeer):
    """The bootstrapped UCB of contextualbandits: a percentile of what regressions on resampled events predict.

    Arguments, beside those of `Peer`:
        percentile: which one, from 1 to 99.
        samples: the regressions for each arm.
        growth: it is refitted each time what it learned has grown by this share.
        C: how weak the ridge of the regressions is, as scikit-learn's.
    """

    percentile: int = 80
    samples: int = 10

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_number("percentile", self.percentile, 1, 99, whole=True)
        check_number("samples", self.samples, 2, 1000, whole=True)

    def _new_library(self, n_arms: int, n_features: int) -> Library:
        settings: dict[str, Any] = {"nsamples": self.samples, "percentile": self.percentile, "njobs_arms": 1}
        policy = online.BootstrappedUCB(self._regression(), n_arms, random_state=self._library_seed, **settings)
        return Refitted(policy, self._library_seed)

    def _library_nbytes(self, sizes: Sizes) -> float:
        return 8.0 * self.samples * sizes.arms * sizes.features


@dataclass(kw_only=True, eq=False)
class ContextualBanditsAdaptive(LogisticPeer):
    """The adaptive greedy policy of contextualbandits: a random arm where the best one promises little.

    Arguments, beside those of `Peer`:
        percentile: of its predictions so far, below which little begins.
        decay: what that percentile is multiplied by at each decision.
        growth: it is refitted each time what it learned has grown by this share.
        C: how weak the ridge of the regressions is, as scikit-learn's.
    """

    percentile: int = 30
    decay: float = 0.9998

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_number("percentile", self.percentile, 1, 99, whole=True)
        check_number("decay", self.decay, 0, 1)

    def _new_library(self, n_arms: int, n_features: int) -> Library:
        settings: dict[str, Any] = {"percentile": self.percentile, "decay": float(self.decay), "njobs": 1}
        policy = online.AdaptiveGreedy(self._regression(), n_arms, random_state=self._library_seed, **settings)
        return Refitted(policy, self._library_seed)

    def _library_nbytes(self, sizes: Sizes) -> float:
        return 8.0 * sizes.arms * sizes.features
