"""A taciturn agent as a scikit-learn estimator."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from taciturn.agents.base import BaseAgent
from taciturn.contracts import Decision
from taciturn.errors import InvalidContext, TaciturnError, UnknownArm
from taciturn.features.containers import all_contexts
from taciturn.tracking import track


class PartialFitAgent(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Any taciturn agent as an estimator that learns from logged decisions.

    The agent given is a parameter and is never changed: a copy, `agent_`, learns, and `sklearn.base.clone` returns an
    untrained estimator. `classes_` are the arms.

    Arguments:
        agent: the initial agent; it may have had a labelled start.
    """

    def __init__(self, agent: BaseAgent) -> None:
        self.agent = agent

    def partial_fit(self, X: Any, arms: Any, rewards: Any) -> Self:
        """Learn from logged decisions, one row after the other.

        Arguments:
            X: the contexts: a matrix (N, D), dense or sparse, or a frame or list of all that `agent.decide` takes.
            arms: the name of the arm chosen in each (N,); the agent need not be what chose it.
            rewards: its reward (N,), from 0 to 1, or NaN for silence.
        """
        names = list(arms)
        values = np.asarray(rewards, float)
        contexts = _rows(X)
        if not len(contexts) == len(names) == len(values):
            raise TaciturnError(f"there are {len(contexts)} contexts, {len(names)} arms and {len(values)} rewards")
        unknown = [name for name in names if name not in self.agent.arm_names]
        if unknown:
            known = ", ".join(map(str, self.agent.arm_names[:20]))
            raise UnknownArm(f"unknown arm {unknown[0]!r} (there are: {known})")
        if not (np.isnan(values) | ((values >= 0) & (values <= 1))).all():
            raise TaciturnError("a value in rewards is not allowed; numbers from 0 to 1 are, and NaN for silence")
        agent: BaseAgent = getattr(self, "agent_", None) or self.agent.fork()
        agent.features_with_all(contexts)  # refuses what cannot be read, before anything is learned
        self.agent_, self.classes_ = agent, _names(self.agent)
        for context, name, reward in track(zip(contexts, names, values, strict=True), len(names), "logged decisions"):
            decision = self.agent_.decide(context, allowed=[name])
            self.agent_.feedback(decision.id, None if np.isnan(reward) else float(reward))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the arms (N,) that the agent would choose, exploration included."""
        indices = {name: index for index, name in enumerate(self.agent.arm_names)}
        decisions = self._decisions(X)
        return np.asarray(self.classes_[[indices[decision.arm] for decision in decisions]])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the expected reward (N, K) of every arm, in the order of `classes_`."""
        return np.array([decision.scores for decision in self._decisions(X)])

    def _decisions(self, X: Any) -> list[Decision]:
        """Return a decision for each row, each by its own copy, so that none affects another or the agent."""
        if not hasattr(self, "agent_"):
            raise NotFittedError("this agent is not fitted; call partial_fit first")
        contexts = list(_rows(X))
        return [self.agent_.fork().decide(context) for context in track(contexts, len(contexts), "decisions")]


def _rows(X: Any) -> Sequence[Any]:
    """The rows of a matrix, frame or table, or the items of a list, as contexts."""
    rows = all_contexts(X)
    if not len(rows):
        raise InvalidContext("there are no contexts; X needs at least one row")
    return rows


def _names(agent: BaseAgent) -> NDArray[Any]:
    """Return the arms' names (K,): as integers or text where all are, otherwise as Python objects."""
    names = np.empty(len(agent.arm_names), dtype=object)
    names[:] = agent.arm_names
    kinds = {type(name) for name in agent.arm_names}
    return names.astype(kinds.pop()) if kinds in ({int}, {str}) else names
