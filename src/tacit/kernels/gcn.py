"""A stack of H two-layer graph convolutional networks, trained and read as one.

Paper: Kipf and Welling (2017). Head h maps the contexts X (T, D) over the graph Â (T, T) to

    hidden_h = ReLU(ÂX · W1_h)      embedding_h = Â · hidden_h      probabilities_h = softmax(embedding_h · W2_h)

All heads see the same ÂX, a sparse matrix that is made once per change of the graph. Their first layers lie side
by side in one matrix ``w1`` (D, H·L), so that one sparse product serves all of them; ``w2`` is (H, L, C).
Sparse matrices come as compressed rows in a `Rows` triple. Dropout masks are a hash of (key, row, column): the
caller hands in the keys, and the same keys give the same masks on any machine and in any order.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.kernels.jit import fast_kernel, kernel

Real = NDArray[Any]  # float32 when it runs, float64 when the tests differentiate numerically
Labels = NDArray[np.int32]
Ints = NDArray[np.int64]


class Rows(NamedTuple):
    """A sparse matrix by compressed rows."""

    indptr: Ints
    columns: NDArray[np.int32]
    values: Real


@kernel
def _like(array: Real, value: float) -> Any:
    """A number in the array's own precision, so that a product with it stays there and vectorises."""
    one = np.empty(1, array.dtype)
    one[0] = value
    return one[0]


@kernel
def keep(key: np.uint64, row: int, column: int, rate: float) -> bool:
    """Whether dropout at `rate` keeps this entry: a uniform hash (the splitmix64 finaliser) is at least `rate`."""
    z = key + np.uint64(row) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(column) * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * 2.0**-53 >= rate


@kernel
def _aggregate(
    a_indptr: Ints,
    a_columns: NDArray[np.int32],
    a_values: Real,
    x_indptr: Ints,
    x_columns: NDArray[np.int32],
    x_values: NDArray[np.float64],
    dimension: int,
) -> tuple[Ints, NDArray[np.int32], Real]:
    nodes = a_indptr.shape[0] - 1
    bound = 0
    for p in range(a_indptr[nodes]):
        bound += x_indptr[a_columns[p] + 1] - x_indptr[a_columns[p]]
    indptr = np.zeros(nodes + 1, np.int64)
    columns = np.empty(bound, np.int32)
    values = np.empty(bound, a_values.dtype)
    sums = np.zeros(dimension)
    touched_by = np.full(dimension, -1, np.int64)
    count = 0
    for i in range(nodes):
        first = count
        for p in range(a_indptr[i], a_indptr[i + 1]):
            j = a_columns[p]
            weight = np.float64(a_values[p])
            for q in range(x_indptr[j], x_indptr[j + 1]):
                c = x_columns[q]
                if touched_by[c] != i:
                    touched_by[c] = i
                    sums[c] = 0.0
                    columns[count] = c
                    count += 1
                sums[c] += weight * x_values[q]
        for p in range(first, count):
            values[p] = sums[columns[p]]
        indptr[i + 1] = count
    return indptr, columns[:count].copy(), values[:count].copy()


def aggregate(adjacency: Rows, contexts: Rows, dimension: int) -> Rows:
    """``ÂX`` as compressed rows in the precision of Â; sparse in, sparse out."""
    return Rows(*_aggregate(*adjacency, *contexts, dimension))


@fast_kernel
def _hidden_row(aggregated: Rows, kept: NDArray[np.bool_], scale: float, w1: Real, i: int, out: Real) -> None:
    """``out = ReLU(Σ scale · (ÂX)_ic · w1_c)`` over the kept entries of row i."""
    out[:] = 0.0
    for p in range(aggregated.indptr[i], aggregated.indptr[i + 1]):
        if kept[p]:
            value = aggregated.values[p] * scale
            weights = w1[aggregated.columns[p]]
            for a in range(out.shape[0]):
                out[a] += value * weights[a]
    for a in range(out.shape[0]):
        out[a] = max(out[a], 0.0)


