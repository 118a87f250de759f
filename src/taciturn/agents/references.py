"""What methods are measured by: a constant arm, scikit-learn's label spreading, and full feedback as the ceiling."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.semi_supervised import LabelSpreading

from taciturn.agents import validation
from taciturn.agents.base import BaseAgent
from taciturn.agents.lifecycle import Example
from taciturn.agents.parts.part import Part, Scores
from taciturn.agents.table import LABELLED, REWARDED
from taciturn.agents.viewucb import ViewUCB
from taciturn.contracts import Arm
from taciturn.errors import AlreadyAnswered
from taciturn.features.scale import Change
from taciturn.validate import MANY, check_number


@dataclass(kw_only=True, eq=False)
class Majority(BaseAgent):
    """The arm that was rewarded most so far, whatever the context.

    The scores are the arms' shares of all rewards (K,); there are no widths.
    """

    tag = "majority"

    def _build(self) -> dict[str, Part]:
        part = Part()
        self._earned = part.array("earned", np.float64, "arm")
        return {"counts": part}

    def _score(self, node: int) -> Scores:
        earned = self._earned.data
        return earned / max(earned.sum(), 1.0), np.zeros(len(earned))

    def _learn(self, example: Example) -> None:
        self._earned.data[example.arm] += example.reward

    def _unlearn(self, example: Example) -> None:
        self._earned.data[example.arm] -= example.reward


UNSEEN = -2
"""The label of a context that the last fit has not seen; −1 is one that it has seen without a label."""


class Refits(Part):
    """Calls a function when the labelled rows are learned, and when contexts have moved."""

    def __init__(self, refit: Callable[[], object]) -> None:
        super().__init__()
        self._refit = refit

    def after_warm_start(self) -> None:
        """Call it."""
        self._refit()

    def rescale(self, change: Change) -> None:
        """Call it."""
        self._refit()


@dataclass(kw_only=True, eq=False)
class LabelSpreader(BaseAgent):
    """Label spreading over the nearest neighbors of all contexts, trained on rewarded arms.

    Zhou et al. (2004), by scikit-learn, which is fitted afresh every so often: it cannot learn one context at a time.

    Arguments, beside those of `BaseAgent`:
        every: decisions between two fits.
        neighbors: how many neighbors a context has.
    """

    tag = "labelspreading"

    every: int = 50
    neighbors: int = 7

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_number("every", self.every, 1, MANY, whole=True)
        check_number("neighbors", self.neighbors, 1, 1000, whole=True)

    def _build(self) -> dict[str, Part]:
        self._labels = self._table.column("labels", np.int64, fill=-1, below="arm")
        self._fitted = self._table.column("fitted_labels", np.int64, fill=UNSEEN, below="arm")  # at the last fit
        self._model: tuple[tuple[bytes, int], LabelSpreading] | None = None  # no file holds it
        return {"start": Refits(self._refit)}

    def _refit(self) -> NDArray[np.int64]:
        """Take all labels there are, and return them."""
        count = self._table.count
        self._fitted.data[:count] = self._labels.data[:count]
        self._model = None
        return self._fitted.data[:count]

    def _fit(self, labels: NDArray[np.int64]) -> LabelSpreading:
        """scikit-learn's model on the first contexts with these labels."""
        key = (self._table.id.data[: len(labels)].tobytes() + labels.tobytes(), self._contexts.n_features)
        if self._model is None or self._model[0] != key:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.simplefilter("ignore", RuntimeWarning)  # contexts that no label reaches
                model = LabelSpreading(kernel="knn", n_neighbors=min(self.neighbors, len(labels)))
                self._model = key, model.fit(self._contexts.matrix(0, len(labels)), labels)
        return self._model[1]

    def _score(self, node: int) -> Scores:
        labels = self._fitted.data[: int((self._fitted.data > UNSEEN).sum())]
        if node - len(labels) >= self.every:
            labels = self._refit()
        scores = np.full(len(self._arm_names), 1.0 / len(self._arm_names))
        if (labels >= 0).any():
            model = self._fit(labels)
            with np.errstate(all="ignore"):
                found = model.predict_proba(self._contexts.matrix(node, node + 1))[0]
            if np.isfinite(found).all():
                scores[:] = 0.0
                scores[model.classes_] = found
        return scores, np.zeros(len(self._arm_names))

    def _learn(self, example: Example) -> None:
        if example.reward > 0.5:
            self._labels.data[example.node] = example.arm

    def _unlearn(self, example: Example) -> None:
        self._labels.data[example.node] = -1


@dataclass(kw_only=True, eq=False)
class OracleFull(ViewUCB):
    """ViewUCB that is told the right arm after every decision: the ceiling for learning from observed rewards."""

    tag = "oracle-full"

    def __post_init__(self) -> None:
        """An observed 1 labels all arms, even where several can be right."""
        super().__post_init__()
        self._lifecycle.full_feedback = True

    def reveal(self, id: int, arm: Arm) -> None:
        """Say which `arm` would have been right for the decision `id`."""
        node, right = self._lifecycle.find(id), validation.arm_index(arm, self._arm_index)
        if self._table.state.data[node] == LABELLED:
            raise AlreadyAnswered(f"decision {id} is a labelled row of warm_start; its arm is known")
        self._lifecycle.revert(node)
        self._table.arm.data[node] = right
        self._lifecycle.apply(node, 1.0, imputed=False)
        self._table.state.data[node] = REWARDED
