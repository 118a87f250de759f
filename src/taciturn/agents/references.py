"""What methods are measured by: a constant arm, neighbors' votes, scikit-learn's models, and full feedback."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

from taciturn.agents import validation
from taciturn.agents.base import BaseAgent
from taciturn.agents.lifecycle import Example
from taciturn.agents.parts.part import Part, Scores
from taciturn.agents.parts.unit_rows import UnitRows
from taciturn.agents.table import LABELLED, REWARDED
from taciturn.agents.viewucb import ViewUCB
from taciturn.contracts import Arm
from taciturn.errors import AlreadyAnswered
from taciturn.features.scale import Change
from taciturn.system import one_thread
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


class Model(Protocol):
    """A classifier of scikit-learn."""

    classes_: NDArray[np.int64]

    def fit(self, rows: sp.csr_matrix, labels: NDArray[np.int64]) -> object:
        """Learn labels of rows."""

    def predict_proba(self, rows: sp.csr_matrix) -> NDArray[np.float64]:
        """The probabilities of the classes for each row."""


@dataclass(kw_only=True, eq=False)
class RefitModel(BaseAgent):
    """A model of scikit-learn of the arms that were right, fitted afresh every so often; a subclass says which.

    Arguments, beside those of `BaseAgent`:
        every: decisions between two fits.
    """

    every: int = 50

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_number("every", self.every, 1, MANY, whole=True)

    def _build(self) -> dict[str, Part]:
        self._labels = self._table.column("labels", np.int64, fill=-1, below="arm")
        self._fitted = self._table.column("fitted_labels", np.int64, fill=UNSEEN, below="arm")  # at the last fit
        self._model: tuple[tuple[bytes, int, int], Model] | None = None  # no file holds it
        return {"start": Refits(self._refit)}

    @abstractmethod
    def _new_model(self, labels: NDArray[np.int64]) -> Model:
        """Fit a model to the first contexts: to their labels (T,), −1 where there is none."""

    def _refit(self) -> NDArray[np.int64]:
        """Take all labels there are, and return them."""
        count = self._table.count
        self._fitted.data[:count] = self._labels.data[:count]
        self._model = None
        return self._fitted.data[:count]

    def _is_due(self, more: int, fitted: int) -> bool:
        """Whether a model that was fitted to so many contexts is to be fitted to so many more."""
        return more >= self.every

    def _fit(self, labels: NDArray[np.int64]) -> Model:
        key = (self._table.id.data[: len(labels)].tobytes() + labels.tobytes(), self._contexts.n_features, self.seed)
        if self._model is None or self._model[0] != key:
            with warnings.catch_warnings(), one_thread():
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.simplefilter("ignore", RuntimeWarning)  # contexts that no label reaches
                self._model = key, self._new_model(labels)
        return self._model[1]

    def _score(self, node: int) -> Scores:
        labels = self._fitted.data[: int((self._fitted.data > UNSEEN).sum())]
        if self._is_due(node - len(labels), len(labels)):
            labels = self._refit()
        n_arms = len(self._arm_names)
        scores = np.full(n_arms, 1.0 / n_arms)
        if (labels >= 0).any():
            model = self._fit(labels)
            with np.errstate(all="ignore"), one_thread():
                found = model.predict_proba(self._contexts.matrix(node, node + 1))[0]
            if np.isfinite(found).all():
                scores[:] = 0.0
                scores[model.classes_] = found
        return scores, np.zeros(n_arms)

    def _learn(self, example: Example) -> None:
        if example.reward > 0.5:
            self._labels.data[example.node] = example.arm

    def _unlearn(self, example: Example) -> None:
        self._labels.data[example.node] = -1


@dataclass(kw_only=True, eq=False)
class LabelSpreader(RefitModel):
    """Label spreading over the nearest neighbors of all contexts, trained on rewarded arms.

    Zhou et al. (2004), by scikit-learn, which is fitted afresh every so often: it cannot learn one context at a time.

    Arguments, beside those of `BaseAgent`:
        every: decisions between two fits.
        neighbors: how many neighbors a context has.
    """

    tag = "labelspreading"

    neighbors: int = 7

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_number("neighbors", self.neighbors, 1, 1000, whole=True)

    def _new_model(self, labels: NDArray[np.int64]) -> Model:
        model: Model = LabelSpreading(kernel="knn", n_neighbors=min(self.neighbors, len(labels)))
        model.fit(self._contexts.matrix(0, len(labels)), labels)
        return model


@dataclass(kw_only=True, eq=False)
class LogReg(RefitModel):
    """A logistic regression on the contexts whose right arm is known, by scikit-learn, fitted afresh every so often."""

    tag = "logreg"

    def _new_model(self, labels: NDArray[np.int64]) -> Model:
        known = labels >= 0
        several = len(np.unique(labels[known])) > 1
        model: Model = LogisticRegression(max_iter=200) if several else DummyClassifier(strategy="prior")
        model.fit(self._contexts.matrix(0, len(labels))[known], labels[known])
        return model


@dataclass(kw_only=True, eq=False)
class NearestVotes(BaseAgent):
    """Votes of the nearest contexts that have an answer, by the cosine.

    The score of an arm is the mean of its targets among those neighbors, with one more of 1/K:
    ``(Σ_j q_jk + 1/K) / (n_k + 1)``, where a right answer gives a target of 1 to its arm and of 0 to the others, and a
    wrong one a target of 0 to its arm.

    Arguments, beside those of `BaseAgent`:
        neighbors: how many of them vote.
    """

    tag = "knn"

    neighbors: int = 10

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_number("neighbors", self.neighbors, 1, 1000, whole=True)

    def _build(self) -> dict[str, Part]:
        self._targets = self._table.column("targets", np.float32, "arm")
        self._known = self._table.column("known_targets", np.bool_, "arm")
        self._unit = UnitRows(self._contexts)
        return {"unit_contexts": self._unit}

    def _add_context(self, node: int, neighbors: list[int] | None) -> None:
        self._unit.add(node)

    def _score(self, node: int) -> Scores:
        rows, n_arms = self._unit.matrix(0, node), len(self._arm_names)
        cosines = rows @ self._unit.matrix(node, node + 1).T.toarray()[:, 0]
        cosines[~self._known.data[:node].any(axis=1)] = -np.inf
        nearest = np.argsort(-cosines, kind="stable")[: self.neighbors]
        nearest = nearest[np.isfinite(cosines[nearest])]
        votes = (self._targets.data[nearest] * self._known.data[nearest]).sum(axis=0, dtype=float)
        return (votes + 1.0 / n_arms) / (self._known.data[nearest].sum(axis=0) + 1.0), np.zeros(n_arms)

    def _learn(self, example: Example) -> None:
        n_arms = len(example.mask)
        self._targets.data[example.node, :n_arms] = example.targets
        self._known.data[example.node, :n_arms] = example.mask

    def _unlearn(self, example: Example) -> None:
        n_arms = len(example.mask)
        self._targets.data[example.node, :n_arms] = self._known.data[example.node, :n_arms] = 0


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
