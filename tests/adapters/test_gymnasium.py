"""The gymnasium adapter: streams as environments, and agents in any environment."""

import copy
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import taciturn
from taciturn.adapters.gymnasium import TaciturnEnv, run
from taciturn.errors import InvalidReward, TaciturnError
from taciturn.experiments.checks import toy_data


@pytest.mark.parametrize("missing", [0.0, "reward:0.5"])
def test_gymnasiums_environment_checker_passes(missing):
    stream = taciturn.Stream(toy_data(), missing=missing)
    gym.register("taciturn/Stream-v0", TaciturnEnv)  # registered environments are checked more thoroughly
    try:
        check_env(gym.make("taciturn/Stream-v0", stream=stream).unwrapped)  # warnings are errors here
    finally:
        del gym.registry["taciturn/Stream-v0"]


def test_an_episode_is_one_pass_over_the_stream():
    stream = taciturn.Stream(toy_data(), missing=0.5, seed=3)
    env = TaciturnEnv(stream)
    observation, _ = env.reset()
    for count, round in enumerate(stream, start=1):
        np.testing.assert_array_equal(observation, round.context.toarray()[0])
        response = stream.respond(round, stream.arms[count % 3])
        observation, reward, terminated, truncated, info = env.step(np.int64(count % 3))
        assert info == {"reward_observed": response is not None}
        assert reward == (0.0 if response is None else response)
        assert (terminated, truncated) == (count == len(stream), False)
    with pytest.raises(TaciturnError, match="call reset first"):
        env.step(np.int64(0))
    again, _ = env.reset(seed=5)
    np.testing.assert_array_equal(again, next(iter(stream)).context.toarray()[0])


@pytest.mark.parametrize("method", ["linucb", "viewucb"])
def test_an_agent_receives_the_same_rewards_as_in_evaluate(method):
    stream = taciturn.Stream(toy_data(), missing=0.4, seed=1)
    trace = taciturn.evaluate(taciturn.make(method, arms=stream.arms), stream)
    agent = taciturn.make(method, arms=stream.arms)
    agent.warm_start(stream.start.contexts, stream.start.arms)
    np.testing.assert_array_equal(run(agent, TaciturnEnv(stream)), trace.rewards)
    assert np.isnan(trace.rewards).sum() == round(0.4 * len(stream))


def test_the_agent_keeps_learning_over_episodes():
    stream = taciturn.Stream(toy_data(), seed=0)
    rewards = run(taciturn.LinUCB(arms=stream.arms), TaciturnEnv(stream), episodes=3).reshape(3, -1)
    assert rewards.shape[1] == len(stream)
    assert rewards[2].mean() > rewards[0].mean()


class OtherEnv(gym.ObservationWrapper):
    """An environment of another kind: 2-d observations, actions from 5, and every third reward missing."""

    def __init__(self, env, actions):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2, 2), np.float32)
        self.action_space = gym.spaces.Discrete(2, start=5)
        self.actions = actions

    def observation(self, observation):
        return observation.reshape(2, 2)

    def step(self, action):
        self.actions.append(action)
        observation, reward, terminated, truncated, info = self.env.step(action - 5)
        info = info | ({"reward_observed": False} if len(self.actions) % 3 == 0 else {})
        return self.observation(observation), reward, terminated, truncated, info


def test_any_environment_with_discrete_actions_and_a_box_is_accepted():
    env, actions = gym.make("CartPole-v1"), []
    env.reset(seed=0)
    agent = taciturn.LinUCB(arms=["left", "right"])
    received = run(agent, OtherEnv(env, actions), episodes=2)
    assert actions == (agent.log()["arms"] + 5).tolist()
    assert len(received) == len(actions)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(received)), np.arange(2, len(received), 3))
    np.testing.assert_array_equal(agent.log()["rewards"], received)


