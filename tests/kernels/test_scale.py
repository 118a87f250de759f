"""The kernels of scaling against a transcription: a dictionary from slots to values."""

import math

import numpy as np
import pytest

from taciturn.kernels import scale, scale_rows
from taciturn.kernels.csr import CSR

COLUMNS = np.arange(30, dtype=np.int32)


def drawn(seed):
    """A state and a layout of 30 columns whose slots are in any order, and rows with NaN and numbers of any size."""
    rng = np.random.default_rng(seed)
    n, slots = len(COLUMNS), rng.permutation(np.arange(1, 200, dtype=np.int32))
    is_number = rng.random(n) < 0.8
    mean = np.where(is_number, rng.normal(size=n) * 10.0 ** rng.integers(-160, 150, n), 0.0)
    inverse = np.where(rng.random(n) < 0.1, 0.0, 1 / (np.abs(mean) + 1e-12))
    inverse[~is_number] = 1.0
    slot, flag = slots[:n].copy(), np.where((rng.random(n) < 0.4) & is_number, slots[n : 2 * n], -1).astype(np.int32)
    counts = np.ones(n, np.int64)
    floats = (np.zeros(n), np.zeros(n), np.zeros(n), mean, inverse)
    state = scale.ScaleState(is_number, counts, counts.copy(), *floats, slot, flag, rng.random(n) < 0.5)
    zeros = bool(seed % 2)
    expected = COLUMNS[is_number & (rng.random(n) < 0.3)] if zeros else COLUMNS[(flag >= 0) & (rng.random(n) < 0.5)]
    far_zeros = expected[inverse[expected] > 0][::3] if zeros else COLUMNS[:0]
    binned = COLUMNS[is_number][:3]
    edges = np.sort(rng.normal(size=(3, 4)), axis=1)
    edges[1, 2:] = np.inf
    bins = scale.Bins(binned, edges, np.array([300, 250, 400], np.int32))
    layout = scale.Layout(bins, n, expected, COLUMNS[:0], far_zeros, True, constant=seed % 3 > 0, zeros=zeros)
    rows = []
    for kept in (*rng.random(6), 1.0):
        columns = COLUMNS[rng.random(n) < kept]
        values = np.where(is_number, mean, 1.0)[columns] * rng.normal(size=len(columns)) * 3
        values[(rng.random(len(columns)) < 0.2) & is_number[columns]] = np.nan
        rows.append((columns, values))
    return state, layout, rows


def bounded(state, layout, columns, values, most):
    """The row with far zeros as entries, and each number at most `most` units from its mean."""
    row = dict.fromkeys(layout.far_zeros.tolist(), 0.0) | dict(zip(columns.tolist(), values.tolist(), strict=True))
    for j, x in row.items():
        if state.is_number[j] and state.inverse[j] > 0:
            low, high = state.mean[j] - most / state.inverse[j], state.mean[j] + most / state.inverse[j]
            row[j] = high if x > high else max(x, low)
    return dict(sorted(row.items()))


def scaled(state, layout, row, *, has_bins=True):
    """From slots to values."""
    made = {0: 1.0} if layout.constant else {}
    for j, x in row.items():
        if not state.is_number[j]:
            made[state.slot[j]] = x
            continue
        z = (x - state.mean[j]) * state.inverse[j]
        if z != 0 and not math.isnan(x):
            made[state.slot[j]] = z
        if state.flag[j] >= 0 and state.flags_present[j] == (not math.isnan(x)):
            made[state.flag[j]] = 1.0
    for j in set(layout.expected.tolist()) - row.keys():
        slot, z = (state.slot[j], -state.mean[j] * state.inverse[j]) if layout.zeros else (state.flag[j], 1.0)
        made[slot] = z
    for j, edges, slot in zip(*layout.bins, strict=True):
        x = row.get(j, 0.0 if layout.zeros else math.nan)
        if has_bins and not math.isnan(x):
            made[slot + int((edges < x).sum())] = 1.0
    return dict(sorted(made.items()))


def same(found, expected):
    columns, values = found
    assert columns.tolist() == list(expected)
    np.testing.assert_array_equal(values, list(expected.values()))


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_bounded_and_scaled_one_by_one_and_together(seed):
    state, layout, rows = drawn(seed)
    state.inverse[state.inverse == 0] = 1.0
    lacking = state.is_number & (state.flag < 0)
    state.flag[lacking] = np.arange(500, 500 + lacking.sum())  # nothing is new
    made = []
    for columns, values in rows:
        row = bounded(state, layout, columns, values, 2.0)
        is_new, raw_columns, raw_values, *found = scale_rows.take_row(state, layout, columns, values, 2.0)
        assert not is_new
        same((raw_columns, raw_values), row)
        same(found, scaled(state, layout, row))
        same(scale_rows.scale_row(state, layout, raw_columns, raw_values), scaled(state, layout, row))
        made.append((raw_columns, raw_values, row))
    ends = np.cumsum([0, *(len(columns) for columns, _, _ in made)])
    matrix = CSR(ends, np.concatenate([c for c, _, _ in made]), np.concatenate([v for _, v, _ in made]))
    ends, slots, values = scale_rows.scale_rows(state, layout, 2, matrix)
    for i, (_, _, row) in enumerate(made):
        entries = slice(ends[i], ends[i + 1])
        same((slots[entries], values[entries]), scaled(state, layout, row, has_bins=i >= 2))


