"""A data set as an environment: contexts in random order, one labelled row per arm, rewards late or missing."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.contracts import Arm, Dataset, LabelledStart, Round
from taciturn.display import Displayed, Summary, brief, counted, name_text, percent
from taciturn.errors import InvalidData, UnknownArm
from taciturn.streams.delay import draw_delays
from taciturn.streams.missing import MECHANISMS, parse_missing
from taciturn.validate import LARGEST_SEED, MANY, check_number


class Stream(Displayed):
    """A contextual bandit with missing rewards, made from a data set.

    The rows come in random order. One random row per arm comes with its label (`start`); every other row is a round,
    for which `respond` returns the reward 1 or 0, or None for silence. Iterating again, or over another stream with the
    same arguments, gives the same rounds.

    Arguments:
        dataset: what `load_dataset` returns.
        missing: the share of missing rewards and what they depend on: "mcar:0.5" or 0.5 (nothing), "context:0.5",
            "reward:0.5".
        seed: determines the order, the labelled start, the silence and the delays.
        delay: how many decisions later a reward comes: 0, a number, or "geometric:20" or "uniform:20" with this mean;
            "half:20" delays a random half of the rewards by 20 on average and the rest not at all.
        steps: the maximal number of rounds; None for all.
    """

    def __init__(
        self,
        dataset: Dataset,
        missing: float | str = 0.0,
        seed: int = 0,
        *,
        delay: float | str = 0,
        steps: int | None = None,
    ) -> None:
        self.mechanism, self.rate = parse_missing(missing)
        check_number("seed", seed, 0, LARGEST_SEED, whole=True)
        if steps is not None:
            check_number("steps", steps, 1, MANY, whole=True)
        self.dataset = dataset
        self.seed = int(seed)
        arms = len(dataset.arms)
        absent = [dataset.arms[k] for k in np.flatnonzero(np.bincount(dataset.y, minlength=arms) == 0)]
        if absent:
            raise InvalidData(f"{dataset.name}: no row has the arm {absent[0]!r}; every arm needs a labelled row")
        if len(dataset.y) == arms:
            raise InvalidData(f"{dataset.name}: no rows are left after one labelled row for each of {arms} arms")
        # A generator for each purpose, so that the order does not depend on the mechanism; agents use purpose 1.
        start_rng, order_rng, silence_rng, delay_rng = (
            np.random.default_rng([self.seed, purpose]) for purpose in (2, 3, 4, 5)
        )
        start = np.array([start_rng.choice(np.flatnonzero(dataset.y == k)) for k in range(arms)])
        rest = order_rng.permutation(np.delete(np.arange(len(dataset.y)), start))
        self.order = np.concatenate([start, rest[:steps]])
        """The data set's row at each position of the stream, the labelled start first."""
        self._sparse = self._matrix(self.order) if sp.issparse(dataset.contexts) else None
        self._truth = dataset.y[self.order]
        self._index = {name: k for k, name in enumerate(dataset.arms)}
        # Only silence by context looks at the contexts, and words take time to become a matrix.
        matrix = self._matrix(self.order[arms:]) if self.mechanism == "context" else sp.csr_matrix((len(self), 1))
        self._silence = MECHANISMS[self.mechanism](matrix, self.rate, silence_rng)
        self._delays = draw_delays(delay, len(self), delay_rng)
        self._earlier_neighbors = None if dataset.edges is None else self._neighbors(dataset.edges)

    def _matrix(self, rows: NDArray[np.int64]) -> sp.csr_matrix:
        """Return rows of the data set as a CSR matrix with sorted columns."""
        matrix = sp.csr_matrix(self.dataset.X[rows])
        matrix.sort_indices()
        return matrix

    def _neighbors(self, edges: Any) -> list[tuple[int, ...]]:
        """Return, for each position, the earlier positions that an edge connects it to."""
        position = np.full(len(self.dataset.y), -1)
        position[self.order] = np.arange(len(self.order))
        earlier: list[list[int]] = [[] for _ in self.order]
        pairs = np.sort(position[edges], axis=1)
        for a, b in pairs[pairs[:, 0] >= 0].tolist():
            earlier[b].append(a)
        return [tuple(sorted(set(neighbors))) for neighbors in earlier]

    def _summary(self) -> Summary:
        arm, share = self.best_constant_arm
        facts = {
            "arms": counted(self.arms),
            "missing": f"{self.mechanism}:{self.rate:g}",
            "delay": f"{self._delays.mean():.3g} decisions on average",
            "seed": str(self.seed),
            "best constant arm": f"{brief(arm)}, {percent(share)}",
        }
        return Summary(f"Stream of {name_text(self.dataset.name)}: {len(self)} rounds", facts)

    @property
    def arms(self) -> list[Arm]:
        """The arms by name."""
        return self.dataset.arms

    @property
    def truth(self) -> NDArray[np.int64]:
        """The index of the right arm at each position; for evaluation only, agents must not see it."""
        return np.array(self._truth)

    @property
    def best_constant_arm(self) -> tuple[Arm, float]:
        """The arm that is right most often, and the share of rounds at which it is: a baseline for every agent."""
        counts = np.bincount(self._truth[len(self.arms) :], minlength=len(self.arms))
        best = int(np.argmax(counts))
        return self.arms[best], float(counts[best] / len(self))

    @property
    def start(self) -> LabelledStart:
        """One labelled row per arm, at positions 0 to K−1: a matrix where the contexts are one, otherwise a list."""
        arms = len(self.arms)
        edges = None
        if self._earlier_neighbors is not None:
            pairs = [(a, b) for b in range(arms) for a in self._earlier_neighbors[b]]
            edges = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        if self._sparse is not None:
            return LabelledStart(self._sparse[:arms], list(self.arms), edges)
        contexts = [self._context(position) for position in range(arms)]
        is_matrix = isinstance(self.dataset.contexts, np.ndarray)
        return LabelledStart(np.array(contexts) if is_matrix else contexts, list(self.arms), edges)

    def __len__(self) -> int:
        """Return the number of rounds, without the labelled start."""
        return len(self.order) - len(self.arms)

    def __iter__(self) -> Iterator[Round]:
        """Yield the rounds in order."""
        for position in range(len(self.arms), len(self.order)):
            neighbors = None if self._earlier_neighbors is None else self._earlier_neighbors[position]
            yield Round(position, self._context(position), neighbors)

    def _context(self, position: int) -> Any:
        """Return the context at a position: an array (D,), a CSR matrix (1, D), a mapping or a text, and a copy."""
        if self._sparse is None:
            context: Any = self.dataset.contexts[int(self.order[position])]
            return context.copy() if isinstance(context, np.ndarray) else context
        span = slice(*self._sparse.indptr[position : position + 2])
        values, columns = self._sparse.data[span].copy(), self._sparse.indices[span].copy()
        parts = (values, columns, np.array([0, len(values)], np.int32))
        return sp.csr_matrix(parts, shape=(1, self._sparse.shape[1]))

    def is_right(self, round: Round, arm: Arm) -> bool:
        """Whether an `arm` is the right one in a `round`; for evaluation only."""
        if arm not in self._index:
            raise UnknownArm(f"unknown arm {arm!r} (there are: {', '.join(map(str, self.arms[:20]))})")
        return bool(self._truth[round.position] == self._index[arm])

    def delay(self, round: Round) -> int:
        """Return how many decisions later the reward of this round comes."""
        return int(self._delays[round.position - len(self.arms)])

    def respond(self, round: Round, arm: Arm) -> float | None:
        """Return the reward of an `arm` in a `round`: 1 (right), 0 (wrong) or None (silence)."""
        right = self.is_right(round, arm)
        step = round.position - len(self.arms)
        silent = self._silence.if_right[step] if right else self._silence.if_wrong[step]
        return None if silent else float(right)
