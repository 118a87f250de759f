"""The obp adapter, compared with obp's own estimators where obp is installed."""

import importlib
import importlib.util
import sys
import warnings
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import taciturn
from taciturn import ope
from taciturn.adapters.obp import replay, to_obp
from taciturn.errors import TaciturnError
from taciturn.experiments.checks import toy_data

ARMS = toy_data().arms


@pytest.fixture(scope="module")
def obp():
    """obp's estimators and checks, imported without its packages' __init__, which import PyTorch.

    `obp.utils` imports torch and pandas, but the functions used here do not need them, so empty modules replace them
    during the import.
    """
    found = importlib.util.find_spec("obp")
    if found is None:
        pytest.skip("obp is not installed: pip install --no-deps --ignore-requires-python obp==0.5.7")
    home = found.submodule_search_locations[0]
    shells = {name: ModuleType(name) for name in ("obp", "obp.ope", "torch", "pandas")}
    shells["obp"].__path__, shells["obp.ope"].__path__ = [home], [f"{home}/ope"]
    shells["torch"].tensor = shells["torch"].Tensor = type("Tensor", (), {})
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where obp is compiled anew, of its escape sequences
        for name, shell in shells.items():
            patch.setitem(sys.modules, name, shell)
        for name in ("estimators", "helper"):
            patch.delitem(sys.modules, f"obp.ope.{name}", raising=False)
        patch.delitem(sys.modules, "obp.utils", raising=False)
        estimators, utils = importlib.import_module("obp.ope.estimators"), importlib.import_module("obp.utils")
        for name in [name for name in sys.modules if name.split(".")[0] == "obp" and name not in shells]:
            del sys.modules[name]
    estimators.check_feedback = utils.check_bandit_feedback_inputs
    return estimators


