"""A stack of H two-layer graph convolutional networks, trained and read as one.

Paper: Kipf and Welling (2017). Head h maps the contexts X (T, D) over the graph Â (T, T) to

    hidden_h = ReLU(Â · X W1_h)      embedding_h = Â · hidden_h      probabilities_h = softmax(embedding_h · W2_h)

The first layers of all heads lie side by side in one matrix ``w1`` (D, H·L), so that one sparse product serves all of
them; ``w2`` is (H, L, C). ``X W1`` is made before Â is applied to it: X and Â are sparse, their product much less so.
Only what is asked for is computed: the rows wanted, their neighbours in the layer before, and theirs in X W1.

Sparse matrices are `CSR` triples. Dropout masks are a hash of (key, row, column): the
caller hands in the keys, and the same keys give the same masks on any machine and in any order.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.kernels.csr import CSR
from taciturn.kernels.jit import fast_kernel, kernel

Real = NDArray[Any]  # float32 when it runs, float64 when the tests differentiate numerically
Labels = NDArray[np.int32]
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

LANE = 65536.0
"""Dropout compares random numbers of 16 bits."""


@kernel
def _like(array: Real, value: float) -> Any:
    """A number in the array's own precision, so that a product with it stays there and vectorises."""
    one = np.empty(1, array.dtype)
    one[0] = value
    return one[0]


@kernel
def _lanes(key: np.uint64, row: int, group: int) -> np.uint64:
    """Four random numbers of 16 bits each: a hash by the finaliser of splitmix64."""
    z = key + np.uint64(row) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(group) * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def keep(key: np.uint64, row: int, column: int, rate: float) -> bool:
    """Whether dropout at `rate` keeps an entry; four neighbouring columns share a hash."""
    lane = _lanes(key, row, column >> 2) >> np.uint64(16 * (column & 3))
    return bool((lane & np.uint64(0xFFFF)) >= np.uint64(rate * LANE))


class Workspace(NamedTuple):
    """Memory for passes over at most T contexts, used again and again; what it holds between passes means nothing."""

    columns: NDArray[np.int32]  # the entries of X that survive dropout
    values: Real
    xw1: Real  # (T, H·L): X W1 on the way out, blame for the hidden layer on the way back
    hidden: Real  # (T, H·L): after ReLU and dropout
    hw2: Real  # (T, H, C): hidden · W2, which Â sums into logits
    errors: Real  # (T, H, C): the loss by the logits
    grad1: Real  # as w1
    grad2: Real  # as w2


