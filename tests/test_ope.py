"""Off-policy estimates, compared with a simulation of known value and with the formulas written as loops."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn import ope
from taciturn.errors import TaciturnError

PAGE = Path(__file__).parent.parent / "docs" / "off-policy.md"
REPEATS = 800


class World:
    """A simulation with 60 equally likely contexts and 4 arms, in which every probability is known."""

    def __init__(self):
        rng = np.random.default_rng(7)
        self.contexts = rng.standard_normal((60, 3))
        logits = self.contexts @ rng.standard_normal((3, 4))
        self.rewards = 1 / (1 + np.exp(-logits))  # the probability of reward 1, (60, 4)
        self.logging = 0.8 * _softmax(logits) + 0.05  # prefers good arms, explores all
        self.observation = np.where(self.rewards > 0.5, 0.9, 0.3)  # depends on context and arm
        swapped, tilt = logits[:, [1, 0, 2, 3]], self.contexts[:, :1] * np.arange(4) / 3
        self.near = _softmax(0.7 * logits + 0.6 * swapped + 0.8 * tilt)
        self.far = _softmax(-2 * logits)  # prefers arms that are rarely logged, and observed even less

    def truth(self, target):
        return float((target * self.rewards).sum(axis=1).mean())

    def log(self, rng, rows=1000, observation=None):
        """Return a log, the indices of its contexts, and the probabilities of observing its rewards."""
        kinds = rng.integers(60, size=rows)
        arms = (rng.random((rows, 1)) > self.logging[kinds].cumsum(axis=1)).sum(axis=1).clip(max=3)
        rewards = (rng.random(rows) < self.rewards[kinds, arms]).astype(float)
        q = (self.observation if observation is None else observation)[kinds, arms]
        rewards[rng.random(rows) >= q] = np.nan
        return ope.Log(arms, rewards, self.logging[kinds, arms]), kinds, q


def _softmax(scores):
    powers = np.exp(scores)
    return powers / powers.sum(axis=1, keepdims=True)


WORLD = World()
TRUTH = WORLD.truth(WORLD.near)


@pytest.fixture(scope="module")
def repeats():
    """Estimates from many logs of the same simulation, by name of the estimator."""
    found = {}
    bad_model = np.random.default_rng(1).random((60, 4))
    by_arm = np.tile([0.3, 0.5, 0.7, 0.9], (60, 1))
    for seed in range(REPEATS):
        rng = np.random.default_rng([seed, 3])
        log, kinds, q = WORLD.log(rng)
        target, model = WORLD.near[kinds], WORLD.rewards[kinds]
        now = {
            "ips": ope.ips(log, target, observation=q),
            "snips": ope.snips(log, target, observation=q),
            "dr, good model": ope.dr(log, target, model, observation=q),
            "dr, bad model": ope.dr(log, target, bad_model[kinds], observation=q),
        }
        if seed < 300:
            zero_filled = ope.Log(log.arms, np.nan_to_num(log.rewards), log.propensities)
            only_observed = ope.Log(log.arms[log.heard], log.rewards[log.heard], log.propensities[log.heard])
            ridge = ope.ridge_model(WORLD.contexts[kinds], log, 4, observation=q)
            now |= {
                "dr, ridge": ope.dr(log, target, ridge, observation=q),
                "dr, good model, wrong q": ope.dr(log, target, model, observation=0.5),
                "zero-filled": ope.ips(zero_filled, target),
                "only observed": ope.snips(only_observed, target[log.heard]),
                "far": ope.ips(log, WORLD.far[kinds], observation=q),
            }
        log, kinds, _ = WORLD.log(rng, observation=by_arm)
        now["ips, by-arm"] = ope.ips(log, WORLD.near[kinds], observation="by-arm")
        now["snips, by-arm"] = ope.snips(log, WORLD.near[kinds], observation="by-arm")
        for name, estimate in now.items():
            found.setdefault(name, []).append(estimate)
    return found


UNBIASED = ["ips", "snips", "dr, good model", "dr, bad model", "dr, ridge", "ips, by-arm", "snips, by-arm"]


def _values(estimates):
    return np.array([estimate.value for estimate in estimates])


def _bias(estimates):
    """Return the bias, and the bias in standard errors."""
    errors = _values(estimates) - TRUTH
    return errors.mean(), errors.mean() / (errors.std(ddof=1) / math.sqrt(len(errors)))


def _covered(estimates, truth):
    return np.mean([low <= truth <= high for low, high in (estimate.interval for estimate in estimates)])


@pytest.mark.parametrize("name", [*UNBIASED, "dr, good model, wrong q"])
def test_estimators_are_unbiased(repeats, name):
    bias, in_errors = _bias(repeats[name])
    assert abs(in_errors) < 3.5
    assert abs(bias) < 0.005


@pytest.mark.parametrize("name", UNBIASED)
def test_intervals_cover_the_true_value_at_the_nominal_rate(repeats, name):
    covered = _covered(repeats[name], TRUTH)
    slack = 4 * math.sqrt(0.95 * 0.05 / len(repeats[name]))
    most = 1 if "by-arm" in name else 0.95 + slack  # an estimated q leaves less variance than a known one
    assert 0.95 - slack <= covered <= most


def test_counting_missing_rewards_as_0_or_dropping_them_is_biased(repeats):
    for name, least in (("zero-filled", 0.1), ("only observed", 0.02)):
        bias, in_errors = _bias(repeats[name])
        assert abs(bias) > least
        assert abs(in_errors) > 20


def test_a_good_model_and_self_normalization_reduce_the_variance(repeats):
    spread = {name: _values(estimates).std() for name, estimates in repeats.items()}
    assert spread["dr, good model"] < spread["snips"] < spread["ips"]
    assert _values(repeats["dr, ridge"]).std() < 0.9 * spread["ips"]


def test_warnings_are_given_for_violated_assumptions_and_rarely_otherwise(repeats):
    for name in UNBIASED:
        assert np.mean([bool(estimate.warnings) for estimate in repeats[name]]) < 0.01
    assert all("o/q is" in estimate.warnings[0] for estimate in repeats["dr, good model, wrong q"])
    log, kinds, q = WORLD.log(np.random.default_rng(0))
    wrong = ope.Log(log.arms, log.rewards, np.full(len(q), 0.25))
    assert "π/p is" in ope.ips(wrong, WORLD.logging[kinds], observation=q).warnings[0]
    greedy = WORLD.near[kinds].argmax(axis=1)
    certain = ope.ips(ope.Log(log.arms, log.rewards, np.ones(len(q))), greedy, observation=q)
    assert certain.support == pytest.approx((greedy == log.arms).mean())
    assert "could not be in the log" in certain.warnings[0]


def test_intervals_with_too_few_effective_rows_have_a_warning(repeats):
    assert _covered(repeats["far"], WORLD.truth(WORLD.far)) < 0.92
    assert np.mean([any("effective rows" in line for line in each.warnings) for each in repeats["far"]]) > 0.95


def test_only_snips_is_equivariant_to_a_shift_of_rewards():
    log, kinds, q = WORLD.log(np.random.default_rng(5))
    target = WORLD.near[kinds]
    moved = ope.Log(log.arms, 0.5 * log.rewards + 0.5, log.propensities)
    before, after = (ope.snips(each, target, observation=q) for each in (log, moved))
    assert after.value == pytest.approx(0.5 * before.value + 0.5, abs=1e-12)
    assert after.standard_error == pytest.approx(0.5 * before.standard_error)
    before, after = (ope.ips(each, target, observation=q) for each in (log, moved))
    assert abs(after.value - (0.5 * before.value + 0.5)) > 1e-3


# The formulas, written as loops over rows.


def _oracle(kind, arms, rewards, propensities, target, q, model):
    weights, gains, direct, own = [], [], [], []
    for i, arm in enumerate(arms):
        policy = target[i] if target.ndim == 2 else [float(k == target[i]) for k in range(model.shape[1])]
        observed = not math.isnan(rewards[i])
        weights.append(policy[arm] / propensities[i] / q[i] if observed else 0.0)
        gains.append(rewards[i] if observed else 0.0)
        direct.append(sum(p * m for p, m in zip(policy, model[i], strict=True)))
        own.append(model[i][arm])
    n = len(weights)
    rows = list(zip(weights, gains, direct, own, strict=True))
    if kind == "ips":
        terms = [w * r for w, r, _, _ in rows]
    elif kind == "dr":
        terms = [d + w * (r - m) for w, r, d, m in rows]
    else:
        value = sum(w * r for w, r, _, _ in rows) / sum(weights)
        terms = [value + w * (r - value) / (sum(weights) / n) for w, r, _, _ in rows]
    mean = sum(terms) / n
    variance = sum((term - mean) ** 2 for term in terms) / (n - 1)
    effective = sum(weights) ** 2 / sum(w * w for w in weights)
    return mean, math.sqrt(variance / n), sum(w > 0 for w in weights), effective, sum(weights) / n


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = draw(st.integers(2, 25)), draw(st.integers(2, 5))
    arms = rng.integers(k, size=n)
    rewards = rng.integers(2, size=n).astype(float) if draw(st.booleans()) else rng.random(n)
    rewards[rng.random(n) < draw(st.sampled_from([0.0, 0.3, 0.8]))] = np.nan
    target = rng.dirichlet(np.full(k, 0.5), size=n) if draw(st.booleans()) else rng.integers(k, size=n)
    propensities = rng.uniform(0.05, 1, n).round(draw(st.sampled_from([1, 9]))).clip(0.05)
    observation = draw(st.sampled_from(["by-arm", 0.4, "rows"]))
    if observation == "rows":
        observation = rng.uniform(0.1, 1, n)
    return ope.Log(arms, rewards, propensities), target, observation, rng.normal(size=(n, k))


@settings(deadline=None)
@given(problem=problems())
def test_estimates_equal_the_formulas(problem):
    log, target, observation, model = problem
    if isinstance(observation, str):
        q = [np.mean([h for a, h in zip(log.arms, log.heard, strict=True) if a == arm]) for arm in log.arms]
    else:
        q = np.broadcast_to(observation, len(log.arms))
    picked = target[np.arange(len(log.arms)), log.arms] if target.ndim == 2 else target == log.arms
    lost = any(p > 0 and chance == 0 for p, chance in zip(picked, q, strict=True))
    estimators = {
        "ips": lambda: ope.ips(log, target, observation=observation),
        "snips": lambda: ope.snips(log, target, observation=observation),
        "dr": lambda: ope.dr(log, target, model, observation=observation),
    }
    for kind, estimate in estimators.items():
        if lost or not (picked * log.heard).any():
            with pytest.raises(TaciturnError, match="no reward of arm . was observed" if lost else "cannot evaluate"):
                estimate()
            continue
        got = estimate()
        wanted = _oracle(kind, log.arms, log.rewards, log.propensities, target, q, model)
        found = (got.value, got.standard_error, got.usable, got.effective, got.weight)
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9)
        ends = np.clip([got.value - 1.96 * wanted[1], got.value + 1.96 * wanted[1]], 0, 1)
        assert got.interval == pytest.approx(tuple(ends))
        certain = log.propensities == 1
        assert got.support == pytest.approx((picked * certain + ~certain).mean())


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), penalty=st.sampled_from([0.01, 1.0, 30.0]))
def test_the_ridge_model_is_fitted_on_the_other_half(seed, penalty):
    rng = np.random.default_rng(seed)
    log, kinds, q = WORLD.log(rng)
    X = WORLD.contexts[kinds]
    log = ope.Log(np.where(log.arms == 3, 2, log.arms), log.rewards, log.propensities)  # the last arm is never chosen
    model = ope.ridge_model(X, log, 4, observation=q, penalty=penalty)
    even = np.arange(len(q)) % 2 == 0
    for half in (even, ~even):
        known = ~half & log.heard
        mean = np.average(log.rewards[known], weights=1 / q[known])
        assert model[half, 3] == pytest.approx(mean)
        for arm in range(3):
            rows = known & (log.arms == arm)
            A = np.column_stack([X[rows], np.ones(rows.sum())])
            gram = A.T @ (A / q[rows, None]) + penalty * np.diag([1.0, 1.0, 1.0, 0.0])
            theta = np.linalg.solve(gram, A.T @ (log.rewards[rows] / q[rows]))
            assert model[half, arm] == pytest.approx((X[half] @ theta[:3] + theta[3]).clip(0, 1))


@pytest.mark.parametrize("X", [np.zeros((1000, 2)), np.full((1000, 3), 1e15), WORLD.contexts[[0] * 1000] * 1e12])
def test_the_ridge_model_accepts_constant_contexts(X):
    log, _, q = WORLD.log(np.random.default_rng(2))
    model = ope.ridge_model(X, log, 4, observation=q, penalty=1e-9)
    assert model[0] == pytest.approx(model[2], abs=1e-6)
    assert ((model >= 0) & (model <= 1)).all()


def test_a_mapping_and_none_for_silence_are_accepted():
    given = {"ids": [4, 5, 6], "arms": [0, 1, 0], "rewards": [1, None, 0], "propensities": [0.5, 0.5, 1], "states": "…"}
    assert ope.Log.of(given).heard.tolist() == [True, False, True]
    assert ope.ips(given, [0, 0, 0], observation=0.5).value == pytest.approx(4 / 3)


def test_the_smallest_probabilities_allowed_do_not_overflow():
    log = ope.Log([0, 1, 0], [1, 1, np.nan], [1e-30, 0.5, 1e-30])
    for target in ([0, 1, 1], [[1e-320, 1], [1, 0], [1, 0]]):
        model = np.full((3, 2), 1e15)
        for got in (ope.ips(log, target, observation=1e-30), ope.dr(log, target, model, observation=1e-30)):
            assert math.isfinite(got.value)
            assert math.isfinite(got.standard_error)
        assert ope.snips(log, target, observation=1e-30).value == pytest.approx(1)


LOG = {"arms": [0, 1, 1], "rewards": [1, np.nan, 0], "propensities": [0.5, 0.5, 0.5]}
FULL = {**LOG, "rewards": [1, 1, 0]}
MODEL = np.zeros((3, 2))
REFUSED = [
    (lambda: ope.ips([0, 1], [0, 1]), "an ope.Log or a mapping with arms, rewards and propensities"),
    (lambda: ope.ips({"arms": [0, 1]}, [0, 1]), "an ope.Log or a mapping"),
    (lambda: ope.Log([0], [1], [1]), "the log has 1 decisions; at least 2"),
    (lambda: ope.Log([0.0, 1.0], [1, 1], [1, 1]), "arms: shape (2,) and type float64; N indices"),
    (lambda: ope.Log([[0], [1, 2]], [1, 1], [1, 1]), "arms: not an array of numbers"),
    (lambda: ope.Log([0, -1], [1, 1], [1, 1]), "arms[1]=-1 is not allowed; a number from 0 is"),
    (lambda: ope.Log([0, 1], [1, 1, 1], [1, 1]), "rewards: shape (3,); (2) is needed"),
    (lambda: ope.Log([0, 1], [1, 2], [1, 1]), "rewards[1]=2 is not allowed; a number from 0 to 1, or NaN"),
    (lambda: ope.Log([0, 1], ["yes", "no"], [1, 1]), "rewards: not an array of numbers"),
    (lambda: ope.Log([0, 1], [1, 1], [0.5, 0]), "propensities[1]=0 is not allowed; a number above 0"),
    (lambda: ope.Log([0, 1], [1, 1], [1.1, 1]), "propensities[0]=1.1 is not allowed"),
    (lambda: ope.Log([0, 1], [1, 1], [np.nan, 1]), "propensities[0]=nan is not allowed"),
    (
        lambda: ope.ips(LOG, [0, 1, 1]),
        "1 of 3 rewards are missing: give observation, a probability, one for each row, or",
    ),
    (lambda: ope.ridge_model(MODEL, LOG, 2), "1 of 3 rewards are missing: give observation"),
    (lambda: ope.ips(LOG, [0, 1, 1], observation="by arm"), "observation='by arm' is not allowed"),
    (lambda: ope.ips(LOG, [0, 1, 1], observation=0), "observation=0 is not allowed; a number above 0"),
    (lambda: ope.ips(LOG, [0, 1, 1], observation=[0.5, 0.5]), "observation: shape (2,); (3) is needed"),
    (lambda: ope.ips(LOG, [0, 1, 1], observation=[0.5, 2, 0.5]), "observation[1]=2 is not allowed"),
    (lambda: ope.ips({**LOG, "arms": [0, 1, 0]}, [1, 1, 1], observation="by-arm"), "no reward of arm 1 was observed"),
    (lambda: ope.snips(FULL, [1, 0, 0]), "this log cannot evaluate it"),
    (lambda: ope.ips(FULL, [0, 1]), "target: shape (2,) and type int64; 3 indices of arms are needed"),
    (lambda: ope.ips(FULL, [0.5, 0.5, 1]), "target: shape (3,) and type float64"),
    (lambda: ope.ips(FULL, "best"), "target: not an array of numbers"),
    (lambda: ope.ips(FULL, [[1, 0], [1]]), "target: not an array of numbers"),
    (lambda: ope.ips(FULL, np.eye(2)), "target: shape (2, 2); (3, any) is needed"),
    (lambda: ope.ips(FULL, np.ones((3, 1))), "arms[1]=1 is not allowed; a number below 1, the columns of target,"),
    (lambda: ope.ips(FULL, [[1.5, -0.5], [1, 0], [1, 0]]), "target[0, 0]=1.5 is not allowed"),
    (lambda: ope.ips(FULL, [[1, 0], [0.5, 0.4], [1, 0]]), "sum of target[1]=0.9 is not allowed; a number that is 1"),
    (lambda: ope.dr(FULL, [0, 1, 1], np.zeros((3, 1))), "arms[1]=1 is not allowed; a number below 1, the columns of"),
    (lambda: ope.dr(FULL, [0, 1, 2], MODEL), "target[2]=2 is not allowed; a number below 2, the columns of model"),
    (lambda: ope.dr(FULL, [[1, 0]] * 3, np.zeros((3, 3))), "model: shape (3, 3); (3, 2) is needed"),
    (lambda: ope.dr(FULL, [0, 1, 1], MODEL + np.nan), "model[0, 0]=nan is not allowed"),
    (lambda: ope.ridge_model(MODEL[:2], FULL, 2), "contexts: shape (2, 2); (3, any) is needed"),
    (lambda: ope.ridge_model(MODEL[:, :0], FULL, 2), "contexts: shape (3, 0); (3, any) is needed"),
    (lambda: ope.ridge_model(MODEL + np.inf, FULL, 2), "contexts[0, 0]=inf is not allowed"),
    (lambda: ope.ridge_model(MODEL, {**FULL, "arms": [0, 1, 2]}, 2), "arms[2]=2 is not allowed; a number below 2"),
    (lambda: ope.ridge_model(MODEL, FULL, 1), "arms=1 is not allowed"),
    (lambda: ope.ridge_model(MODEL, FULL, 2, penalty=0), "penalty=0 is not allowed"),
    (lambda: ope.ridge_model(MODEL, LOG, 2, observation=0.5), "one half of the log has no observed reward"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_bad_input_is_refused_in_one_line(call, message):
    with pytest.raises(TaciturnError, match=re.escape(message)) as error:
        call()
    assert "\n" not in str(error.value)


def test_the_code_of_the_documentation_runs_and_covers_the_true_value():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names = {"__name__": "page"}
    exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102 - our own documentation
    low, high = names["estimate"].interval
    assert low < names["truth"] < high
