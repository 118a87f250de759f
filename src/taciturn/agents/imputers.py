"""What fills in for silence: a graph network, clusters, chance, or any classifier that learns online."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans

from taciturn.agents.contexts import RowStore, keep_rows, room_for
from taciturn.agents.encoder import GraphEncoder, NetworkSettings
from taciturn.agents.storage import fits, storable
from taciturn.contracts import Imputer
from taciturn.errors import TaciturnError
from taciturn.registry import check_keywords, unknown_name
from taciturn.validate import check_number

MOST_THREADS = 1024


class BaseImputer(ABC):
    """An imputer before it has seen anything; `begin` gives it the rows, the number of arms and the randomness."""

    def __init_subclass__(cls) -> None:
        """Imputers that are defined elsewhere can be saved too."""
        storable(cls)

    def begin(self, rows: RowStore, arms: int, rng: np.random.Generator) -> None:
        """Make the state."""
        self._rows = rows
        self._arms = arms
        self._rng = rng

    deferred = False
    """Whether training waits for `study`."""

    def train_step(self) -> bool:
        """Do a piece of what was deferred; False if there is none."""
        return False

    def widen(self, dimension: int) -> None:
        """Make room for features that were not there before."""

    def arrive(self, node: int, neighbors: list[int] | None) -> None:
        """A context came in."""

    def started(self) -> None:
        """The labelled start is in."""

    def learn(self, node: int, arm: int, reward: float) -> None:
        """A reward was observed."""

    def unlearn(self, node: int, arm: int, reward: float) -> None:
        """It was not: take it back."""

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Forget all contexts but these nodes, which are renumbered in their order."""

    def add_arm(self, like: int | None) -> None:
        """There is one arm more, which begins with what is known of another, or with nothing."""
        self._arms += 1

    @abstractmethod
    def impute(self, node: int, arm: int) -> float:
        """The reward, from 0 to 1, that `arm` would have earned at a context."""


@dataclass(kw_only=True, eq=False)
class RandomImputer(BaseImputer):
    """Chance: uniform from 0 to 1. The yardstick for what the bound is worth."""

    def impute(self, node: int, arm: int) -> float:
        """A random number."""
        return float(self._rng.random())


@dataclass(kw_only=True, eq=False)
class GCNImputer(NetworkSettings, BaseImputer):
    """The softmax of a graph network that is told what turned out right: ROGCN as an imputer."""

    def __post_init__(self) -> None:
        """Refuse wrong parameters."""
        self.check_network()

    def begin(self, rows: RowStore, arms: int, rng: np.random.Generator) -> None:
        """Make the network."""
        super().begin(rows, arms, rng)
        self._encoder = GraphEncoder(self, rows, heads=1, classes=arms, rng=rng)

    def widen(self, dimension: int) -> None:
        """Make room in the network."""
        self._encoder.widen(dimension)

    def arrive(self, node: int, neighbors: list[int] | None) -> None:
        """Let the context join the graph, and train."""
        self._encoder.arrive(node, neighbors)
        self._encoder.train_now_or_later(later=self.deferred)

    def train_step(self) -> bool:
        """A training step that was put off."""
        return self._encoder.train_step()

    def started(self) -> None:
        """Train on the labelled start."""
        self._encoder.train(self.start_epochs)

    def learn(self, node: int, arm: int, reward: float) -> None:
        """A right answer is a label."""
        if reward > 0.5:
            self._encoder.labels[node, 0] = arm

    def unlearn(self, node: int, arm: int, reward: float) -> None:
        """The label goes; the weights that it has moved train on without it."""
        self._encoder.labels[node, 0] = -1

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Forget in the graph."""
        self._encoder.keep(kept)

    def add_arm(self, like: int | None) -> None:
        """One class more."""
        super().add_arm(like)
        self._encoder.add_class(like)

    def impute(self, node: int, arm: int) -> float:
        """The network's probability of the arm."""
        return float(self._encoder.probabilities(node)[0, arm])


