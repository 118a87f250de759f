"""Ridge regressions of all arms over the contexts, with exact undo: the state of LinUCB and its rule of learning."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.lifecycle import Example, Lifecycle
from taciturn.agents.parts.part import Part, Scores, Sizes, in_range, is_array, require
from taciturn.agents.rows import RowStore
from taciturn.contracts import SparseRow
from taciturn.features.scale import Change
from taciturn.kernels import ridge
from taciturn.validate import check_choice, check_number

MIN_MARGIN = 2.0**-32
"""Subtracting a context divides by ``1 − xᵀA⁻¹x``, which carries a rounding error of about ``2⁻⁵²‖x‖²/λ``. Where it is
not at least ``2⁻³²‖x‖²/λ``, too few digits would be left: the arm is learned afresh from its examples."""

MIN_MARGIN_AFTER_EVICTION = 2.0**-50
"""Lower where contexts were evicted: an arm that is learned afresh loses what they taught."""

MAX_ALPHA, MAX_RIDGE = 1e6, 1e9
"""Beyond these an agent only explores, or never learns; and scores of the largest contexts stay finite."""


LARGEST_SUM = 2.0**40
"""Up to this ``Σ ‖x‖²/λ`` sums of products keep four digits of an inverse, and those of unit length nearly all."""

BATCH_PIECE = 256
"""How many contexts of a batch are made dense and scored at a time."""


class ArmRidge(Part):
    """One ridge regression an arm over sparse contexts.

    Arguments:
        contexts: the rows that examples name by their node.
        lifecycle: what was learned so far, for the rare undo that must learn an arm afresh.
        ridge_weight: λ.
        imputed: whether imputed rewards are learned too.
        max_width: features beyond so many are folded onto these, with a sign, by a hash; None folds none.
        linear: whether rows move linearly when they are rescaled; otherwise all examples are learned anew.
    """

    def __init__(
        self,
        contexts: RowStore,
        lifecycle: Lifecycle,
        ridge_weight: float,
        *,
        imputed: bool = True,
        max_width: int | None = None,
        linear: bool = True,
    ) -> None:
        super().__init__()
        self._contexts, self._lifecycle = contexts, lifecycle
        self._max_width, self._linear = max_width, linear
        self._ridge_weight, self._imputed = ridge_weight, imputed
        self.state = ridge.new_state(0, 0, ridge_weight)
        self._copied = np.zeros(0, np.bool_)  # arms that began with the evidence of another

    def _folded(self, row: SparseRow) -> SparseRow:
        """The row over at most `max_width` features."""
        width = self._max_width
        if width is None or not len(row.columns) or row.columns[-1] < width:
            return row
        return SparseRow(*ridge.fold(*row, width))

    @property
    def is_folded(self) -> bool:
        """Whether several features share a column, so that θ says little of any of them."""
        return self._max_width is not None and self._contexts.n_features > self._max_width

    def scores(self, row: SparseRow, alpha: float, *, normalize_theta: bool = False) -> Scores:
        """``μ_k = θ_kᵀx`` and ``σ_k = α √(xᵀA_k⁻¹x)`` for all arms (K,)."""
        columns, values = row if self._max_width is None else self._folded(row)
        means, widths = ridge.scores(self.state, columns, values, alpha)
        return means / self._lengths() if normalize_theta else means, widths

    def scores_batch(self, rows: list[SparseRow], alpha: float, *, normalize_theta: bool = False) -> list[Scores]:
        """The same for many contexts, bit for bit."""
        width = self.state.theta.shape[1]
        if not all(ridge.is_dense(len(row.columns), width) for row in rows):
            return [self.scores(row, alpha, normalize_theta=normalize_theta) for row in rows]
        scored: list[Scores] = []
        for first in range(0, len(rows), BATCH_PIECE):
            piece = rows[first : first + BATCH_PIECE]
            contexts = np.zeros((len(piece), width))
            for context, row in zip(contexts, piece, strict=True):
                context[row.columns] = row.values
            means, widths = ridge.dense_scores(self.state, contexts, alpha)
            if normalize_theta:
                means /= self._lengths()
            scored += zip(means, widths, strict=True)
        return scored

    def _lengths(self) -> NDArray[np.float64]:
        """``‖θ_k‖`` (K,), 1 where it is 0."""
        lengths = np.linalg.norm(self.state.theta, axis=1)
        return np.where(lengths > 0, lengths, 1.0)

    def learn(self, example: Example) -> None:
        """``A_k += xxᵀ, b_k += targets_k · x`` for the arms that an example labels."""
        if self._imputed or not example.imputed:
            self._update(example, example.mask)

    def _update(self, example: Example, mask: NDArray[np.bool_]) -> None:
        row = self._contexts[example.node]
        columns, values = row if self._max_width is None else self._folded(row)
        ridge.update(self.state, columns, values, example.targets, mask, 1.0)

    def unlearn(self, example: Example) -> None:
        """``A_k −= xxᵀ, b_k −= targets_k · x``; where that is not safe, learn an arm's other examples afresh."""
        if example.imputed and not self._imputed:
            return
        row = self._folded(self._contexts[example.node])
        n_arms = len(example.mask)
        shares = ridge.scores(self.state, *row)[1][:n_arms] ** 2
        size = (row.values**2).sum() * self.state.scale[0]
        enough = (MIN_MARGIN if self._lifecycle.nothing_evicted else MIN_MARGIN_AFTER_EVICTION) * size
        safe = (1.0 - shares >= enough) | self._copied[:n_arms]  # a copied arm has no examples to learn from
        ridge.update(self.state, *row, -example.targets, example.mask & safe, -1.0)
        relearn = np.zeros(len(self.state.theta), np.bool_)
        relearn[:n_arms] = example.mask & ~safe
        if relearn.any():
            self._relearn(relearn)

    def relearn(self) -> None:
        """Learn all examples that are held afresh."""
        self._relearn(np.ones(self.n_arms, np.bool_))

    def _relearn(self, arms: NDArray[np.bool_]) -> None:
        """Learn some arms afresh from all examples that are held.

        Where rows do not move linearly, they are learned at once if they are more than the features: all are learned
        whenever rows have moved. Rows can be so large that sums of their products have no inverse left.
        """
        ridge.clear(self.state, np.flatnonzero(arms))
        examples = [example for example in self._lifecycle.examples() if self._imputed or not example.imputed]
        n_arms, width = self.state.theta.shape
        targets, masks = np.zeros((len(examples), n_arms)), np.zeros((len(examples), n_arms), np.bool_)
        for row, example in enumerate(examples):
            targets[row, : len(example.mask)], masks[row, : len(example.mask)] = example.targets, example.mask
        at_once = arms & (masks.sum(axis=0) >= width) & (not self._linear and self._are_small(examples))
        if at_once.any():
            starts = range(0, len(examples), BATCH_PIECE)
            pieces = (slice(start, start + BATCH_PIECE) for start in starts)
            rows = ((self._dense(examples[piece]), targets[piece], masks[piece]) for piece in pieces)
            ridge.fit(self.state, np.flatnonzero(at_once), rows)
        for example, mask in zip(examples, masks & arms & ~at_once, strict=True):
            if mask.any():
                self._update(example, mask[: len(example.mask)])

    def _are_small(self, examples: list[Example]) -> bool:
        """Whether the rows of examples are so short that sums of their products can be inverted."""
        squares = (float((self._contexts[example.node].values ** 2).sum()) for example in examples)
        return bool(sum(squares) * self.state.scale[0] < LARGEST_SUM)

    def _dense(self, examples: list[Example]) -> NDArray[np.float64]:
        """The contexts of examples as dense rows."""
        rows = np.zeros((len(examples), self.state.theta.shape[1]))
        for row, example in zip(rows, examples, strict=True):
            columns, values = self._folded(self._contexts[example.node])
            row[columns] = values
        return rows

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return len(self.state.theta)

    @property
    def copied(self) -> NDArray[np.bool_]:
        """Which arms began with the evidence of another (K,)."""
        return self._copied

    @property
    def has_more_than_examples(self) -> bool:
        """Whether arms know what no example that is held says: from contexts that were evicted, or of another arm."""
        return not self._lifecycle.nothing_evicted or bool(self._copied.any())

    def fold_in(self, other: "ArmRidge") -> None:
        """``A = λI + P(A − λI)Pᵀ`` of another's arms that know more than examples say, with P the matrix that folds."""
        arms = np.flatnonzero(other.copied) if self._lifecycle.nothing_evicted else np.arange(self.n_arms)
        for k in arms.tolist():
            ridge.fold_into(self.state, k, ridge.whole_inverse(other.state, k))
        self._copied[:] = other.copied

    @property
    def theta(self) -> NDArray[np.float64]:
        """``θ`` (K, D), as a copy."""
        return self.state.theta.copy()

    def _width(self, n_features: int) -> int:
        return n_features if self._max_width is None else min(n_features, self._max_width)

    def allocate(self, n_arms: int, n_features: int) -> None:
        """``A_k = λI``."""
        self.state = ridge.new_state(n_arms, self._width(n_features), self._ridge_weight)
        self._copied = np.zeros(n_arms, np.bool_)

    def add_features(self, n_features: int) -> None:
        """Extend all arms, with spare features so that few extensions copy."""
        if self._width(n_features) > self.state.theta.shape[1]:
            self.state = ridge.widened(self.state, self._width(_width_after_growth(n_features)))

    def add_arm(self, like: int | None) -> None:
        """One arm more, with the evidence of another or with none."""
        self.state = ridge.with_arm(self.state, like)
        self._copied = np.append(self._copied, like is not None)

    def rescale(self, change: Change) -> None:
        """``A' = λI + S(A − λI)Sᵀ`` and ``b' = S b``: what all contexts so far taught, also those that are gone.

        Where rows do not move linearly, or A has no digits left, what is held is learned anew.
        """
        if not self._linear or self._is_quicker_to_relearn():
            self._relearn(~self._copied)
            return
        try:
            ridge.rescale(self.state, change.slots, change.block)
        except np.linalg.LinAlgError:
            self._relearn(np.ones(len(self.state.theta), np.bool_))

    def _is_quicker_to_relearn(self) -> bool:
        """Whether all that was learned is held, and is less than the features: an example costs D², a move D³."""
        all_held = self._lifecycle.nothing_evicted and not self._copied.any()
        return all_held and self._contexts.count < self.state.theta.shape[1]

    def nbytes(self, sizes: Sizes) -> float:
        """K inverses of D × D, their pending updates and θ, with spare features if some were added later."""
        width, before = self._width(sizes.features), self.state.theta.shape[1]
        if before:
            width = before if width <= before else self._width(_width_after_growth(width))
        return 8.0 * sizes.arms * width * (width + ridge.BLOCK + 1)

    def working_nbytes(self, sizes: Sizes) -> float:
        """A piece of a batch as dense rows."""
        return 8.0 * BATCH_PIECE * sizes.features

    def replaced_nbytes(self) -> float:
        """All of it: the regressions are copied together."""
        return float(sum(array.nbytes for array in self.state))

    def state_dict(self) -> dict[str, Any]:
        """The regressions."""
        return self.state._asdict() | {"copied": self._copied}

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take them over: all arms have arrays of one width, which has room for all features."""
        held = ridge.RidgeState(*(state[name] for name in ridge.RidgeState._fields))
        width, block = held.theta.shape[-1], ridge.BLOCK
        matrices, updates, per_arm = (n_arms, width, width), (n_arms, block, width), (n_arms,)
        shapes = ((1,), matrices, per_arm, updates, (n_arms, block), per_arm, (n_arms, width))
        for array, wanted, shape in zip(held, ridge.new_state(0, 0, 1.0), shapes, strict=True):
            require(is_array(array, wanted.dtype, *shape), "the regressions do not fit")
        require(width >= self._width(n_features) and (held.folds >= 0).all(), "the regressions are not sound")
        require(
            in_range(held.counts, 0, block) and is_array(state["copied"], np.bool_, n_arms),
            "the counts of the regressions do not fit",
        )
        require(all(np.isfinite(array).all() for array in held), "the regressions are not finite")
        self.state, self._copied = held._replace(scale=np.array([1.0 / self._ridge_weight])), state["copied"]


def _width_after_growth(n_features: int) -> int:
    """Features with some to spare: an eighth, since memory grows with their square, but more while there are few."""
    return max(n_features + n_features // 8, min(2 * n_features, 256))


def check_linear(*, alpha: object, ridge: object, normalize_theta: object) -> None:
    """Raise on parameters of ridge regressions that are not allowed."""
    check_number("alpha", alpha, 0, MAX_ALPHA)
    check_number("ridge", ridge, 1e-9, MAX_RIDGE)
    check_choice("normalize_theta", normalize_theta, (True, False))


def unit(vectors: NDArray[Any]) -> NDArray[Any]:
    """Vectors (…, L) at unit length; those of length zero stay as they are."""
    lengths = np.sqrt(np.add.reduce(vectors * vectors, axis=-1, keepdims=True))
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))
