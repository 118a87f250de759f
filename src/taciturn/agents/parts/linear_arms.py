"""The ridge regressions of LinUCB in the form that fits their size: exact, through the history, or with a sketch."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.lifecycle import Example, Lifecycle
from taciturn.agents.parts.history_ridge import HistoryRidge
from taciturn.agents.parts.part import Part, Scores, Sizes, require
from taciturn.agents.parts.ridge import ArmRidge
from taciturn.agents.parts.sketch_ridge import SketchRidge
from taciturn.agents.rows import RowStore
from taciturn.contracts import SparseRow
from taciturn.introspection import Covariance
from taciturn.validate import check_choice, check_number

COVARIANCES = ("auto", "exact", "sketch")

EXACT_ENTRIES = 2**24
"""Up to so many entries of all A_k together, "auto" keeps them exactly: 134 MB."""

SKETCH_ENTRIES = 2**20
"""As many entries the sketches of all arms have at most, unless `rank` says otherwise; `rank` is a power of 2 then."""

MIN_RANK, MAX_RANK = 4, 4096

LIMIT_SHARE = 4
"""Exact matrices take at most a quarter of `memory_limit`: while features are added, there are two of each."""


class LinearArms(Part):
    """One ridge regression an arm, whatever the number of features.

    With "auto" it begins as `ArmRidge`. When features or arms are added that its matrices have no room for, it becomes
    a `HistoryRidge` while there are at most `rank` examples, and then a `SketchRidge`; it does not change back. Where
    contexts are evicted, there is no history to go by, and a sketch at once.

    Arguments:
        contexts, lifecycle, ridge_weight, imputed: as of `ArmRidge`.
        covariance: "auto", "exact" or "sketch".
        rank: of the sketch; None is chosen by the number of arms.
        memory_limit: of the agent, in bytes.
    """

    def __init__(
        self,
        contexts: RowStore,
        lifecycle: Lifecycle,
        ridge_weight: float,
        *,
        imputed: bool = True,
        covariance: str = "auto",
        rank: int | None = None,
        memory_limit: float | None = None,
    ) -> None:
        super().__init__()
        self._contexts, self._lifecycle, self._ridge_weight = contexts, lifecycle, ridge_weight
        self._imputed, self._covariance, self._rank = imputed, covariance, None if rank is None else int(rank)
        allowed = np.inf if memory_limit is None else memory_limit / 8 / LIMIT_SHARE
        self._most_entries = min(EXACT_ENTRIES, allowed)
        self._form: ArmRidge | HistoryRidge | SketchRidge = self._new_exact()
        self.child("form", self._form)

    # Forms.

    def _new_exact(self) -> ArmRidge:
        return ArmRidge(self._contexts, self._lifecycle, self._ridge_weight, imputed=self._imputed)

    def _new_history(self, rank: int) -> HistoryRidge:
        return HistoryRidge(self._contexts, self._lifecycle, self._ridge_weight, imputed=self._imputed, rank=rank)

    def _new_sketch(self, rank: int) -> SketchRidge:
        return SketchRidge(self._contexts, self._lifecycle, self._ridge_weight, imputed=self._imputed, rank=rank)

    def _rank_of(self, n_arms: int) -> int:
        if self._rank is not None:
            return self._rank
        entries = min(SKETCH_ENTRIES, self._most_entries) / n_arms
        return int(2 ** np.clip(np.floor(np.log2(max(entries, 1.0)) / 2), np.log2(MIN_RANK), np.log2(MAX_RANK)))

    def _is_exact_with(self, n_arms: int, n_features: int) -> bool:
        if self._covariance != "auto":
            return self._covariance == "exact"
        return isinstance(self._form, ArmRidge) and n_arms * n_features**2 <= self._most_entries

    def _use(self, form: ArmRidge | HistoryRidge | SketchRidge) -> None:
        self._form = self._children["form"] = form

    def _leave_exact(self, exact: ArmRidge, n_features: int) -> None:
        """Go on without matrices of all features."""
        examples = self._examples()
        history = self._new_history(self._rank_of(exact.n_arms))
        if not exact.has_more_than_examples and not self._lifecycle.evicts:
            history.allocate(exact.n_arms, n_features)
            for example in examples:
                if not history.has_room_for(self._contexts[example.node]):
                    break
                history.learn(example)
            else:
                self._use(history)
                return
        self._use(self._sketched(exact, n_features))

    def _sketched(self, before: ArmRidge | HistoryRidge, n_features: int) -> SketchRidge:
        """All that was learned, as a sketch."""
        says_all = isinstance(before, HistoryRidge) or not before.has_more_than_examples
        theta = before.theta
        sketch = self._new_sketch(self._rank_of(len(theta)))
        sketch.allocate(len(theta), n_features)
        sketch.widths.relearn()
        if isinstance(before, ArmRidge):
            sketch.widths.fold_in(before)
        sketch.means.take_over(theta[:, :n_features], examples_say_all=says_all)
        return sketch

    def _examples(self) -> list[Example]:
        return [example for example in self._lifecycle.examples() if self._imputed or not example.imputed]

    def approximations(self, *, measured: bool) -> dict[str, Any]:
        """The form, and how far a sketch is off."""
        form = self._form
        if not isinstance(form, SketchRidge):
            return {"covariance": Covariance("exact" if isinstance(form, ArmRidge) else "history")}
        off = (form.width_ratio(), form.unsolved) if measured else (None, None)
        return {"covariance": Covariance("sketch", form.rank, *off)}

    # Regression.

    @property
    def theta(self) -> NDArray[np.float64]:
        """``θ`` (K, D), as a copy."""
        return self._form.theta

    def scores(self, row: SparseRow, alpha: float, *, normalize_theta: bool = False) -> Scores:
        """``μ_k = θ_kᵀx`` and ``σ_k = α √(xᵀA_k⁻¹x)`` for all arms (K,)."""
        return self._form.scores(row, alpha, normalize_theta=normalize_theta)

    def scores_batch(self, rows: list[SparseRow], alpha: float, *, normalize_theta: bool = False) -> list[Scores]:
        """The same for many contexts, bit for bit."""
        if isinstance(self._form, ArmRidge):
            return self._form.scores_batch(rows, alpha, normalize_theta=normalize_theta)
        return [self._form.scores(row, alpha, normalize_theta=normalize_theta) for row in rows]

    def learn(self, example: Example) -> None:
        """``A_k += xxᵀ, b_k += targets_k · x`` for the arms that an example labels."""
        form = self._form
        if isinstance(form, HistoryRidge) and not form.has_room_for(self._contexts[example.node]):
            self._use(self._sketched(form, self._contexts.n_features))
        self._form.learn(example)

    def unlearn(self, example: Example) -> None:
        """The inverse of `learn`."""
        self._form.unlearn(example)

    # Growth.

    def allocate(self, n_arms: int, n_features: int) -> None:
        """``A_k = λI``."""
        if not self._is_exact_with(n_arms, n_features):
            has_history, rank = self._covariance == "auto" and not self._lifecycle.evicts, self._rank_of(n_arms)
            self._use(self._new_history(rank) if has_history else self._new_sketch(rank))
        self._form.allocate(n_arms, n_features)

    def add_features(self, n_features: int) -> None:
        """Extend all arms, in another form where they are too large then."""
        form = self._form
        if isinstance(form, ArmRidge) and not self._is_exact_with(form.n_arms, n_features):
            self._leave_exact(form, n_features)
        else:
            form.add_features(n_features)

    def add_arm(self, like: int | None) -> None:
        """One arm more, with the evidence of another or with none."""
        form = self._form
        if isinstance(form, ArmRidge) and not self._is_exact_with(form.n_arms + 1, self._contexts.n_features):
            self._leave_exact(form, self._contexts.n_features)
        form = self._form
        if isinstance(form, HistoryRidge):
            form.rank = min(form.rank, self._rank_of(form.n_arms + 1))
            if like is not None or form.is_over_full:  # a copy has no examples of its own
                self._use(self._sketched(form, self._contexts.n_features))
        self._form.add_arm(like)

    def nbytes(self, sizes: Sizes) -> float:
        """What the form takes that it will have with such sizes; of two, the larger."""
        if self._is_exact_with(sizes.arms, sizes.features):
            exact = self._form if isinstance(self._form, ArmRidge) else self._new_exact()
            return exact.nbytes(sizes)
        if isinstance(self._form, SketchRidge):
            return self._form.nbytes(sizes)
        rank = self._form.rank if isinstance(self._form, HistoryRidge) else self._rank_of(sizes.arms)
        return max(self._new_sketch(rank).nbytes(sizes), self._new_history(rank).nbytes(sizes))

    def working_nbytes(self, sizes: Sizes) -> float:
        """As the form needs; θ once more where a history, or exact matrices, become a sketch."""
        theta = 0.0 if self._is_exact_with(sizes.arms, sizes.features) else 8.0 * sizes.arms * sizes.features
        return max(super().working_nbytes(sizes), theta)

    # Files.

    def state_dict(self) -> dict[str, Any]:
        """The form, by name, and its state; the exact one, when there was no other, had no name."""
        form = self._form
        if isinstance(form, ArmRidge):
            return form.state_dict()
        name = "history" if isinstance(form, HistoryRidge) else "sketch"
        return {"form": name, "rank": form.rank, "state": form.state_dict()}

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take over what `state_dict` returned."""
        if "form" in state:
            rank = state["rank"]
            require(type(rank) is int and MIN_RANK <= rank <= MAX_RANK, "the rank is not one")
            require(state["form"] in ("history", "sketch"), "the form of the regressions is unknown")
            self._use(self._new_sketch(rank) if state["form"] == "sketch" else self._new_history(rank))
            state = state["state"]
        self._form.load_state_dict(state, n_arms, n_features, n_nodes)


def check_covariance(covariance: object, rank: object) -> None:
    """Raise on parameters that are not allowed."""
    check_choice("covariance", covariance, COVARIANCES)
    if rank is not None:
        check_number("rank", rank, MIN_RANK, MAX_RANK, whole=True)
