"""A stack of H two-layer graph convolutional networks, trained and evaluated together.

Paper: Kipf and Welling (2017). Head h maps the contexts X (T, D) over the graph Â (T, T) to

    hidden_h = ReLU(Â · X W1_h)      embedding_h = Â · hidden_h      probabilities_h = softmax(embedding_h · W2_h)

The first layers of all heads are the columns of one matrix ``w1`` (D, H·L), so that one sparse product computes all of
them; ``w2`` is (H, L, C). ``X W1`` is computed before Â is applied: X and Â are sparse, their product is much less so.
Only the rows that are needed are computed: the requested rows in the last layer, their neighbors in the hidden layer,
and the neighbors of those in X W1. Masks (T,) say which.

Sparse matrices are `CSR` triples. Dropout masks are a hash of (key, row, column): the caller passes the keys, and the
same keys give the same masks on any machine and in any order.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import fast_kernel, kernel
from taciturn.kernels.spmm import multiply, multiply_transposed

Real = NDArray[Any]  # float32 in agents, float64 where tests differentiate numerically
Labels = NDArray[np.int32]
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

UINT16_RANGE = 65536.0
"""Dropout drops an entry if its 16-bit random number is below ``dropout · UINT16_RANGE``."""


@kernel
def _random_bits(key: np.uint64, row: int, group: int) -> np.uint64:
    """Return 64 random bits, used as four 16-bit numbers: the finalizer of splitmix64 as a hash of the arguments."""
    z = key + np.uint64(row) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(group) * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def is_kept(key: np.uint64, row: int, column: int, rate: float) -> bool:
    """Return whether dropout at `rate` keeps an entry; four adjacent columns share a hash."""
    bits = _random_bits(key, row, column >> 2) >> np.uint64(16 * (column & 3))
    return bool((bits & np.uint64(0xFFFF)) >= np.uint64(rate * UINT16_RANGE))


class Workspace(NamedTuple):
    """Buffers for passes over at most T contexts, reused by every pass; their content is undefined between passes."""

    columns: NDArray[np.int32]  # the entries of X that dropout keeps
    values: Real
    xw1: Real  # (T, H·L): X W1 in the forward pass, then ∂loss/∂(Â X W1) in the backward pass
    hidden: Real  # (T, H·L): the hidden layer after ReLU and dropout, then ∂loss/∂(X W1)
    hw2: Real  # (T, H·C): hidden · W2, then its gradient
    logits: Real  # (T, H·C): Â times hw2, then the gradient of the logits
    grad1: Real  # (D, H·L): ∂loss/∂w1


def _aligned(shape: tuple[int, ...], dtype: Any) -> Real:
    """Return an uninitialized array that starts at a cache line, so that its rows span as few lines as possible."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return np.asarray(memory[start : start + size].view(dtype).reshape(shape))


def new_workspace(nodes: int, entries: int, w1: Real, w2: Real) -> Workspace:
    """Return buffers for up to `nodes` contexts with up to `entries` nonzeros in all, and weights shaped like these."""
    outputs = w2.shape[0] * w2.shape[2]
    return Workspace(
        columns=np.empty(entries + 1, np.int32),  # one more: `_dropout` writes an entry before it is kept or not
        values=np.empty(entries + 1, w1.dtype),
        xw1=_aligned((nodes, w1.shape[1]), w1.dtype),
        hidden=_aligned((nodes, w1.shape[1]), w1.dtype),
        hw2=_aligned((nodes, outputs), w1.dtype),
        logits=_aligned((nodes, outputs), w1.dtype),
        grad1=_aligned(w1.shape, w1.dtype),
    )


# Kernels. Each is compiled once, and called from Python below: one that called the others would compile them again.


@kernel
def _labelled(labels: Labels, rows: Mask, counts: Ints) -> None:
    """Write which rows have a label of any head, and how many labels each head has, to zeros (H,)."""
    for i in range(labels.shape[0]):
        is_labelled = False
        for h in range(labels.shape[1]):
            has_label = labels[i, h] >= 0  # counted without a branch, which could not be predicted
            is_labelled |= has_label
            counts[h] += has_label
        rows[i] = is_labelled


