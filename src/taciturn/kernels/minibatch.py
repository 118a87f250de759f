"""Training of graph networks on a few sampled contexts, and embeddings of a few contexts at a time.

The networks are those of `kernels.gcn`; here the cost of a pass does not depend on how many contexts there are. As in
GraphSAGE (Hamilton et al. 2017), a labelled context is trained with a sample of its neighbors, and these with a sample
of theirs: of d neighbors at most m take part, and count d/m times each, so that the sums over neighbors are right on
average. Nothing is shared between the contexts of a batch: each is a tree of its own, which fits into the cache.

Rows of Â have the diagonal first (see `kernels.adjacency`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import fast_kernel, kernel

Weights = NDArray[np.float32]
Labels = NDArray[np.int32]
Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]

UINT16_RANGE = 65536.0
"""Dropout drops an entry if its 16-bit random number is below ``dropout · UINT16_RANGE``."""

UNIT = 2.0**18
"""Embeddings and rewards are summed as whole multiples of 1/UNIT: such sums have no rounding error in 64 bits, in any
order, for 2²⁷ contexts; what is taken back is as if it had never been."""


@kernel
def _next_bits(state: Bits) -> np.uint64:
    """Return 64 random bits and advance ``state`` (1,): splitmix64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.uint64(z ^ (z >> np.uint64(31)))


@kernel
def _sample_row(adjacency: CSR, i: int, most: int, state: Bits, slots: Ints) -> int:
    """Write where in Â the diagonal of row i and at most so many of its other entries are, and return how many.

    They are spread evenly over the row from a random start, so that all others are as likely.
    """
    first, others = adjacency.indptr[i], adjacency.indptr[i + 1] - adjacency.indptr[i] - 1
    taken = min(others, most)
    slots[0] = first
    start = 0.0
    if taken < others:
        start = (_next_bits(state) >> np.uint64(11)) * 2.0**-53
    for a in range(taken):
        slots[a + 1] = first + 1 + min(int((a + start) * others / taken), others - 1)
    return int(taken + 1)


class Sample(NamedTuple):
    """The contexts of a batch, each followed by its sampled neighbors: R rows in all."""

    starts: Ints  # (S+1,): where those of each context begin
    nodes: Ints  # (R,)
    weights: Weights  # (R,): in Â, for the context of the batch
    inputs: CSR  # (R, D): ÂX of the rows, over a sample of their neighbors and after dropout


@kernel
def sample(adjacency: CSR, contexts: CSR, seeds: Ints, fans: tuple[int, int], dropout: float, state: Bits) -> Sample:
    """Return the seeds with at most ``fans[0]`` neighbors each, over at most ``fans[1]`` neighbors of all of these."""
    starts, slots = np.zeros(seeds.shape[0] + 1, np.int64), np.empty(max(fans[0], fans[1]) + 1, np.int64)
    most = seeds.shape[0] * (fans[0] + 1)
    nodes, weights = np.empty(most, np.int64), np.empty(most, np.float32)
    count = 0
    for s in range(seeds.shape[0]):
        taken = _sample_row(adjacency, seeds[s], fans[0], state, slots)
        others = adjacency.indptr[seeds[s] + 1] - adjacency.indptr[seeds[s]] - 1
        for a in range(taken):
            nodes[count] = adjacency.columns[slots[a]]
            weights[count] = adjacency.values[slots[a]] * (1.0 if a == 0 else others / (taken - 1.0))
            count += 1
        starts[s + 1] = count
    inputs = _sample_inputs(adjacency, contexts, nodes[:count], fans[1], dropout, state, slots)
    return Sample(starts, nodes[:count], weights[:count], inputs)


