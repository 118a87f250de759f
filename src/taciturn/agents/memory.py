"""What an agent takes in memory: what it holds between calls, and what a call needs beside while it runs."""

from collections.abc import Callable, Sequence

from taciturn.agents.parts.part import Part, Sizes
from taciturn.agents.table import NodeTable
from taciturn.contracts import SparseRow

CHECK_EVERY = 64
"""Memory is checked where an id is a multiple of this. It depends on ids alone, so that a replay checks alike."""


def is_check_due(next_id: int, coming: int) -> bool:
    """Whether one of so many ids to come is a multiple of `CHECK_EVERY`."""
    return -next_id % CHECK_EVERY < coming


def sizes_with(table: NodeTable, n_arms: int, n_features: int, n_nodes: int, coming: Sequence[SparseRow] = ()) -> Sizes:
    """Sizes with so many contexts, which have as many entries as those held and coming; all features without any."""
    known = table.count + len(coming)
    if known == 0:
        return Sizes(n_arms, n_features, n_nodes, n_features * n_nodes)
    entries = table.contexts.n_entries
    if table.raw is not table.contexts:  # numbers, and the constant, that have not varied yet
        entries = max(entries, table.raw.n_entries + table.count)
    entries += sum(len(row.columns) for row in coming)
    return Sizes(n_arms, n_features, n_nodes, entries * n_nodes // known)


def held(parts: Part, table: NodeTable, sizes: Sizes) -> float:
    """Bytes between calls, once all arms have learned."""
    stores = (table.contexts,) if table.raw is table.contexts else (table.contexts, table.raw)
    return parts.nbytes(sizes) + table.nbytes(sizes) + sum(store.nbytes(sizes) for store in stores)


def peak(parts: Part, table: NodeTable, sizes: Sizes, working: Callable[[Sizes], float]) -> float:
    """The most bytes at any time until there are `sizes.nodes` contexts: held, and in the operation that needs most.

    `working` is what the agent's own operations need, beside those of its parts and its table.
    """

    def at(n_nodes: int) -> float:
        now = sizes._replace(nodes=n_nodes, entries=sizes.entries * n_nodes // max(sizes.nodes, 1))
        operations = (parts.working_nbytes, table.working_nbytes, table.contexts.working_nbytes, working)
        return held(parts, table, now) + max(needs(now) for needs in operations)

    return max(at(min(n_nodes, sizes.nodes)) for n_nodes in (sizes.nodes, *parts.released_at()) if n_nodes >= 0)