@dataclass(kw_only=True, eq=False)
class KMeansImputer(BaseImputer):
    """The mean observed reward, whatever the arm, of the context's cluster; 0.5 where there is none yet.

    Mini-batch k-means starts with as many contexts as there are clusters. A context keeps the cluster that it fell
    into when it came.
    """

    clusters: int = 10

    def __post_init__(self) -> None:
        """Refuse wrong parameters."""
        check_number("clusters", self.clusters, 2, 10_000, whole=True)

    def begin(self, rows: RowStore, arms: int, rng: np.random.Generator) -> None:
        """Make the clusters."""
        super().begin(rows, arms, rng)
        self._kmeans = MiniBatchKMeans(self.clusters, n_init=1, random_state=int(rng.integers(2**31)))
        self._cluster = np.zeros(0, np.int32)
        self._reward = np.zeros(0)

    def _sound(self) -> bool:
        if not hasattr(self, "_kmeans"):
            return True  # it has not begun
        return (
            self._kmeans_sound()
            and fits(self._cluster, np.int32, self._rows.count)
            and fits(self._reward, np.float64, self._rows.count)
        )

    def _kmeans_sound(self) -> bool:
        """Whether scikit-learn's compiled code can trust what a file says of its k-means."""
        held = vars(self._kmeans)
        settings = MiniBatchKMeans(self.clusters, n_init=1, random_state=held.get("random_state")).get_params()
        if any(held.get(name) != value for name, value in settings.items()):
            return False
        if "cluster_centers_" not in held:
            return True
        centers, counts, size = held["cluster_centers_"], held["_counts"], (self.clusters, self._rows.dimension)
        return (
            centers.shape == size
            and counts.shape == size[:1]
            and centers.dtype == counts.dtype == np.float64
            and bool(np.isfinite(centers).all() and np.isfinite(counts).all())
            and held["n_features_in_"] == self._rows.dimension
            and 1 <= held["_n_threads"] <= MOST_THREADS
        )

    def widen(self, dimension: int) -> None:
        """Pad the centres with zeros, which is what they had in features not seen."""
        if hasattr(self._kmeans, "cluster_centers_"):
            centers = self._kmeans.cluster_centers_
            self._kmeans.cluster_centers_ = np.pad(centers, ((0, 0), (0, dimension - centers.shape[1])))
            self._kmeans.n_features_in_ = dimension

    def arrive(self, node: int, neighbors: list[int] | None) -> None:
        """Move the clusters towards the context, and put it into one."""
        self._cluster = room_for(self._cluster, node + 1, -1)
        self._reward = room_for(self._reward, node + 1, np.nan)
        begun = hasattr(self._kmeans, "cluster_centers_")
        if not begun and node + 1 < self.clusters:
            return
        first = node if begun else 0
        self._kmeans.partial_fit(self._rows.matrix(first, node + 1))
        self._cluster[first : node + 1] = self._kmeans.labels_

    def learn(self, node: int, arm: int, reward: float) -> None:
        """The reward counts for its cluster."""
        self._reward[node] = reward

    def unlearn(self, node: int, arm: int, reward: float) -> None:
        """It counts no longer."""
        self._reward[node] = np.nan

    def keep(self, kept: NDArray[np.int64]) -> None:
        """The clusters stay where they are."""
        keep_rows(self._cluster, kept, -1)
        keep_rows(self._reward, kept, np.nan)

    def impute(self, node: int, arm: int) -> float:
        """The cluster's mean."""
        observed = self._reward[(self._cluster == self._cluster[node]) & ~np.isnan(self._reward)]
        return float(observed.mean()) if self._cluster[node] >= 0 and observed.size else 0.5