@pytest.mark.parametrize("seed", range(40))
def test_full_rows_are_scaled_as_others_are_or_not_at_all(seed):
    """In one step, while they hold nothing odd."""
    state, layout, _ = drawn(seed)
    unscaled = state.inverse == 0
    state.inverse[unscaled] = 1 / (np.abs(state.mean[unscaled]) + 1e-12)
    rng = np.random.default_rng(seed)
    X = state.mean + rng.choice([-1, 1], (5, 30)) * rng.uniform(0.1, 1.9, (5, 30)) / state.inverse
    full = scale.full(state, layout)
    slots, values = scale.scale_full(full, X, 2.0)
    for i, x in enumerate(X):
        row = dict(enumerate(x.tolist()))
        same((slots[i], values[i]), scaled(state, layout, row))
        same([part[0] for part in scale.scale_full(full, X[i : i + 1], 2.0)], scaled(state, layout, row))
    j = int(COLUMNS[state.is_number][rng.integers(state.is_number.sum())])
    for odd in (
        np.nan,
        state.mean[j],
        state.mean[j] + 2.0 / state.inverse[j],
        state.mean[j] - 3.0 / state.inverse[j],
        1e200,
    ):
        X[rng.integers(5), j] = odd
        assert scale.scale_full(full, X, 2.0) is None
        X[:, j] = state.mean[j] + 1.0 / state.inverse[j]


def test_rows_are_scaled_in_pieces_and_all_at_once_alike(monkeypatch):
    """Full rows, sparse ones and empty ones."""
    state, layout, _ = drawn(3)
    unscaled = state.inverse == 0
    state.inverse[unscaled] = 1 / (np.abs(state.mean[unscaled]) + 1e-12)
    rng = np.random.default_rng(3)
    X = state.mean + rng.normal(size=(40, 30)) / state.inverse
    present = rng.random((40, 30)) < np.repeat([1.0, 0.5, 0.0, 1.0], 10)[:, None]
    rows = CSR(np.cumsum([0, *present.sum(axis=1)]), np.nonzero(present)[1].astype(np.int32), X[present])
    made = []
    for piece in (1, 300, scale_rows.PIECE):
        monkeypatch.setattr(scale_rows, "PIECE", piece)
        is_new, raw, taken = scale_rows.take_rows(state, layout, rows, 2.0)
        assert not is_new
        made.append((scale_rows.scale_rows(state, layout, 4, rows), raw, taken))
    for other in made[1:]:
        for (ends, columns, values), (expected_ends, *expected) in zip(other, made[0], strict=True):
            np.testing.assert_array_equal(ends, expected_ends)
            for array, wanted in zip((columns, values), expected, strict=True):
                np.testing.assert_array_equal(array[: ends[-1]], wanted[: ends[-1]])


def test_a_number_without_a_unit_and_a_flag_that_is_lacking_are_new():
    state, layout, _ = drawn(1)
    j = int(COLUMNS[state.is_number & (state.inverse > 0)][0])
    state.flag[j] = -1
    layout = layout._replace(far_zeros=COLUMNS[:0])
    for x, expected in ((np.nan, True), (state.mean[j], False)):
        assert scale_rows.take_row(state, layout, COLUMNS[j : j + 1], np.array([x]), 2.0)[0] == expected
    state.inverse[j] = 0.0
    assert scale_rows.take_row(
        state, layout, COLUMNS[j : j + 1], np.array([state.mean[j] + 1 + abs(state.mean[j])]), 2.0
    )[0]
    assert not scale_rows.take_row(state, layout, COLUMNS[j : j + 1], np.array([state.mean[j]]), 2.0)[0]
    watched = layout._replace(watched=COLUMNS[j : j + 1])
    assert scale_rows.take_row(state, watched, COLUMNS[:0], np.zeros(0), 2.0)[0]


@pytest.mark.parametrize("seed", range(5))
def test_many_slots_in_any_order_are_sorted(seed):
    n = 3000
    rng = np.random.default_rng(seed)
    state = scale.ScaleState(
        np.zeros(n, np.bool_),
        *(np.zeros(n, np.int64) for _ in range(2)),
        *(np.zeros(n) for _ in range(4)),
        np.ones(n),
        rng.permutation(n).astype(np.int32),
        np.full(n, -1, np.int32),
        np.zeros(n, np.bool_),
    )
    nothing = COLUMNS[:0]
    layout = scale.Layout(
        scale.Bins(nothing, np.zeros((0, 4)), nothing), n, nothing, nothing, nothing, False, False, False
    )
    slots, values = scale_rows.scale_row(state, layout, np.arange(n, dtype=np.int32), state.slot.astype(float))
    np.testing.assert_array_equal(slots, np.arange(n))
    np.testing.assert_array_equal(values, np.arange(n))
