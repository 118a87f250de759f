"""From contexts as users give them to the rows that an agent learns from: read, scaled, and moved with the scale."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.part import require
from taciturn.agents.rows import RawRows
from taciturn.agents.scaled_rows import ScaledRows
from taciturn.agents.table import NodeTable
from taciturn.contracts import SparseRow
from taciturn.features.encode import ContextReader
from taciturn.features.named import Reading
from taciturn.features.scale import Change, Scaler
from taciturn.features.scale_file import NO_BINS
from taciturn.features.schema import Features
from taciturn.validate import LARGEST

Taken = tuple[SparseRow, SparseRow]
"""A row with outliers at their bound, and in slots."""

SCALINGS = ("auto", "l1", "l2", "none")

UNIT_TOLERANCE = 1e-9
"""A row whose norm is this close to 1 is at unit norm already."""


class Intake:
    """Reads contexts, and keeps raw rows beside scaled ones where numbers are brought to a common scale.

    With the scaling "auto" ``table.contexts`` holds the rows that `Scaler` makes of ``table.raw``; with "l1" or
    "l2" each row is divided by its norm, with "none" rows are as they were given, and there are no others.

    Arguments:
        features: what the columns are.
        scaling: one of `SCALINGS`.
        table: the agent's contexts.
        make_room: called with the number of features that the agent needs, and the rows that come, before anything
            changes; it raises where there is not enough memory.
        has_room: whether so many features would fit into the memory that the agent was given.
    """

    def __init__(
        self,
        features: Features,
        scaling: str,
        table: NodeTable,
        make_room: Callable[[int, list[SparseRow]], None],
        has_room: Callable[[int], bool],
    ) -> None:
        self._table, self._make_room, self._has_room = table, make_room, has_room
        self._norm = scaling if scaling in ("l1", "l2") else None
        self.scaler = Scaler() if scaling == "auto" else None
        self.reader = ContextReader(features, scaled=self.scaler is not None)
        if self.scaler is not None:
            table.raw = RawRows()
            table.contexts = self._scaled = ScaledRows(table.raw, self.scaler, table.id)
        self.raw = table.raw

    # Reading.

    def read(self, context: Any) -> Reading:
        """Read one context; nothing has changed."""
        reading = self.reader.read(context)
        if self._norm is None:
            return reading
        row, news = reading
        return self._at_unit_norm(row), news

    def read_all(self, contexts: Any) -> tuple[list[SparseRow], ContextReader]:
        """Read a batch; nothing has changed but in the reader that is returned."""
        rows, reader = self.reader.read_all(contexts)
        return rows if self._norm is None else [self._at_unit_norm(row) for row in rows], reader

    def _at_unit_norm(self, row: SparseRow) -> SparseRow:
        """The row divided by its norm; itself where that is 1, as of a data set that was scaled, or 0."""
        size = np.abs(row.values)
        if abs(self._norm_of(size) - 1.0) < UNIT_TOLERANCE:
            return row
        largest = size.max(initial=0.0)
        if largest == 0:
            return row
        values = row.values / largest  # so that squares of the smallest numbers are not lost
        return SparseRow(row.columns, values / self._norm_of(np.abs(values)))

    def _norm_of(self, size: NDArray[np.float64]) -> float:
        """The norm of a row by the size of its values."""
        return float(size.sum() if self._norm == "l1" else np.sqrt((size**2).sum()))

    # Taking in.

    def accept(self, reading: Reading) -> None:
        """Get ready for a context that was read."""
        row, news = reading
        scaler, rows = self.scaler, [row]
        if scaler is None:
            self._make_room(news.n_features, rows)
        elif scaler.n_columns and not news.new_names:  # as nearly always
            self._widen(scaler, 0, rows)
        else:
            new = list(news.new_names.values())
            self._prepare(scaler, news.n_features, news.n_inputs is not None, new, rows)
        self.reader.accept(reading)

    def accept_all(self, rows: list[SparseRow], reader: ContextReader) -> None:
        """Get ready for a batch that was read."""
        if self.scaler is None:
            self._make_room(reader.n_features or 0, rows)
        else:
            new = reader.is_number[len(self.reader.is_number) :]
            self._prepare(self.scaler, reader.n_features or 0, reader.n_inputs is not None, new, rows)
        self.reader = reader

    def _prepare(
        self,
        scaler: Scaler,
        n_features: int,
        by_position: bool,  # noqa: FBT001
        new: list[bool],
        rows: list[SparseRow],
    ) -> None:
        is_first = scaler.n_columns == 0
        is_number = np.ones(n_features * is_first, np.bool_) if by_position else np.array(new, np.bool_)
        slotted = len(is_number) if by_position else int((~is_number).sum())
        self._widen(scaler, slotted, rows)
        if is_first:
            scaler.begin(by_position=by_position, is_number=is_number)
        if len(is_number):
            scaler.add_columns(is_number)
        self.raw.n_features = n_features

    def _widen(self, scaler: Scaler, more: int, rows: list[SparseRow]) -> None:
        """Make room for so many slots more; where memory is short nothing has changed."""
        width = scaler.width_with(more)
        self._make_room(width, rows)
        scaler.width = width

    def append(self, row: SparseRow, state: int, time: float, evict_order: float, taken: Taken | None = None) -> int:
        """Add a context to the table, scaled as all others are now; returns its node.

        Where it is of a batch, `taken` is what `take_batch` has made of it.
        """
        scaler = self.scaler
        if scaler is None:
            return self._table.append(row, state, time, evict_order)
        raw, scaled = taken or scaler.take(row)
        if scaled is None:
            openings = scaler.openings(raw)
            self._widen(scaler, scaler.new_slots(openings), [raw])
            if openings.change_others:
                self._scaled.hold_values()
            scaler.open(openings)
            scaled = scaler.scaled(raw)
        self.raw.append(raw)
        return self._table.append(scaled, state, time, evict_order)

    def take_batch(self, rows: list[SparseRow]) -> list[Taken] | None:
        """All rows as `append` would make them, or None if one of them can change how a later one is scaled."""
        if self.scaler is None:
            return [(row, row) for row in rows]
        return None if not rows or self.scaler.is_due_within(len(rows)) else self.scaler.take_all(rows)

    # The scale.

    def observe(self, node: int) -> None:
        """A context has come to stay: it counts for the scale."""
        if self.scaler is not None:
            self.scaler.observe(self.raw[node])

    def forget(self, node: int) -> None:
        """A context is taken back: it counts no longer."""
        if self.scaler is not None:
            self.scaler.forget(self.raw[node])

    def renewed(self) -> Change | None:
        """Renew the scale where it is due, and all rows with it; returns how they moved, None if they did not."""
        if self.scaler is None or not self.scaler.is_due or not self.raw.count:
            return None
        if self.scaler.lacks_bins:
            bins, n_slots = self.scaler.planned_bins(self.raw)
            if not self._has_room(self.scaler.width_with(n_slots)):
                bins, n_slots = NO_BINS, 0  # nobody asked for them
            self._widen(self.scaler, n_slots, [])
            self.scaler.open_bins(bins, n_slots, self._table.next_id)
        change = self.scaler.renew(self.raw)
        if change is not None:
            self._scale_all(self.scaler)
        return change

    def _scale_all(self, scaler: Scaler) -> None:
        """Make all scaled rows from the raw ones, in the place of those that there are."""
        contexts, ids = self._table.contexts, self._table.id.data
        contexts.clear()
        for first, rows in self.raw.pieces():
            contexts.extend(scaler.scaled_rows(rows, ids[first : first + len(rows.indptr) - 1]))

    # Files.

    def state_dict(self) -> dict[str, Any]:
        """The features and the scale. Scaled rows are made from the raw ones."""
        return {
            "reader": self.reader.state_dict(),
            "contexts": self.raw.state_dict(),
            "scale": None if self.scaler is None else self.scaler.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_nodes: int) -> int:
        """Take over what `state_dict` returned, after the table; returns the number of features that the agent has."""
        self.reader.load_state_dict(state["reader"])
        n_columns = self.reader.n_features or 0
        require((state["scale"] is None) == (self.scaler is None), "the scale does not fit")
        self.raw.load_state_dict(state["contexts"], n_arms, n_columns, n_nodes)
        require(n_columns or not n_nodes, "there are contexts without features")
        if self.scaler is None:
            return n_columns
        self.scaler.load_state_dict(state["scale"], n_columns, n_nodes)
        require(self.scaler.fits(self.reader.is_number, self.reader.n_inputs), "the scale is of other features")
        for _, rows in self.raw.pieces():
            plain = rows.values[~self.scaler.are_numbers(rows.columns)]
            require((np.abs(plain) <= LARGEST).all(), "values are not allowed")  # false for NaN too
        contexts = self._table.contexts
        contexts.n_features = self.scaler.width
        self._scale_all(self.scaler)
        for _, rows in contexts.pieces():
            require((np.abs(rows.values) <= LARGEST).all(), "scaled values are not allowed")
        return contexts.n_features
