"""A peer makes the choices that its library makes when it is used by hand, as in its documentation's example."""

import numpy as np
import pytest
import vowpalwabbit
from mabwiser.mab import MAB, LearningPolicy, NeighborhoodPolicy
from river.bandit import LinUCBDisjoint
from sklearn.linear_model import LogisticRegression

import taciturn
from taciturn.adapters.peers.base import library_seed
from taciturn.experiments.checks import ARMS, toy_data

SEED, START = 3, 12
SEED_OF_LIBRARY = library_seed(SEED)
DATA = toy_data(120)
X, RIGHT = 10 * DATA.X.toarray(), DATA.y


def choices(name, **params):
    """What a peer chooses after a labelled start, with all rewards at once; each arm on its own."""
    plain = {"scaling": "none", "one_right_arm": False, "all_arms": False}
    agent = taciturn.make(name, arms=ARMS, seed=SEED, **plain | params)
    agent.warm_start(X[:START], [ARMS[k] for k in RIGHT[:START]])
    chosen = []
    for row, right in zip(X[START:], RIGHT[START:], strict=True):
        decision = agent.decide(row)
        agent.feedback(decision.id, float(decision.arm == ARMS[right]))
        chosen.append(ARMS.index(decision.arm))
    return chosen


def by_hand(predict, learn):
    """The same with a library: `predict(row)` and `learn(row, arm, reward)`."""
    chosen = []
    for row, right in zip(X[START:], RIGHT[START:], strict=True):
        arm = predict(row[None])
        learn(row[None], arm, float(arm == right))
        chosen.append(arm)
    return chosen


@pytest.mark.parametrize(
    ("options", "cb_type"),
    [
        ("--squarecb --gamma_scale 100", "mtr"),
        ("--regcb --mellowness 0.01", "mtr"),
        ("--bag 5 --greedify", "mtr"),
        ("--cover 3 --psi 0.1 --nounif", "dr"),
    ],
)
def test_vowpal_wabbit(options, cb_type):
    """As in its tutorial: lines of text, a probability for each arm, one drawn, the cost −1 for a reward."""
    costs = "--cb_min_cost -1 --cb_max_cost 0" if "cb " in options else ""
    vw = vowpalwabbit.Workspace(
        f"--cb_explore_adf -q UA {options} --cb_type {cb_type} {costs} --noconstant --quiet "
        f"--random_seed {SEED_OF_LIBRARY}"
    )
    rng = np.random.default_rng([SEED, 6])
    chances = {}

    def example(row, label=None):
        user = " ".join(f"pixel{j}:{value:.9g}" for j, value in enumerate(row[0]) if value)
        lines = [f"shared |User {user}", *(f"|Action arm={arm}" for arm in range(3))]
        if label:
            arm, reward, chance = label
            lines[1 + arm] = f"0:{-reward}:{chance:.9g} {lines[1 + arm]}"
        return lines

    def predict(row):
        pmf = np.array(vw.predict(example(row)))
        chances["last"] = pmf / pmf.sum()
        return int(rng.choice(3, p=chances["last"]))

    for row, right in zip(X[:START], RIGHT[:START], strict=True):
        vw.learn(example(row[None], (right, 1, 1.0)))
    expected = by_hand(predict, lambda row, arm, reward: vw.learn(example(row, (arm, reward, chances["last"][arm]))))
    assert choices("vw-squarecb", options=options, cb_type=cb_type) == expected


@pytest.mark.parametrize(
    ("name", "policies"),
    [
        ("mabwiser-linucb", [LearningPolicy.LinUCB(alpha=0.3)]),
        ("mabwiser-lints", [LearningPolicy.LinTS(alpha=0.3)]),
        ("mabwiser-knearest", [LearningPolicy.UCB1(alpha=0.3), NeighborhoodPolicy.KNearest(5)]),
    ],
)
def test_mabwiser(name, policies):
    mab = MAB(list(range(3)), *policies, seed=SEED_OF_LIBRARY)
    mab.fit(RIGHT[:START], np.ones(START), X[:START])
    expected = by_hand(mab.predict, lambda row, arm, reward: mab.partial_fit([arm], [reward], row))
    own = {"k": 5, "metric": "euclidean"} if "knearest" in name else {"l2_lambda": 1.0}
    assert choices(name, alpha=0.3, **own) == expected


def test_contextualbandits_linucb():
    from contextualbandits import online

    policy = online.LinUCB(3, alpha=0.2, ucb_from_empty=False, beta_prior="auto", random_state=SEED_OF_LIBRARY)
    policy.fit(X[:START], RIGHT[:START], np.ones(START))
    expected = by_hand(
        lambda row: int(policy.predict(row)[0]),
        lambda row, arm, reward: policy.partial_fit(row, np.array([arm]), np.array([reward])),
    )
    assert choices("cb-linucb", alpha=0.2, lambda_=1.0, from_empty=False) == expected


@pytest.mark.parametrize("name", ["cb-bootstrapped", "cb-adaptive"])
def test_contextualbandits_over_logistic_regressions(name):
    """As in its example, with a fit to all rounds so far. Where adaptive greedy is random, its own scores are drawn."""
    from contextualbandits import online

    base = LogisticRegression(max_iter=200)
    policy = (
        online.BootstrappedUCB(base, 3, nsamples=4, percentile=80, random_state=SEED_OF_LIBRARY, njobs_arms=1)
        if name == "cb-bootstrapped"
        else online.AdaptiveGreedy(base, 3, percentile=30, decay=0.9998, random_state=SEED_OF_LIBRARY, njobs=1)
    )
    rows, arms, rewards = list(X[:START]), list(RIGHT[:START]), [1.0] * START
    policy.fit(np.array(rows), np.array(arms), np.array(rewards))

    def learn(row, arm, reward):
        rows.append(row[0])
        arms.append(arm)
        rewards.append(reward)
        policy.fit(np.array(rows), np.array(arms), np.array(rewards))

    def predict(row):
        return int(np.argmax(policy.decision_function(row)))  # what `predict` is, of bootstrapped UCB

    own = {"samples": 4, "percentile": 80} if name == "cb-bootstrapped" else {"percentile": 30, "decay": 0.9998}
    assert choices(name, growth=0.0, C=1.0, **own) == by_hand(predict, learn)


def test_river():
    policy = LinUCBDisjoint(alpha=2.0, beta=20.0, seed=SEED_OF_LIBRARY)

    def named(row):
        return {j: float(value) for j, value in enumerate(row[0]) if value}

    for row, right in zip(X[:START], RIGHT[:START], strict=True):
        policy.update(int(right), named(row[None]), 1.0)
    expected = by_hand(
        lambda row: policy.pull(range(3), context=named(row)),
        lambda row, arm, reward: policy.update(arm, named(row), reward),
    )
    assert choices("river-linucb", alpha=2.0, beta=20.0) == expected
