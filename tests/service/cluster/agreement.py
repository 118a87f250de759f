"""What the service says over HTTP, beside a replay of what is stored."""

import numpy as np

import taciturn
from service.cluster.history import replayed
from taciturn.errors import TaciturnError

COUNTS = ("decisions", "remembered", "pending", "rewarded", "silent", "late", "corrected", "withdrawn", "forgotten")
FIXED, CHANGING = ("arms", "propensities"), ("states", "learned_rewards")
"""Columns of decisions: those that no reward changes, and the others."""

ASKED = 50
"""Decisions of each agent that are asked for one by one."""


def disagreements(client, stored, folder):
    """Where the service and a replay of the stored entries differ, in words."""
    found = []
    if (names := sorted(client.agents())) != sorted(stored.rows):
        found.append(f"the service has the agents {names}, and stored are {sorted(stored.rows)}")
    for name, rows in stored.rows.items():
        try:
            session = replayed(rows)
            said = client.agent(name)
            path = folder / "at-the-end.taciturn"
            said.save(path)
            faults = [
                *_decision_faults(said, session),
                *file_faults(path, session.agent, FIXED + CHANGING),
            ]
        except TaciturnError as error:
            faults = [str(error)]
        found += [f"{name}: {fault}" for fault in faults]
    return found


def _decision_faults(said, session):
    """Yield where the counts and decisions of an agent of the service are not those of its replay."""
    if session.differing:
        yield f"a replay chooses another arm for {session.differing} decisions"
    health, expected = said.health(), session.agent.health()
    for count in COUNTS:
        if getattr(health, count) != getattr(expected, count):
            yield f"the service says {count} {getattr(health, count)}, a replay {getattr(expected, count)}"
    held = session.agent.decisions
    for id in held.ids[np.random.default_rng(0).permutation(len(held))[:ASKED]].tolist():
        read, known = said.explain(id), held[id]
        if (read.arm, read.state, read.reward) != (known.arm, known.state, known.reward):
            yield f"decision {id} reads {(read.arm, read.state, read.reward)}, a replay has {known}"


def file_faults(path, agent, columns):
    """Yield which columns of the decisions in a file differ from those of an agent; both may have forgotten some."""
    loaded = taciturn.load(path)
    if loaded.next_id > agent.next_id:
        yield f"{path.name} has {loaded.next_id} decisions, the agent {agent.next_id}"
    _, of_file, of_agent = np.intersect1d(loaded.decisions.ids, agent.decisions.ids, return_indices=True)
    for column in columns:
        values = getattr(loaded.decisions, column)[of_file]
        if not np.array_equal(values, getattr(agent.decisions, column)[of_agent], equal_nan=True):
            yield f"{path.name} has other {column} than the agent"
