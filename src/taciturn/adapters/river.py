"""A taciturn agent where river expects a contextual bandit policy."""

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

    river has no ids, so an update belongs to the last pull if arm and context are the same. Where they are not, the arm
    was not the agent's choice, or the answer is late: the agent learns from it as from a decision with this one arm to
    choose from. A pull that had no update when the next one comes was never carried out, as in river's replay of a
    log, and is withdrawn; say so with None if it was carried out and nothing was heard.

    Arguments:
        agent: it learns, and its arms are river's. A clone of the policy begins with a new agent of the same
            parameters, as river's clones have learned nothing.
    """

    def __init__(self, agent: BaseAgent) -> None:
        super().__init__()
        self.agent = agent
        self._open: tuple[int, Arm, dict[Any, Any]] | None = None  # the last pull: its id, arm and context

    def _get_params(self) -> dict[str, Any]:
        return {"agent": type(self.agent)(**self.agent.params)}

    def _pull(self, arm_ids: Iterable[Arm], context: dict[Any, Any]) -> Any:  # type: ignore[override]  # as river's
        if self._open is not None:
            self.agent.withdraw(self._open[0])
            self._open = None
        offered = list(arm_ids)
        everything = set(offered) == set(self.agent.arm_names)
        decision = self.agent.decide(context, allowed=None if everything else offered)
        self._open = (decision.id, decision.arm, context)
        return decision.arm

    def update(self, arm_id: Arm, context: dict[Any, Any], *reward_args: Any, **reward_kwargs: Any) -> None:
        """Say what came of an arm: a reward from 0 to 1, or None or NaN for silence, which only counts the pull."""
        if not reward_args:
            raise TypeError("update needs an arm, a context and a reward; None is the reward of silence")
        reward = reward_args[0]
        silent = reward is None or math.isnan(reward)
        answered = self._open is not None and self._open[1:] == (arm_id, context)
        id = self._open[0] if self._open and answered else self.agent.decide(context, allowed=[arm_id]).id
        self.agent.feedback(id, None if silent else reward)
        if answered:
            self._open = None
        if silent:
            self._counts[arm_id] += 1
            self._n += 1
        else:
            super().update(arm_id, context, *reward_args, **reward_kwargs)  # type: ignore[no-untyped-call]