class Rooms(gym.Env):
    """Ten observations of a space; action 1 is right where its `light` is 1."""

    def __init__(self, space):
        self.observation_space, self.action_space = space, gym.spaces.Discrete(2)
        space.seed(0)

    def reset(self, *, seed=None, options=None):
        self.left, self.seen = 10, [self.observation_space.sample()]
        return self.seen[-1], {}

    def step(self, action):
        right = self.seen[-1]["light"] if isinstance(self.seen[-1], dict) else 1
        self.left -= 1
        self.seen.append(self.observation_space.sample())
        return self.seen[-1], float(action == right), self.left == 0, False, {}


ROOMS = gym.spaces.Dict(
    light=gym.spaces.Discrete(2),
    size=gym.spaces.Box(0, 9, (1,)),
    at=gym.spaces.Box(0, 9, (2,)),
    sign=gym.spaces.Text(8),
    more=gym.spaces.Tuple([gym.spaces.Discrete(3), gym.spaces.MultiBinary(2)]),
)


def test_observations_with_names_are_contexts_with_names():
    env = Rooms(ROOMS)
    agent, twin = taciturn.LinUCB(arms=2), taciturn.LinUCB(arms=2)
    rewards = run(agent, env, episodes=1)
    for seen, reward in zip(env.seen, rewards, strict=False):
        more = {"0": str(seen["more"][0]), "1": dict(zip("01", seen["more"][1].tolist(), strict=True))}
        at = dict(zip("01", seen["at"].tolist(), strict=True))
        context = {"light": str(seen["light"]), "size": seen["size"][0], "at": at, "sign": seen["sign"], "more": more}
        twin.feedback(twin.decide(context).id, reward)
    assert agent.feature_names == twin.feature_names
    np.testing.assert_array_equal(agent.log()["arms"], twin.log()["arms"])
    assert agent.feature_kinds["light"] == "category"
    assert (agent.feature_kinds["at.0"], agent.feature_kinds["more.1.0"]) == ("number", "number")


@pytest.mark.parametrize("space", [gym.spaces.Discrete(3), gym.spaces.MultiDiscrete([2, 3]), gym.spaces.MultiBinary(3)])
def test_other_observations_are_contexts(space):
    agent = taciturn.LinUCB(arms=2)
    assert len(run(agent, Rooms(space))) == 10
    expected = {"Discrete": {"observation": "category"}, "MultiDiscrete": {"0": "category", "1": "category"}}
    assert dict(agent.feature_kinds) == expected.get(type(space).__name__, {})


def test_a_copy_of_an_environment_is_independent():
    env = TaciturnEnv(taciturn.Stream(toy_data()))
    env.reset()
    other = copy.deepcopy(env)
    original, copied = env.step(np.int64(0)), other.step(np.int64(0))
    np.testing.assert_array_equal(original[0], copied[0])
    assert original[1:] == copied[1:]


def test_unsuitable_environments_agents_and_actions_are_refused():
    data = toy_data()
    env = TaciturnEnv(taciturn.Stream(data))
    agent = taciturn.LinUCB(arms=data.arms)
    with pytest.raises(TaciturnError, match="3 actions and the agent 2 arms"):
        run(taciturn.LinUCB(arms=2), env)
    with pytest.raises(TaciturnError, match="Discrete ones are"):
        run(agent, gym.make("Pendulum-v1"))
    with pytest.raises(TaciturnError, match="observations Graph.* are not allowed"):
        run(agent, Rooms(gym.spaces.Graph(gym.spaces.Discrete(2), None)))
    with pytest.raises(TaciturnError, match="episodes=0"):
        run(agent, env, episodes=0)
    with pytest.raises(TaciturnError, match="delay=0"):
        TaciturnEnv(taciturn.Stream(data, delay=2))
    with pytest.raises(TaciturnError, match="call reset first"):
        env.step(np.int64(0))
    env.reset()
    with pytest.raises(TaciturnError, match="action 3 is not allowed"):
        env.step(3)
    with pytest.raises(InvalidReward, match="reward -"):
        run(taciturn.LinUCB(arms=3), gym.make("Acrobot-v1"))


def test_without_gymnasium_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "taciturn.adapters.gymnasium")
    with pytest.raises(ImportError, match=r"pip install '.\[gymnasium\]' in a checkout"):
        import taciturn.adapters.gymnasium  # noqa: F401
