"""Imputation by clusters."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.lifecycle import Example
from taciturn.agents.parts.imputers.base import BaseImputer
from taciturn.agents.parts.part import MAX_COUNT, Part, Sizes, in_range, is_array, require
from taciturn.agents.table import NodeTable
from taciturn.contracts import SparseRow
from taciturn.features.scale import Change
from taciturn.kernels.kmeans import nearest
from taciturn.system import one_thread
from taciturn.validate import LARGEST, check_number

MAX_THREADS = 1024

FITTED: dict[str, Any] = {
    "n_features_in_": int,
    "n_steps_": int,
    "_tol": (int, float),
    "_n_init": int,
    "_batch_size": int,
    "_init_size": int,
    "_n_threads": int,
    "_n_since_last_reassign": int,
    "_n_features_out": int,
    "inertia_": float,
    "_random_state": np.random.RandomState,
}
"""What scikit-learn adds to k-means when it is fitted, beside arrays."""

FITTED_ARRAYS = frozenset({"cluster_centers_", "_counts", "labels_"})


@dataclass(kw_only=True, eq=False)
class KMeansImputer(BaseImputer):
    """The mean observed reward, whatever the arm, of the context's cluster; 0.5 where there is none yet.

    Mini-batch k-means starts with as many contexts as there are clusters. A context keeps the cluster that it fell
    into when it came.
    """

    tag = "imputer/kmeans"
    SAVED: ClassVar[dict[str, str]] = {"kmeans": "_kmeans"}

    clusters: int = 10

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_number("clusters", self.clusters, 2, 10_000, whole=True)

    def build(self, table: NodeTable, rng: np.random.Generator) -> Part:
        """A cluster and a reward for each context."""
        super().build(table, rng)
        self._cluster = table.column("cluster", np.int32, fill=-1)
        self._reward = table.column("cluster_reward", np.float64, fill=np.nan)
        return self

    def allocate(self, n_arms: int, n_features: int) -> None:
        """k-means before its first context."""
        self._kmeans = self._new_kmeans(int(self._rng.integers(2**31)))

    def _new_kmeans(self, seed: int) -> Any:
        """Mini-batch k-means of scikit-learn that is not fitted."""
        from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415 - slow to import, and few agents need it

        return MiniBatchKMeans(self.clusters, n_init=1, random_state=seed)

    def add_features(self, n_features: int) -> None:
        """Pad the centers with zeros, which is what they had in features not seen."""
        if hasattr(self._kmeans, "cluster_centers_"):
            centers = self._kmeans.cluster_centers_
            self._kmeans.cluster_centers_ = np.pad(centers, ((0, 0), (0, n_features - centers.shape[1])))
            self._kmeans.n_features_in_ = n_features

    def rescale(self, change: Change) -> None:
        """Centers move with the contexts."""
        if hasattr(self._kmeans, "cluster_centers_"):
            centers = self._kmeans.cluster_centers_
            centers[:, change.slots] = centers[:, change.slots] @ change.block.T

    def nbytes(self, sizes: Sizes) -> float:
        """The centers and how many contexts each has seen."""
        return 8.0 * self.clusters * (sizes.features + 1)

    def replaced_nbytes(self) -> float:
        """The centers."""
        return float(getattr(self._kmeans, "cluster_centers_", np.zeros(0)).nbytes)

    def add_context(self, node: int, neighbors: list[int] | None) -> None:
        """Move a cluster towards the context, and put it into one."""
        if hasattr(self._kmeans, "cluster_centers_"):
            self._cluster.data[node] = self._follow(self._table.contexts[node])
        elif node + 1 >= self.clusters:
            with one_thread():
                self._kmeans.partial_fit(self._table.contexts.matrix(0, node + 1))
            self._cluster.data[: node + 1] = self._kmeans.labels_

    def _follow(self, row: SparseRow) -> int:
        """Make the nearest center ``c`` of ``n`` contexts ``(n c + x) / (n + 1)``; returns which is nearest then.

        The same bits as `partial_fit` of one row, which takes ten times as long to check it. (It draws no new centers
        then: they would be at most half as many as the rows.)
        """
        held = vars(self._kmeans)  # what a file holds of it
        centers, counts = held["cluster_centers_"], held["_counts"]
        label = nearest(*row, centers, _squared_norms(centers))
        center = centers[label]
        center *= counts[label]
        center[row.columns] += row.values
        counts[label] += 1.0
        center *= 1.0 / counts[label]
        return nearest(*row, centers, _squared_norms(centers))

    def learn(self, example: Example) -> None:
        """The reward counts for its cluster."""
        self._reward.data[example.node] = example.reward

    def unlearn(self, example: Example) -> None:
        """It counts no longer."""
        self._reward.data[example.node] = np.nan

    def impute(self, node: int, arm: int) -> float:
        """The cluster's mean."""
        clusters, rewards = self._cluster.data, self._reward.data
        observed = rewards[(clusters == clusters[node]) & ~np.isnan(rewards)]
        return float(observed.mean()) if clusters[node] >= 0 and observed.size else 0.5

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """scikit-learn's compiled code trusts its settings and centers."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        unfitted = self._new_kmeans(0)
        require(type(self._kmeans) is type(unfitted), "k-means does not fit")
        held = vars(self._kmeans)
        seed = held.get("random_state")
        require(type(seed) is int and 0 <= seed < 2**32, "k-means has no seed")
        settings = unfitted.set_params(random_state=seed).get_params()
        for name, value in settings.items():  # a later scikit-learn may have settings that the file lacks
            found = held.setdefault(name, value)
            require(type(found) is type(value) and found == value, f"k-means has another {name}")
        more = held.keys() - settings.keys()
        if more:
            require(more <= {*FITTED, *FITTED_ARRAYS} and more >= FITTED_ARRAYS, f"k-means has {sorted(more)}")
            self._check_fitted(held, n_features)

    def _check_fitted(self, held: dict[str, Any], n_features: int) -> None:
        """What scikit-learn adds to k-means when it is fitted."""
        for name, kind in FITTED.items():
            require(isinstance(held.get(name), kind), f"k-means has another {name}")
        centers, counts, labels = (held[name] for name in ("cluster_centers_", "_counts", "labels_"))
        require(is_array(centers, np.float64, self.clusters, n_features), "centers do not fit")
        require(is_array(counts, np.float64, self.clusters) and (counts >= 0).all(), "counts do not fit")
        require(is_array(labels, np.int32, -1) and in_range(labels, 0, self.clusters), "labels do not fit")
        require((np.abs(centers) <= LARGEST).all() and np.isfinite(counts).all(), "centers are not finite")
        require(held["n_features_in_"] == n_features, "k-means has other features")
        require(1 <= held["_n_threads"] <= MAX_THREADS, "k-means has too many threads")
        sizes = [held[name] for name, kind in FITTED.items() if kind is int]
        require(min(sizes) >= 0 and max(sizes) < MAX_COUNT, "k-means has other counts")


def _squared_norms(centers: NDArray[np.float64]) -> NDArray[np.float64]:
    """``‖c‖²`` (C,) of centers (C, D)."""
    return np.asarray(np.einsum("ij,ij->i", centers, centers))
