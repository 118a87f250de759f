"""Which arms can be chosen, how often each was (ties go to the least chosen), and random choices with propensities."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.part import MAX_COUNT, Part, in_range, require
from taciturn.system import Uninterrupted

if TYPE_CHECKING:
    from taciturn.agents.replay import Replay

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Policy(Part):
    """The arms that can be chosen, how often each was, and how a random choice is made."""

    def __init__(self, n_arms: int, epsilon: float, temperature: float, rng: np.random.Generator) -> None:
        super().__init__()
        self.epsilon, self.temperature, self._rng = epsilon, temperature, rng
        self.deterministic = epsilon == 0 and temperature == 0
        self.replay: Replay | None = None  # decisions that were made before, while they are made again
        self.times_chosen = self.array("times_chosen", np.int64, "arm")
        self._active = self.array("active", np.bool_, "arm")
        self.allocate(n_arms, 0)
        self._active.data[:] = True
        self.selectable: Mask | None = None  # (K,), or None while no arm is retired

    @property
    def active(self) -> Mask:
        """False for retired arms (K,)."""
        return self._active.data

    def set_active(self, arm: int, *, active: bool) -> None:
        """Retire an arm, or bring it back."""
        with Uninterrupted():
            self._active.data[arm] = active
            self.selectable = None if self._active.data.all() else self._active.data

    def sample(self, bounds: Floats, best: int) -> tuple[int, float]:
        """A random arm and its probability; `best` is the arm of the highest bound (K,), −∞ cannot be chosen.

        p = (1 − ε) · q + ε / K′      q = 1 for `best`, or softmax(bounds / τ)      K′ arms that can be chosen
        """
        if self.temperature > 0:
            with np.errstate(over="ignore"):  # −∞ at the lowest temperatures, whose probability is 0
                greedy = np.exp((bounds - bounds.max()) / self.temperature)
            greedy /= greedy.sum()
        else:
            greedy = np.zeros(len(bounds))
            greedy[best] = 1.0
        possible = bounds > -np.inf
        p = np.asarray((1.0 - self.epsilon) * greedy + self.epsilon * possible / possible.sum())
        arm = int(self._rng.choice(len(p), p=p))
        return arm, float(p[arm])

    def draw(self, chances: Floats) -> tuple[int, float]:
        """An arm drawn in proportion to `chances` (K,), and its probability; −∞ cannot be chosen.

        p = (1 − ε) · chances / Σ chances + ε / K′, over the K′ arms that can be chosen; where these have no chance,
        p = 1 / K′.
        """
        possible = chances > -np.inf
        even = possible / possible.sum()
        kept = np.where(possible, np.maximum(chances, 0.0), 0.0)
        own = kept / kept.sum() if kept.sum() > 0 else even
        p = (1.0 - self.epsilon) * own + self.epsilon * even
        arm = int(self._rng.choice(len(p), p=p))
        return arm, float(p[arm])

    def add_arm(self, like: int | None) -> None:
        """One arm more. It counts as chosen as often as the least chosen, so that it need not catch up."""
        least = self.times_chosen.data.min()
        super().add_arm(None)
        self.times_chosen.data[-1] = least
        self.set_active(-1, active=True)

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """At least one arm can be chosen."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        require(self.active.any(), "all arms are retired")
        require(in_range(self.times_chosen.data, 0, MAX_COUNT), "arms were chosen less than never")
        self.selectable = None if self.active.all() else self.active