@kernel
def _sample_inputs(
    adjacency: CSR, contexts: CSR, nodes: Ints, fan: int, dropout: float, state: Bits, slots: Ints
) -> CSR:
    """Return ``ÂX`` of some nodes over at most `fan` neighbors of each and after dropout; columns can come twice."""
    keep, threshold = 1.0 / (1.0 - dropout), np.uint64(dropout * UINT16_RANGE)
    ends = np.zeros(nodes.shape[0] + 1, np.int64)
    columns, values = np.empty(1024, np.int32), np.empty(1024, np.float32)
    count = 0
    for r in range(nodes.shape[0]):
        i = nodes[r]
        taken = _sample_row(adjacency, i, fan, state, slots)
        others = adjacency.indptr[i + 1] - adjacency.indptr[i] - 1
        for a in range(taken):
            weight = adjacency.values[slots[a]] * keep * (1.0 if a == 0 else others / (taken - 1.0))
            j = adjacency.columns[slots[a]]
            first, stop = contexts.indptr[j], contexts.indptr[j + 1]
            if count + stop - first >= columns.shape[0]:  # one is written before it is known whether dropout keeps it
                room = 2 * (count + stop - first)
                columns, values = _longer(columns, count, room), _longer(values, count, room)
            bits = np.uint64(0)
            for p in range(first, stop):
                if threshold > 0:
                    bits = _next_bits(state) if (p - first) & 3 == 0 else bits >> np.uint64(16)
                columns[count] = contexts.columns[p]
                values[count] = contexts.values[p] * weight
                count += int((bits & np.uint64(0xFFFF)) >= threshold)
        ends[r + 1] = count
    return CSR(ends, columns[:count], values[:count])


@kernel
def _longer(array: Any, count: int, length: int) -> Any:
    """Return an array of a length with the first `count` entries of another."""
    longer = np.empty(length, array.dtype)
    for i in range(count):
        longer[i] = array[i]
    return longer


@fast_kernel
def _multiply(matrix: CSR, dense: Weights, out: Weights) -> None:
    """Write ``matrix · dense`` (R, U) to ``out``; four entries a pass, so that it is read and written less."""
    columns, values = matrix.columns, matrix.values
    for r in range(out.shape[0]):
        row = out[r]
        for u in range(row.shape[0]):
            row[u] = np.float32(0.0)
        p, stop = matrix.indptr[r], matrix.indptr[r + 1]
        while p + 4 <= stop:
            a, b, c, d = dense[columns[p]], dense[columns[p + 1]], dense[columns[p + 2]], dense[columns[p + 3]]
            e, f, g, h = values[p], values[p + 1], values[p + 2], values[p + 3]
            for u in range(row.shape[0]):
                row[u] += e * a[u] + f * b[u] + g * c[u] + h * d[u]
            p += 4
        while p < stop:
            a, e = dense[columns[p]], values[p]
            for u in range(row.shape[0]):
                row[u] += e * a[u]
            p += 1


@fast_kernel
def _multiply_transposed(matrix: CSR, dense: Weights, out: Weights) -> None:
    """Add ``matrixᵀ · dense`` (D, U) to ``out``."""
    for r in range(dense.shape[0]):
        row = dense[r]
        for p in range(matrix.indptr[r], matrix.indptr[r + 1]):
            value, target = matrix.values[p], out[matrix.columns[p]]
            for u in range(row.shape[0]):
                target[u] += value * row[u]


