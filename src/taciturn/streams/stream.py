"""A data set as an environment: contexts in random order, one labelled start an arm, and answers that may not come."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.contracts import Arm, Dataset, LabelledStart, Round
from taciturn.errors import InvalidData, UnknownArm
from taciturn.streams.delay import draw_delays
from taciturn.streams.missing import MECHANISMS, parse_missing
from taciturn.validate import check_number


class Stream:
    """The online partially rewarded problem on a data set.

    The rows come in a random order. One random row an arm is given away with its label (`start`); every other row is
    a round, answered by `respond` with 1, 0 or None for silence. Iterating again gives the same rounds, and so does
    another stream with the same arguments.

    Arguments:
        dataset: what `load_dataset` returns.
        missing: the share of silent steps, and what silence depends on: "mcar:0.5" (nothing, as a bare 0.5),
            "context:0.5", "reward:0.5".
        seed: determines the order, the start, the silence and the delays.
        delay: how many decisions later an answer comes: 0, a number, or "geometric:20" and "uniform:20" with a mean;
            "half:20" lets every other answer come at once and the rest as much later on average.
        steps: at most so many rounds; None for all.
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
        check_number("seed", seed, 0, whole=True)
        if steps is not None:
            check_number("steps", steps, 1, whole=True)
        self.dataset = dataset
        self.seed = int(seed)
        arms = len(dataset.arms)
        absent = [dataset.arms[k] for k in np.flatnonzero(np.bincount(dataset.y, minlength=arms) == 0)]
        if absent:
            raise InvalidData(f"{dataset.name}: no row has the arm {absent[0]!r}; every arm needs one to start from")
        if len(dataset.y) == arms:
            raise InvalidData(f"{dataset.name}: no rows are left after one labelled row for each of {arms} arms")
        # A generator for each purpose: the order is one for all mechanisms, and agents (purpose 1) draw other numbers.
        start_rng, order_rng, silence_rng, delay_rng = (
            np.random.default_rng([self.seed, purpose]) for purpose in (2, 3, 4, 5)
        )
        start = np.array([start_rng.choice(np.flatnonzero(dataset.y == k)) for k in range(arms)])
        rest = order_rng.permutation(np.delete(np.arange(len(dataset.y)), start))
        self.order = np.concatenate([start, rest[:steps]])
        """The data set's rows in the order of the stream, the labelled start first."""
        self._contexts = sp.csr_matrix(dataset.X[self.order])
        self._contexts.sort_indices()
        self._truth = dataset.y[self.order]
        self._index = {name: k for k, name in enumerate(dataset.arms)}
        self._silence = MECHANISMS[self.mechanism](self._contexts[arms:], self.rate, silence_rng)
        self._delays = draw_delays(delay, len(self), delay_rng)
        self._earlier = None if dataset.edges is None else self._neighbors(dataset.edges)

    def _neighbors(self, edges: Any) -> list[tuple[int, ...]]:
        """For each position, the earlier positions that the data set's graph connects it to."""
        position = np.full(len(self.dataset.y), -1)
        position[self.order] = np.arange(len(self.order))
        earlier: list[list[int]] = [[] for _ in self.order]
        pairs = np.sort(position[edges], axis=1)
        for a, b in pairs[pairs[:, 0] >= 0].tolist():
            earlier[b].append(a)
        return [tuple(sorted(set(near))) for near in earlier]

    @property
    def arms(self) -> list[Arm]:
        """The arms by name."""
        return self.dataset.arms

    @property
    def truth(self) -> NDArray[np.int64]:
        """The right arm at each position, as its place among the arms; for pictures and scores only."""
        return np.array(self._truth)

    @property
    def best_constant_arm(self) -> tuple[Arm, float]:
        """The arm that is right most often, and how often: what any agent has to beat."""
        counts = np.bincount(self._truth[len(self.arms) :], minlength=len(self.arms))
        best = int(np.argmax(counts))
        return self.arms[best], float(counts[best] / len(self))

    @property
    def start(self) -> LabelledStart:
        """One labelled row an arm, at positions 0 to K−1."""
        arms = len(self.arms)
        edges = None
        if self._earlier is not None:
            pairs = [(a, b) for b in range(arms) for a in self._earlier[b]]
            edges = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return LabelledStart(self._contexts[:arms], list(self.arms), edges)

    def __len__(self) -> int:
        """How many rounds there are; the start does not count."""
        return len(self.order) - len(self.arms)

    def __iter__(self) -> Iterator[Round]:
        """The rounds, in order."""
        indptr, columns, values = self._contexts.indptr, self._contexts.indices, self._contexts.data
        width = self._contexts.shape[1]
        for position in range(len(self.arms), len(self.order)):
            span = slice(indptr[position], indptr[position + 1])
            parts = (values[span].copy(), columns[span].copy(), np.array([0, span.stop - span.start], np.int32))
            near = None if self._earlier is None else self._earlier[position]
            yield Round(position, sp.csr_matrix(parts, shape=(1, width)), near)

    def is_right(self, round: Round, arm: Arm) -> bool:
        """The truth, for scoring only."""
        if arm not in self._index:
            raise UnknownArm(f"unknown arm {arm!r} (there are: {', '.join(map(str, self.arms[:20]))})")
        return bool(self._truth[round.position] == self._index[arm])

    def delay(self, round: Round) -> int:
        """How many decisions later the answer to this round comes."""
        return int(self._delays[round.position - len(self.arms)])

    def respond(self, round: Round, arm: Arm) -> float | None:
        """What the environment says to an arm: 1 (right), 0 (wrong) or None (nothing)."""
        right = self.is_right(round, arm)
        step = round.position - len(self.arms)
        silent = self._silence.if_right[step] if right else self._silence.if_wrong[step]
        return None if silent else float(right)
