"""A taciturn agent with the verbs of scikit-learn."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array

from taciturn.agents.base import BaseAgent
from taciturn.contracts import Decision
from taciturn.errors import TaciturnError, UnknownArm


class PartialFitAgent(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Any taciturn agent as an estimator that learns from logged decisions.

    As with every estimator, the agent given is a parameter and stays as it is: a copy of it, `agent_`, learns, and
    `sklearn.base.clone` returns an estimator that has learned nothing. `classes_` are the arms.

    Arguments:
        agent: the agent to begin with; it may have had its labelled start.
    """

    def __init__(self, agent: BaseAgent) -> None:
        self.agent = agent

    def partial_fit(self, X: Any, arms: Any, rewards: Any) -> Self:
        """Learn what came of arms that were taken, one row after the other.

        Arguments:
            X: the contexts (N, D), dense or sparse.
            arms: the arm (N,) that was taken in each, by name; the agent need not have chosen it.
            rewards: what it earned (N,), from 0 to 1, or NaN for silence.
        """
        names = list(arms)
        earned = np.asarray(rewards, float)
        contexts = list(_rows(X))
        if not len(contexts) == len(names) == len(earned):
            raise TaciturnError(f"there are {len(contexts)} contexts, {len(names)} arms and {len(earned)} rewards")
        unknown = [name for name in names if name not in self.agent.arm_names]
        if unknown:
            known = ", ".join(map(str, self.agent.arm_names[:20]))
            raise UnknownArm(f"unknown arm {unknown[0]!r} (there are: {known})")
        if not (np.isnan(earned) | ((earned >= 0) & (earned <= 1))).all():
            raise TaciturnError("a reward is not allowed; numbers from 0 to 1 are, and NaN for silence")
        if not hasattr(self, "agent_"):
            self.agent_ = self.agent.fork()
            self.classes_ = _names(self.agent)
        for context, name, reward in zip(contexts, names, earned, strict=True):
            decision = self.agent_.decide(context, allowed=[name])
            self.agent_.feedback(decision.id, None if np.isnan(reward) else float(reward))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The arms (N,) that the agent would choose, its readiness to explore included."""
        places = {name: place for place, name in enumerate(self.agent.arm_names)}
        decisions = self._decisions(X)
        return np.asarray(self.classes_[[places[decision.arm] for decision in decisions]])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The expected reward (N, K) of every arm, in the order of `classes_`."""
        return np.array([decision.scores for decision in self._decisions(X)])

    def _decisions(self, X: Any) -> list[Decision]:
        """A decision for each row, by a copy of its own: none knows of another, and the agent of none."""
        if not hasattr(self, "agent_"):
            raise NotFittedError("this agent has learned nothing yet; call partial_fit first")
        return [self.agent_.fork().decide(context) for context in _rows(X)]


def _rows(X: Any) -> Iterator[Any]:
    """The rows of a matrix as contexts, after scikit-learn has judged the matrix."""
    matrix = check_array(X, accept_sparse="csr")
    return (matrix[[i]] if sp.issparse(matrix) else matrix[i] for i in range(matrix.shape[0]))


def _names(agent: BaseAgent) -> NDArray[Any]:
    """The arms' names: of whole numbers or of text where all are, else of Python objects."""
    names = np.empty(len(agent.arm_names), dtype=object)
    names[:] = agent.arm_names
    kinds = {type(name) for name in agent.arm_names}
    return names.astype(kinds.pop()) if kinds in ({int}, {str}) else names