def log_of(rows, silence, seed=0):
    """Return a log of random choices whose silence depends on the arm, and the value that estimates should have."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    behaviour = rng.dirichlet([2.0, 2.0, 2.0], rows)
    arms = (behaviour.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    worth = 1 / (1 + np.exp(-X[:, :3] - [1.5, 0.0, -1.5]))
    rewards = (rng.random(rows) < worth[np.arange(rows), arms]).astype(float)
    q = 1 - np.array(silence)[arms]
    rewards[rng.random(rows) >= q] = np.nan
    target = worth / worth.sum(axis=1, keepdims=True)
    log = {"arms": arms, "rewards": rewards, "propensities": behaviour[np.arange(rows), arms]}
    return log, X, q, target, float((target * worth).sum(axis=1).mean())


def estimate(estimator, feedback, target):
    taken = {name: feedback[name] for name in ("reward", "action", "pscore", "position")}
    return estimator.estimate_policy_value(action_dist=target[:, :, None], **taken)


def test_obps_estimators_agree_with_ope_on_a_log_with_missing_rewards(obp):
    log, X, q, target, truth = log_of(20_000, silence=(0.1, 0.5, 0.8))
    feedback = to_obp(log, X, arms=ARMS, observation=q)
    observed = ~np.isnan(log["rewards"])
    obp.check_feedback(**{name: feedback[name] for name in ("context", "action", "reward", "position", "pscore")})
    snipw = estimate(obp.SelfNormalizedInverseProbabilityWeighting(), feedback, target[observed])
    ipw = estimate(obp.InverseProbabilityWeighting(), feedback, target[observed])
    assert snipw == pytest.approx(ope.snips(log, target, observation=q).value, rel=1e-9)
    assert ipw == pytest.approx(ope.ips(log, target, observation=q).value, rel=1e-9)
    assert snipw == pytest.approx(truth, abs=0.03)
    assert ipw == pytest.approx(truth, abs=0.03)
    unaware = feedback | {"pscore": log["propensities"][observed]}  # ignores that silence depends on the arm
    assert abs(estimate(obp.SelfNormalizedInverseProbabilityWeighting(), unaware, target[observed]) - truth) > 0.03


def test_without_missing_rewards_pscore_is_the_propensity(obp):
    log, X, _, target, _ = log_of(500, silence=(0.0, 0.0, 0.0))
    feedback = to_obp(log, X, arms=ARMS)
    np.testing.assert_allclose(feedback["pscore"], log["propensities"], rtol=1e-15)
    value = estimate(obp.InverseProbabilityWeighting(), feedback, target)
    assert value == pytest.approx(ope.ips(log, target).value, rel=1e-9)


def test_the_log_of_an_agent_is_converted(obp):
    stream = taciturn.Stream(toy_data(), missing=0.3, seed=2)
    agent = taciturn.LinUCB(arms=ARMS, epsilon=0.4)
    taciturn.evaluate(agent, stream)
    contexts = sp.vstack([round.context for round in stream])
    log = agent.log()
    feedback = to_obp(log, contexts, arms=agent.arm_names, observation=0.7)
    observed = ~np.isnan(log["rewards"])
    assert feedback["n_rounds"] == observed.sum()
    assert feedback["n_actions"] == 3
    np.testing.assert_array_equal(feedback["context"], contexts.toarray()[observed])
    np.testing.assert_array_equal(feedback["action"], log["arms"][observed])
    np.testing.assert_array_equal(feedback["reward"], log["rewards"][observed])
    np.testing.assert_allclose(feedback["pscore"], 0.7 * log["propensities"][observed] / observed.mean())
    assert feedback["position"] is feedback["action_context"] is None
    target = np.eye(3)[stream.truth[3:]]
    value = estimate(obp.SelfNormalizedInverseProbabilityWeighting(), feedback, target[observed])
    assert value == pytest.approx(1.0)  # the policy that is always right


def test_an_inconsistent_log_is_refused():
    log, X, q, *_ = log_of(50, silence=(0.2, 0.5, 0.5))
    silent = int(np.isnan(log["rewards"]).sum())
    with pytest.raises(TaciturnError, match=f"{silent} of 50 rewards are missing: give observation"):
        to_obp(log, X, arms=ARMS)
    with pytest.raises(TaciturnError, match="each needs one"):
        to_obp(log, X[1:], arms=ARMS, observation=0.5)
    with pytest.raises(TaciturnError, match="one for each of 50 rows"):
        to_obp(log, X, arms=ARMS, observation=q[1:])
    for wrong in (0.0, 1.5, np.nan):
        with pytest.raises(TaciturnError, match="observation of rows"):
            to_obp(log, X, arms=ARMS, observation=wrong)
    with pytest.raises(TaciturnError, match="propensities of rows"):
        to_obp(log | {"propensities": np.zeros(50)}, X, arms=ARMS, observation=0.5)
    with pytest.raises(TaciturnError, match="outside 0 to 1, the indices of arms"):
        to_obp(log, X, arms=ARMS[:2], observation=0.5)
    with pytest.raises(TaciturnError, match="all 50 rewards are missing"):
        to_obp(log | {"rewards": np.full(50, np.nan)}, X, arms=ARMS, observation=0.5)


def rounds_at_random(rows=200, seed=1):
    data, rng = toy_data(rows), np.random.default_rng(seed)
    actions = rng.integers(3, size=rows)
    rewards = np.where(rng.random(rows) < 0.2, np.nan, actions == data.y)
    return {"context": data.X.toarray(), "action": actions, "reward": rewards, "n_actions": 3}


@pytest.mark.parametrize("method", ["linucb", "viewucb"])
def test_replay_keeps_the_rounds_in_which_the_agent_chooses_the_logged_action(method):
    feedback, agent = rounds_at_random(), taciturn.make(method, arms=ARMS)
    rounds = replay(agent, feedback)
    assert 40 < len(rounds) < 120
    log = agent.log()
    np.testing.assert_array_equal(log["ids"], rounds)
    np.testing.assert_array_equal(log["arms"], feedback["action"][rounds])
    np.testing.assert_array_equal(log["rewards"], feedback["reward"][rounds])
    assert set(log["states"]) == {"rewarded", "silent"}
    assert np.nanmean(log["rewards"]) > 0.7  # by chance it is a third


def test_replay_learns_nothing_from_other_rounds():
    feedback = rounds_at_random()
    agent, alone = (taciturn.LinUCB(arms=ARMS, scaling="none") for _ in range(2))  # a scale is that of all contexts
    for row in replay(agent, feedback):
        decision = alone.decide(feedback["context"][row])
        assert decision.arm == ARMS[feedback["action"][row]]
        reward = feedback["reward"][row]
        alone.feedback(decision.id, None if np.isnan(reward) else reward)
    for context in feedback["context"][:5]:
        np.testing.assert_array_equal(agent.decide(context).scores, alone.decide(context).scores)


def test_contexts_with_names_are_replayed_and_converted():
    rows = [{"age": 41.0, "country": "DE"}, {"age": None, "country": "FR"}, {"age": 7.0, "country": "DE"}]
    agent = taciturn.LinUCB(arms=["a", "b"])
    logged = {"context": pd.DataFrame(rows), "action": [0, 1, 0], "reward": [1.0, 0.0, np.nan], "n_actions": 2}
    assert set(replay(agent, logged)) <= {0, 1, 2}
    assert dict(agent.feature_kinds) == {"age": "number", "country": "category"}
    log = {"arms": [0, 1, 0], "rewards": [1.0, 0.0, 1.0], "propensities": [0.5] * 3}
    feedback = to_obp(log, rows, arms=["a", "b"])
    expected = [[41, 1, 0, 0], [0, 0, 1, 1], [7, 1, 0, 0]]  # age, country=DE, age?, country=FR
    np.testing.assert_array_equal(feedback["context"], expected)


def test_replay_refuses_bad_input_before_it_decides():
    log, X, *_ = log_of(30, silence=(0.0, 0.0, 0.0))
    feedback, agent = to_obp(log, X, arms=ARMS), taciturn.LinUCB(arms=ARMS)
    with pytest.raises(TaciturnError, match="there are 3 actions; the agent has 2 arms"):
        replay(taciturn.LinUCB(arms=2), feedback)
    with pytest.raises(TaciturnError, match="from 0 to 1"):
        replay(agent, feedback | {"reward": feedback["reward"] * 3})
    assert len(agent.log()["ids"]) == 0
    replay(agent, feedback)
