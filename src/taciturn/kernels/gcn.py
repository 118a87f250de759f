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

Real = NDArray[Any]  # float32 in agents, float64 where tests differentiate numerically
Labels = NDArray[np.int32]
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

UINT16_RANGE = 65536.0
"""Dropout drops an entry if its 16-bit random number is below ``dropout · UINT16_RANGE``."""


@kernel
def _scalar_like(array: Real, value: float) -> Any:
    """Return ``value`` in the dtype of ``array``, so that products with it keep that precision and vectorize."""
    scalar = np.empty(1, array.dtype)
    scalar[0] = value
    return scalar[0]


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
    hidden: Real  # (T, H·L): the hidden layer after ReLU and dropout
    hw2: Real  # (T, H, C): hidden · W2; the logits are Â times this
    logit_grad: Real  # (T, H, C): ∂loss/∂logits
    grad1: Real  # (D, H·L): ∂loss/∂w1
    grad2: Real  # (H, L, C): ∂loss/∂w2


def _aligned(shape: tuple[int, ...], dtype: Any) -> Real:
    """Return an uninitialized array that starts at a cache line, so that its rows span as few lines as possible."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return np.asarray(memory[start : start + size].view(dtype).reshape(shape))


def new_workspace(nodes: int, entries: int, w1: Real, w2: Real) -> Workspace:
    """Return buffers for up to `nodes` contexts with up to `entries` nonzeros in all, and weights shaped like these."""
    heads, _, classes = w2.shape
    return Workspace(
        columns=np.empty(
            entries + 1, np.int32
        ),  # one more: `dropout_rows` writes an entry before it decides whether to keep it
        values=np.empty(entries + 1, w1.dtype),
        xw1=_aligned((nodes, w1.shape[1]), w1.dtype),
        hidden=_aligned((nodes, w1.shape[1]), w1.dtype),
        hw2=_aligned((nodes, heads, classes), w1.dtype),
        logit_grad=_aligned((nodes, heads, classes), w1.dtype),
        grad1=_aligned(w1.shape, w1.dtype),
        grad2=np.empty_like(w2),
    )


@kernel
def expand_mask(adjacency: CSR, rows: Mask) -> Mask:
    """Return the mask (T,) of the rows that a product with Â reads to compute ``rows``: these and their neighbors."""
    expanded = np.zeros(rows.shape[0], np.bool_)
    for i in range(rows.shape[0]):
        if rows[i]:
            for p in range(adjacency.indptr[i], adjacency.indptr[i + 1]):
                expanded[adjacency.columns[p]] = True
    return expanded


@kernel
def dropout_rows(contexts: CSR, rows: Mask, dropout: float, key: np.uint64, work: Workspace) -> CSR:
    """Return X (T, D) after dropout in ``rows``, kept entries divided by ``1 − dropout``; other rows are empty.

    The result is in the dtype of the weights and its arrays are views of ``work``. The column that is hashed for an
    entry is its index among the nonzeros of its row.
    """
    scale = 1.0 / (1.0 - dropout)
    threshold = np.uint64(dropout * UINT16_RANGE)
    indptr = np.zeros(rows.shape[0] + 1, np.int64)
    count = 0
    for i in range(rows.shape[0]):
        if rows[i]:
            start, stop = contexts.indptr[i], contexts.indptr[i + 1]
            bits = np.uint64(0)
            for p in range(start, stop):
                if threshold > 0:
                    bits = _random_bits(key, i, (p - start) >> 2) if (p - start) & 3 == 0 else bits >> np.uint64(16)
                work.columns[count] = contexts.columns[p]
                work.values[count] = contexts.values[p] * scale
                count += int((bits & np.uint64(0xFFFF)) >= threshold)
        indptr[i + 1] = count
    return CSR(indptr, work.columns[:count], work.values[:count])


@fast_kernel
def _spmm_row(matrix: CSR, dense: Real, i: int, out: Real) -> None:
    """Write row i of ``matrix · dense`` to ``out`` (U,); two nonzeros per pass halve the traffic to ``out``."""
    p, stop = matrix.indptr[i], matrix.indptr[i + 1]
    if (stop - p) % 2 == 1:
        value, row = matrix.values[p], dense[matrix.columns[p]]
        for u in range(out.shape[0]):
            out[u] = value * row[u]
        p += 1
    else:
        out[:] = 0.0
    while p < stop:
        value, row = matrix.values[p], dense[matrix.columns[p]]
        value2, row2 = matrix.values[p + 1], dense[matrix.columns[p + 1]]
        for u in range(out.shape[0]):
            out[u] += value * row[u] + value2 * row2[u]
        p += 2


@fast_kernel
def _spmm_rows(matrix: CSR, dense: Real, rows: Mask, out: Real) -> None:
    """Write ``matrix · dense`` (T, U) to ``out`` in the masked rows; the others keep their content."""
    for i in range(rows.shape[0]):
        if rows[i]:
            _spmm_row(matrix, dense, i, out[i])


@fast_kernel
def embed(adjacency: CSR, contexts: CSR, w1: Real, rows: Mask, work: Workspace) -> Real:
    """Return ``Â ReLU(Â X W1)`` (T, H·L) without dropout, zero outside the masked rows; a view of ``work``."""
    hidden_rows = expand_mask(adjacency, rows)
    input_rows = expand_mask(adjacency, hidden_rows)
    _spmm_rows(dropout_rows(contexts, input_rows, 0.0, np.uint64(0), work), w1, input_rows, work.xw1)
    _spmm_rows(adjacency, work.xw1, hidden_rows, work.hidden)
    zero = _scalar_like(w1, 0.0)
    embedding = work.xw1[: rows.shape[0]]
    for i in range(rows.shape[0]):
        if hidden_rows[i]:
            hidden = work.hidden[i]
            for u in range(hidden.shape[0]):
                hidden[u] = max(hidden[u], zero)
    for i in range(rows.shape[0]):
        if rows[i]:
            _spmm_row(adjacency, work.hidden, i, embedding[i])
        else:
            embedding[i] = 0.0
    return embedding


@fast_kernel
def to_unit_length(vectors: Real) -> None:
    """Divide each vector (L,) of ``vectors`` (T, H, L) by its length, in place; zero vectors stay zero."""
    zero, one = _scalar_like(vectors, 0.0), _scalar_like(vectors, 1.0)
    for i in range(vectors.shape[0]):
        for h in range(vectors.shape[1]):
            vector = vectors[i, h]
            norm2 = zero
            for a in range(vector.shape[0]):
                norm2 += vector[a] * vector[a]
            if norm2 > zero:
                scale = one / np.sqrt(norm2)
                for a in range(vector.shape[0]):
                    vector[a] *= scale


@fast_kernel
def forward_hidden(adjacency: CSR, rows: Mask, w2_t: Real, dropout: float, key: np.uint64, work: Workspace) -> None:
    """Write the hidden layer and ``hidden · W2`` to ``work`` in the masked rows, from its X W1; ``w2_t`` is (H, C, L).

    W2 is applied before the second product with Â, which then has C columns for each head instead of L.
    """
    heads, classes, size = w2_t.shape
    scale, zero = _scalar_like(w2_t, 1.0 / (1.0 - dropout)), _scalar_like(w2_t, 0.0)
    threshold = np.uint64(dropout * UINT16_RANGE)
    bits = np.empty((heads * size + 3) // 4, np.uint64)
    random = bits.view(np.uint16)
    for i in range(rows.shape[0]):
        if not rows[i]:
            continue
        hidden = work.hidden[i]
        _spmm_row(adjacency, work.xw1, i, hidden)
        for g in range(bits.shape[0]):
            bits[g] = _random_bits(key, i, g)
        for u in range(hidden.shape[0]):
            hidden[u] = hidden[u] * scale if hidden[u] > zero and random[u] >= threshold else zero
        for h in range(heads):
            for c in range(classes):
                total = zero
                for a in range(size):
                    total += hidden[h * size + a] * w2_t[h, c, a]
                work.hw2[i, h, c] = total


@fast_kernel
def softmax_grad(adjacency: CSR, labels: Labels, labelled: Mask, work: Workspace) -> None:
    """Write ∂loss/∂logits to ``work.logit_grad``: ``(softmax(logits) − one-hot label) / (labels of the head)``.

    It is zero where ``labels`` (T, H) is −1; ``labelled`` (T,) masks the rows with any label.
    """
    nodes, heads = labels.shape
    classes = work.hw2.shape[2]
    zero, one = _scalar_like(work.hw2, 0.0), _scalar_like(work.hw2, 1.0)
    counts = np.zeros(heads, work.hw2.dtype)
    for i in range(nodes):
        for h in range(heads):
            if labels[i, h] >= 0:
                counts[h] += one
    hw2 = work.hw2.reshape(work.hw2.shape[0], heads * classes)
    logits = np.empty(heads * classes, hw2.dtype)
    for i in range(nodes):
        if labelled[i]:
            _spmm_row(adjacency, hw2, i, logits)
        for h in range(heads):
            grad = work.logit_grad[i, h]
            if labels[i, h] < 0:
                for c in range(classes):
                    grad[c] = zero
                continue
            highest = logits[h * classes]
            for c in range(1, classes):
                highest = max(highest, logits[h * classes + c])
            total = zero
            for c in range(classes):
                logit = logits[h * classes + c]
                grad[c] = one if logit == highest else np.exp(logit - highest)
                total += grad[c]
            scale = one / (total * counts[h])
            for c in range(classes):
                grad[c] *= scale
            grad[labels[i, h]] -= one / counts[h]


@fast_kernel
def backward_hidden(adjacency: CSR, rows: Mask, w2_t: Real, dropout: float, work: Workspace) -> Real:
    """Write ∂loss/∂(Â X W1) to ``work.xw1``, zero outside the masked rows; return ∂loss/∂W2 transposed (H, C, L).

    Â is symmetric, so its rows serve as its columns. ``w2_t`` is W2 transposed (H, C, L).
    """
    heads, classes, size = w2_t.shape
    scale, zero = _scalar_like(w2_t, 1.0 / (1.0 - dropout)), _scalar_like(w2_t, 0.0)
    grad2 = np.zeros_like(w2_t)
    hw2_grad = np.empty(heads * classes, w2_t.dtype)
    logit_grad = work.logit_grad.reshape(work.logit_grad.shape[0], heads * classes)
    for i in range(rows.shape[0]):
        work.xw1[i] = 0.0
        if not rows[i]:
            continue
        _spmm_row(adjacency, logit_grad, i, hw2_grad)
        for h in range(heads):
            out = work.xw1[i, h * size : (h + 1) * size]
            active = work.hidden[i, h * size : (h + 1) * size]
            for c in range(classes):
                error, weights, grad = hw2_grad[h * classes + c], w2_t[h, c], grad2[h, c]
                scaled = scale * error
                for a in range(size):
                    grad[a] += error * active[a]
                    out[a] += scaled * weights[a] if active[a] > zero else zero  # ReLU was active and dropout kept it
    return grad2


@fast_kernel
def backward_w1(adjacency: CSR, dropped: CSR, rows: Mask, work: Workspace) -> None:
    """Write ∂loss/∂W1 = ``Xᵀ Â · work.xw1`` (D, H·L) to ``work.grad1``; X is ``dropped``, empty outside ``rows``."""
    work.grad1[:] = 0.0
    xw1_grad = np.empty(work.grad1.shape[1], work.grad1.dtype)
    for i in range(rows.shape[0]):
        if not rows[i]:
            continue
        _spmm_row(adjacency, work.xw1, i, xw1_grad)
        for p in range(dropped.indptr[i], dropped.indptr[i + 1]):
            value, row = dropped.values[p], work.grad1[dropped.columns[p]]
            for u in range(xw1_grad.shape[0]):
                row[u] += value * xw1_grad[u]


@fast_kernel
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
    """Return ∂loss/∂w1 (D, H·L) and ∂loss/∂w2 (H, L, C), which are views of ``work``.

    The loss is the sum over heads h of the mean cross-entropy over the labelled rows of h, plus ``decay/2 · ‖W1_h‖²``.
    ``labels`` (T, H) holds a class or −1 for no label; a head without labels has the decay term only. Dropout applies
    to the entries of X (one mask for all heads) with ``keys[0]`` and to the hidden layers with ``keys[1]``. Only rows
    within two hops of a label are computed.
    """
    labelled = np.zeros(labels.shape[0], np.bool_)
    for i in range(labels.shape[0]):
        labelled[i] = labels[i].max() >= 0
    hidden_rows = expand_mask(adjacency, labelled)
    input_rows = expand_mask(adjacency, hidden_rows)
    w2_t = np.ascontiguousarray(w2.transpose(0, 2, 1))
    dropped = dropout_rows(contexts, input_rows, dropout, keys[0], work)
    _spmm_rows(dropped, w1, input_rows, work.xw1)
    forward_hidden(adjacency, hidden_rows, w2_t, dropout, keys[1], work)
    softmax_grad(adjacency, labels, labelled, work)
    work.grad2[:] = backward_hidden(adjacency, hidden_rows, w2_t, dropout, work).transpose(0, 2, 1)
    backward_w1(adjacency, dropped, input_rows, work)
    l2 = _scalar_like(w1, decay)
    for j in range(w1.shape[0]):
        for u in range(w1.shape[1]):
            work.grad1[j, u] += l2 * w1[j, u]
    return work.grad1, work.grad2


@fast_kernel
def adam(weights: Real, gradient: Real, first: Real, second: Real, step: int, rate: float) -> None:
    """Take one step of Adam (Kingma and Ba 2015) on flat arrays, in place; `step` counts from 1.

    ``first`` and ``second`` are the running moments m and v; ``rate`` is the learning rate.
    """
    beta1, beta2 = _scalar_like(weights, 0.9), _scalar_like(weights, 0.999)
    one_minus_beta1, one_minus_beta2 = _scalar_like(weights, 0.1), _scalar_like(weights, 0.001)
    step_size = _scalar_like(weights, rate / (1.0 - 0.9**step))
    second_correction = _scalar_like(weights, 1.0 / (1.0 - 0.999**step))
    epsilon = _scalar_like(weights, 1e-8)
    for i in range(weights.shape[0]):
        first[i] = beta1 * first[i] + one_minus_beta1 * gradient[i]
        second[i] = beta2 * second[i] + one_minus_beta2 * gradient[i] * gradient[i]
        weights[i] -= step_size * first[i] / (np.sqrt(second[i] * second_correction) + epsilon)
