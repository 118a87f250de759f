"""Insertion of a node into the k-nearest-neighbor graph, compared with a refit by scikit-learn and with river.

The refit is scikit-learn's `NearestNeighbors`, fitted to all rows and queried either for the new node's neighbors (the
lists of other nodes are then stale) or for those of all nodes, which is the graph that taciturn keeps. river's `SWINN`
is approximate, keeps a sliding window and works on Python objects. The second table is of larger graphs: an exact
insertion beside one by the index, and the share of nearest neighbors that it finds.
"""

import numpy as np
import scipy.sparse as sp
from common import SEED, Stopwatch, Table, main, shown, times, versions
from river.neighbors import SWINN
from sklearn.neighbors import NearestNeighbors

from taciturn.agents.parts import neighbor_index
from taciturn.agents.parts.graph import NodeGraph
from taciturn.agents.rows import RowStore
from taciturn.contracts import SparseRow

K = 5
SIZES = (1000, 5000, 20_000, 50_000)
WHOLE_GRAPH_UP_TO, SWINN_UP_TO = 20_000, 5000
INDEXED_SIZES, INDEXED = (10_000, 30_000, 100_000, 300_000), 1000
KINDS = {"sparse": (1000, 20), "dense": (50, 50)}


def rows_of(kind, count):
    """Return rows around 20 centers; sparse ones have unit norm and 20 entries over 1000 features."""
    features, entries = KINDS[kind]
    rng = np.random.default_rng(SEED)
    if kind == "dense":
        centers = rng.normal(size=(20, features))
        return centers[rng.integers(0, 20, count)] + rng.normal(size=(count, features))
    popular = rng.dirichlet(np.full(features, 0.1), 20)
    topics = rng.integers(0, 20, count)
    weights = np.log(popular * 0.9 + 0.1 / features)
    # The largest of log-weights plus Gumbel noise are a sample without replacement.
    noisy = (weights[topic] + rng.gumbel(size=features) for topic in topics)
    columns = np.vstack([np.sort(np.argpartition(-row, entries)[:entries]) for row in noisy])
    values = rng.random((count, entries))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    indptr = np.arange(count + 1) * entries
    return sp.csr_matrix((values.ravel(), columns.ravel(), indptr), shape=(count, features))


def compare():
    rows = []
    for kind in KINDS:
        X = rows_of(kind, SIZES[-1] + 40)
        store, window = RowStore(), SWINN(graph_k=K, maxlen=SWINN_UP_TO + 100, seed=SEED)
        store.n_features = X.shape[1]
        graph, count = NodeGraph(store, K), 0
        for size in SIZES:
            while count < size:
                add(graph, store, X, count)
                if count < SWINN_UP_TO:
                    window.append(dense_row(X, count))
                count += 1
            rows.append(compare_at(kind, size, X, graph, store, window))
            count += 20
    return Table(
        "Graph, insertion of a node",
        f"Milliseconds to insert a node, k = {K}; the neighbors' distances agree with scikit-learn's. Sparse rows "
        "have 20 entries of 1000, dense ones 50. The ratios are to a refit queried for the new node only, and to one "
        "queried for the whole graph. " + versions("scikit-learn", "river"),
        ["rows", "nodes", "taciturn", "refit, new node", "refit, whole graph", "SWINN", "ratios"],
        rows,
    )


def compare_at(kind, size, X, graph, store, window):
    """Insert twenty nodes, timed one by one."""
    ours, swinn, refit = Stopwatch(), Stopwatch(), Stopwatch()
    for node in range(size, size + 20):
        append(store, X, node)
        with ours():
            graph.add(node, None)
        if size <= SWINN_UP_TO:
            item = dense_row(X, node)
            with swinn():
                window.append(item)
    for _ in range(3):
        with refit():
            index = NearestNeighbors(n_neighbors=K + 1).fit(X[: size + 20])
            distances, _ = index.kneighbors(X[size + 19 : size + 20])
    theirs = np.sort(distances[0])[1:]
    np.testing.assert_allclose(np.sqrt(graph._near.lists.distances[size + 19, :K]), theirs, atol=1e-6)
    whole = Stopwatch()
    if size <= WHOLE_GRAPH_UP_TO:
        with whole():
            NearestNeighbors(n_neighbors=K).fit(X[: size + 20]).kneighbors()
    mean = ours.milliseconds
    return [
        kind,
        f"{size}",
        shown(mean),
        shown(refit.milliseconds),
        shown(whole.milliseconds) if whole.laps else "–",
        shown(swinn.milliseconds) if swinn.laps else "–",
        times(refit.milliseconds, mean) + (f", {times(whole.milliseconds, mean)}" if whole.laps else ""),
    ]


def compare_index():
    rows = []
    for kind in KINDS:
        X = rows_of(kind, INDEXED_SIZES[-1] + INDEXED)
        store = RowStore()
        store.n_features = X.shape[1]
        graph, count = NodeGraph(store, K), 0
        for size in INDEXED_SIZES:
            ours = Stopwatch()
            while count < size:
                append(store, X, count)
                with ours():
                    graph.add(count, None)
                count += 1
            recent = 1000 * float(np.mean(ours.laps[-INDEXED:]))
            exact, count = exact_milliseconds(graph, store, X, count), count + 5
            rows.append([kind, f"{size}", shown(recent), shown(exact), times(exact, recent), f"{graph.recall:.3f}"])
    return Table(
        "Graph, insertion among many nodes",
        f"Milliseconds to insert a node, mean of {INDEXED}, beside an exact insertion, which is taken as long as it is "
        "the faster; and the share of the nearest neighbors that are found. Rows as above.",
        ["rows", "nodes", "taciturn", "exact", "ratio", "recall"],
        rows,
    )


def exact_milliseconds(graph, store, X, count):
    """Return the time of five exact insertions."""
    watch, work = Stopwatch(), neighbor_index.SEARCH_WORK
    neighbor_index.SEARCH_WORK = float("inf")
    for node in range(count, count + 5):
        append(store, X, node)
        with watch():
            graph.add(node, None)
    neighbor_index.SEARCH_WORK = work
    return watch.milliseconds


def add(graph, store, X, node):
    append(store, X, node)
    graph.add(node, None)


def append(store, X, node):
    if sp.issparse(X):
        span = slice(X.indptr[node], X.indptr[node + 1])
        store.append(SparseRow(X.indices[span].astype(np.int32), X.data[span]))
    else:
        store.append(SparseRow(np.arange(X.shape[1], dtype=np.int32), X[node]))


def dense_row(X, node):
    """Return a row as the dictionary that river needs."""
    row = X[node].toarray()[0] if sp.issparse(X) else X[node]
    return {int(j): float(row[j]) for j in np.flatnonzero(row)}


if __name__ == "__main__":
    main(compare, compare_index)