def _aligned(shape: tuple[int, ...], dtype: Any) -> Real:
    """An array that starts at a cache line, so that its rows straddle as few of them as can be."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return np.asarray(memory[start : start + size].view(dtype).reshape(shape))


def new_workspace(nodes: int, entries: int, w1: Real, w2: Real) -> Workspace:
    """Memory for `nodes` contexts with `entries` numbers in all, seen by networks of these weights."""
    heads, _, classes = w2.shape
    return Workspace(
        columns=np.empty(entries + 1, np.int32),  # dropout writes before it knows whether to keep: one place more
        values=np.empty(entries + 1, w1.dtype),
        xw1=_aligned((nodes, w1.shape[1]), w1.dtype),
        hidden=_aligned((nodes, w1.shape[1]), w1.dtype),
        hw2=_aligned((nodes, heads, classes), w1.dtype),
        errors=_aligned((nodes, heads, classes), w1.dtype),
        grad1=_aligned(w1.shape, w1.dtype),
        grad2=np.empty_like(w2),
    )


@kernel
def expand_mask(adjacency: CSR, rows: Mask) -> Mask:
    """The rows and their neighbours: all that a convolution reads for them."""
    reached = np.zeros(rows.shape[0], np.bool_)
    for i in range(rows.shape[0]):
        if rows[i]:
            for p in range(adjacency.indptr[i], adjacency.indptr[i + 1]):
                reached[adjacency.columns[p]] = True
    return reached


@kernel
def dropout_rows(contexts: CSR, rows: Mask, dropout: float, key: np.uint64, work: Workspace) -> CSR:
    """The rows asked for after dropout, with what was kept scaled up for it, in the precision of the weights.

    An entry's column, as dropout sees it, is its place among the entries of its row.
    """
    scale = 1.0 / (1.0 - dropout)
    threshold = np.uint64(dropout * LANE)
    indptr = np.zeros(rows.shape[0] + 1, np.int64)
    count = 0
    for i in range(rows.shape[0]):
        if rows[i]:
            start, stop = contexts.indptr[i], contexts.indptr[i + 1]
            lanes = np.uint64(0)
            for p in range(start, stop):
                if threshold > 0:
                    lanes = _lanes(key, i, (p - start) >> 2) if (p - start) & 3 == 0 else lanes >> np.uint64(16)
                work.columns[count] = contexts.columns[p]
                work.values[count] = contexts.values[p] * scale
                count += int((lanes & np.uint64(0xFFFF)) >= threshold)
        indptr[i + 1] = count
    return CSR(indptr, work.columns[:count], work.values[:count])


@fast_kernel
def _product(matrix: CSR, dense: Real, i: int, out: Real) -> None:
    """``out = Σ_j matrix_ij · dense_j``: row i of a sparse matrix times a dense one, two entries at a time."""
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
def _products(matrix: CSR, dense: Real, rows: Mask, out: Real) -> None:
    """``out = matrix · dense`` in the rows asked; the others stay as they are."""
    for i in range(rows.shape[0]):
        if rows[i]:
            _product(matrix, dense, i, out[i])


@fast_kernel
def embed(adjacency: CSR, contexts: CSR, w1: Real, rows: Mask, work: Workspace) -> Real:
    """``Â ReLU(Â X W1)`` (T, H·L) without dropout in the rows asked, zero elsewhere; it lies in `work`."""
    reached = expand_mask(adjacency, rows)
    beyond = expand_mask(adjacency, reached)
    _products(dropout_rows(contexts, beyond, 0.0, np.uint64(0), work), w1, beyond, work.xw1)
    _products(adjacency, work.xw1, reached, work.hidden)
    zero = _like(w1, 0.0)
    embedding = work.xw1[: rows.shape[0]]
    for i in range(rows.shape[0]):
        if reached[i]:
            hidden = work.hidden[i]
            for u in range(hidden.shape[0]):
                hidden[u] = max(hidden[u], zero)
    for i in range(rows.shape[0]):
        if rows[i]:
            _product(adjacency, work.hidden, i, embedding[i])
        else:
            embedding[i] = 0.0
    return embedding


@fast_kernel
def to_unit_length(vectors: Real) -> None:
    """Divide each vector of (T, H, L) by its length, in place; those of length zero stay as they are."""
    zero, one = _like(vectors, 0.0), _like(vectors, 1.0)
    for i in range(vectors.shape[0]):
        for h in range(vectors.shape[1]):
            vector = vectors[i, h]
            square = zero
            for a in range(vector.shape[0]):
                square += vector[a] * vector[a]
            if square > zero:
                scale = one / np.sqrt(square)
                for a in range(vector.shape[0]):
                    vector[a] *= scale


@fast_kernel
def forward_hidden(
    adjacency: CSR, reached: Mask, by_class: Real, dropout: float, key: np.uint64, work: Workspace
) -> None:
    """From X W1 to the hidden layer after ReLU and dropout, and on to hidden · W2.

    The second product comes before the second convolution: C columns travel, not L.
    """
    heads, classes, size = by_class.shape
    scale, zero = _like(by_class, 1.0 / (1.0 - dropout)), _like(by_class, 0.0)
    threshold = np.uint64(dropout * LANE)
    lanes = np.empty((heads * size + 3) // 4, np.uint64)
    numbers = lanes.view(np.uint16)
    for i in range(reached.shape[0]):
        if not reached[i]:
            continue
        hidden = work.hidden[i]
        _product(adjacency, work.xw1, i, hidden)
        for g in range(lanes.shape[0]):
            lanes[g] = _lanes(key, i, g)
        for u in range(hidden.shape[0]):
            hidden[u] = hidden[u] * scale if hidden[u] > zero and numbers[u] >= threshold else zero
        for h in range(heads):
            for c in range(classes):
                total = zero
                for a in range(size):
                    total += hidden[h * size + a] * by_class[h, c, a]
                work.hw2[i, h, c] = total


@fast_kernel
def softmax_grad(adjacency: CSR, labels: Labels, labelled: Mask, work: Workspace) -> None:
    """``(softmax(logits) − label) / labels of the head``: the loss by the logits; zero where there is no label."""
    nodes, heads = labels.shape
    classes = work.hw2.shape[2]
    zero, one = _like(work.hw2, 0.0), _like(work.hw2, 1.0)
    counts = np.zeros(heads, work.hw2.dtype)
    for i in range(nodes):
        for h in range(heads):
            if labels[i, h] >= 0:
                counts[h] += one
    hw2 = work.hw2.reshape(work.hw2.shape[0], heads * classes)
    logits = np.empty(heads * classes, hw2.dtype)
    for i in range(nodes):
        if labelled[i]:
            _product(adjacency, hw2, i, logits)
        for h in range(heads):
            error = work.errors[i, h]
            if labels[i, h] < 0:
                for c in range(classes):
                    error[c] = zero
                continue
            top = logits[h * classes]
            for c in range(1, classes):
                top = max(top, logits[h * classes + c])
            total = zero
            for c in range(classes):
                logit = logits[h * classes + c]
                error[c] = one if logit == top else np.exp(logit - top)
                total += error[c]
            share = one / (total * counts[h])
            for c in range(classes):
                error[c] *= share
            error[labels[i, h]] -= one / counts[h]


@fast_kernel
def backward_hidden(adjacency: CSR, reached: Mask, by_class: Real, dropout: float, work: Workspace) -> Real:
    """From the errors back to the hidden layer before its ReLU; returns the gradient by W2 (H, C, L).

    Â is symmetric, so the same rows carry the errors back.
    """
    heads, classes, size = by_class.shape
    scale, zero = _like(by_class, 1.0 / (1.0 - dropout)), _like(by_class, 0.0)
    grad2 = np.zeros_like(by_class)
    blame = np.empty(heads * classes, by_class.dtype)
    flat = work.errors.reshape(work.errors.shape[0], heads * classes)
    for i in range(reached.shape[0]):
        work.xw1[i] = 0.0
        if not reached[i]:
            continue
        _product(adjacency, flat, i, blame)
        for h in range(heads):
            out = work.xw1[i, h * size : (h + 1) * size]
            active = work.hidden[i, h * size : (h + 1) * size]
            for c in range(classes):
                share, weights, grad = blame[h * classes + c], by_class[h, c], grad2[h, c]
                scaled = scale * share
                for a in range(size):
                    grad[a] += share * active[a]
                    out[a] += scaled * weights[a] if active[a] > zero else zero  # on, and kept: one test for both
    return grad2


@fast_kernel
def backward_w1(adjacency: CSR, dropped: CSR, rows: Mask, work: Workspace) -> None:
    """``Xᵀ Â · blame`` (D, H·L): the gradient by W1, from the rows that X W1 was made for."""
    work.grad1[:] = 0.0
    back = np.empty(work.grad1.shape[1], work.grad1.dtype)
    for i in range(rows.shape[0]):
        if not rows[i]:
            continue
        _product(adjacency, work.xw1, i, back)
        for p in range(dropped.indptr[i], dropped.indptr[i + 1]):
            value, row = dropped.values[p], work.grad1[dropped.columns[p]]
            for u in range(back.shape[0]):
                row[u] += value * back[u]


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
    """The gradients of the stack's loss by ``w1`` (D, H·L) and ``w2`` (H, L, C); they lie in `work`.

    The loss of head h is the mean cross-entropy over its labelled rows plus ``decay/2 · ‖W1_h‖²``; the losses of
    the heads add up. ``labels`` (T, H) holds a class or −1; a head without labels only decays. Dropout falls on
    the entries of X (one mask for all heads) and of the hidden layers, with keys ``keys[0]`` and ``keys[1]``.
    Only rows within two steps of a label are touched.
    """
    labelled = np.zeros(labels.shape[0], np.bool_)
    for i in range(labels.shape[0]):
        labelled[i] = labels[i].max() >= 0
    reached = expand_mask(adjacency, labelled)
    beyond = expand_mask(adjacency, reached)
    by_class = np.ascontiguousarray(w2.transpose(0, 2, 1))
    dropped = dropout_rows(contexts, beyond, dropout, keys[0], work)
    _products(dropped, w1, beyond, work.xw1)
    forward_hidden(adjacency, reached, by_class, dropout, keys[1], work)
    softmax_grad(adjacency, labels, labelled, work)
    work.grad2[:] = backward_hidden(adjacency, reached, by_class, dropout, work).transpose(0, 2, 1)
    backward_w1(adjacency, dropped, beyond, work)
    pull = _like(w1, decay)
    for j in range(w1.shape[0]):
        for u in range(w1.shape[1]):
            work.grad1[j, u] += pull * w1[j, u]
    return work.grad1, work.grad2


@fast_kernel
def adam(weights: Real, gradient: Real, first: Real, second: Real, step: int, rate: float) -> None:
    """One step of Adam (Kingma and Ba 2015) in place, on flat arrays; `step` counts from 1."""
    beta1, beta2 = _like(weights, 0.9), _like(weights, 0.999)
    new1, new2 = _like(weights, 0.1), _like(weights, 0.001)
    rate_t = _like(weights, rate / (1.0 - 0.9**step))
    unbias = _like(weights, 1.0 / (1.0 - 0.999**step))
    tiny = _like(weights, 1e-8)
    for i in range(weights.shape[0]):
        first[i] = beta1 * first[i] + new1 * gradient[i]
        second[i] = beta2 * second[i] + new2 * gradient[i] * gradient[i]
        weights[i] -= rate_t * first[i] / (np.sqrt(second[i] * unbias) + tiny)
