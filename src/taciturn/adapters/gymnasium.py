"""taciturn's streams as gymnasium environments, and taciturn's agents in any gymnasium environment."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.contracts import Agent
from taciturn.errors import TaciturnError, how_to_install
from taciturn.streams.stream import Stream
from taciturn.validate import check_number

try:
    import gymnasium as gym
except ImportError as error:
    raise ImportError(f"taciturn.adapters.gymnasium needs gymnasium: {how_to_install('gymnasium')}") from error

Floats = NDArray[np.float64]


class TaciturnEnv(gym.Env[Floats, np.int64]):
    """A stream as an environment: one episode is one pass over its rounds, in the stream's own order.

    An observation is a context, an action is the place of an arm. Silence has to be a number here, and is 0.0: whether
    it is one or an answer of "wrong" stands in `info["reward_observed"]`. The stream's seed settles everything, so a
    seed for `reset` changes nothing. Its labelled start is left to you: `agent.warm_start` of `stream.start`.

    Arguments:
        stream: a stream without delays, as an environment answers at once.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._rounds = list(stream)
        if any(stream.delay(round) for round in self._rounds):
            raise TaciturnError("this stream's answers are delayed; an environment answers at once, so give delay=0")
        X = stream.dataset.X
        self.observation_space = gym.spaces.Box(float(X.min()), float(X.max()), (X.shape[1],), np.float64)
        self.action_space = gym.spaces.Discrete(len(stream.arms))
        self._at = len(self._rounds)

    def _context(self) -> Floats:
        """The context of this round; after the last one, still the last."""
        return np.asarray(self._rounds[min(self._at, len(self._rounds) - 1)].context.toarray()[0], np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Go back to the first round."""
        super().reset(seed=seed)
        self._at = 0
        return self._context(), {}

    def step(self, action: np.int64) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Take an arm by its place, and go on to the next round."""
        if self._at == len(self._rounds):
            raise TaciturnError("there is no round to answer; call reset first")
        if action not in self.action_space:
            raise TaciturnError(f"action {action!r} is not allowed; places of arms are, in {self.action_space}")
        answer = self._stream.respond(self._rounds[self._at], self._stream.arms[int(action)])
        self._at += 1
        info = {"reward_observed": answer is not None}
        return self._context(), answer or 0.0, self._at == len(self._rounds), False, info


def run(agent: Agent, env: gym.Env[Any, Any], episodes: int = 1) -> Floats:
    """Drive an agent through an environment, and return what it was told at each step, NaN where that was nothing.

    Arguments:
        agent: it learns. It has as many arms as the environment has actions, in the same order.
        env: any environment with Discrete actions, Box observations and rewards from 0 to 1. Where its info has a
            False "reward_observed", the agent is told of silence and not of the reward.
        episodes: how many times to begin anew; the agent goes on.
    """
    actions, observations = env.action_space, env.observation_space
    if not isinstance(actions, gym.spaces.Discrete) or not isinstance(observations, gym.spaces.Box):
        raise TaciturnError(f"actions {actions} on observations {observations} are not allowed; Discrete on a Box are")
    if actions.n != len(agent.arm_names):
        raise TaciturnError(f"the environment has {actions.n} actions and the agent {len(agent.arm_names)} arms")
    check_number("episodes", episodes, 1, whole=True)
    action_of = {arm: actions.start + place for place, arm in enumerate(agent.arm_names)}
    told: list[float] = []
    for _ in range(episodes):
        observation, _info = env.reset()
        over = False
        while not over:
            decision = agent.decide(np.ravel(observation))
            observation, reward, terminated, truncated, info = env.step(action_of[decision.arm])
            heard = info.get("reward_observed", True)
            agent.feedback(decision.id, float(reward) if heard else None)
            told.append(float(reward) if heard else np.nan)
            over = terminated or truncated
    return np.array(told)
