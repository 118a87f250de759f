"""LinUCB's scores for the first decisions of agents whose own take longer to learn."""

from typing import Any

from taciturn.agents.lifecycle import Example, Lifecycle
from taciturn.agents.parts.linear_arms import LinearArms
from taciturn.agents.parts.part import Part, Scores, Sizes
from taciturn.agents.rows import RowStore
from taciturn.contracts import SparseRow


class WarmUp(Part):
    """LinUCB on observed rewards, which scores an agent's first decisions while its own state already learns.

    Arguments:
        contexts, lifecycle, ridge_weight: as of `LinearArms`.
        steps: how many decisions; 0 for none. The memory is given back after them.
        covariance: further arguments of `LinearArms`.
    """

    def __init__(
        self, contexts: RowStore, lifecycle: Lifecycle, ridge_weight: float, steps: int, **covariance: Any
    ) -> None:
        super().__init__()
        self._contexts, self._lifecycle, self._steps = contexts, lifecycle, steps
        self.linucb: LinearArms | None = None
        if steps:
            linucb = LinearArms(contexts, lifecycle, ridge_weight, imputed=False, **covariance)
            self.linucb = self.child("linucb", linucb)

    def scores(self, row: SparseRow, alpha: float) -> Scores | None:
        """LinUCB's scores, or None once the warm-up is over."""
        if self._lifecycle.decisions > self._steps:
            self.linucb = None
            self._children.clear()
        return None if self.linucb is None else self.linucb.scores(row, alpha)

    def learn(self, example: Example) -> None:
        """Learn as LinUCB does."""
        if self.linucb is not None:
            self.linucb.learn(example)

    def unlearn(self, example: Example) -> None:
        """Unlearn as LinUCB does."""
        if self.linucb is not None:
            self.linucb.unlearn(example)

    def nbytes(self, sizes: Sizes) -> float:
        """LinUCB's state while it lasts."""
        return super().nbytes(sizes) if sizes.nodes <= self._last_node() else 0.0

    def released_at(self) -> list[int]:
        """The contexts that there are at its end."""
        return [self._last_node()]

    def _last_node(self) -> int:
        """How many contexts there will be at the last decision that it scores; −1 where it is over."""
        left = self._steps - self._lifecycle.decisions
        return self._contexts.count + left if self._steps and left >= 0 else -1

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Take LinUCB's state over while it lasts."""
        if "linucb" not in state:
            self.linucb = None
            self._children.clear()
        super().load_state_dict(state, n_arms, n_features, n_nodes)
