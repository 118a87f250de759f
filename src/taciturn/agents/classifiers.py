"""More references by scikit-learn: trees that are fitted afresh, and a classifier that never learns further."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier

from taciturn.agents.lifecycle import Example
from taciturn.agents.references import LogReg, Model, RefitModel
from taciturn.agents.table import LABELLED
from taciturn.validate import check_number


class Forest:
    """Extremely randomized trees, asked for one row at a time: scikit-learn's own checks take ten times as long."""

    def __init__(self, trees: int, seed: int) -> None:
        self._forest = ExtraTreesClassifier(trees, random_state=seed)
        self.classes_ = np.zeros(0, np.int64)

    def fit(self, rows: sp.csr_matrix, labels: NDArray[np.int64]) -> object:
        """Learn labels of rows."""
        self._forest.fit(rows, labels)
        self.classes_ = np.asarray(self._forest.classes_)
        return self

    def predict_proba(self, rows: sp.csr_matrix) -> NDArray[np.float64]:
        """The mean of the trees' probabilities of the classes for each row."""
        dense = rows.astype(np.float32).toarray()  # what trees compare
        votes = [tree.predict_proba(dense, check_input=False) for tree in self._forest.estimators_]
        return np.asarray(np.mean(votes, axis=0))


@dataclass(kw_only=True, eq=False)
class ExtraTrees(RefitModel):
    """Extremely randomized trees on the contexts whose right arm is known, by scikit-learn.

    Arguments, beside those of `BaseAgent`:
        every: decisions between two fits, at least.
        growth: and at least this share of the contexts of the last fit.
        trees: how many.
    """

    tag = "extratrees"

    growth: float = 0.05
    trees: int = 100

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_number("growth", self.growth, 0, 10)
        check_number("trees", self.trees, 1, 10_000, whole=True)

    def _is_due(self, more: int, fitted: int) -> bool:
        return super()._is_due(more, fitted) and more >= self.growth * fitted

    def _new_model(self, labels: NDArray[np.int64]) -> Model:
        known = labels >= 0
        model = Forest(self.trees, self.seed % 2**32)
        model.fit(self._contexts.matrix(0, len(labels))[known], labels[known])
        return model


@dataclass(kw_only=True, eq=False)
class Static(LogReg):
    """A logistic regression on the labelled rows of `warm_start` alone: what the start is worth without learning."""

    tag = "static"

    def _learn(self, example: Example) -> None:
        if self._table.state.data[example.node] == LABELLED:
            super()._learn(example)
