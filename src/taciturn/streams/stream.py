"""A data set as an environment: contexts in random order, rewards late or missing."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.contracts import Arm, Dataset, LabelledStart, Round
from taciturn.display import Displayed, Summary, brief, counted, name_text, percent
from taciturn.errors import InvalidData, UnknownArm
from taciturn.streams.delay import draw_delays
from taciturn.streams.drift import derangement, parse_drift
from taciturn.streams.missing import MECHANISMS, parse_missing
from taciturn.streams.shift import shift_of
from taciturn.streams.utilities import utilities
from taciturn.validate import LARGEST_SEED, MANY, check_number


class Stream(Displayed):
    """A contextual bandit with missing rewards, made from a data set.

    The rows come in random order. One random row per arm comes with its label (`start`); every other row is a round,
    for which `respond` returns the reward 1 or 0, or None for silence. Iterating again, or over another stream with the
    same arguments, gives the same rounds.

    Where the data set has a reward for every arm, rewards are graded: every row is a round, without a labelled start,
    and `respond` returns the utility of the arm, ``clip(reward − cost_weight·c, 0, 1)``, where c is the logarithm of
    the arm's mean cost, from 0 for the cheapest to 1 for the dearest.

    Arguments:
        dataset: what `load_dataset` returns.
        missing: the share of missing rewards and what they depend on: "mcar:0.5" or 0.5 (nothing), "context:0.5",
            "reward:0.5".
        seed: determines the order, the labelled start, the silence and the delays.
        delay: how many decisions later a reward comes: 0, a number, or "geometric:20" or "uniform:20" with this mean;
            "half:20" delays a random half of the rewards by 20 on average and the rest not at all.
        steps: the maximal number of rounds; None for all.
        cost_weight: how much costs count, from 0 to 1; for data sets with rewards and costs of every arm.
        drift: what changes on the way: "none", "labels" or "features", half-way unless a share of the rounds is given,
            as in "labels:0.25". From then on another arm is right wherever one was, by a random permutation of all
            arms without fixed points, or contexts are shifted as `shift_of` in ``streams/shift.py`` says. Silence by
            context goes by the contexts before the shift.
    """

    def __init__(
        self,
        dataset: Dataset,
        missing: float | str = 0.0,
        seed: int = 0,
        *,
        delay: float | str = 0,
        steps: int | None = None,
        cost_weight: float = 0.0,
        drift: str = "none",
    ) -> None:
        self.mechanism, self.rate = parse_missing(missing)
        self.drift, self._drift_share = parse_drift(drift)
        check_number("seed", seed, 0, LARGEST_SEED, whole=True)
        if steps is not None:
            check_number("steps", steps, 1, MANY, whole=True)
        self.dataset = dataset
        self.seed = int(seed)
        worth = utilities(dataset, cost_weight)
        self.cost_weight = float(cost_weight)
        self.graded = worth is not None
        """Whether every arm has a reward from 0 to 1; otherwise one arm is right."""
        # A generator for each purpose, so that the order does not depend on the mechanism; agents use 1 and 6 to 8.
        start_rng, order_rng, silence_rng, delay_rng, drift_rng = (
            np.random.default_rng([self.seed, purpose]) for purpose in (2, 3, 4, 5, 9)
        )
        start = self._draw_start(start_rng)
        self._n_labelled = len(start)
        rest = order_rng.permutation(np.delete(np.arange(len(dataset.y)), start))
        self.order = np.concatenate([start, rest[:steps]])
        """The data set's row at each position of the stream, the labelled start first."""
        self._sparse = self._matrix(self.order) if sp.issparse(dataset.contexts) else None
        self._empty_row: Any = None if self._sparse is None else sp.csr_matrix((1, self._sparse.shape[1]))
        self._utilities = None if worth is None else worth[self.order]
        self._truth = dataset.y[self.order]
        if self.drift == "labels":
            self._permute_arms(derangement(len(dataset.arms), drift_rng))
        if self._utilities is not None:
            self._truth = self._utilities.argmax(axis=1)
        self._shift = shift_of(dataset, drift_rng) if self.drift == "features" else None
        if self._shift is not None and self._sparse is not None:
            self._sparse = sp.vstack(
                [self._sparse[: self._drifts_at], self._shift(self._sparse[self._drifts_at :])], format="csr"
            )
        self._index = {name: k for k, name in enumerate(dataset.arms)}
        # Only silence by context looks at the contexts, and words take time to become a matrix.
        rounds = self.order[self._n_labelled :]
        matrix = self._matrix(rounds) if self.mechanism == "context" else sp.csr_matrix((len(self), 1))
        self._silence = MECHANISMS[self.mechanism](matrix, self.rate, silence_rng)
        self._delays = draw_delays(delay, len(self), delay_rng)
        self._earlier_neighbors = None if dataset.edges is None else self._neighbors(dataset.edges)

    def _draw_start(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a random row of each arm, none where rewards are graded; raise unless rows are left for rounds."""
        dataset, arms = self.dataset, len(self.dataset.arms)
        if self.graded:
            if len(dataset.y) == 0:
                raise InvalidData(f"{dataset.name}: there are no rows")
            return np.zeros(0, np.int64)
        absent = [dataset.arms[k] for k in np.flatnonzero(np.bincount(dataset.y, minlength=arms) == 0)]
        if absent:
            raise InvalidData(f"{dataset.name}: no row has the arm {absent[0]!r}; every arm needs a labelled row")
        if len(dataset.y) == arms:
            raise InvalidData(f"{dataset.name}: no rows are left after one labelled row for each of {arms} arms")
        return np.array([rng.choice(np.flatnonzero(dataset.y == k)) for k in range(arms)])

    @property
    def drift_step(self) -> int | None:
        """The number of rounds before the drift; None without one."""
        return None if self.drift == "none" else round(self._drift_share * len(self))

    @property
    def _drifts_at(self) -> int:
        """The position of the first row that has drifted."""
        return len(self.order) if self.drift_step is None else self._n_labelled + self.drift_step

    def _permute_arms(self, places: NDArray[np.int64]) -> None:
        """From the drift on, give to arm ``places[k]`` what was arm k's."""
        self._truth[self._drifts_at :] = places[self._truth[self._drifts_at :]]
        if self._utilities is not None:
            self._utilities[self._drifts_at :, places] = self._utilities[self._drifts_at :].copy()

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
        }
        if self.drift_step is not None:
            facts["drift"] = f"{self.drift}, from round {self.drift_step} on"
        if self.cost_weight:
            facts["cost weight"] = f"{self.cost_weight:g}"
        facts["best constant arm"] = f"{brief(arm)}, {f'reward {share:.3f}' if self.graded else percent(share)}"
        return Summary(f"Stream of {name_text(self.dataset.name)}: {len(self)} rounds", facts)

    @property
    def arms(self) -> list[Arm]:
        """The arms by name."""
        return self.dataset.arms

    @property
    def truth(self) -> NDArray[np.int64]:
        """The index of the right arm at each position, the first of several; for evaluation only."""
        return np.array(self._truth)

    @property
    def best_rewards(self) -> NDArray[np.float64]:
        """The reward of the best arm at each round (T,), 1 where one arm is right; for evaluation only."""
        return np.ones(len(self)) if self._utilities is None else np.asarray(self._utilities.max(axis=1))

    @property
    def best_constant_arm(self) -> tuple[Arm, float]:
        """The arm of the highest mean reward over the rounds, and that mean: a baseline for every agent.

        Where one arm is right, that is the arm that is right most often, and the share of rounds at which it is.
        """
        if self._utilities is not None:
            means = self._utilities.mean(axis=0)
        else:
            means = np.bincount(self._truth[self._n_labelled :], minlength=len(self.arms)) / len(self)
        best = int(np.argmax(means))
        return self.arms[best], float(means[best])

    def share_right(self, arm: Arm) -> float:
        """Return the share of rounds at which an `arm` is right; for evaluation only."""
        k = self._arm_index(arm)
        if self._utilities is not None:
            return float((self._utilities[:, k] == self.best_rewards).mean())
        return float((self._truth[self._n_labelled :] == k).mean())

    @property
    def start(self) -> LabelledStart:
        """One labelled row per arm, at positions 0 to K−1: a matrix where the contexts are one, otherwise a list.

        It is empty where rewards are graded.
        """
        rows, edges = self._n_labelled, None
        if self._earlier_neighbors is not None:
            pairs = [(a, b) for b in range(rows) for a in self._earlier_neighbors[b]]
            edges = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        arms = list(self.arms[:rows])
        if self._sparse is not None:
            return LabelledStart(self._sparse[:rows], arms, edges)
        if isinstance(self.dataset.contexts, np.ndarray):
            return LabelledStart(self.dataset.contexts[self.order[:rows]], arms, edges)
        return LabelledStart([self._context(position) for position in range(rows)], arms, edges)

    def __len__(self) -> int:
        """Return the number of rounds, without the labelled start."""
        return len(self.order) - self._n_labelled

    def __iter__(self) -> Iterator[Round]:
        """Yield the rounds in order."""
        for position in range(self._n_labelled, len(self.order)):
            neighbors = None if self._earlier_neighbors is None else self._earlier_neighbors[position]
            yield Round(position, self._context(position), neighbors)

    def _context(self, position: int) -> Any:
        """Return the context at a position: an array (D,), a CSR matrix (1, D), a mapping or a text, and a copy."""
        if self._sparse is None:
            context: Any = self.dataset.contexts[int(self.order[position])]
            if self._shift is not None and position >= self._drifts_at:
                return self._shift(context)
            return context.copy() if isinstance(context, np.ndarray) else context
        span = slice(*self._sparse.indptr[position : position + 2].tolist())
        row = object.__new__(sp.csr_matrix)  # its constructor would check a row that is sound, in ten times the time
        row.__dict__.update(self._empty_row.__dict__)
        kind = row.indices.dtype  # as scipy has it for so many columns; those of the data set may be wider
        row.data, row.indices = self._sparse.data[span].copy(), self._sparse.indices[span].astype(kind)
        row.indptr = np.array([0, len(row.data)], kind)
        return row

    def _arm_index(self, arm: Arm) -> int:
        if arm not in self._index:
            raise UnknownArm(f"unknown arm {arm!r} (there are: {', '.join(map(str, self.arms[:20]))})")
        return self._index[arm]

    def is_right(self, round: Round, arm: Arm) -> bool:
        """Whether no arm has a higher reward than an `arm` in a `round`; for evaluation only."""
        k = self._arm_index(arm)
        if self._utilities is None:
            return bool(self._truth[round.position] == k)
        worth = self._utilities[round.position]
        return bool(worth[k] == worth.max())

    def reward_of(self, round: Round, arm: Arm) -> float:
        """Return the reward of an `arm` in a `round`, whether missing or not; for evaluation only."""
        if self._utilities is None:
            return float(self.is_right(round, arm))
        return float(self._utilities[round.position, self._arm_index(arm)])

    def delay(self, round: Round) -> int:
        """Return how many decisions later the reward of this round comes."""
        return int(self._delays[round.position - self._n_labelled])

    def respond(self, round: Round, arm: Arm) -> float | None:
        """Return the reward of an `arm` in a `round`: 1 (right), 0 (wrong), from 0 to 1 where rewards are graded.

        None is silence.
        """
        reward = self.reward_of(round, arm)
        return None if self._silence.of(round.position - self._n_labelled, reward) else reward
