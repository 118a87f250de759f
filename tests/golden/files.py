"""Small files of every kind of agent, and the decision that each makes next: a file once written loads forever.

`python tests/golden/files.py FOLDER` writes them as the code is now. The files in `FOLDER` below are never written
again; a new format gets a folder of its own beside it. Training is deferred before an agent is saved, so that its next
decision follows from the file alone and not from the random numbers of a numpy version.
"""

import json
import sys
from functools import partial
from pathlib import Path

from sklearn.naive_bayes import MultinomialNB

import taciturn

FOLDER = Path(__file__).with_name("agents")
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
COUNTS = ("decisions", "remembered", "pending", "rewarded", "silent", "labelled", "late", "corrected")
COUNTS += ("expired", "withdrawn", "forgotten", "evicted_pending")


def context(step, features=4):
    """Named features of one of three groups, with two of so many features that say nothing."""
    noise = {f"noise {(step * factor) % features}": (step * factor * 37 % 100) / 100 for factor in (1, 3)}
    return {f"group {step % 3}": 1.0, **noise}


def trained(name):
    """An agent with decisions of every state, an arm added and one retired, features that came later, and evictions."""
    agent = AGENTS[name](arms=ARMS, seed=3, max_nodes=20, expire_after=9)
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
    decision = agent.fork().decide(context(50), at=32.0)
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


def write(folder):
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    expected = {}
    for name in AGENTS:
        agent = trained(name)
        agent.save(folder / f"{name}.taciturn")
        expected[name] = description(agent)
    (folder / EXPECTED).write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
