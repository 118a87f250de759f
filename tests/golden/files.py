"""Small files of every kind of agent, and the decision that each makes next: a file once written loads forever.

`python tests/golden/files.py FOLDER` writes them as the code is now: those of `AGENTS` with contexts as they are, which
`FOLDER` below holds in format 4, and those of `SCALED` with words, texts, missing values and a scale, which
`SCALED_FOLDER` holds in format 5. These files are never written again; a new format gets a folder of its own beside
them. Training is deferred before an agent is saved, so that its next decision follows from the file alone and not from
the random numbers of a numpy version.
"""

import json
import sys
from functools import partial
from pathlib import Path

from sklearn.naive_bayes import MultinomialNB

import taciturn

FOLDER = Path(__file__).with_name("agents")
SCALED_FOLDER = Path(__file__).with_name("agents-5")
EXPECTED = "expected.json"
ARMS = ["left", 7, "right"]
NETWORK = {"hidden": 3, "neighbors": 3, "start_epochs": 5}
AGENTS = {
    "linucb": taciturn.LinUCB,
    "rogcn": partial(taciturn.ROGCN, **NETWORK),
    "bilinucb-gcn": partial(taciturn.BILinUCB, imputer_params=NETWORK, warmup=5),
    "bilinucb-kmeans": partial(taciturn.BILinUCB, imputer="kmeans", imputer_params={"clusters": 3}, warmup=5),
    "bilinucb-classifier": partial(taciturn.BILinUCB, imputer=MultinomialNB(), warmup=5),
    "gcnucb-in-warmup": partial(taciturn.GCNUCB, **NETWORK, warmup=1000),
    "gcnucb-after-warmup": partial(taciturn.GCNUCB, **NETWORK, warmup=5),
    "viewucb-in-solve": partial(taciturn.ViewUCB, neighbors=3, hops=2),
    "majority": partial(taciturn.make, "majority"),
    "labelspreading": partial(taciturn.make, "labelspreading", every=4, neighbors=3),
    "oracle-full": partial(taciturn.make, "oracle-full", neighbors=3, hops=2),
}
SCALED = ("linucb", "bilinucb-kmeans", "gcnucb-after-warmup", "viewucb-in-solve")
COUNTS = ("decisions", "remembered", "pending", "rewarded", "silent", "labelled", "late", "corrected")
COUNTS += ("expired", "withdrawn", "forgotten", "evicted_pending")


def context(step, features=4):
    """Named features of one of three groups, with two of so many features that say nothing."""
    noise = {f"noise {(step * factor) % features}": (step * factor * 37 % 100) / 100 for factor in (1, 3)}
    return {f"group {step % 3}": 1.0, **noise}


def mixed_context(step):
    """A word, a text, a number that is missing at times, and one that comes late."""
    note = ("new customer", "a refund", "new refund")[step % 3]
    context = {"group": "abc"[step % 3], "note": note, "age": None if step % 5 == 4 else 20 + step * 37 % 50}
    return context | ({"spent": step * 137 % 1000 / 7} if step > 8 else {})


def scaled(name):
    """An agent whose scale was renewed, with flags and bins, and decisions of every state, some of them evicted."""
    agent = AGENTS[name](arms=ARMS, seed=3, max_nodes=20)
    for step in range(60):
        decision = agent.decide(mixed_context(step))
        if step % 6 != 5:  # others stay pending
            reward = float(decision.arm == agent.arm_names[step % 3])
            agent.feedback(decision.id, (reward, None, 0.25)[step % 6 // 2])
        if step % 11 == 8:
            agent.withdraw(decision.id)
    agent.defer_training()
    for step in range(60, 62):
        agent.decide(mixed_context(step))
    agent.train_pending(6)
    return agent


def trained(name):
    """An agent with decisions of every state, an arm added and one retired, features that came later, and evictions."""
    agent = AGENTS[name](arms=ARMS, seed=3, max_nodes=20, expire_after=9, scaling="none")
    agent.warm_start([context(step, 2) for step in range(3)], ARMS, edges=[(0, 1)])
    for step in range(30):
        if step == 10:
            agent.add_arm("new", like="left")
        near = [agent.next_id - 1] if step % 5 == 0 else None
        decision = agent.decide(context(step), near, at=float(step))
        reward = float(decision.arm == agent.arm_names[step % 3])
        if step % 6 != 5:  # others expire, or are pending at the end
            agent.feedback(decision.id, (reward, None, 0.25)[step % 6 // 2])
        if step % 7 == 3:
            agent.feedback(decision.id, reward)  # a late reward, or a correction
        if name == "oracle-full" and step % 4 == 1:
            agent.reveal(decision.id, agent.arm_names[step % 3])
        if step % 11 == 8:
            agent.withdraw(decision.id)
    agent.warm_start([context(step) for step in range(40, 43)], ARMS)
    agent.retire_arm("right")
    agent.defer_training()
    for step in range(30, 32):
        agent.decide(context(step), at=float(step))
    agent.train_pending(6)  # a solve of ViewUCB takes 9 pieces
    return agent


def description(agent):
    """What must be the same whenever the agent is loaded: its decisions, counts, and the next decision."""
    held, health = agent.decisions, agent.health()
    following = {"x": context(50), "at": 32.0} if agent.scaling == "none" else {"x": mixed_context(70)}
    decision = agent.fork().decide(**following)
    return {
        "params": {key: value for key, value in agent.params.items() if key != "imputer"},
        "arm_names": list(agent.arm_names),
        "active_arms": list(agent.active_arms),
        "feature_names": list(agent.feature_names),
        "deferred": agent.deferred,
        "states": {str(id): held[id].state for id in held},
        "arms": [held[id].arm for id in held],
        "health": {count: getattr(health, count) for count in COUNTS},
        "next": {"id": decision.id, "arm": decision.arm}
        | {part: getattr(decision, part).tolist() for part in ("scores", "widths")},
    }


def write(folder, make, names):
    """Write the files of some agents."""
    folder.mkdir(parents=True, exist_ok=True)
    expected = {}
    for name in names:
        agent = make(name)
        agent.save(folder / f"{name}.taciturn")
        expected[name] = description(agent)
    (folder / EXPECTED).write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) / FOLDER.name, trained, AGENTS)
    write(Path(sys.argv[1]) / SCALED_FOLDER.name, scaled, SCALED)