@dataclass(eq=False)
class ClassifierImputer(BaseImputer):
    """Any scikit-learn classifier with `partial_fit` and `predict_proba`, told what turned out right.

    What it was told wrongly it cannot unlearn: after a correction it starts over with all that is known, when it is
    next asked, and so it does for a new arm.
    """

    estimator: Any
    _told: bool = field(default=False, init=False)
    _stale: bool = field(default=False, init=False)

    def begin(self, rows: RowStore, arms: int, rng: np.random.Generator) -> None:
        """Start from an untrained copy, seeded if it takes a seed."""
        super().begin(rows, arms, rng)
        self.estimator = clone(self.estimator)
        self._width = rows.dimension
        self._labels = np.zeros(0, np.int64)
        if "random_state" in self.estimator.get_params():
            self.estimator.set_params(random_state=int(rng.integers(2**31)))

    def _features(self, node: int) -> Any:
        """The context as a dense row, which all classifiers take, over the features that there were at the start."""
        return self._rows.matrix(node, node + 1)[:, : self._width].toarray()

    def arrive(self, node: int, neighbors: list[int] | None) -> None:
        """Nothing is known of it yet."""
        self._labels = room_for(self._labels, node + 1, -1)

    def learn(self, node: int, arm: int, reward: float) -> None:
        """A right answer is a label."""
        if reward > 0.5:
            if not self._stale:
                self._tell(node, arm)
            self._labels[node] = arm

    def unlearn(self, node: int, arm: int, reward: float) -> None:
        """The label goes."""
        if self._labels[node] >= 0:
            self._labels[node] = -1
            self._stale = True

    def keep(self, kept: NDArray[np.int64]) -> None:
        """What it has learned stays, until it has to start over."""
        keep_rows(self._labels, kept, -1)

    def add_arm(self, like: int | None) -> None:
        """One class more."""
        super().add_arm(like)
        self._stale = True

    def _tell(self, node: int, arm: int) -> None:
        self._ask("partial_fit", self._features(node), [arm], classes=np.arange(self._arms))
        self._told = True

    def _start_over(self) -> None:
        self.estimator, self._told = clone(self.estimator), False
        for node in np.flatnonzero(self._labels >= 0).tolist():
            self._tell(node, int(self._labels[node]))
        self._stale = False

    def impute(self, node: int, arm: int) -> float:
        """The classifier's probability of the arm; even odds before it knows any."""
        even = 1.0 / self._arms
        if self._stale:
            self._start_over()
        if not self._told:
            return even
        with np.errstate(all="ignore"):  # some divide by the spread of classes that they have seen once
            value = float(self._ask("predict_proba", self._features(node))[0, arm])
        return value if np.isfinite(value) else even

    def _ask(self, verb: str, *values: Any, **options: Any) -> Any:
        try:
            return getattr(self.estimator, verb)(*values, **options)
        except (TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise TaciturnError(f"the imputer {self.estimator} refuses: {reason}") from None


BY_NAME: dict[str, type[BaseImputer]] = {"gcn": GCNImputer, "kmeans": KMeansImputer, "random": RandomImputer}


def imputer_from(given: Any, params: dict[str, Any]) -> Imputer:
    """The imputer that a name with its settings, a classifier or an imputer stands for."""
    if isinstance(given, str):
        if given not in BY_NAME:
            raise unknown_name("imputer", given, BY_NAME)
        check_keywords(f"imputer {given}", BY_NAME[given], params)
        return BY_NAME[given](**params)
    if params:
        raise TaciturnError(f"imputer_params={params!r} is not allowed; settings go with the name of an imputer")
    if isinstance(given, Imputer) and not isinstance(given, type):
        return given
    if not isinstance(given, type) and hasattr(given, "partial_fit") and hasattr(given, "predict_proba"):
        return ClassifierImputer(given)
    raise TaciturnError(
        f"imputer={given!r} is not allowed; {', '.join(map(repr, BY_NAME))}, an imputer, "
        "or a classifier with partial_fit and predict_proba is"
    )
