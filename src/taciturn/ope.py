"""Off-policy evaluation: what another policy would have earned, from a log in which many rewards were never heard.

A log holds N decisions: the arm a that was chosen, the probability p with which it was chosen, and the reward r if one
was heard. Silence is not a reward of 0, it has a probability of its own: o is 1 where the reward was heard and else 0,
and q is the probability that it would be. With the target's probability π of the logged arm, every estimator weighs by

    w = π(a|x) / p · o / q

and relies on three things: p and q are right; p > 0 wherever π > 0; and, given context and arm, silence does not depend
on the reward. What the log can tell against the first two stands in `Estimate.warnings`; it cannot tell of the third.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.errors import TaciturnError
from taciturn.validate import LARGEST, check_number

Floats = NDArray[np.float64]

SMALLEST = 1e-30
"""The smallest probability of something that did happen; below it, squared weights leave the range of numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """What was decided and what came of it; what does not fit together is refused.

    `arms` (N,) are places from 0; `rewards` (N,) go from 0 to 1, NaN or None where none was heard; `propensities` (N,)
    are the probabilities, above 0, with which these arms were chosen.
    """

    arms: NDArray[np.int64]
    rewards: Floats
    propensities: Floats

    def __post_init__(self) -> None:
        """Check every row."""
        arms = _places("arms", self.arms)
        if len(arms) < 2:
            raise TaciturnError(f"the log has {len(arms)} decisions; at least 2 are needed")
        rewards = _numbers("rewards", self.rewards, arms.shape)
        propensities = _probable("propensities", self.propensities, arms.shape)
        silent = np.isnan(rewards)
        _require("rewards", rewards, silent | ((rewards >= 0) & (rewards <= 1)), "from 0 to 1, or NaN for silence,")
        object.__setattr__(self, "arms", arms)
        object.__setattr__(self, "rewards", rewards)
        object.__setattr__(self, "propensities", propensities)

    @classmethod
    def of(cls, log: Any) -> "Log":
        """A log from a mapping with `arms`, `rewards` and `propensities`, as `agent.log()` returns it."""
        if isinstance(log, cls):
            return log
        names = ("arms", "rewards", "propensities")
        if not isinstance(log, Mapping) or not all(name in log for name in names):
            raise TaciturnError("the log must be an ope.Log or a mapping with arms, rewards and propensities")
        return cls(*(log[name] for name in names))

    @property
    def heard(self) -> NDArray[np.bool_]:
        """Whether the reward was heard (N,)."""
        return ~np.isnan(self.rewards)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The value of a target policy, and how far to trust it.

    `usable` counts the rows with w > 0, all that the target is judged by; `effective` is how many rows of equal weight
    would say as much, (Σw)² / Σw²; `weight` is the mean of w, which would be 1 on an endless log. `support` is the
    largest share of the target's probability that can have been in the log: where p = 1, no other arm was. `warnings`
    says in a line each what speaks against the estimate.
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
        """The 95 % interval by the normal approximation."""
        return self.value - 1.96 * self.standard_error, self.value + 1.96 * self.standard_error


def ips(log: Any, target: Any, *, observation: Any = None) -> Estimate:
    """Inverse propensity scoring (Horvitz & Thompson 1952): `mean(w·r)`, unbiased, and wide where weights are large.

    Arguments:
        log: an `ope.Log`, or a mapping with the same names, as `agent.log()` returns.
        target: the policy to judge: its probabilities (N, K) of all arms at each decision, or the arms (N,) it takes.
        observation: q, the probability that a reward is heard: one number, one for each row (N,), or "by-arm", the
            share heard among the log's decisions for the arm. It may be left out where nothing is silent.
    """
    log = Log.of(log)
    chance, hearing = _weights(log, _target(log, target), observation)
    return _estimate(log, chance, hearing, _where_heard(log, chance * hearing * log.rewards))


def snips(log: Any, target: Any, *, observation: Any = None) -> Estimate:
    """Self-normalised IPS (Swaminathan & Joachims 2015): `v = Σ(w·r) / Σw`, always within the rewards that were heard.

    It trades a bias of order 1/N for a smaller variance, and moves with the rewards: a constant added to all of them is
    added to the value. The standard error is that of `w·(r − v) / mean(w)` (delta method). Arguments as for `ips`.
    """
    log = Log.of(log)
    chance, hearing = _weights(log, _target(log, target), observation)
    share = chance * hearing / (chance * hearing).max()
    share /= share.mean()
    value = _where_heard(log, share * log.rewards).mean()
    return _estimate(log, chance, hearing, value + _where_heard(log, share * (log.rewards - value)))


