"""A copy of what the page shows of an agent, taken on the agent's own thread."""

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.contracts import STATES, Arm
from taciturn.introspection import Health
from taciturn.service.core.session import Session

SHOWN_COLUMNS = 100
"""The most columns that are shown with their kinds."""

MAP_CONTEXTS, MAP_ENTRIES = 500, 400_000
"""The most contexts on a map, and their most non-zero entries together."""

REWARDED, SILENT, LABELLED = map(STATES.index, ("rewarded", "silent", "labelled"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentView:
    """An agent at one moment.

    Arrays have one item for each decision that is held, oldest first, without labelled rows; `rewards` are observed or,
    where silent, imputed; NaN for none; `times` are seconds since 1970 if the agent is `timed`, else the numbers of the
    decisions. `kinds` are those of the first `SHOWN_COLUMNS` of all `columns`. `contexts` are the newest contexts,
    labelled ones included, and `context_arms` the indices of their arms.
    """

    name: str
    kind: str
    arms: tuple[Arm, ...]
    active: tuple[Arm, ...]
    features: int
    corrections: bool
    timed: bool
    params: dict[str, Any]
    kinds: dict[str, str]
    columns: int
    health: Health
    ids: NDArray[np.int64]
    chosen: NDArray[np.int32]
    states: NDArray[np.int8]
    rewards: NDArray[np.float64]
    propensities: NDArray[np.float64]
    times: NDArray[np.float64]
    contexts: sp.csr_matrix
    context_arms: NDArray[np.int32]


def capture(name: str, session: Session) -> AgentView:
    """Copy what is shown of an agent, on the thread that changes it; decisions wait meanwhile."""
    agent = session.agent
    decisions = agent.decisions
    made = np.flatnonzero(decisions.states != LABELLED)
    contexts = decisions.recent_contexts(MAP_CONTEXTS, MAP_ENTRIES)
    return AgentView(
        name=name,
        kind=session.kind,
        arms=agent.arm_names,
        active=agent.active_arms,
        features=agent.n_features,
        corrections=session.corrections,
        timed=session.timed,
        params={key: value for key, value in agent.params.items() if key != "arms"},
        kinds={str(name): kind for name, kind in islice(agent.feature_kinds.items(), SHOWN_COLUMNS)},
        columns=len(agent.feature_kinds),
        health=agent.health(),
        ids=decisions.ids[made],
        chosen=decisions.arms[made],
        states=decisions.states[made],
        rewards=decisions.learned_rewards[made],
        propensities=decisions.propensities[made],
        times=decisions.times[made],
        contexts=contexts,
        context_arms=decisions.arms[len(decisions) - contexts.shape[0] :].copy(),
    )