@fast_kernel
def _activate(hidden: Weights, dropout: float, state: Bits) -> None:
    """Apply ReLU and dropout to the hidden layers (R, H·L)."""
    zero, keep, threshold = np.float32(0.0), np.float32(1.0 / (1.0 - dropout)), np.uint16(dropout * UINT16_RANGE)
    bits = np.empty((hidden.shape[1] + 3) // 4, np.uint64)
    random, factors = bits.view(np.uint16), np.empty(hidden.shape[1], np.float32)
    for r in range(hidden.shape[0]):
        row = hidden[r]
        for g in range(bits.shape[0]):
            bits[g] = _next_bits(state)
        for u in range(row.shape[0]):
            factors[u] = keep if random[u] >= threshold else zero
        for u in range(row.shape[0]):  # no branch on a random number, which cannot be predicted
            value = row[u] * factors[u]
            row[u] = value if value > zero else zero  # noqa: FURB136 - NaN, of a dropped infinity, is zero too


@fast_kernel
def _embed(batch: Sample, hidden: Weights, embeddings: Weights) -> None:
    """Write the weighted sums of the hidden layers of each context's rows to ``embeddings`` (S, H·L)."""
    for s in range(embeddings.shape[0]):
        out = embeddings[s]
        for u in range(out.shape[0]):
            out[u] = np.float32(0.0)
        for r in range(batch.starts[s], batch.starts[s + 1]):
            weight, row = batch.weights[r], hidden[r]
            for u in range(out.shape[0]):
                out[u] += weight * row[u]


@fast_kernel
def _last_layer(
    labels: Labels, seeds: Ints, scales: Weights, w2_t: Weights, embeddings: Weights, grad2_t: Weights
) -> None:
    """Add ∂loss/∂W2 transposed (H, C, L) to ``grad2_t``, and put ∂loss/∂embedding in place of ``embeddings``.

    ∂loss/∂logits is ``scale · (softmax(logits) − one-hot label)``, and zero for heads without a label.
    """
    heads, classes, size = w2_t.shape
    errors, embedding = np.empty(classes, np.float32), np.empty(size, np.float32)
    for s in range(seeds.shape[0]):
        for h in range(heads):
            slopes, label = embeddings[s, h * size : (h + 1) * size], labels[seeds[s], h]
            for a in range(size):
                embedding[a], slopes[a] = slopes[a], np.float32(0.0)
            if label < 0:
                continue
            highest, total = np.float32(-np.inf), np.float32(0.0)
            for c in range(classes):
                logit = np.float32(0.0)
                for a in range(size):
                    logit += embedding[a] * w2_t[h, c, a]
                errors[c] = logit
                highest = max(highest, logit)
            for c in range(classes):
                errors[c] = np.exp(errors[c] - highest)
                total += errors[c]
            for c in range(classes):
                error = scales[h] * (errors[c] / total - np.float32(c == label))
                for a in range(size):
                    grad2_t[h, c, a] += error * embedding[a]
                    slopes[a] += error * w2_t[h, c, a]


@fast_kernel
def _through_activation(batch: Sample, slopes: Weights, dropout: float, hidden: Weights) -> None:
    """Put ∂loss/∂(ÂX W1) in place of the hidden layers, which are zero where ReLU or dropout made them so."""
    zero, keep = np.float32(0.0), np.float32(1.0 / (1.0 - dropout))
    for s in range(slopes.shape[0]):
        slope = slopes[s]
        for r in range(batch.starts[s], batch.starts[s + 1]):
            weight, row = batch.weights[r] * keep, hidden[r]
            for u in range(row.shape[0]):
                row[u] = weight * slope[u] if row[u] > zero else zero


def gradients(
    adjacency: CSR,
    contexts: CSR,
    labels: Labels,
    seeds: Ints,
    scales: Weights,
    w1: Weights,
    w2_t: Weights,
    decay: float,
    dropout: float,
    fans: tuple[int, int],
    key: np.uint64,
    grad1: Weights,
    grad2_t: Weights,
) -> None:
    """Write ∂loss/∂w1 (D, H·L) to ``grad1`` and ∂loss/∂w2 transposed (H, C, L) to ``grad2_t``.

    The loss is ``Σ_{i ∈ seeds} Σ_h scales[h] · cross-entropy(i, h) + decay/2 · ‖W1‖²`` over the labels (T, H) that are
    not −1. ``fans`` says how many neighbors of a seed, and of those, take part at most.
    """
    state = np.full(1, key, np.uint64)
    batch = sample(adjacency, contexts, seeds, fans, dropout, state)
    hidden = np.empty((len(batch.nodes), w1.shape[1]), np.float32)
    embeddings = np.empty((len(seeds), w1.shape[1]), np.float32)
    np.multiply(w1, np.float32(decay), out=grad1)
    grad2_t[...] = 0.0
    _multiply(batch.inputs, w1, hidden)
    _activate(hidden, dropout, state)
    _embed(batch, hidden, embeddings)
    _last_layer(labels, seeds, scales, w2_t, embeddings, grad2_t)
    _through_activation(batch, embeddings, dropout, hidden)
    _multiply_transposed(batch.inputs, hidden, grad1)


@kernel
def _aggregated(adjacency: CSR, members: Ints, rows: Ints, contexts: CSR) -> CSR:
    """Return ``ÂX`` of some rows of Â; columns can come twice."""
    ends = np.zeros(rows.shape[0] + 1, np.int64)
    for r in range(rows.shape[0]):
        ends[r + 1] = ends[r]
        for e in range(adjacency.indptr[rows[r]], adjacency.indptr[rows[r] + 1]):
            j = members[adjacency.columns[e]]
            ends[r + 1] += contexts.indptr[j + 1] - contexts.indptr[j]
    columns, values = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.float32)
    count = 0
    for r in range(rows.shape[0]):
        for e in range(adjacency.indptr[rows[r]], adjacency.indptr[rows[r] + 1]):
            j, weight = members[adjacency.columns[e]], adjacency.values[e]
            for p in range(contexts.indptr[j], contexts.indptr[j + 1]):
                columns[count], values[count] = contexts.columns[p], contexts.values[p] * weight
                count += 1
    return CSR(ends, columns, values)


