"""The view of plain regressions: its formula after any history, and what it is for."""

import numpy as np
import pytest

import taciturn
from taciturn.contracts import Dataset

K, RIDGE = 3, 0.5


@pytest.mark.parametrize("seed", range(4))
def test_scores_are_what_linucb_expects_after_corrections_and_withdrawals(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4))
    X[::7] = X[0]  # equal contexts among them
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    agent, decided = taciturn.ViewUCB(arms=K, scaling="none", seed=seed, ridge=RIDGE), {}
    for x in X:
        decision = agent.decide(x)
        A, b = np.stack([RIDGE * np.eye(4)] * K), np.zeros((K, 4))
        for t, (arm, reward) in decided.items():
            for k in range(K):
                if reward is not None and (reward == 1 or k == arm):
                    A[k] += np.outer(X[t], X[t])
                    b[k] += reward * (k == arm) * X[t]
        wanted = [x @ np.linalg.solve(A[k], b[k]) for k in range(K)]
        found = agent.state_dict()["table"]["columns"]["view_scores"][decision.id, -1]
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        for t in rng.choice(decision.id + 1, 2):  # new ones, late ones and corrections
            arm = int(decision.arm) if t == decision.id else decided.get(int(t), (None,))[0]
            reward = rng.choice([0, 1, None])
            if arm is not None:
                agent.feedback(int(t), reward)
                decided[int(t)] = arm, reward
        decided.setdefault(decision.id, (int(decision.arm), None))


@pytest.mark.slow
def test_a_frequent_arm_is_found_where_contexts_say_nothing():
    """It is right in 60 of 100 rounds; exploration that takes every context for news never settles for it."""

    def right_late(seed):
        rng = np.random.default_rng(seed)
        y = rng.choice(6, 500, p=[0.6, 0.08, 0.08, 0.08, 0.08, 0.08])
        data = Dataset("noise", rng.normal(size=(500, 8)), y, list("abcdef"))
        stream = taciturn.Stream(data, missing=0.5, seed=seed)
        trace = taciturn.evaluate(taciturn.ViewUCB(arms=data.arms, seed=seed), stream, progress=False)
        return trace.correct[250:].mean()

    assert np.mean([right_late(seed) for seed in range(4)]) > 0.5


def test_where_several_arms_can_be_good_there_is_no_such_view():
    agents = [taciturn.ViewUCB(arms=K, one_right_arm=several, seed=0) for several in (True, False)]
    widths = []
    for agent in agents:
        agent.decide([1.0, 2.0])
        widths.append(agent.state_dict()["table"]["columns"]["view_scores"].shape[1])
    assert widths[0] == widths[1] + 1


@pytest.mark.parametrize(("width", "says"), [(16, True), (17, False)])
def test_it_says_nothing_where_features_share_columns(width, says):
    agent = taciturn.ViewUCB(arms=K, scaling="none", seed=0, width_entries=2**10)  # 16 × 16 for each arm
    x = np.arange(1.0, width + 1)
    agent.feedback(agent.decide(x).id, 1)
    decision = agent.decide(x)
    assert agent.state_dict()["table"]["columns"]["view_scores"][decision.id, -1].any() == says