@kernel
def _reached(adjacency: Rows, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The nodes within one step of the given rows: all that their second layer reads."""
    reached = np.zeros(rows.shape[0], np.bool_)
    for i in range(rows.shape[0]):
        if rows[i]:
            for p in range(adjacency.indptr[i], adjacency.indptr[i + 1]):
                reached[adjacency.columns[p]] = True
    return reached


@fast_kernel
def embed(adjacency: Rows, aggregated: Rows, w1: Real, rows: NDArray[np.bool_]) -> Real:
    """``Â ReLU(ÂX W1)`` (T, H·L) without dropout, for the rows asked; zero elsewhere."""
    nodes = rows.shape[0]
    reached = _reached(adjacency, rows)
    kept = np.ones(aggregated.values.shape[0], np.bool_)
    one = _like(w1, 1.0)
    hidden = np.empty((nodes, w1.shape[1]), w1.dtype)
    for i in range(nodes):
        if reached[i]:
            _hidden_row(aggregated, kept, one, w1, i, hidden[i])
    embedding = np.zeros((nodes, w1.shape[1]), w1.dtype)
    for i in range(nodes):
        if rows[i]:
            out = embedding[i]
            for p in range(adjacency.indptr[i], adjacency.indptr[i + 1]):
                weight = adjacency.values[p]
                other = hidden[adjacency.columns[p]]
                for a in range(out.shape[0]):
                    out[a] += weight * other[a]
    return embedding


@kernel
def softmax(logits: Real) -> None:
    """Turn a vector of logits into probabilities, in place."""
    top = logits.max()
    total = 0.0
    for c in range(logits.shape[0]):
        logits[c] = np.exp(logits[c] - top)
        total += logits[c]
    for c in range(logits.shape[0]):
        logits[c] /= total


class Forward(NamedTuple):
    """What the backward pass needs of the forward one."""

    kept: NDArray[np.bool_]  # which entries of ÂX survived dropout
    hidden: Real  # (T, H·L) after ReLU and dropout, only where reached
    votes: Real  # (T, H, C): hidden · W2, which Â then sums into logits


@fast_kernel
def _forward(
    aggregated: Rows, reached: NDArray[np.bool_], w1: Real, w2: Real, dropout: float, keys: NDArray[np.uint64]
) -> Forward:
    """Both layers with dropout. The second product comes before the second convolution: C columns travel, not L."""
    heads, size, classes = w2.shape
    scale, nothing = _like(w1, 1.0 / (1.0 - dropout)), _like(w1, 0.0)
    kept = np.zeros(aggregated.values.shape[0], np.bool_)
    hidden = np.empty((reached.shape[0], heads * size), w1.dtype)
    votes = np.zeros((reached.shape[0], heads, classes), w1.dtype)
    for i in range(reached.shape[0]):
        if not reached[i]:
            continue
        for p in range(aggregated.indptr[i], aggregated.indptr[i + 1]):
            kept[p] = keep(keys[0], i, aggregated.columns[p], dropout)
        _hidden_row(aggregated, kept, scale, w1, i, hidden[i])
        for h in range(heads):
            for a in range(size):
                u = h * size + a
                if hidden[i, u] > 0.0:
                    hidden[i, u] *= scale if keep(keys[1], i, u, dropout) else nothing
                    for c in range(classes):
                        votes[i, h, c] += hidden[i, u] * w2[h, a, c]
    return Forward(kept, hidden, votes)


@fast_kernel
def _errors(adjacency: Rows, labels: Labels, votes: Real) -> tuple[float, Real]:
    """The mean cross-entropy of each head, added up, and its derivative by the logits (T, H, C)."""
    nodes, heads, classes = votes.shape
    counts = np.zeros(heads, np.int64)
    for i in range(nodes):
        for h in range(heads):
            counts[h] += labels[i, h] >= 0
    loss = 0.0
    errors = np.zeros_like(votes)
    for i in range(nodes):
        for h in range(heads):
            if labels[i, h] < 0:
                continue
            error = errors[i, h]
            for p in range(adjacency.indptr[i], adjacency.indptr[i + 1]):
                for c in range(classes):
                    error[c] += adjacency.values[p] * votes[adjacency.columns[p], h, c]
            softmax(error)
            loss -= np.log(error[labels[i, h]]) / counts[h]
            error[labels[i, h]] -= 1.0
            for c in range(classes):
                error[c] /= counts[h]
    return loss, errors


@fast_kernel
def _backward(
    adjacency: Rows,
    aggregated: Rows,
    forward: Forward,
    errors: Real,
    reached: NDArray[np.bool_],
    w1: Real,
    w2: Real,
    dropout: float,
) -> tuple[Real, Real]:
    """Row by row from the errors to both layers; Â is symmetric, so the same rows carry them back."""
    heads, size, classes = w2.shape
    scale = _like(w1, 1.0 / (1.0 - dropout))
    grad1 = np.zeros_like(w1)
    grad2 = np.zeros_like(w2)
    back = np.empty(heads * size, w1.dtype)
    blame = np.empty((heads, classes), w1.dtype)
    for i in range(reached.shape[0]):
        if not reached[i]:
            continue
        blame[:] = 0.0
        for p in range(adjacency.indptr[i], adjacency.indptr[i + 1]):
            for h in range(heads):
                for c in range(classes):
                    blame[h, c] += adjacency.values[p] * errors[adjacency.columns[p], h, c]
        for h in range(heads):
            for a in range(size):
                u = h * size + a
                back[u] = 0.0
                if forward.hidden[i, u] > 0.0:  # on, and kept: both masks in one test
                    for c in range(classes):
                        grad2[h, a, c] += forward.hidden[i, u] * blame[h, c]
                        back[u] += scale * w2[h, a, c] * blame[h, c]
        for p in range(aggregated.indptr[i], aggregated.indptr[i + 1]):
            if forward.kept[p]:
                value = aggregated.values[p] * scale
                row = grad1[aggregated.columns[p]]
                for u in range(heads * size):
                    row[u] += value * back[u]
    return grad1, grad2


@fast_kernel
def gradients(
    adjacency: Rows,
    aggregated: Rows,
    labels: Labels,
    w1: Real,
    w2: Real,
    decay: float,
    dropout: float,
    keys: NDArray[np.uint64],
) -> tuple[float, Real, Real]:
    """The loss of the stack and its gradients by ``w1`` (D, H·L) and ``w2`` (H, L, C).

    The loss of head h is the mean cross-entropy over its labelled rows plus ``decay/2 · ‖W1_h‖²``; the losses of
    the heads add up. ``labels`` (T, H) holds a class or −1; a head without labels only decays. Dropout falls on
    the entries of ÂX (one mask for all heads) and of the hidden layers, with keys ``keys[0]`` and ``keys[1]``.
    Only rows within one step of a label are touched.
    """
    labelled = np.zeros(labels.shape[0], np.bool_)
    for i in range(labels.shape[0]):
        labelled[i] = labels[i].max() >= 0
    reached = _reached(adjacency, labelled)
    forward = _forward(aggregated, reached, w1, w2, dropout, keys)
    loss, errors = _errors(adjacency, labels, forward.votes)
    grad1, grad2 = _backward(adjacency, aggregated, forward, errors, reached, w1, w2, dropout)
    pull = _like(w1, decay)
    for j in range(w1.shape[0]):
        for u in range(w1.shape[1]):
            loss += 0.5 * decay * w1[j, u] * w1[j, u]
            grad1[j, u] += pull * w1[j, u]
    return loss, grad1, grad2


@fast_kernel
def adam(weights: Real, gradient: Real, first: Real, second: Real, step: int, rate: float) -> None:
    """One step of Adam (Kingma and Ba 2015) in place, on flat arrays; `step` counts from 1."""
    fade1, fade2 = _like(weights, 0.9), _like(weights, 0.999)
    new1, new2 = _like(weights, 0.1), _like(weights, 0.001)
    pace = _like(weights, rate / (1.0 - 0.9**step))
    unbias = _like(weights, 1.0 / (1.0 - 0.999**step))
    tiny = _like(weights, 1e-8)
    for i in range(weights.shape[0]):
        first[i] = fade1 * first[i] + new1 * gradient[i]
        second[i] = fade2 * second[i] + new2 * gradient[i] * gradient[i]
        weights[i] -= pace * first[i] / (np.sqrt(second[i] * unbias) + tiny)
