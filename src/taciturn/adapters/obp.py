"""Logs for the Open Bandit Pipeline and from it. Its bandit feedback is a plain dictionary, so obp is not imported."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.base import BaseAgent
from taciturn.contracts import Arm
from taciturn.errors import TaciturnError


def to_obp(log: Mapping[str, Any], contexts: Any, *, arms: Sequence[Arm], observation: Any = None) -> dict[str, Any]:
    """The bandit feedback that obp's estimators take, from what `agent.log()` returns.

    obp knows no silence, and a silent row as a reward of 0 would be an untruth. Rows of which no reward was heard are
    left out, and `pscore` is how likely the arm was chosen and its reward heard, p·q, relative to the share of rows
    that were heard. With it obp's estimators, which take means over the rows that are left, are right for all rows; a
    pscore can be above 1.

    Arguments:
        log: `arms` (N,) as places, `rewards` (N,) with NaN where none was heard, and `propensities` (N,).
        contexts: the features (N, D) of its rows, dense or sparse.
        arms: the agent's arms; obp's actions are their places.
        observation: q, the probability that a reward is heard: one number, or one a row (N,). It may be left out
            where nothing is silent.
    """
    action, reward = np.asarray(log["arms"]), np.asarray(log["rewards"], float)
    context = contexts.toarray() if sp.issparse(contexts) else np.asarray(contexts, float)
    heard = ~np.isnan(reward)
    rows, silent = len(reward), int((~heard).sum())
    if context.ndim != 2 or len(context) != rows:
        raise TaciturnError(f"the contexts have shape {context.shape} and the log {rows} rows; each needs one")
    if silent == rows:
        raise TaciturnError(f"none of {rows} rewards was heard; obp needs some")
    if silent and observation is None:
        raise TaciturnError(
            f"{silent} of {rows} rewards are silent: give observation, a probability or one for each row"
        )
    chance = np.asarray(1.0 if observation is None else observation, float)
    if chance.shape not in ((), (rows,)):
        raise TaciturnError(
            f"observation has shape {chance.shape}; one number is needed, or one for each of {rows} rows"
        )
    chosen, chance = np.asarray(log["propensities"], float)[heard], np.broadcast_to(chance, rows)[heard]
    for name, values in (("propensities", chosen), ("observation", chance)):
        if not ((values > 0) & (values <= 1)).all():
            raise TaciturnError(f"{name} of rows with a reward must be probabilities, above 0 and at most 1")
    if not ((action[heard] >= 0) & (action[heard] < len(arms))).all():
        raise TaciturnError(f"the log has an arm at a place that {len(arms)} arms do not have")
    return {
        "n_rounds": rows - silent,
        "n_actions": len(arms),
        "context": context[heard],
        "action_context": None,
        "action": action[heard].astype(np.int64),
        "position": None,
        "reward": reward[heard],
        "pscore": chosen * chance * rows / (rows - silent),
    }


def replay(agent: BaseAgent, bandit_feedback: Mapping[str, Any]) -> NDArray[np.int64]:
    """Let an agent learn from logged rounds by rejection, and return the rounds that it learned from.

    It decides on every round. Where it takes the logged action, it hears the logged reward (NaN is silence); of all
    others nothing is known, and they are withdrawn. With actions logged at random, the mean reward of the rounds
    returned is what the agent would have earned (Li, Chu, Langford and Wang, 2011). Positions are not considered.

    Arguments:
        agent: it has as many arms as there are actions; action k is its arm at place k.
        bandit_feedback: obp's dictionary, of which context, action, reward and n_actions are used.
    """
    contexts, actions = np.asarray(bandit_feedback["context"]), np.asarray(bandit_feedback["action"])
    rewards = np.asarray(bandit_feedback["reward"], float)
    if bandit_feedback["n_actions"] != len(agent.arm_names):
        raise TaciturnError(
            f"there are {bandit_feedback['n_actions']} actions; the agent has {len(agent.arm_names)} arms"
        )
    if not (np.isnan(rewards) | ((rewards >= 0) & (rewards <= 1))).all():
        raise TaciturnError("a logged reward is not from 0 to 1; scale rewards before the replay")
    used = []
    for row, (context, action, reward) in enumerate(zip(contexts, actions, rewards, strict=True)):
        decision = agent.decide(context)
        if decision.arm == agent.arm_names[action]:
            agent.feedback(decision.id, None if np.isnan(reward) else float(reward))
            used.append(row)
        else:
            agent.withdraw(decision.id)
    return np.array(used, np.int64)
