"""Off-policy evaluation: the value of another policy, estimated from a log with missing rewards.

A log holds N decisions: the arm a that was chosen, the probability p with which it was chosen, and the reward r if it
was observed. A missing reward is not a reward of 0: o is 1 where the reward was observed and 0 where it is missing, and
q is the probability of o = 1. With the target's probability π of the logged arm, every estimator weights by

    w = π(a|x) / p · o / q

and assumes that p and q are correct, that p > 0 wherever π > 0, and that silence does not depend on the reward given
context and arm. Evidence in the log against the first two is reported in `Estimate.warnings`; the third cannot be
checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.errors import TaciturnError
from taciturn.system import one_thread
from taciturn.validate import LARGEST, MANY, check_number

Floats = NDArray[np.float64]

SMALLEST = 1e-30
"""The smallest probability of an event that happened; below it, squared weights overflow."""


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """Logged decisions; inconsistent arrays are refused.

    `arms` (N,) are indices from 0; `rewards` (N,) are from 0 to 1, NaN or None where missing; `propensities` (N,) are
    the probabilities, above 0, with which these arms were chosen.
    """

    arms: NDArray[np.int64]
    rewards: Floats
    propensities: Floats

    def __post_init__(self) -> None:
        """Validate every row."""
        arms = _indices("arms", self.arms)
        if len(arms) < 2:
            raise TaciturnError(f"the log has {len(arms)} decisions; at least 2 are needed")
        rewards = _numbers("rewards", self.rewards, arms.shape)
        propensities = _probabilities("propensities", self.propensities, arms.shape)
        silent = np.isnan(rewards)
        _require("rewards", rewards, silent | ((rewards >= 0) & (rewards <= 1)), "from 0 to 1, or NaN for silence,")
        object.__setattr__(self, "arms", arms)
        object.__setattr__(self, "rewards", rewards)
        object.__setattr__(self, "propensities", propensities)

    @classmethod
    def of(cls, log: Any) -> "Log":
        """Return a log from a mapping with `arms`, `rewards` and `propensities`, as `agent.log()` returns it."""
        if isinstance(log, cls):
            return log
        names = ("arms", "rewards", "propensities")
        if not isinstance(log, Mapping) or not all(name in log for name in names):
            raise TaciturnError("the log must be an ope.Log or a mapping with arms, rewards and propensities")
        return cls(*(log[name] for name in names))

    @property
    def heard(self) -> NDArray[np.bool_]:
        """Whether the reward was observed (N,)."""
        return ~np.isnan(self.rewards)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The `value` of a target policy with its `standard_error`, and diagnostics.

    `usable` is the number of rows with w > 0; `effective` is the effective sample size (Σw)² / Σw²; `weight` is the
    mean of w, whose expectation is 1. `support` is an upper bound on the share of the target's probability that the log
    can contain: where p = 1, no other arm was possible. `warnings` has one line for each reason to doubt the estimate.
    """

    value: float
    standard_error: float
    usable: int
    effective: float
    weight: float
    support: float
    warnings: tuple[str, ...] = ()

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval by the normal approximation, cut to the range of rewards, from 0 to 1.

        A mean reward is never outside, so this loses no coverage; a `value` of `ips` or `dr` can be.
        """
        low, high = (self.value + side * 1.96 * self.standard_error for side in (-1, 1))
        return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


def ips(log: Any, target: Any, *, observation: Any = None) -> Estimate:
    """Inverse propensity scoring (Horvitz & Thompson 1952): `mean(w·r)`, unbiased; its variance grows with the weights.

    Arguments:
        log: an `ope.Log`, or a mapping with the same names, as `agent.log()` returns.
        target: the policy to evaluate: its probabilities (N, K) of all arms at each decision, or its arms (N,).
        observation: q, the probability that a reward is observed: one number, one for each row (N,), or "by-arm", the
            share observed among the log's decisions for the arm. It may be omitted where no reward is missing.
    """
    log = Log.of(log)
    choice, observed = _weights(log, _target(log, target), observation)
    return _estimate(log, choice, observed, _zero_where_missing(log, choice * observed * log.rewards))


def snips(log: Any, target: Any, *, observation: Any = None) -> Estimate:
    """Self-normalized IPS (Swaminathan & Joachims 2015): `v = Σ(w·r) / Σw`, always within the observed rewards.

    It trades a bias of order 1/N for a smaller variance, and is equivariant: a constant added to all rewards is added
    to the value. The standard error is that of `w·(r − v) / mean(w)` (delta method). `log`, `target` and
    `observation` are those of `ips`.
    """
    log = Log.of(log)
    choice, observed = _weights(log, _target(log, target), observation)
    share = choice * observed / (choice * observed).max()
    share /= share.mean()
    value = _zero_where_missing(log, share * log.rewards).mean()
    return _estimate(log, choice, observed, value + _zero_where_missing(log, share * (log.rewards - value)))


def dr(log: Any, target: Any, model: Any, *, observation: Any = None) -> Estimate:
    """Doubly robust (Dudík, Langford & Li 2011): `mean(Σ_k π(k|x)·m(x,k) + w·(r − m(x,a)))`.

    Unbiased if the model is right or if p and q are; the better the model, the lower the variance. The model's
    prediction for a row must not depend on that row's reward (as `ridge_model` ensures by cross-fitting).

    Arguments:
        log: as for `ips`.
        target: as for `ips`.
        model: m, the expected reward (N, K) of every arm at each decision.
        observation: as for `ips`.
    """
    log = Log.of(log)
    policy = _target(log, target)
    m = _numbers("model", model, (len(log.arms), policy.shape[1] if policy.ndim == 2 else None))
    _require("model", m, np.abs(m) <= LARGEST, f"up to {LARGEST:g}")
    for name, indices in (("arms", log.arms), ("target", policy if policy.ndim == 1 else log.arms)):
        _require(name, indices, indices < m.shape[1], f"below {m.shape[1]}, the columns of model,")
    direct = _pick(m, policy) if policy.ndim == 1 else np.einsum("nk,nk->n", policy, m)
    choice, observed = _weights(log, policy, observation)
    surprise = choice * observed * (log.rewards - _pick(m, log.arms))
    return _estimate(log, choice, observed, direct + _zero_where_missing(log, surprise))


def ridge_model(contexts: Any, log: Any, arms: int, *, observation: Any = None, penalty: float = 1.0) -> Floats:
    """Return expected rewards (N, K) for `dr`: one ridge regression per arm on the observed rewards, weighted by 1/q.

    Cross-fitted: even rows are predicted from odd ones and odd from even, so that no prediction depends on the reward
    of its own row. An arm without an observed reward in a half gets the mean reward of that half.

    Arguments:
        contexts: features (N, D) of the decisions.
        log: as for `ips`.
        arms: K, the number of arms.
        observation: as for `ips`.
        penalty: λ on the squared weights, not on the intercept.
    """
    from sklearn.linear_model import Ridge  # noqa: PLC0415 - slow to import, and only this function needs it

    log = Log.of(log)
    check_number("arms", arms, 2, MANY, whole=True)
    check_number("penalty", penalty, 1e-9, 1e15)
    _require("arms", log.arms, log.arms < arms, f"below {arms}, the number of arms,")
    X = _numbers("contexts", contexts, (len(log.arms), None))
    _require("contexts", X, np.abs(X) <= LARGEST, f"up to {LARGEST:g}")
    inverse_q = _observation_weights(log, _observation(log, observation))
    model = np.empty((len(X), arms))
    odd = np.arange(len(X)) % 2 == 1
    for half in (odd, ~odd):
        known = half & log.heard
        if not known.any():
            raise TaciturnError(
                "one half of the log has no observed reward; a model needs some in even and in odd rows"
            )
        model[~half] = np.average(log.rewards[known], weights=inverse_q[known])
        for arm in np.unique(log.arms[known]):
            rows = known & (log.arms == arm)
            with one_thread():
                ridge = Ridge(penalty, solver="svd").fit(X[rows], log.rewards[rows], sample_weight=inverse_q[rows])
                model[~half, arm] = ridge.predict(X[~half]).clip(0, 1)
    return model


def _weights(log: Log, policy: NDArray[Any], observation: Any) -> tuple[Floats, Floats]:
    """Return the two factors of w, (N,) each: π/p for the choice of the arm, and o/q for observing its reward."""
    choice = (_pick(policy, log.arms) if policy.ndim == 2 else policy == log.arms) / log.propensities
    q = _observation(log, observation)
    lost = (q == 0) & (choice > 0)
    if lost.any():
        arm = log.arms[lost][0]
        raise TaciturnError(
            f"no reward of arm {arm} was observed, so 'by-arm' gives q = 0; give observation as numbers"
        )
    observed = _observation_weights(log, q)
    if not (choice * observed > 0).any():
        raise TaciturnError("no reward of an arm that the target chooses was observed; this log cannot evaluate it")
    return choice, observed


def _observation(log: Log, observation: Any) -> Floats:
    """Return the probability q (N,) that each reward is observed; 0 "by-arm" for arms without an observed reward."""
    silent = int((~log.heard).sum())
    forms = "a probability, one for each row, or 'by-arm'"
    if observation is None:
        if silent:
            raise TaciturnError(f"{silent} of {len(log.arms)} rewards are missing: give observation, {forms}")
        return np.ones(len(log.arms))
    if isinstance(observation, str):
        if observation != "by-arm":
            raise TaciturnError(f"observation={observation!r} is not allowed; {forms} is")
        _, inverse, count = np.unique(log.arms, return_inverse=True, return_counts=True)
        return np.asarray((np.bincount(inverse, weights=log.heard) / count)[inverse])
    given = _array("observation", observation)
    return np.broadcast_to(_probabilities("observation", given, log.arms.shape if given.ndim else ()), log.arms.shape)


def _estimate(log: Log, choice: Floats, observed: Floats, terms: Floats) -> Estimate:
    """Return the mean of the terms (N,) with its standard error, and the diagnostics of the weights."""
    weights = choice * observed
    share = weights / weights.max()
    effective = float(share.sum() ** 2 / (share @ share))
    support = float(np.where(log.propensities > 1 - 1e-9, np.minimum(choice, 1), 1).mean())
    warnings = {
        f"at least {1 - support:.1%} of the target's choices could not be in the log": support < 1 - 1e-9,
        f"π/p is {choice.mean():.3g} on average, not 1: propensities are wrong or choices missing": _far_from_1(choice),
        f"o/q is {observed.mean():.3g} on average, not 1: the observation is wrong": _far_from_1(observed),
        f"there are only {effective:.1f} effective rows: the interval may be too narrow": effective < 100,
    }
    return Estimate(
        value=float(terms.mean()),
        standard_error=float(terms.std(ddof=1) / np.sqrt(len(terms))),
        usable=int((weights > 0).sum()),
        effective=effective,
        weight=float(weights.mean()),
        support=support,
        warnings=tuple(line for line, holds in warnings.items() if holds),
    )


def _far_from_1(weights: Floats) -> bool:
    """Whether the mean differs from 1 by more than four standard errors."""
    return bool(abs(weights.mean() - 1) > 4 * weights.std(ddof=1) / np.sqrt(len(weights)) + 1e-9)


def _observation_weights(log: Log, q: Floats) -> Floats:
    """Return the weights o/q (N,)."""
    return np.divide(1.0, q, out=np.zeros(len(q)), where=log.heard)


def _zero_where_missing(log: Log, terms: Floats) -> Floats:
    """Return the terms (N,), 0 where the reward is missing: there r is NaN, and o/q is 0."""
    return np.where(log.heard, terms, 0.0)


def _pick(values: NDArray[Any], arms: NDArray[np.int64]) -> NDArray[Any]:
    """Return the value (N,) of one arm in each row of (N, K)."""
    return np.take_along_axis(values, arms[:, None], axis=1)[:, 0]


# Validation of arguments.


def _target(log: Log, target: Any) -> NDArray[Any]:
    """Return the target policy as probabilities (N, K) or as indices of arms (N,)."""
    given = _array("target", target)
    if given.ndim == 1:
        return _indices("target", given, len(log.arms))
    policy = _numbers("target", given, (len(log.arms), None))
    _require("arms", log.arms, log.arms < policy.shape[1], f"below {policy.shape[1]}, the columns of target,")
    _require("target", policy, (policy >= 0) & (policy <= 1 + 1e-5), "from 0 to 1")
    total = policy.sum(axis=1)
    _require("sum of target", total, np.abs(total - 1) <= 1e-5, "that is 1")
    return policy


def _array(name: str, given: Any, dtype: Any = None) -> NDArray[Any]:
    try:
        return np.asarray(given, dtype=dtype)
    except (TypeError, ValueError):  # ragged, or not numbers
        raise TaciturnError(f"{name}: not an array of numbers") from None


def _indices(name: str, given: Any, rows: int | None = None) -> NDArray[np.int64]:
    indices = _array(name, given)
    if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer) or rows not in (None, len(indices)):
        needed = f"{'N' if rows is None else rows} indices of arms are needed"
        raise TaciturnError(f"{name}: shape {indices.shape} and type {indices.dtype}; {needed}")
    _require(name, indices, indices >= 0, "from 0")
    return indices.astype(np.int64)


def _numbers(name: str, given: Any, shape: tuple[int | None, ...]) -> Floats:
    """Return an array of numbers; None in the shape is any length."""
    values = _array(name, given, np.float64)
    fits = values.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, values.shape, strict=True))
    if not fits or 0 in values.shape:
        needed = ", ".join("any" if n is None else str(n) for n in shape)
        raise TaciturnError(f"{name}: shape {values.shape}; ({needed}) is needed")
    return values


def _probabilities(name: str, given: Any, shape: tuple[int | None, ...]) -> Floats:
    """Return probabilities above 0."""
    values = _numbers(name, given, shape)
    _require(name, values, (values >= SMALLEST) & (values <= 1), f"above 0 (at least {SMALLEST:g}) and up to 1")
    return values


def _require(name: str, values: NDArray[Any], good: NDArray[np.bool_], what: str) -> None:
    """Raise with the first value that is not good, and its index."""
    if not good.all():
        index = tuple(np.argwhere(~good)[0].tolist())
        raise TaciturnError(f"{name}{list(index) or ''}={values[index]:g} is not allowed; a number {what} is")
