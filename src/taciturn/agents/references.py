"""What a method is measured by: a constant arm, scikit-learn's label spreading, and what could be had at best."""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.semi_supervised import LabelSpreading

from taciturn.agents import border
from taciturn.agents.base import BaseAgent, Scores
from taciturn.agents.contexts import keep_rows, room_for
from taciturn.agents.ledger import REWARDED
from taciturn.agents.storage import fits, within
from taciturn.agents.viewucb import ViewUCB
from taciturn.contracts import Arm
from taciturn.validate import check_number


@dataclass(kw_only=True, eq=False)
class Majority(BaseAgent):
    """The arm that was rewarded most so far, whatever the context.

    The scores are the arms' shares of all rewards (K,); there are no widths.
    """

    def _begin(self) -> None:
        self._earned = np.zeros(len(self._arm_names))

    def _score(self, node: int) -> Scores:
        return self._earned / max(self._earned.sum(), 1.0), np.zeros(len(self._arm_names))

    def _learn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        self._earned[arm] += reward

    def _unlearn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        self._earned[arm] -= reward

    def _keep(self, kept: NDArray[np.int64]) -> None:
        """What was earned stays earned."""

    def _parts_fit(self, arms: int, dimension: int, count: int) -> bool:
        return fits(self._earned, np.float64, arms)

    def _add_arm(self, like: int | None) -> None:
        self._earned = np.append(self._earned, 0.0 if like is None else self._earned[like])


@dataclass(kw_only=True, eq=False)
class LabelSpreader(BaseAgent):
    """Label spreading over the nearest neighbours of all contexts, told what turned out right.

    Zhou et al. (2004), by scikit-learn, which is fitted afresh every so often: it cannot learn one context at a time.

    Arguments:
        every: decisions between two fits.
        neighbors: how many neighbours a context has.
    """

    every: int = 50
    neighbors: int = 7

    _remade = ("_model",)

    def __post_init__(self) -> None:
        """Refuse wrong parameters."""
        super().__post_init__()
        check_number("every", self.every, 1, whole=True)
        check_number("neighbors", self.neighbors, 1, 1000, whole=True)

    def _begin(self) -> None:
        self._labels = np.zeros(0, np.int64)
        self._fitted = 0  # how many contexts the model has seen, and what it was told of them
        self._told = np.zeros(0, np.int64)
        self._model: LabelSpreading | None = None

    def _widen(self, dimension: int) -> None:
        self._model = None  # it refuses rows of another length

    def _arrive(self, node: int, neighbors: list[int] | None) -> None:
        self._labels = room_for(self._labels, node + 1, -1)

    def _started(self) -> None:
        self._refit()

    def _refit(self) -> None:
        self._fitted = self._rows.count
        self._told = self._labels[: self._fitted].copy()
        self._model = None

    def _fit(self) -> LabelSpreading:
        """The model on what was known at the last refit; made when it is asked for, so that a file need not hold it."""
        if self._model is None:
            near = min(self.neighbors, self._fitted)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.simplefilter("ignore", RuntimeWarning)  # contexts that no label reaches
                rows = self._rows.matrix(0, self._fitted)
                self._model = LabelSpreading(kernel="knn", n_neighbors=near).fit(rows, self._told)
        return self._model

    def _score(self, node: int) -> Scores:
        if node - self._fitted >= self.every:
            self._refit()
        scores = np.full(len(self._arm_names), 1.0 / len(self._arm_names))
        if (self._told >= 0).any():
            model = self._fit()
            with np.errstate(all="ignore"):
                found = model.predict_proba(self._rows.matrix(node, node + 1))[0]
            if np.isfinite(found).all():
                scores[:] = 0.0
                scores[model.classes_] = found
        return scores, np.zeros(len(self._arm_names))

    def _learn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        if reward > 0.5:
            self._labels[node] = arm

    def _unlearn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        self._labels[node] = -1

    def _keep(self, kept: NDArray[np.int64]) -> None:
        keep_rows(self._labels, kept, -1)
        seen = kept[kept < self._fitted]
        self._fitted, self._told, self._model = len(seen), self._told[seen], None

    def _parts_fit(self, arms: int, dimension: int, count: int) -> bool:
        return fits(self._labels, np.int64, count) and within(self._labels, -1, arms) and 0 <= self._fitted <= count

    def _add_arm(self, like: int | None) -> None:
        """A class that nothing was said of is a class like any other."""


@dataclass(kw_only=True, eq=False)
class OracleFull(ViewUCB):
    """ViewUCB that is told the right arm after every decision: the ceiling for learning from what comes in fact."""

    def reveal(self, id: int, arm: Arm) -> None:
        """Say which arm would have been right."""
        node = self._find(id)
        self._take_back(node)
        self._ledger.arm[node] = border.arm_place(arm, self._arm_index)
        self._know(node, 1.0, imputed=False)
        self._ledger.state[node] = REWARDED

    def _speaks_of(self, node: int, reward: float, *, imputed: bool) -> int:
        """Who is told the right arm knows that the others are wrong, whatever could have been."""
        return int(self._ledger.arms[node]) if reward == 1 and not imputed else 0