@kernel
def _neighbors(indptr: Ints, columns: NDArray[np.int32], rows: Mask, expanded: Mask) -> None:
    """Write the rows that a product with Â reads to compute ``rows``, these and their neighbors, to ``expanded``.

    Of most rows it looks at the others, for a neighbor that is among them.
    """
    count = 0
    for i in range(rows.shape[0]):
        expanded[i] = rows[i]
        count += rows[i]
    is_most = 2 * count > rows.shape[0]
    for i in range(rows.shape[0]):
        if rows[i] != is_most:
            for p in range(indptr[i], indptr[i + 1]):
                j = np.uint64(columns[p])
                if not is_most:
                    expanded[j] = True
                elif rows[j]:
                    expanded[i] = True
                    break


@kernel
def _dropout(
    indptr: Ints,
    columns: NDArray[np.int32],
    values: Real,
    rows: Mask,
    dropout: float,
    key: np.uint64,
    bits: NDArray[np.uint64],
    random: NDArray[np.uint16],
    kept_indptr: Ints,
    kept_columns: NDArray[np.int32],
    kept_values: Real,
) -> None:
    """Write X (T, D) after dropout in ``rows``, kept entries divided by ``1 − dropout``; other rows are empty.

    The column that is hashed for an entry is its index among the nonzeros of its row. ``bits`` and ``random`` (the same
    memory in 16 bits each) are room for the random numbers of a row.
    """
    scale = 1.0 / (1.0 - dropout)
    threshold = np.uint16(dropout * UINT16_RANGE)
    count = np.uint64(0)
    kept_indptr[0] = 0
    for i in range(rows.shape[0]):
        if rows[i]:
            size = indptr[i + 1] - indptr[i]
            for g in range((size + 3) // 4):
                bits[g] = _random_bits(key, i, g)
            for a in range(size):
                p = np.uint64(indptr[i]) + np.uint64(a)
                kept_columns[count] = columns[p]
                kept_values[count] = values[p] * scale
                count += np.uint64(random[a] >= threshold)
        kept_indptr[i + 1] = count


@kernel
def _add_decay(grad: Real, weights: Real, decay: float) -> None:
    """Add ``decay · weights`` to a gradient (D, U), rounded to its precision before it is added."""
    factor = grad.dtype.type(decay)
    for i in range(grad.shape[0]):
        for u in range(grad.shape[1]):
            grad[i, u] += factor * weights[i, u]


@fast_kernel
def _rectify(hidden: Real, rows: Mask) -> None:
    """Apply ReLU to the masked rows (T, H·L)."""
    for i in range(rows.shape[0]):
        if rows[i]:
            row = hidden[i]
            for u in range(row.shape[0]):
                row[u] = max(row[u], hidden.dtype.type(0.0))


@fast_kernel
def _activate(
    hidden: Real,
    rows: Mask,
    w2_t: Real,
    dropout: float,
    key: np.uint64,
    bits: NDArray[np.uint64],
    random: NDArray[np.uint16],
    factors: Real,
    hw2: Real,
) -> None:
    """Apply ReLU and dropout to the masked rows of ``hidden``, and write ``hidden · W2``; ``w2_t`` is (H, C, L).

    W2 is applied before the second product with Â, which then has C columns for each head instead of L. ``bits``,
    ``random`` (the same memory in 16 bits each) and ``factors`` are room for the random numbers of a row.
    """
    heads, classes, size = w2_t.shape
    scale, zero = hidden.dtype.type(1.0 / (1.0 - dropout)), hidden.dtype.type(0.0)
    threshold = np.uint16(dropout * UINT16_RANGE)
    for i in range(rows.shape[0]):
        if not rows[i]:
            continue
        row = hidden[i]
        for g in range(bits.shape[0]):
            bits[g] = _random_bits(key, i, g)
        for u in range(row.shape[0]):
            factors[u] = scale if random[u] >= threshold else zero
        for u in range(row.shape[0]):  # no branch on a random number, which cannot be predicted
            value = row[u] * factors[u]
            row[u] = value if value > zero else zero  # noqa: FURB136 - NaN, of a dropped infinity, is zero too
        for h in range(heads):
            for c in range(classes):
                total = zero
                for a in range(size):
                    total += row[h * size + a] * w2_t[h, c, a]
                hw2[i, h * classes + c] = total


@fast_kernel
def _softmax_grad(labels: Labels, counts: Real, classes: int, logits: Real) -> None:
    """Put ∂loss/∂logits in place of ``logits``: ``(softmax(logits) − one-hot label) / (labels of the head)``.

    It is zero where ``labels`` (T, H) is −1, whatever the logits are. ``counts`` (H,) are the numbers of labels.
    """
    nodes, heads = labels.shape
    zero, one = logits.dtype.type(0.0), logits.dtype.type(1.0)
    for i in range(nodes):
        for h in range(heads):
            first = h * classes
            if labels[i, h] < 0:
                for c in range(classes):
                    logits[i, first + c] = zero
                continue
            highest = logits[i, first]
            for c in range(1, classes):
                if logits[i, first + c] > highest:  # noqa: PLR1730 - quicker to compile
                    highest = logits[i, first + c]
            total = zero
            for c in range(classes):
                logit = logits[i, first + c]
                logits[i, first + c] = one if logit == highest else np.exp(logit - highest)
                total += logits[i, first + c]
            scale = one / (total * counts[h])
            for c in range(classes):
                logits[i, first + c] *= scale
            logits[i, first + labels[i, h]] -= one / counts[h]


@fast_kernel
def _last_layer_back(
    hw2_grad: Real, rows: Mask, w2_t: Real, dropout: float, hidden: Real, grad2_t: Real, xw1_grad: Real
) -> None:
    """Write ∂loss/∂(Â X W1) to ``xw1_grad``, zero outside the masked rows, and ∂loss/∂W2 transposed to ``grad2_t``.

    ``w2_t`` and ``grad2_t`` are (H, C, L).
    """
    heads, classes, size = w2_t.shape
    scale, zero = hidden.dtype.type(1.0 / (1.0 - dropout)), hidden.dtype.type(0.0)
    for i in range(rows.shape[0]):
        for u in range(heads * size):
            xw1_grad[i, u] = zero
        if not rows[i]:
            continue
        for h in range(heads):
            first = h * size
            for c in range(classes):
                error = hw2_grad[i, h * classes + c]
                scaled = scale * error
                for a in range(size):
                    active = hidden[i, first + a]
                    grad2_t[h, c, a] += error * active
                    # ReLU was active and dropout kept it
                    xw1_grad[i, first + a] += scaled * w2_t[h, c, a] if active > zero else zero


@fast_kernel
def adam(weights: Real, gradient: Real, first: Real, second: Real, step: int, rate: float) -> None:
    """Take one step of Adam (Kingma and Ba 2015) on flat arrays, in place; `step` counts from 1.

    ``first`` and ``second`` are the running moments m and v; ``rate`` is the learning rate.
    """
    beta1, beta2 = weights.dtype.type(0.9), weights.dtype.type(0.999)
    one_minus_beta1, one_minus_beta2 = weights.dtype.type(0.1), weights.dtype.type(0.001)
    step_size = weights.dtype.type(rate / (1.0 - 0.9**step))
    second_correction = weights.dtype.type(1.0 / (1.0 - 0.999**step))
    epsilon = weights.dtype.type(1e-8)
    for i in range(weights.shape[0]):
        first[i] = beta1 * first[i] + one_minus_beta1 * gradient[i]
        second[i] = beta2 * second[i] + one_minus_beta2 * gradient[i] * gradient[i]
        weights[i] -= step_size * first[i] / (np.sqrt(second[i] * second_correction) + epsilon)


@fast_kernel
def to_unit_length(vectors: Real) -> None:
    """Divide each vector (L,) of ``vectors`` (T, H, L) by its length, in place; zero vectors stay zero."""
    zero, one = vectors.dtype.type(0.0), vectors.dtype.type(1.0)
    for i in range(vectors.shape[0]):
        for h in range(vectors.shape[1]):
            norm2 = zero
            for a in range(vectors.shape[2]):
                norm2 += vectors[i, h, a] * vectors[i, h, a]
            if norm2 > zero:
                scale = one / np.sqrt(norm2)
                for a in range(vectors.shape[2]):
                    vectors[i, h, a] *= scale


# Passes.


def _expanded(adjacency: CSR, rows: Mask) -> Mask:
    """Return the mask (T,) of some rows and their neighbors."""
    expanded = np.empty(len(rows), np.bool_)
    _neighbors(adjacency.indptr, adjacency.columns, rows, expanded)
    return expanded


def _kept_inputs(contexts: CSR, rows: Mask, dropout: float, key: np.uint64, work: Workspace) -> CSR:
    """Return X (T, D) after dropout in ``rows``, in the dtype of the weights; columns and values are in ``work``."""
    indptr = np.empty(len(rows) + 1, np.int64)
    bits = np.empty(len(work.grad1) // 4 + 1, np.uint64)  # no row has more than D entries
    _dropout(*contexts, rows, dropout, key, bits, bits.view(np.uint16), indptr, work.columns, work.values)
    return CSR(indptr, work.columns, work.values)


def embed(adjacency: CSR, contexts: CSR, w1: Real, rows: Mask, work: Workspace) -> Real:
    """Return ``Â ReLU(Â X W1)`` (T, H·L) without dropout: a view of ``work``, void outside the masked rows."""
    hidden_rows = _expanded(adjacency, rows)
    input_rows = _expanded(adjacency, hidden_rows)
    multiply(*contexts, w1, input_rows, work.xw1)
    multiply(*adjacency, work.xw1, hidden_rows, work.hidden)
    _rectify(work.hidden, hidden_rows)
    embedding = work.xw1[: len(rows)]
    multiply(*adjacency, work.hidden, rows, embedding)
    return embedding


def gradients(
    adjacency: CSR,
    contexts: CSR,
    labels: Labels,
    w1: Real,
    w2: Real,
    decay: float,
    dropout: float,
    keys: NDArray[np.uint64],
    work: Workspace,
) -> tuple[Real, Real]:
    """Return ∂loss/∂w1 (D, H·L), which is a view of ``work``, and ∂loss/∂w2 (H, L, C).

    The loss is the sum over heads h of the mean cross-entropy over the labelled rows of h, plus ``decay/2 · ‖W1_h‖²``.
    ``labels`` (T, H) holds a class or −1 for no label; a head without labels has the decay term only. Dropout applies
    to the entries of X (one mask for all heads) with ``keys[0]`` and to the hidden layers with ``keys[1]``. Only rows
    within two hops of a label are computed. Â is symmetric, so its rows serve as its columns.
    """
    labelled, counts = np.empty(len(labels), np.bool_), np.zeros(labels.shape[1], np.int64)
    _labelled(labels, labelled, counts)
    hidden_rows = _expanded(adjacency, labelled)
    input_rows = _expanded(adjacency, hidden_rows)
    w2_t = np.ascontiguousarray(w2.transpose(0, 2, 1))
    grad2_t = np.zeros_like(w2_t)
    inputs = _kept_inputs(contexts, input_rows, dropout, keys[0], work)
    multiply(*inputs, w1, input_rows, work.xw1)
    multiply(*adjacency, work.xw1, hidden_rows, work.hidden)
    bits = np.empty((w1.shape[1] + 3) // 4, np.uint64)
    room = bits, bits.view(np.uint16), np.empty(w1.shape[1], w1.dtype)
    _activate(work.hidden, hidden_rows, w2_t, dropout, keys[1], *room, work.hw2)
    multiply(*adjacency, work.hw2, labelled, work.logits)
    _softmax_grad(labels, counts.astype(w1.dtype), w2.shape[2], work.logits)
    multiply(*adjacency, work.logits, hidden_rows, work.hw2)
    _last_layer_back(work.hw2, hidden_rows, w2_t, dropout, work.hidden, grad2_t, work.xw1)
    multiply(*adjacency, work.xw1, input_rows, work.hidden)
    grad1 = work.grad1
    grad1[...] = 0.0
    multiply_transposed(*inputs, work.hidden, input_rows, grad1)
    _add_decay(grad1, w1, decay)
    return grad1, np.ascontiguousarray(grad2_t.transpose(0, 2, 1))
