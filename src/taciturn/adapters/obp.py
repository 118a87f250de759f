"""Logs in the Open Bandit Pipeline's format. Its bandit feedback is a plain dictionary, so obp is not imported."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.agents.base import BaseAgent
from taciturn.contracts import Arm
from taciturn.errors import TaciturnError
from taciturn.features.containers import all_contexts
from taciturn.features.encode import ContextReader


def to_obp(log: Mapping[str, Any], contexts: Any, *, arms: Sequence[Arm], observation: Any = None) -> dict[str, Any]:
    """Return the bandit feedback that obp's estimators take, from what `agent.log()` returns.

    obp has no missing rewards, and counting them as 0 would be biased. Rows without a reward are left out, and
    `pscore = p·q·N / M` corrects for it: p is the propensity, q the probability of observing the reward, and M of N
    rows have one. obp's estimators, which average over the M rows, then estimate the value over all N. A pscore can be
    above 1.

    Arguments:
        log: `arms` (N,) as indices, `rewards` (N,) with NaN where missing, and `propensities` (N,).
        contexts: the features (N, D) of its rows, dense or sparse; or a frame or list of named values, whose words,
            texts and dates become numbers as for an agent without scaling.
        arms: the agent's arms; obp's actions are their indices.
        observation: q, the probability that a reward is observed: one number, or one per row (N,). It may be omitted
            where no reward is missing.
    """
    action, reward = np.asarray(log["arms"]), np.asarray(log["rewards"], float)
    context = _matrix(contexts)
    observed = ~np.isnan(reward)
    rows, silent = len(reward), int((~observed).sum())
    if context.ndim != 2 or len(context) != rows:
        raise TaciturnError(f"the contexts have shape {context.shape} and the log {rows} rows; each needs one")
    if silent == rows:
        raise TaciturnError(f"all {rows} rewards are missing; obp needs at least one")
    if silent and observation is None:
        raise TaciturnError(
            f"{silent} of {rows} rewards are missing: give observation, a probability or one for each row"
        )
    q = np.asarray(1.0 if observation is None else observation, float)
    if q.shape not in ((), (rows,)):
        raise TaciturnError(f"observation has shape {q.shape}; one number is needed, or one for each of {rows} rows")
    p, q = np.asarray(log["propensities"], float)[observed], np.broadcast_to(q, rows)[observed]
    for name, values in (("propensities", p), ("observation", q)):
        if not ((values > 0) & (values <= 1)).all():
            raise TaciturnError(f"{name} of rows with a reward must be probabilities, above 0 and at most 1")
    if not ((action[observed] >= 0) & (action[observed] < len(arms))).all():
        raise TaciturnError(f"the log has an arm index outside 0 to {len(arms) - 1}, the indices of arms")
    return {
        "n_rounds": rows - silent,
        "n_actions": len(arms),
        "context": context[observed],
        "action_context": None,
        "action": action[observed].astype(np.int64),
        "position": None,
        "reward": reward[observed],
        "pscore": p * q * rows / (rows - silent),
    }


def _matrix(contexts: Any) -> NDArray[np.float64]:
    """Contexts as a matrix of numbers (N, D)."""
    if sp.issparse(contexts) or isinstance(contexts, np.ndarray):
        return np.asarray(contexts.toarray() if sp.issparse(contexts) else contexts, float)
    rows, reader = ContextReader().read_all(contexts)
    matrix = np.zeros((len(rows), reader.n_features or 0))
    for place, row in zip(matrix, rows, strict=True):
        place[row.columns] = row.values
    return matrix


def replay(agent: BaseAgent, bandit_feedback: Mapping[str, Any]) -> NDArray[np.int64]:
    """Train an agent on logged rounds by rejection sampling, and return the indices of the rounds that it learned from.

    It decides on every round. Where it chooses the logged action, it receives the logged reward (NaN is silence);
    other decisions are withdrawn, because their reward is unknown. If actions were logged uniformly at random, the mean
    reward of the returned rounds is an unbiased estimate of the agent's own (Li, Chu, Langford and Wang, 2011).
    Positions are ignored.

    Arguments:
        agent: it has as many arms as there are actions; action k is its arm with index k.
        bandit_feedback: obp's dictionary, of which context, action, reward and n_actions are used; its context can
            also be a frame or a list of all that `agent.decide` takes.
    """
    contexts, actions = all_contexts(bandit_feedback["context"]), np.asarray(bandit_feedback["action"])
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
