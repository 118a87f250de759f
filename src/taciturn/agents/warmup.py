"""Answering as LINUCB at first: what the paper does with every method that needs some data before it is any good."""

from abc import abstractmethod
from dataclasses import dataclass

from taciturn.agents.base import Scores
from taciturn.agents.linear import ArmRidge, LinearAgent
from taciturn.validate import check_number


@dataclass(kw_only=True, eq=False)
class WarmedUpAgent(LinearAgent):
    """An agent whose first decisions are LINUCB's, while its own state already learns.

    Arguments:
        warmup: how many decisions.
    """

    warmup: int = 300

    def __post_init__(self) -> None:
        """Refuse wrong parameters."""
        super().__post_init__()
        check_number("warmup", self.warmup, 0, whole=True)

    def _begin(self) -> None:
        arms = len(self._arm_names)
        self._linucb = ArmRidge(arms, self._rows.dimension, self.ridge) if self.warmup else None

    def _widen(self, dimension: int) -> None:
        if self._linucb:
            self._linucb.widen(dimension)

    def _score(self, node: int) -> Scores:
        if self._decisions > self.warmup:
            self._linucb = None  # its work is done: give the memory back
        if self._linucb:
            return self._linucb.scores(self._rows[node], self.alpha)
        return self._score_own(node)

    def _learn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        self._learn_own(node, arm, reward, imputed=imputed)
        if self._linucb and not imputed:
            self._linucb.learn(self._rows[node], arm, reward, self._speaks_of(node, reward, imputed=False))

    def _unlearn(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        self._unlearn_own(node, arm, reward, imputed=imputed)
        if self._linucb and not imputed:
            speaks_of = self._speaks_of(node, reward, imputed=False)
            rest = self._facts(self._rows, imputed=False)
            self._linucb.unlearn(self._rows[node], arm, reward, speaks_of, rest, complete=self._complete)

    def _add_arm(self, like: int | None) -> None:
        if self._linucb:
            self._linucb.add_arm(like)

    def _parts_fit(self, arms: int, dimension: int, count: int) -> bool:
        return self._linucb is None or self._linucb.fits(arms, dimension)

    def _estimate(self, arms: int, dimension: int, nodes: int) -> float:
        warming = ArmRidge.estimate(arms, dimension) if self._decisions <= self.warmup and self.warmup else 0.0
        return super()._estimate(arms, dimension, nodes) + warming

    @abstractmethod
    def _score_own(self, node: int) -> Scores:
        """The scores after the warm-up."""

    @abstractmethod
    def _learn_own(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        """Learn, during the warm-up too."""

    @abstractmethod
    def _unlearn_own(self, node: int, arm: int, reward: float, *, imputed: bool) -> None:
        """Take it back."""
