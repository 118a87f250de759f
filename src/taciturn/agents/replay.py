"""Decisions that were made and answered before, and are made again while an agent is restored from its history."""

from collections import deque
from collections.abc import Iterable, Mapping

from taciturn.contracts import Arm, Decision


class Replay:
    """Recorded decisions, in the order in which an agent makes them again.

    `differing` counts those for which the agent's scores of today would have chosen another arm: another version's
    defaults, or another machine's rounding.
    """

    def __init__(self, recorded: Iterable[Decision]) -> None:
        self._recorded = deque(recorded)
        self.differing = 0

    def __deepcopy__(self, _: object) -> None:
        """Nothing: a copy of an agent decides by itself."""

    def next(self, id: int, arm: int, arms: Mapping[Arm, int]) -> tuple[int, Decision]:
        """The recorded decision with this id, and the index of its arm; `arm` is what would be chosen today."""
        if not self._recorded or self._recorded[0].id != id or self._recorded[0].arm not in arms:
            raise RuntimeError(f"the history does not hold decision {id} next, with an arm that there is")
        decision = self._recorded.popleft()
        self.differing += arms[decision.arm] != arm
        return arms[decision.arm], decision
