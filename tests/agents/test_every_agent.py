"""Every agent passes `check_agent`, and `check_agent` fails on agents that are broken in one way each."""

from functools import partial

import numpy as np
import pytest
from sklearn.naive_bayes import MultinomialNB

import taciturn
from oracles.zoo import few_trees
from taciturn.contracts import Decision
from taciturn.experiments.checks import ARMS, AgentCheckError, check_agent
from taciturn.registry import METHODS

LEARNING = [name for name in METHODS if name != "majority"]  # its choice does not depend on the context
WARMED_UP = {name for name, method in METHODS.items() if method.family in ("gcnucb", "bilinucb", "ilinucb")}


def small(name):
    """What makes a method quick to check, and changes nothing that is checked."""
    return ({"warmup": 8} if name in WARMED_UP else {}) | few_trees(name)


def params(name, preset=None):
    return taciturn.make(name, arms=2, preset=preset).params


# The paper says nothing of the others: with its preset they are made as without it.
OF_THE_PAPER = [name for name in LEARNING if params(name, "paper") != params(name)]


@pytest.mark.parametrize(
    ("preset", "name"), [*((None, name) for name in LEARNING), *(("paper", name) for name in OF_THE_PAPER)]
)
def test_every_agent_passes(name, preset):
    check_agent(partial(taciturn.make, name, preset=preset, **small(name)))


@pytest.mark.parametrize("name", LEARNING)
def test_every_agent_passes_with_several_right_arms(name):
    check_agent(partial(taciturn.make, name, one_right_arm=False, **small(name)))


def test_an_agent_with_a_scikit_learn_classifier_as_imputer_passes():
    check_agent(partial(taciturn.BILinUCB, imputer=MultinomialNB(), warmup=8, scaling="none"))


class Forwarding:
    """A correct agent that forwards to LinUCB; each subclass breaks one thing."""

    def __init__(self, arms, seed):
        self.agent = taciturn.LinUCB(arms=arms, seed=seed)
        self.params, self.arm_names = self.agent.params, self.agent.arm_names

    def warm_start(self, X0, y0, edges=None):
        return self.agent.warm_start(X0, y0, edges)

    def decide(self, x, neighbors=None):
        return self.agent.decide(x, neighbors)

    def feedback(self, id, reward):
        self.agent.feedback(id, reward)


class ChoosesAnUnknownArm(Forwarding):
    def decide(self, x, neighbors=None):
        d = super().decide(x, neighbors)
        return Decision(d.id, "nowhere", d.scores, d.widths, d.propensity)


class ScoresAreNaN(Forwarding):
    def decide(self, x, neighbors=None):
        d = super().decide(x, neighbors)
        return Decision(d.id, d.arm, d.scores * np.nan, d.widths, d.propensity)


class WritesToItsInput(Forwarding):
    def decide(self, x, neighbors=None):
        d = super().decide(x, neighbors)
        if isinstance(x, np.ndarray):
            x *= 2
        return d


class KeepsItsInput(Forwarding):
    last = None

    def decide(self, x, neighbors=None):
        d = super().decide(x if self.last is None else self.last, neighbors)
        self.last = x
        return d


class IgnoresItsSeed(Forwarding):
    draws = np.random.default_rng(0)

    def decide(self, x, neighbors=None):
        d = super().decide(x, neighbors)
        return Decision(d.id, ARMS[self.draws.integers(3)], d.scores, d.widths, d.propensity)


class DecidesOnErrors(Forwarding):
    def feedback(self, id, reward):
        try:
            super().feedback(id, reward)
        except ValueError:
            self.agent.decide(np.ones(10))


class TakesFeedbackInOrderOnly(Forwarding):
    last = -1

    def feedback(self, id, reward):
        if id < self.last:
            raise AgentCheckError("feedback out of order")
        self.last = id
        super().feedback(id, reward)


class LearnsNothing(Forwarding):
    def feedback(self, id, reward):
        super().feedback(id, None if reward is None or 0 <= float(reward) <= 1 else reward)

    def warm_start(self, X0, y0, edges=None):
        return super().warm_start(X0, ["left"] * len(y0), edges)


@pytest.mark.parametrize("broken", Forwarding.__subclasses__(), ids=lambda agent: agent.__name__)
def test_check_agent_fails_on_a_broken_agent(broken):
    with pytest.raises(AgentCheckError):
        check_agent(broken)


def test_check_agent_passes_the_unbroken_agent():
    check_agent(Forwarding)


class Sums(taciturn.BaseAgent):
    """Scores an arm by the similarity to rewarded contexts; sound but for what a subclass breaks."""

    def _build(self):
        part = taciturn.Part()
        self._sums = part.array("sums", float, "arm", "feature")
        return {"sums": part}

    def _score(self, node):
        columns, values = self._contexts[node]
        return self._sums.data[:, columns] @ values, np.zeros(len(self.arm_names))

    def _learn(self, example, sign=1):
        columns, values = self._contexts[example.node]
        self._sums.data[example.arm, columns] += sign * (example.reward - 0.5) * values

    def _unlearn(self, example):
        self._learn(example, sign=-1)


class UnlearnsNothing(Sums):
    def _unlearn(self, example):
        pass


class ScoresTheFirstArmsOnly(Sums):
    def _score(self, node):
        return tuple(part[:3] for part in super()._score(node))


class ScoresByTheNumberOfContexts(Sums):
    def _score(self, node):
        scores, widths = super()._score(node)
        return (scores if node < 15 else scores * np.nan), widths


def test_check_agent_passes_an_agent_on_the_base_class():
    check_agent(Sums)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (UnlearnsNothing, "a correction leaves the last reward alone"),
        (ScoresTheFirstArmsOnly, "of shape .3,.; there are 4 arms"),
        (ScoresByTheNumberOfContexts, "NaN"),
    ],
)
def test_check_agent_fails_on_a_broken_agent_of_the_base_class(broken, promise):
    with pytest.raises((AgentCheckError, taciturn.TaciturnError), match=promise):
        check_agent(broken)