def dr(log: Any, target: Any, model: Any, *, observation: Any = None) -> Estimate:
    """Doubly robust (Dudík, Langford & Li 2011): `mean(Σ_k π(k|x)·m(x,k) + w·(r − m(x,a)))`.

    Unbiased if the model is right or if p and q are, and narrow as far as the model is good. The model must not have
    learned from the row that it is asked about (`ridge_model` keeps to this).

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
    for name, places in (("arms", log.arms), ("target", policy if policy.ndim == 1 else log.arms)):
        _require(name, places, places < m.shape[1], f"below {m.shape[1]}, the columns of model,")
    direct = _pick(m, policy) if policy.ndim == 1 else np.einsum("nk,nk->n", policy, m)
    chance, hearing = _weights(log, policy, observation)
    surprise = chance * hearing * (log.rewards - _pick(m, log.arms))
    return _estimate(log, chance, hearing, direct + _where_heard(log, surprise))


def ridge_model(contexts: Any, log: Any, arms: int, *, observation: Any = None, penalty: float = 1.0) -> Floats:
    """Expected rewards (N, K) for `dr`: one ridge regression an arm on the rewards that were heard, weighed by 1/q.

    Cross-fitted: even rows are predicted from odd ones and odd from even, so that no row is judged by a model which
    saw its reward. An arm that was not heard in a half gets that half's mean reward.

    Arguments:
        contexts: features (N, D) of the decisions.
        log: as for `ips`.
        arms: K, how many there are.
        observation: as for `ips`.
        penalty: λ on the squared weights, not on the intercept.
    """
    from sklearn.linear_model import Ridge  # noqa: PLC0415 - slow to import, and only this function needs it

    log = Log.of(log)
    check_number("arms", arms, 2, whole=True)
    check_number("penalty", penalty, 1e-9)
    _require("arms", log.arms, log.arms < arms, f"below {arms}, how many there are,")
    X = _numbers("contexts", contexts, (len(log.arms), None))
    _require("contexts", X, np.abs(X) <= LARGEST, f"up to {LARGEST:g}")
    hearing = _hearing(log, _observation(log, observation))
    model = np.empty((len(X), arms))
    odd = np.arange(len(X)) % 2 == 1
    for half in (odd, ~odd):
        known = half & log.heard
        if not known.any():
            raise TaciturnError("no reward was heard in one half of the log; a model needs some in even and odd rows")
        model[~half] = np.average(log.rewards[known], weights=hearing[known])
        for arm in np.unique(log.arms[known]):
            rows = known & (log.arms == arm)
            ridge = Ridge(penalty, solver="svd").fit(X[rows], log.rewards[rows], sample_weight=hearing[rows])
            model[~half, arm] = ridge.predict(X[~half]).clip(0, 1)
    return model


def _weights(log: Log, policy: NDArray[Any], observation: Any) -> tuple[Floats, Floats]:
    """The two factors of w, (N,) each: π/p for the choice of the arm and o/q for hearing of it."""
    chance = (_pick(policy, log.arms) if policy.ndim == 2 else policy == log.arms) / log.propensities
    q = _observation(log, observation)
    lost = (q == 0) & (chance > 0)
    if lost.any():
        arm = log.arms[lost][0]
        raise TaciturnError(f"arm {arm} was never heard of, so 'by-arm' cannot tell; give observation as probabilities")
    hearing = _hearing(log, q)
    if not (chance * hearing > 0).any():
        raise TaciturnError("no reward was heard for an arm that the target takes; this log cannot judge it")
    return chance, hearing


def _observation(log: Log, observation: Any) -> Floats:
    """The probability q (N,) that the reward of each decision is heard; 0 for arms never heard of "by-arm"."""
    silent = int((~log.heard).sum())
    forms = "a probability, one for each row, or 'by-arm'"
    if observation is None:
        if silent:
            raise TaciturnError(f"{silent} of {len(log.arms)} rewards are silent: give observation, {forms}")
        return np.ones(len(log.arms))
    if isinstance(observation, str):
        if observation != "by-arm":
            raise TaciturnError(f"observation={observation!r} is not allowed; {forms} is")
        _, place, count = np.unique(log.arms, return_inverse=True, return_counts=True)
        return np.asarray((np.bincount(place, weights=log.heard) / count)[place])
    given = _array("observation", observation)
    return np.broadcast_to(_probable("observation", given, log.arms.shape if given.ndim else ()), log.arms.shape)


def _estimate(log: Log, chance: Floats, hearing: Floats, terms: Floats) -> Estimate:
    """The mean of the terms (N,), its standard error, and what the weights have to say about it."""
    weights = chance * hearing
    share = weights / weights.max()
    effective = float(share.sum() ** 2 / (share @ share))
    support = float(np.where(log.propensities > 1 - 1e-9, np.minimum(chance, 1), 1).mean())
    doubts = {
        f"{1 - support:.1%} of the target's choices or more could not be in the log": support < 1 - 1e-9,
        f"π/p is {chance.mean():.3g} on average, not 1: propensities are wrong or choices missing": _far_from_1(chance),
        f"o/q is {hearing.mean():.3g} on average, not 1: the observation is wrong": _far_from_1(hearing),
        f"all rests on {effective:.1f} effective rows: the interval may be too narrow": effective < 100,
    }
    return Estimate(
        value=float(terms.mean()),
        standard_error=float(terms.std(ddof=1) / np.sqrt(len(terms))),
        usable=int((weights > 0).sum()),
        effective=effective,
        weight=float(weights.mean()),
        support=support,
        warnings=tuple(line for line, holds in doubts.items() if holds),
    )


def _far_from_1(weights: Floats) -> bool:
    """Whether the mean is further from 1 than four of its standard errors."""
    return bool(abs(weights.mean() - 1) > 4 * weights.std(ddof=1) / np.sqrt(len(weights)) + 1e-9)


def _hearing(log: Log, q: Floats) -> Floats:
    """The weights o/q (N,)."""
    return np.divide(1.0, q, out=np.zeros(len(q)), where=log.heard)


def _where_heard(log: Log, terms: Floats) -> Floats:
    """Terms with the weight o/q: 0 where nothing was heard, whatever the reward would have been."""
    return np.where(log.heard, terms, 0.0)


def _pick(values: NDArray[Any], arms: NDArray[np.int64]) -> NDArray[Any]:
    """The value of one arm in each row."""
    return np.take_along_axis(values, arms[:, None], axis=1)[:, 0]


# The border.


def _target(log: Log, target: Any) -> NDArray[Any]:
    """The target policy as probabilities (N, K) or as places (N,)."""
    given = _array("target", target)
    if given.ndim == 1:
        return _places("target", given, len(log.arms))
    policy = _numbers("target", given, (len(log.arms), None))
    _require("arms", log.arms, log.arms < policy.shape[1], f"below {policy.shape[1]}, the columns of target,")
    _require("target", policy, (policy >= 0) & (policy <= 1 + 1e-5), "from 0 to 1")
    total = policy.sum(axis=1)
    _require("sum of target", total, np.abs(total - 1) <= 1e-5, "that is 1")
    return policy


def _array(name: str, given: Any, dtype: Any = None) -> NDArray[Any]:
    try:
        return np.asarray(given, dtype=dtype)
    except (TypeError, ValueError):  # ragged, or no numbers
        raise TaciturnError(f"{name}: not an array of numbers") from None


def _places(name: str, given: Any, rows: int | None = None) -> NDArray[np.int64]:
    places = _array(name, given)
    if places.ndim != 1 or not np.issubdtype(places.dtype, np.integer) or rows not in (None, len(places)):
        needed = f"{'N' if rows is None else rows} places of arms are needed"
        raise TaciturnError(f"{name}: shape {places.shape} and type {places.dtype}; {needed}")
    _require(name, places, places >= 0, "from 0")
    return places.astype(np.int64)


def _numbers(name: str, given: Any, shape: tuple[int | None, ...]) -> Floats:
    """An array of numbers; None in the shape is any length."""
    values = _array(name, given, np.float64)
    fits = values.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, values.shape, strict=True))
    if not fits or 0 in values.shape:
        needed = ", ".join("any" if n is None else str(n) for n in shape)
        raise TaciturnError(f"{name}: shape {values.shape}; ({needed}) is needed")
    return values


def _probable(name: str, given: Any, shape: tuple[int | None, ...]) -> Floats:
    """Probabilities of what did happen, or can."""
    values = _numbers(name, given, shape)
    _require(name, values, (values >= SMALLEST) & (values <= 1), f"above 0 (at least {SMALLEST:g}) and up to 1")
    return values


def _require(name: str, values: NDArray[Any], good: NDArray[np.bool_], what: str) -> None:
    """Raise with the first value that is not good, and its place."""
    if not good.all():
        place = tuple(np.argwhere(~good)[0].tolist())
        raise TaciturnError(f"{name}{list(place) or ''}={values[place]:g} is not allowed; a number {what} is")
