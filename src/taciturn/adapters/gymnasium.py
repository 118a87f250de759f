"""Streams as gymnasium environments, and agents in any gymnasium environment."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.contracts import Agent
from taciturn.errors import TaciturnError, how_to_install
from taciturn.streams.stream import Stream
from taciturn.validate import MANY, check_number

try:
    import gymnasium as gym
except ImportError as error:
    raise ImportError(f"taciturn.adapters.gymnasium needs gymnasium: {how_to_install('gymnasium')}") from error

Floats = NDArray[np.float64]


class TaciturnEnv(gym.Env[Floats, np.int64]):
    """A stream as an environment: one episode is one pass over its rounds, in the stream's order.

    An observation is a context (D,), an action the index of an arm. gymnasium requires a number as reward, so a missing
    one is 0.0, and `info["reward_observed"]` tells it from the reward of a wrong arm. All randomness comes from the
    stream's seed; a seed given to `reset` has no effect. The labelled start is not part of an episode: pass
    `stream.start` to `agent.warm_start`.

    Arguments:
        stream: a stream without delays, because an environment returns the reward at once.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._rounds = list(stream)
        if any(stream.delay(round) for round in self._rounds):
            raise TaciturnError("the stream's rewards are delayed; an environment gives them at once, so give delay=0")
        self._X = X = stream.dataset.X
        self.observation_space = gym.spaces.Box(float(X.min()), float(X.max()), (X.shape[1],), np.float64)
        self.action_space = gym.spaces.Discrete(len(stream.arms))
        self._index = len(self._rounds)

    def _context(self) -> Floats:
        """Return the context of the current round, of the last one at the end of an episode."""
        round = self._rounds[min(self._index, len(self._rounds) - 1)]
        return np.asarray(self._X[self._stream.order[round.position]].toarray()[0], np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Return to the first round."""
        super().reset(seed=seed)
        self._index = 0
        return self._context(), {}

    def step(self, action: np.int64) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Choose an arm by its index, and move to the next round."""
        if self._index == len(self._rounds):
            raise TaciturnError("the episode is over or was not started; call reset first")
        if action not in self.action_space:
            raise TaciturnError(f"action {action!r} is not allowed; indices of arms are, in {self.action_space}")
        reward = self._stream.respond(self._rounds[self._index], self._stream.arms[int(action)])
        self._index += 1
        info = {"reward_observed": reward is not None}
        return self._context(), reward or 0.0, self._index == len(self._rounds), False, info


NUMBERS = (gym.spaces.Box, gym.spaces.MultiBinary)


def context_of(space: gym.Space[Any], observation: Any) -> Any:
    """An observation as a context: an array (D,) of a Box, otherwise {name: value}; Discrete ones are categories."""
    if isinstance(space, NUMBERS):
        return np.ravel(observation)
    return _named(space, observation) if _has_names(space) else {"observation": _named(space, observation)}


def _has_names(space: gym.Space[Any]) -> bool:
    return isinstance(space, gym.spaces.Dict | gym.spaces.Tuple | gym.spaces.MultiDiscrete)


def _named(space: gym.Space[Any], observation: Any) -> Any:
    """The value of a space within an observation; the parts of one without names are named by their position."""
    if isinstance(space, gym.spaces.Dict):
        return {str(name): _named(part, observation[name]) for name, part in space.items()}
    if isinstance(space, gym.spaces.Tuple):
        return {str(i): _named(part, observation[i]) for i, part in enumerate(space)}
    if isinstance(space, gym.spaces.MultiDiscrete):
        return {str(i): f"{int(item)}" for i, item in enumerate(np.ravel(observation))}
    if isinstance(space, NUMBERS):
        flat = np.ravel(observation)
        return float(flat[0]) if len(flat) == 1 else {str(i): float(item) for i, item in enumerate(flat)}
    if isinstance(space, gym.spaces.Discrete):
        return f"{int(observation)}"
    if isinstance(space, gym.spaces.Text):
        return str(observation)
    raise TaciturnError(f"observations {space} are not allowed; numbers, Discrete, Text, Dict and Tuple are")


def run(agent: Agent, env: gym.Env[Any, Any], episodes: int = 1) -> Floats:
    """Run an agent in an environment, and return the reward that it received at each step (T,), NaN for silence.

    Arguments:
        agent: it learns. It has as many arms as the environment has actions, in the same order.
        env: any environment with Discrete actions and rewards from 0 to 1, whose observations are a Box or other
            numbers, Discrete (a category), Text, or a Dict or Tuple of these. Where its info has
            ``"reward_observed": False``, the agent's feedback is None instead of the reward.
        episodes: the number of episodes; the agent keeps what it has learned.
    """
    actions, observations = env.action_space, env.observation_space
    if not isinstance(actions, gym.spaces.Discrete):
        raise TaciturnError(f"actions {actions} are not allowed; Discrete ones are")
    context_of(observations, observations.sample())  # refuses what cannot be a context, before the first step
    if actions.n != len(agent.arm_names):
        raise TaciturnError(f"the environment has {actions.n} actions and the agent {len(agent.arm_names)} arms")
    check_number("episodes", episodes, 1, MANY, whole=True)
    action_of = {arm: actions.start + index for index, arm in enumerate(agent.arm_names)}
    received: list[float] = []
    for _ in range(episodes):
        observation, _info = env.reset()
        over = False
        while not over:
            decision = agent.decide(context_of(observations, observation))
            observation, reward, terminated, truncated, info = env.step(action_of[decision.arm])
            observed = info.get("reward_observed", True)
            agent.feedback(decision.id, float(reward) if observed else None)
            received.append(float(reward) if observed else np.nan)
            over = terminated or truncated
    return np.array(received)
