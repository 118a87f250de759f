"""Imputation by any classifier that learns online."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from taciturn.agents.lifecycle import Example
from taciturn.agents.parts.imputers.base import BaseImputer
from taciturn.agents.parts.part import Part, Sizes, require
from taciturn.agents.table import NodeTable
from taciturn.errors import TaciturnError
from taciturn.features.scale import Change
from taciturn.system import one_thread


@dataclass(eq=False)
class ClassifierImputer(BaseImputer):
    """Any scikit-learn classifier with `partial_fit` and `predict_proba`, trained on rewarded arms.

    It cannot unlearn: after a correction, for a new arm, and where contexts have moved, it is trained anew on all
    labels when it is next asked.
    """

    tag = "imputer/classifier"
    SAVED: ClassVar[dict[str, str]] = {
        "estimator": "estimator",
        "width": "_width",
        "trained": "_trained",
        "stale": "_stale",
    }

    estimator: Any

    def __post_init__(self) -> None:
        """Check what stands for a classifier."""
        able = hasattr(self.estimator, "partial_fit") and hasattr(self.estimator, "predict_proba")
        if isinstance(self.estimator, type) or not able:
            raise TaciturnError(f"{self.estimator!r:.100} is no classifier with partial_fit and predict_proba")

    def build(self, table: NodeTable, rng: np.random.Generator) -> Part:
        """A label for each context."""
        super().build(table, rng)
        self._labels = table.column("classifier_label", np.int64, fill=-1, below="arm")
        self._trained = self._stale = False
        return self

    def allocate(self, n_arms: int, n_features: int) -> None:
        """An untrained copy, seeded if it takes a seed."""
        self.estimator = _untrained(self.estimator)
        self._width = n_features
        if "random_state" in self.estimator.get_params():
            self.estimator.set_params(random_state=int(self._rng.integers(2**31)))

    def nbytes(self, sizes: Sizes) -> float:
        """The coefficients of a linear classifier; what another one holds cannot be known before."""
        return 8.0 * sizes.arms * sizes.features

    def _features(self, node: int) -> Any:
        """The context as a dense row, which all classifiers take.

        Its features are those that there were at the start, or when contexts last moved.
        """
        return self._table.contexts.matrix(node, node + 1)[:, : self._width].toarray()

    def learn(self, example: Example) -> None:
        """A rewarded arm is a label."""
        if example.reward > 0.5:
            if not self._stale:
                self._fit(example.node, example.arm)
            self._labels.data[example.node] = example.arm

    def unlearn(self, example: Example) -> None:
        """Remove the label."""
        if self._labels.data[example.node] >= 0:
            self._labels.data[example.node] = -1
            self._stale = True

    def add_arm(self, like: int | None) -> None:
        """One class more."""
        self._stale = True

    def rescale(self, change: Change) -> None:
        """The classifier is trained anew, on the contexts and the features of now."""
        self._stale, self._width = True, self._table.contexts.n_features

    def _fit(self, node: int, arm: int) -> None:
        self._call("partial_fit", self._features(node), [arm], classes=np.arange(self._table.n_arms))
        self._trained = True

    def _retrain(self) -> None:
        self.estimator, self._trained = _untrained(self.estimator), False
        for node in np.flatnonzero(self._labels.data >= 0).tolist():
            self._fit(node, int(self._labels.data[node]))
        self._stale = False

    def impute(self, node: int, arm: int) -> float:
        """The classifier's probability of the arm; 1/K before it has a label."""
        uniform = 1.0 / self._table.n_arms
        if self._stale:
            self._retrain()
        if not self._trained:
            return uniform
        with np.errstate(all="ignore"):  # some divide by the spread of classes that they have seen once
            value = float(self._call("predict_proba", self._features(node))[0, arm])
        return value if np.isfinite(value) else uniform

    def _call(self, method: str, *values: Any, **options: Any) -> Any:
        try:
            with one_thread():
                return getattr(self.estimator, method)(*values, **options)
        except (TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise TaciturnError(
                f"the imputer {self.estimator} refuses: {reason} (scaling='none' gives it contexts as they are)"
            ) from None

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take the estimator over."""
        given = self.estimator
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        require(type(self.estimator) is type(given), "the classifier is another")
        require(type(self._width) is int and 0 < self._width <= n_features, "the classifier has other features")


def _untrained(estimator: Any) -> Any:
    """A copy with the same settings that has learned nothing."""
    from sklearn.base import clone  # noqa: PLC0415 - slow to import, and few agents need it

    return clone(estimator)