def hidden_layers(adjacency: CSR, members: Ints, rows: Ints, contexts: CSR, w1: Weights) -> Weights:
    """Return ``ReLU(ÂX W1)`` (R, H·L) of some rows of Â; row and column i are those of the context ``members[i]``."""
    hidden = np.empty((len(rows), w1.shape[1]), np.float32)
    _multiply(_aggregated(adjacency, members, rows, contexts), w1, hidden)
    return np.maximum(hidden, np.float32(0.0), out=hidden)


def embed(adjacency: CSR, members: Ints, rows: Ints, hidden: Weights) -> Weights:
    """Return ``Â · hidden`` (R, H·L) of some rows of Â; row and column i are those of the context ``members[i]``."""
    embeddings = np.empty((len(rows), hidden.shape[1]), np.float32)
    _multiply(_selected(adjacency, members, rows), hidden, embeddings)
    return embeddings


@kernel
def _selected(adjacency: CSR, members: Ints, rows: Ints) -> CSR:
    """Return some rows of Â with columns that are contexts."""
    ends = np.zeros(rows.shape[0] + 1, np.int64)
    for r in range(rows.shape[0]):
        ends[r + 1] = ends[r] + adjacency.indptr[rows[r] + 1] - adjacency.indptr[rows[r]]
    columns, values = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.float32)
    for r in range(rows.shape[0]):
        shift = adjacency.indptr[rows[r]] - ends[r]
        for e in range(ends[r], ends[r + 1]):
            columns[e], values[e] = members[adjacency.columns[e + shift]], adjacency.values[e + shift]
    return CSR(ends, columns, values)


@kernel
def add_examples(
    embeddings: Weights, rewards: NDArray[np.float64], nodes: Ints, sign: int, squares: Ints, products: Ints
) -> None:
    """Add ``sign · g gᵀ`` to ``squares[k]`` (K, L, L) and ``sign · r g`` to ``products[k]`` (K, L), for some contexts.

    g is ``embeddings[t, k]`` (T, K, L) at unit length, as whole multiples of 1/UNIT, and r is ``rewards[t, k]`` (T, K);
    arms where it is NaN have no example. The sums are exact: see `UNIT`.
    """
    arms, size = products.shape
    g = np.empty(size, np.int64)
    for n in range(nodes.shape[0]):
        for k in range(arms):
            if np.isnan(rewards[nodes[n], k]):
                continue
            vector, norm2 = embeddings[nodes[n], k], 0.0
            for a in range(size):
                norm2 += np.float64(vector[a]) * vector[a]
            if not 0.0 < norm2 < np.inf:
                continue
            scale = UNIT / np.sqrt(norm2)
            for a in range(size):
                g[a] = np.int64(np.rint(vector[a] * scale))
            reward = sign * np.int64(np.rint(rewards[nodes[n], k] * UNIT))
            for a in range(size):
                products[k, a] += reward * g[a]
                for b in range(size):
                    squares[k, a, b] += sign * g[a] * g[b]
