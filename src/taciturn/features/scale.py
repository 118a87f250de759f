"""Numbers on a common scale, by the moments of the contexts so far.

Each column of numbers is scaled to ``z = (x − μ)/σ``: μ and σ are the mean and the standard deviation of its values,
or, where most of them are equal, that usual value and the root mean square of the distances from it. Words, tags, texts
and vectors keep their own values. A change of units, ``x → a·x + b`` of any column with a > 0,
changes nothing.

The scale is renewed each time the contexts have grown by half. That moves all rows linearly, because they have a
constant entry: ``z' = S z``, so that sums over contexts that are gone can follow (`Change`).

In a table of few columns a number also has a feature for the bin that it falls into, so that a linear model can follow
a threshold or a hump. The edges are quantiles of the first contexts and stay.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.contracts import SparseRow
from taciturn.features.scale_file import (
    COUNTS,
    MAX_BINS,
    MAX_BINS_EACH,
    MAX_ROWS,
    NO_BINS,
    SMALLEST_UNIT,
    TYPES,
    checked,
    new_state,
)
from taciturn.kernels import scale, scale_rows
from taciturn.kernels.csr import CSR

GROWTH = 1.5
"""The scale is renewed each time the contexts have grown by this factor."""

TOLERANCE, FAR, CLOSE = 0.05, 0.25, 0.01
"""All columns keep their scale while mean and standard deviation are on average this close to those of now, in units of
the latter, and none is far off: of hundreds, some are off by chance. Else all move but those that are close."""

OUTLIER = 100.0
"""Numbers further from the mean than so many standard deviations count as if they were there."""

LARGEST_CHANGE = 1e200
"""A column that would move by a larger factor, or further, keeps its scale: a change must be invertible."""

SAMPLE = 256
"""How many contexts are looked at for the usual value of a column."""

BINNED_AT = 40
"""From so many contexts on, numbers also have bins."""

MIN_BINS_EACH = 3
"""Where there is only room for fewer, a column has none."""


def most_slots(n_columns: int) -> int:
    """The most slots for so many numbers of which none is ever missing: each, the constant, and all bins."""
    return n_columns + 1 + (min(MAX_BINS, n_columns * MAX_BINS_EACH) if n_columns <= MAX_BINS * MAX_BINS_EACH else 0)


class HeldRows(Protocol):
    """Raw rows that are at hand."""

    count: int

    @property
    def dense(self) -> NDArray[np.float64] | None:
        """All of them (T, W), where that takes no copy; else None."""

    def some(self, nodes: NDArray[np.int64]) -> CSR:
        """Those at some places."""

    def pieces(self) -> Iterator[tuple[int, CSR]]:
        """All of them, some at a time."""


class Change(NamedTuple):
    """A linear change of scaled rows: ``z'[slots] = block @ z[slots]``, or ``z' = S z``; all other entries stay."""

    slots: NDArray[np.int64]  # (m,)
    block: sp.csr_matrix  # (m, m), with three entries in a row at most

    def of_weights(self, weights: NDArray[Any]) -> NDArray[np.float64]:
        """``S⁻ᵀw`` for weights of the slots (m, …): they say of moved rows what they said of the rows before.

        Values move by flags and the constant, flags by the constant alone, so that two substitutions are exact.
        """
        flat, diagonal = weights.reshape(len(weights), -1).astype(float), self.block.diagonal()
        others = (self.block - sp.diags(diagonal)).T
        solved = flat / diagonal[:, None]
        for _ in range(2):
            solved = (flat - others @ solved) / diagonal[:, None]
        return np.asarray(solved).reshape(weights.shape)


class Openings(NamedTuple):
    """What a row is the first to have: columns, and centers or units for them."""

    centers: tuple[NDArray[np.int32], NDArray[np.float64]]  # of numbers that come for the first time
    units: tuple[NDArray[np.int32], NDArray[np.float64]]  # inverses, of numbers that vary for the first time
    late: NDArray[np.int32]  # numbers that rows before had not, whose flag says where they are
    lacking: NDArray[np.int32]  # numbers that this row has not, whose flag says where they are missing

    @property
    def change_others(self) -> bool:
        """Whether rows so far would be made otherwise once these are open."""
        return len(self.units[0]) + len(self.late) + len(self.lacking) > 0


class Scaler:
    """The scale of all columns, and how they move."""

    def __init__(self) -> None:
        self.n_rows = 0  # that were observed
        self.n_columns = 0
        self.n_slots = 1
        self.width = 0  # how many slots there is room for
        self._renewed_at = 0
        self._state = new_state(0)
        nothing = np.zeros(0, np.int32)
        self._layout = scale.Layout(NO_BINS, 0, nothing, nothing, nothing, flagged=False, constant=False, zeros=False)
        self._full_of, self._held_full = self._layout, scale.full(self._state, self._layout)
        self.binned_from = MAX_ROWS  # the id of the first context that has bins

    @property
    def by_position(self) -> bool:
        """Whether an entry that a row does not have is the number 0; otherwise it is missing."""
        return self._layout.zeros

    def width_with(self, more: int) -> int:
        """Room for so many slots more: what there is if that is enough, else with some to spare for later."""
        n_slots = self.n_slots + more
        if n_slots <= self.width:
            return self.width
        return n_slots + (max(n_slots // 8, 16) if self.width else 0)

    # Columns.

    def begin(self, *, by_position: bool, is_number: NDArray[np.bool_]) -> None:
        """The first context, or the first batch of them, has come; rows have the constant entry if it has numbers."""
        self._layout = self._layout._replace(zeros=by_position, constant=bool(is_number.any()))

    def add_columns(self, is_number: NDArray[np.bool_]) -> None:
        """More columns. Those that are no numbers get their slot, and so do all that go by position."""
        first, self.n_columns = self.n_columns, self.n_columns + len(is_number)
        if self.n_columns > len(self._state.slot):  # with spare ones, so that few additions copy
            more = new_state(self.n_columns + self.n_columns // 8 - len(self._state.slot))
            both = {name: np.concatenate([getattr(part, name) for part in (self._state, more)]) for name in TYPES}
            self._state = scale.ScaleState(**both)
        self._layout = self._layout._replace(n_columns=self.n_columns)
        self._state.is_number[first : self.n_columns] = is_number
        self._state.inverse[first : self.n_columns] = ~is_number
        self._give_slots(self._state.slot, first + np.flatnonzero(~is_number | self.by_position))

    def are_numbers(self, columns: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which of some columns are numbers."""
        return self._state.is_number[columns]

    def fits(self, named: list[bool], n_inputs: int | None) -> bool:
        """Whether it is of columns by name, of which these are numbers, or of so many numbers by position."""
        if self.n_columns == 0:
            return not named and not n_inputs
        if n_inputs is not None:
            return self.by_position and bool(self._state.is_number[: self.n_columns].all())
        return not self.by_position and self._state.is_number[: self.n_columns].tolist() == named

    # Rows.

    def take(self, row: SparseRow) -> tuple[SparseRow, SparseRow | None]:
        """The row with outliers at their bound, and in slots: None if something is to be opened before."""
        if 0 < len(row.columns) == self.n_columns:
            made = scale.scale_full(self._full(), row.values[None], OUTLIER)
            if made is not None:
                return row, SparseRow(made[0][0], made[1][0])
        is_new, columns, values, slots, scaled = scale_rows.take_row(self._state, self._layout, *row, OUTLIER)
        return SparseRow(columns, values), None if is_new else SparseRow(slots, scaled)

    def _full(self) -> scale.Full:
        """How rows with a value in every column are scaled now: whatever changes the scale makes a new layout."""
        if self._full_of is not self._layout:
            self._full_of, self._held_full = self._layout, scale.full(self._state, self._layout)
        return self._held_full

    def take_all(self, rows: list[SparseRow]) -> list[tuple[SparseRow, SparseRow]] | None:
        """As `take`, for many rows; None if something is to be opened before one of them."""
        indptr = np.cumsum([0, *(len(row.columns) for row in rows)])
        columns, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        is_new, *made = scale_rows.take_rows(self._state, self._layout, CSR(indptr, columns, values), OUTLIER)
        return None if is_new else list(zip(*map(_split, made), strict=True))

    def openings(self, row: SparseRow) -> Openings:
        """What is new in a row: a number that varies for the first time, that comes late, or that is missing.

        All rows so far have zeros there, and keep them. Nothing has changed yet.
        """
        state, numbers = self._state, self._state.is_number[row.columns]
        columns, values = row.columns[numbers], row.values[numbers]
        known = ~np.isnan(values)
        missing, columns, values = columns[~known], columns[known], values[known]
        first = (state.present[columns] == 0) & (state.inverse[columns] == 0)
        if self.by_position and self.n_rows:
            first[:] = False  # it was zero so far
        late = columns[first] if self.n_rows else columns[:0]
        absent = scale_rows.absent_columns(row.columns, self._layout.watched)
        varying = np.concatenate([columns[~first], absent]) if self.by_position else columns[~first]
        at = np.concatenate([values[~first], np.zeros(len(absent))]) if self.by_position else values[~first]
        away = np.abs(at - state.mean[varying])
        opened = (state.inverse[varying] == 0) & (away > SMALLEST_UNIT)
        lacking = missing if self.by_position else np.concatenate([missing, absent])
        return Openings(
            centers=(columns[first], values[first]),
            units=(varying[opened], 1.0 / away[opened]),
            late=late[state.flag[late] < 0],
            lacking=lacking[state.flag[lacking] < 0],
        )

    def new_slots(self, openings: Openings) -> int:
        """How many slots they need."""
        return int((self._state.slot[openings.units[0]] < 0).sum()) + len(openings.late) + len(openings.lacking)

    def open(self, openings: Openings) -> None:
        """Give what is new its center, unit and slots."""
        state = self._state
        for part, (columns, values) in ((state.mean, openings.centers), (state.inverse, openings.units)):
            part[columns] = values
        state.flags_present[openings.late] = True
        for slots, columns in (
            (state.slot, openings.units[0]),
            (state.flag, openings.late),
            (state.flag, openings.lacking),
        ):
            self._give_slots(slots, columns)
        self._expect(openings)

    def _give_slots(self, slots: NDArray[np.int32], columns: NDArray[Any]) -> None:
        columns = columns[slots[columns] < 0]
        slots[columns] = self.n_slots + np.arange(len(columns))
        self.n_slots += len(columns)

    def _expect(self, openings: Openings) -> None:
        """As `_find_expected`, at the cost of what was opened."""
        state, (_, _, expected, watched, far_zeros, flagged, _, _) = self._state, self._layout
        if self.by_position:
            new = openings.units[0][state.mean[openings.units[0]] != 0]
            far_zeros = np.union1d(far_zeros, new[np.abs(state.mean[new] * state.inverse[new]) > OUTLIER])
            if self.n_rows == 0:
                first = openings.centers[0]
                watched = np.union1d(watched, first[state.mean[first] != 0])
        else:
            new = openings.lacking
        flagged = flagged or bool(len(openings.late) or len(openings.lacking))
        self._lay_out(np.union1d(expected, new), np.setdiff1d(watched, new), far_zeros, flagged=flagged)

    def _find_expected(self) -> None:
        """The columns whose absence from a row matters, by the state of now."""
        state = self._state
        if self.by_position:
            shifted = state.is_number & (state.mean != 0)
            expected, watched = shifted & (state.inverse > 0), shifted & (state.inverse == 0)
        else:
            expected = (state.flag >= 0) & ~state.flags_present
            watched = state.is_number & (state.present == self.n_rows) & (state.flag < 0)
        far_zeros = expected & (np.abs(state.mean * state.inverse) > OUTLIER) & self.by_position
        columns = (np.flatnonzero(found) for found in (expected, watched, far_zeros))
        self._lay_out(*columns, flagged=bool((state.flag >= 0).any()))

    def _lay_out(self, *columns: NDArray[Any], flagged: bool) -> None:
        expected, watched, far_zeros = (some.astype(np.int32) for some in columns)
        self._layout = self._layout._replace(expected=expected, watched=watched, far_zeros=far_zeros, flagged=flagged)

    def scaled(self, row: SparseRow) -> SparseRow:
        """A row in which nothing is new, in slots."""
        return SparseRow(*scale_rows.scale_row(self._state, self._layout, *row))

    def scaled_without_zeros(self, values: NDArray[np.float64], n_slots: int) -> NDArray[np.float64] | None:
        """The values (n, `n_slots`) that `scaled_rows` makes of rows (n, C), where none is 0; in less time, or None.

        Of rows that have all columns: they have all slots then, unless some columns have none or bins are among them.
        """
        full = self._full()
        if values.shape[1] != self.n_columns or len(full.order) != n_slots or len(full.bins.columns):
            return None
        return scale.in_slots(full, scale.standardized(full, values))

    def scaled_rows(self, rows: CSR, ids: NDArray[np.int64]) -> CSR:
        """Many rows in slots; those of an id before the first with bins have none."""
        return scale_rows.scale_rows(self._state, self._layout, int(np.searchsorted(ids, self.binned_from)), rows)

    # Moments.

    def observe(self, row: SparseRow) -> None:
        """Count a row in."""
        scale.observe(self._state, *row, 1)
        self.n_rows += 1
        if self.n_rows == 1:
            self._find_expected()

    def forget(self, row: SparseRow) -> None:
        """Count a row out, as if it had never come."""
        scale.observe(self._state, *row, -1)
        self.n_rows -= 1

    @property
    def is_due(self) -> bool:
        """Whether there are many more rows than when the scale was last renewed."""
        return self.is_due_within(0)

    def is_due_within(self, coming: int) -> bool:
        """Whether there will be, at the last of so many rows."""
        return self.n_rows + max(coming - 1, 0) >= max(2, int(GROWTH * self._renewed_at))

    def renew(self, held: HeldRows) -> Change | None:
        """Take the scale of the moments of now; returns how scaled rows move, None if they do not.

        Arguments:
            held: raw rows that are at hand, of which a sample tells the usual value of each column.
        """
        self._renewed_at = self.n_rows
        state = self._state
        columns = np.flatnonzero(state.is_number & (state.inverse > 0))
        mean, unit = self._moments(columns, held)
        varies = unit > SMALLEST_UNIT
        unit[~varies] = 1.0
        a, b = 1.0 / unit / state.inverse[columns], (state.mean[columns] - mean) / unit
        sound = varies & (a > 1.0 / LARGEST_CHANGE) & (a < LARGEST_CHANGE) & (np.abs(b) < LARGEST_CHANGE)
        off = np.maximum(np.abs(a - 1.0), np.abs(b))
        is_due = (off[sound] > FAR).any() or (off[sound] ** 2).sum() > TOLERANCE**2 * sound.sum()
        moved = sound & (off > CLOSE) & is_due
        columns, a, b = columns[moved], a[moved], b[moved]
        flipped = np.flatnonzero(self._should_flip())
        change = self._change(columns, a, b, flipped)
        state.mean[columns] = mean[moved]
        state.inverse[columns] *= a
        state.flags_present[flipped] ^= True
        self._find_expected()
        return change

    def _moments(self, columns: NDArray[np.int64], held: HeldRows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The centers of columns and their units."""
        state = self._state
        parts = state.origin, state.total, state.squares, state.present
        origin, total, squares, count = (part[columns] for part in parts)
        if self.by_position:
            zeros = self.n_rows - count - state.missing[columns]
            total, squares, count = total - zeros * origin, squares + zeros * origin**2, count + zeros
        offset = total / np.maximum(count, 1)
        variance = squares / np.maximum(count, 1) - offset**2
        center, unit = origin + offset, np.sqrt(np.maximum(variance, 0.0))
        usual = np.full(self.n_columns, np.nan)
        usual[columns] = self._middle_values(columns, held)
        pieces = [scale.distances_from(rows, usual, self.by_position) for _, rows in held.pieces()]
        found, equal, away = (sum(parts[1:], parts[0])[columns] for parts in zip(*pieces, strict=True))
        mostly = 2 * equal > found
        center[mostly] = usual[columns][mostly]
        unit[mostly] = np.sqrt(away[mostly] / np.maximum(found - equal, 1)[mostly])
        return center, unit

    def _middle_values(self, columns: NDArray[np.int64], held: HeldRows) -> NDArray[np.float64]:
        """The median of each column in a sample of rows: where more than half of the values are equal, that value."""
        middles, sample = np.zeros(len(columns)), self._sample(held)
        for first in range(0, len(columns), SAMPLE):  # few columns at a time, made dense
            values = self._values_of(columns[first : first + SAMPLE], sample)
            values.sort(axis=0)  # NaN last
            middle = np.maximum((~np.isnan(values)).sum(axis=0) - 1, 0) // 2
            middles[first : first + SAMPLE] = np.nan_to_num(values[middle, np.arange(values.shape[1])])
        return middles

    def _sample(self, held: HeldRows) -> Any:
        """Up to `SAMPLE` rows, for `_values_of`.

        Where all rows are held as one array: this, and which of its rows; a copy of wide ones would be large. Where
        none of the sample has zeros, an array; otherwise a matrix by column.
        """
        rows = np.unique(np.linspace(0, held.count - 1, min(held.count, SAMPLE)).astype(np.int64))
        if held.dense is not None and held.dense.shape[1] == self.n_columns:
            return held.dense, rows
        indptr, columns, values = held.some(rows)
        shape = len(rows), self.n_columns
        if len(values) == len(rows) * self.n_columns:
            return values.reshape(shape)
        return sp.csr_matrix((values, columns, indptr), shape=shape).tocsc()

    def _values_of(self, columns: NDArray[np.int64], sample: Any) -> NDArray[np.float64]:
        """The values of some columns (rows, columns); NaN where one is missing."""
        if isinstance(sample, tuple):
            rows_of_all, rows = sample
            return np.asarray(rows_of_all[rows[:, None], columns])
        if isinstance(sample, np.ndarray):
            return np.ascontiguousarray(sample[:, columns])
        starts, stops = sample.indptr[columns], sample.indptr[columns + 1]
        ends = np.cumsum(stops - starts)
        entries = np.repeat(stops - ends, stops - starts) + np.arange(ends[-1] if len(ends) else 0)
        values = np.full((sample.shape[0], len(columns)), 0.0 if self.by_position else np.nan)
        values[sample.indices[entries], np.repeat(np.arange(len(columns)), stops - starts)] = sample.data[entries]
        return values

    # Bins.

    @property
    def lacks_bins(self) -> bool:
        """Whether it is time for bins."""
        return self.n_rows >= BINNED_AT and self.binned_from == MAX_ROWS

    def planned_bins(self, held: HeldRows) -> tuple[scale.Bins, int]:
        """Bins of equal shares for numbers that take many values, by a sample of rows, and the slots that they need."""
        columns = np.flatnonzero(self._state.is_number & (self._state.inverse > 0))
        if len(columns) > MAX_BINS * MAX_BINS_EACH:  # too wide, and costly to look at
            return NO_BINS, 0
        values = self._values_of(columns, self._sample(held))
        distinct = [len(np.unique(column[~np.isnan(column)])) for column in values.T]
        varied = np.flatnonzero(np.array(distinct) > MAX_BINS_EACH // 2)
        each = min(MAX_BINS_EACH, MAX_BINS // max(len(varied), 1))
        if each < MIN_BINS_EACH or not len(varied):
            return NO_BINS, 0
        edges = np.full((len(varied), MAX_BINS_EACH - 1), np.inf)
        shares = np.arange(1, each) / each
        for row, column in zip(edges, values.T[varied], strict=True):
            # Edges are values that occurred: the same ones whatever the unit.
            cuts = np.unique(np.quantile(column[~np.isnan(column)], shares, method="inverted_cdf"))
            row[: len(cuts)] = cuts
        slots = self.n_slots + np.arange(len(varied)) * each
        return scale.Bins(columns[varied].astype(np.int32), edges, slots.astype(np.int32)), len(varied) * each

    def open_bins(self, bins: scale.Bins, n_slots: int, next_id: int) -> None:
        """Use bins, which take so many slots, for all contexts from `next_id` on."""
        self._layout, self.binned_from = self._layout._replace(bins=bins), next_id
        self.n_slots += n_slots

    def _should_flip(self) -> NDArray[np.bool_]:
        """The flags that most rows have: they are turned round, so that few have them."""
        state = self._state
        if not self._layout.constant:
            return np.zeros(self.n_columns, np.bool_)
        count = self.n_rows - state.missing if self.by_position else state.present
        often = 2 * count > self.n_rows
        return np.asarray((state.flag >= 0) & (state.flags_present == often) & (2 * count != self.n_rows))

    def _change(
        self, columns: NDArray[np.int64], a: NDArray[np.float64], b: NDArray[np.float64], flipped: NDArray[np.int64]
    ) -> Change | None:
        """How scaled rows move: ``z_j' = a_j z_j + b_j`` where there is a value, and flags turned round."""
        if not len(columns) and not len(flipped):
            return None
        state = self._state
        value, flag, turned = state.slot[columns], state.flag[columns], state.flag[flipped]
        slots = np.unique(np.concatenate([[0], value, flag[flag >= 0], turned]))
        flagged, present = flag >= 0, state.flags_present[columns]
        everywhere = ~flagged | ~present  # a value is there where the flag is not, or in all rows
        signed = np.where(present, b, -b)[flagged]
        kept = np.setdiff1d(slots, np.concatenate([value, turned]))
        rows = [kept, value, value[everywhere], value[flagged], turned, turned]
        sources = [kept, value, np.zeros_like(value[everywhere]), flag[flagged], turned, np.zeros_like(turned)]
        entries = [np.ones(len(kept)), a, b[everywhere], signed, np.full(len(turned), -1.0), np.ones(len(turned))]
        places = [np.searchsorted(slots, np.concatenate(part)) for part in (rows, sources)]
        block = sp.csr_matrix((np.concatenate(entries), places), shape=(len(slots), len(slots)))
        return Change(slots.astype(np.int64), block)

    # Files.

    def state_dict(self) -> dict[str, Any]:
        """What a file holds."""
        counts = {name: getattr(self, attribute) for name, attribute in COUNTS.items()}
        settings = {"by_position": self.by_position, "constant": self._layout.constant}
        columns = {name: getattr(self._state, name)[: self.n_columns] for name in TYPES}
        return counts | settings | columns | {"bins": self._layout.bins._asdict()}

    def load_state_dict(self, state: dict[str, Any], n_columns: int, n_held: int) -> None:
        """Take over what a file says; `ValueError` unless it is sound for so many columns and rows that are held."""
        self._state, bins = checked(state, n_columns, n_held)
        self.n_columns = n_columns
        for name, attribute in COUNTS.items():
            setattr(self, attribute, state[name])
        settings = {"zeros": state["by_position"], "constant": state["constant"]}
        self._layout = self._layout._replace(bins=bins, n_columns=n_columns, **settings)
        self._find_expected()


def _split(rows: CSR) -> list[SparseRow]:
    """The rows of a sparse matrix, as views."""
    ends = rows.indptr.tolist()
    return [SparseRow(rows.columns[start:end], rows.values[start:end]) for start, end in pairwise(ends)]
