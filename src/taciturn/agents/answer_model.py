"""How likely an answer is, from context and arm: whether silence says something, or comes at random."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.table import REWARDED, SILENT, NodeTable
from taciturn.introspection import AnswerRates
from taciturn.kernels.views import unit_values

Floats = NDArray[np.float64]

FEWEST, MOST = 100, 2000
"""An estimate needs so many settled decisions, and is made from no more than the last of these."""

WIDTH = 32
"""Onto how many columns the features of contexts are folded, and arms if there are more."""

PRECISION = 10.0
"""The prior of all coefficients but the intercept is N(0, 1 / PRECISION), on columns of variance 1."""

NEWTON_STEPS = 8

CLEAR = 2.0
"""An estimate that is not better than the mean rate by so many standard errors is no better: silence is random then."""

PARTS, BINS = 5, 10
"""Scores are calibrated by this many equal parts of other decisions; what comes of it is shown by tenths."""


class AnswerModel:
    """Remembers its last estimate. New decisions count once there are about a sixteenth more, corrections at once."""

    def __init__(self) -> None:
        self._made_for: tuple[bytes, bytes] | None = None
        self._rates: AnswerRates | None = None

    def rates(self, table: NodeTable) -> AnswerRates | None:
        """The estimate from the decisions of a table; None where there are too few."""
        states = table.state.data[: table.count]
        settled = np.flatnonzero((states == REWARDED) | (states == SILENT))
        if len(settled) < FEWEST:
            return None
        step = 1 << max(len(settled).bit_length() - 4, 0)
        settled = settled[: len(settled) // step * step][-MOST:]
        made_for = table.id.data[settled].tobytes(), states[settled].tobytes()
        if made_for != self._made_for:
            self._made_for, self._rates = made_for, _estimate(table, settled)
        return self._rates


def _estimate(table: NodeTable, nodes: NDArray[np.int64]) -> AnswerRates:
    answered = (table.state.data[nodes] == REWARDED).astype(float)
    X = _features(table, nodes)
    rates, constant = np.empty(len(nodes)), np.empty(len(nodes))
    # Parts by a hash of the ids: arms, contexts or answers may come in turns. Each decision is estimated from others:
    # one half has the coefficients, and one quarter the shares of those with about the same score.
    quarters = np.argsort(np.argsort(_hashed(table.id.data[nodes]), kind="stable")) % 4
    for half in (0, 1):
        scores = X @ _coefficients(X[quarters % 2 != half], answered[quarters % 2 != half])
        for own, other in ((half, half + 2), (half + 2, half)):
            mine, theirs = quarters == own, quarters == other
            rates[mine] = _calibrated(scores[mine], scores[theirs], answered[theirs])
            constant[mine] = answered[theirs].mean()
    at_best, at_random = _log_likelihood(rates, answered), _log_likelihood(constant, answered)
    gains = at_best - at_random
    explained = 0.0
    if gains.mean() > CLEAR * gains.std() / np.sqrt(len(gains)):
        explained = gains.sum() / -at_random.sum()
    else:
        rates[:] = answered.mean()
    low, high = np.quantile(rates, [0.05, 0.95])
    return AnswerRates(
        rate=float(answered.mean()),
        lowest=float(low),
        highest=float(high),
        explained=float(explained),
        bins=_bins(rates, answered),
    )


def _features(table: NodeTable, nodes: NDArray[np.int64]) -> Floats:
    """The arm and the folded context of some decisions, each column with mean 0 and variance 1, and a constant."""
    indptr, columns, values = table.contexts.rows
    lengths = np.diff(indptr)[nodes]
    row_of = np.repeat(np.arange(len(nodes)), lengths)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.arange(ends[-1]) - np.repeat(ends[:-1] - indptr[nodes], lengths)
    hashed = _hashed(columns[entries])
    signs = 1.0 - 2.0 * (hashed & np.uint64(1)).astype(float)
    context = np.zeros((len(nodes), WIDTH))
    column = (hashed >> np.uint64(1)) % np.uint64(WIDTH)
    np.add.at(context, (row_of, column.astype(np.int64)), signs * unit_values(ends, values[entries]))
    arms = np.eye(WIDTH)[table.arm.data[nodes] % WIDTH]
    X = np.concatenate([arms, context], axis=1)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-6)
    return np.concatenate([np.ones((len(nodes), 1)), X], axis=1)


def _hashed(numbers: NDArray[Any]) -> NDArray[np.uint64]:
    """Numbers of 31 bits that look random, for whole ones that are not negative (Vigna's splitmix)."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray((mixed ^ (mixed >> np.uint64(27))) >> np.uint64(33))


def _coefficients(X: Floats, answered: Floats) -> Floats:
    """A logistic regression with a Gaussian prior, by Newton steps; the intercept has hardly any prior."""
    prior = np.full(X.shape[1], PRECISION)
    prior[0] = 1e-3
    w = np.zeros(X.shape[1])
    for _ in range(NEWTON_STEPS):
        p = 1.0 / (1.0 + np.exp(-np.clip(X @ w, -12.0, 12.0)))
        slope = X.T @ (answered - p) - prior * w
        step = np.linalg.solve((X * (p * (1.0 - p))[:, None]).T @ X + np.diag(prior), slope)
        w = w + step / max(1.0, np.abs(step).max())
    return w


def _calibrated(scores: Floats, others: Floats, answered: Floats) -> Floats:
    """The share answered of others with about the same score, rising with it.

    They are those of equal parts of the others, each with one decision more that has the mean of all.
    """
    from sklearn.isotonic import isotonic_regression  # noqa: PLC0415 - slow to import, and few agents need it soon

    edges = np.unique(np.quantile(others, np.arange(1, PARTS) / PARTS))
    part = np.searchsorted(edges, others)
    counts, found = np.bincount(part, minlength=PARTS), np.bincount(part, answered, minlength=PARTS)
    shares = (found + answered.mean()) / (counts + 1.0)
    return np.asarray(isotonic_regression(shares, sample_weight=counts + 1.0)[np.searchsorted(edges, scores)])


def _log_likelihood(rates: Floats, answered: Floats) -> Floats:
    return np.asarray(np.log(np.where(answered == 1, rates, 1.0 - rates).clip(1e-9)))


def _bins(rates: Floats, answered: Floats) -> tuple[tuple[float, float, int], ...]:
    """For each tenth of the range with any: the mean estimate, the share answered, and their number."""
    number = np.minimum((rates * BINS).astype(int), BINS - 1)
    return tuple(
        (float(rates[number == i].mean()), float(answered[number == i].mean()), int((number == i).sum()))
        for i in np.unique(number)
    )
