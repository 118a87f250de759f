"""A taciturn agent as a contextual bandit policy of river."""

import math
from collections.abc import Iterable
from typing import Any

from taciturn.agents.base import BaseAgent
from taciturn.contracts import Arm
from taciturn.errors import how_to_install

try:
    from river import bandit
except ImportError as error:
    raise ImportError(f"taciturn.adapters.river needs river: {how_to_install('river')}") from error


class TaciturnPolicy(bandit.base.ContextualPolicy):
    """Any taciturn agent as a river policy: `pull` decides, `update` gives feedback; None or NaN is silence.

    A context is {feature: value} with all values that `agent.decide` takes: numbers, words, texts, dates, lists, None.

    river has no ids, so an update is matched to the last pull by arm and context. An update that does not match, for
    another arm or too late, is learned from as a decision in which only that arm was allowed. A pull without an update
    before the next pull was not carried out, as in river's replay of a log, and is withdrawn; update it with None if it
    was carried out and the reward is missing.

    Arguments:
        agent: it learns, and its arms are river's. A clone of the policy has a new, untrained agent with the same
            parameters, as river expects of clones.
    """

    def __init__(self, agent: BaseAgent) -> None:
        super().__init__()
        self.agent = agent
        self._pending: tuple[int, Arm, dict[Any, Any]] | None = None  # id, arm and context of the last pull

    def _get_params(self) -> dict[str, Any]:
        return {"agent": type(self.agent)(**self.agent.params)}

    def _pull(self, arm_ids: Iterable[Arm], context: dict[Any, Any]) -> Any:  # type: ignore[override]  # river's own policies require a context too
        if self._pending is not None:
            self.agent.withdraw(self._pending[0])
            self._pending = None
        offered = list(arm_ids)
        all_offered = set(offered) == set(self.agent.arm_names)
        decision = self.agent.decide(context, allowed=None if all_offered else offered)
        self._pending = (decision.id, decision.arm, context)
        return decision.arm

    def update(self, arm_id: Arm, context: dict[Any, Any], *reward_args: Any, **reward_kwargs: Any) -> None:
        """Learn the reward of an arm, from 0 to 1; for None or NaN, silence, river's statistics only count the pull."""
        if not reward_args:
            raise TypeError("update needs an arm, a context and a reward, which is None for silence")
        reward = reward_args[0]
        silent = reward is None or math.isnan(reward)
        matched = self._pending is not None and self._pending[1] == arm_id and _equal(self._pending[2], context)
        id = self._pending[0] if self._pending and matched else self.agent.decide(context, allowed=[arm_id]).id
        self.agent.feedback(id, None if silent else reward)
        if matched:
            self._pending = None
        if silent:
            self._counts[arm_id] += 1
            self._n += 1
        else:
            super().update(arm_id, context, *reward_args, **reward_kwargs)  # type: ignore[no-untyped-call]


def _equal(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    """Whether two contexts are the same; NaN is equal to NaN here, and arrays are compared by their items."""
    return one is other or repr(one) == repr(other)
