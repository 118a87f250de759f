"""How often the router is right where few people answer, beside a classifier that never learns.

python benchmarks/router.py [--short] [--json FILE] [--minutes 10] [--only viewucb,linucb]

Each run begins with a few labelled texts an arm; all other texts come in random order, and a share of the decisions is
answered with right or wrong. Runs that the file of --json has are not done again, and after --minutes no further run
begins, so that the whole, which takes hours, can be done in pieces. `router_page.py` writes docs/router-story.md from
the file. The texts are those of banking77, in the folder TACITURN_DATA; descriptions of Debian's packages, whose
sections are the arms, are taken from `apt-cache` where there is one.
"""

import argparse
import functools
import json
import re
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

import taciturn
from taciturn.features.embed import embedder

BLOCK = 250
"""Right decisions are counted for so many messages at a time."""

SHORT, LONG = 3000, 10_000
"""Messages of most runs, and of some with the most silence."""

SEEDS, FEW = 5, 3
"""Of all that is asked of banking77, and of what matters less."""

ROUTER = "router"
SETTINGS = {"scaling": "none"}
"""The router is viewucb with these: embeddings are of one scale already, and a decision takes half the time."""

RATES = (0.99, 0.95, 0.9, 0.5)
MOST = RATES[0]
OTHERS = ("debian", "cnae9", "banking77, 20 intents")
ANSWERS = {"anybody": (1.0, 1.0), "pleased": (0.5, 1.5), "angry": (1.5, 0.5), "only angry": (2.0, 0.0)}
"""Who answers: by how much a wrong and a right decision are answered more often than the rate of silence says."""

STATIC = "static"
CLASSIFIERS = {
    "logistic regression": lambda folds: GridSearchCV(
        LogisticRegression(max_iter=1000), {"C": [0.1, 1.0, 10.0, 100.0, 1000.0]}, cv=folds
    ),
    "nearest centroid": lambda _: NearestCentroid(),
}
"""What is fitted to the labelled texts alone; C is chosen by cross-validation among these."""


class Data(NamedTuple):
    """Contexts as agents get them, the same as rows of unit length, indices of the right arms, and the arms."""

    contexts: Any
    rows: Any
    y: np.ndarray
    arms: list[str]


class Case(NamedTuple):
    """What determines a run."""

    data: str
    method: str
    examples: int
    messages: int
    silent: float
    answers: str
    seed: int


def cases(*, short):
    """Return all cases, the most important first."""
    if short:
        return [Case("banking77", method, 3, 500, 0.9, "anybody", 0) for method in (STATIC, ROUTER)]
    found = [Case("banking77", STATIC, n, LONG, 1.0, "anybody", seed) for n in (3, 5) for seed in range(SEEDS)]
    found += [Case(data, STATIC, 3, SHORT, 1.0, "anybody", seed) for data in OTHERS for seed in range(FEW)]
    for seed in range(FEW):
        found += [
            Case("banking77", ROUTER, 3, LONG if seed == 0 and rate == MOST else SHORT, rate, "anybody", seed)
            for rate in RATES
        ]
    for seed in range(FEW):
        banking = functools.partial(Case, "banking77", seed=seed)
        found += [banking(ROUTER, 3, SHORT, 0.95, who) for who in ("only angry", "pleased", "angry")]
        found += [Case(data, ROUTER, 3, SHORT, rate, "anybody", seed) for data in OTHERS for rate in (MOST, 0.9)]
        found += [banking(method, 3, SHORT, rate, "anybody") for method in ("linucb", "knn") for rate in (MOST, 0.5)]
        found += [banking(ROUTER, 5, SHORT, rate, "anybody") for rate in RATES]
        found += [banking(ROUTER, 3, LONG, MOST, "anybody")] * (seed > 0)
    for seed in range(FEW, SEEDS):
        found += [Case("banking77", ROUTER, 3, SHORT, rate, "anybody", seed) for rate in RATES]
    return found


@functools.cache
def data_named(name):
    """Return the data of a name; None where it is not on this machine."""
    if name == "cnae9":
        data = taciturn.load_dataset(name)
        return Data(data.X, normalize(data.X.astype(float)), data.y, list(data.arms))
    if name == "debian":
        return debian()
    data = taciturn.load_dataset("banking77")
    if name == "banking77":
        return embedded(list(data.contexts), data.y, list(data.arms))
    some = np.random.default_rng(7).permutation(len(data.arms))[:20]
    keep = np.flatnonzero(np.isin(data.y, some))
    places = {k: place for place, k in enumerate(some)}
    y = np.array([places[k] for k in data.y[keep]])
    return embedded([data.contexts[i] for i in keep], y, [data.arms[k] for k in some])


def embedded(texts, y, arms):
    return Data(texts, embedder("wordllama", cache_size=0).embed(texts), y, arms)


def debian(fewest=300, most=6000):
    """Return one-line descriptions of packages, and as arms the sections that have not too few."""
    try:
        listed = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout  # noqa: S607
    except (OSError, subprocess.CalledProcessError):
        return None
    found = set()
    for package in listed.split("\n\n"):
        fields = dict(re.findall(r"^(Section|Description)(?:-en)?: (.+)$", package, re.MULTILINE))
        if len(fields) == 2:
            found.add((fields["Description"], fields["Section"].split("/")[-1]))
    sizes = Counter(section for _, section in found)
    arms = sorted(section for section, size in sizes.items() if size >= fewest)
    rows = sorted(row for row in found if row[1] in arms)
    rows = [rows[i] for i in np.random.default_rng(7).permutation(len(rows))[:most]]
    if not rows:
        return None
    return embedded([text for text, _ in rows], np.array([arms.index(section) for _, section in rows]), arms)


def split(y, case):
    """Return the rows of the labelled start, and those of the messages in their order."""
    rng = np.random.default_rng([case.seed, 100])
    start = [rng.permutation(np.flatnonzero(y == k))[: case.examples] for k in range(int(y.max()) + 1)]
    start = np.concatenate(start)
    return start, rng.permutation(np.setdiff1d(np.arange(len(y)), start))[: case.messages]


def blocks(right):
    """Return how many of each block of messages were right; the last block may be shorter."""
    return [int(right[first : first + BLOCK].sum()) for first in range(0, len(right), BLOCK)]


def run(case, data):
    """Return what came of a case: right decisions by block, thumbs up and down, and CPU milliseconds of a decision."""
    start, messages = split(data.y, case)
    if case.method == STATIC:
        return {"messages": len(messages), **run_static(case, data, start, messages)}
    return {"messages": len(messages), **run_agent(case, data, start, messages)}


def run_static(case, data, start, messages):
    """Right decisions of each classifier that was fitted to the start."""
    found = {}
    for name, new in CLASSIFIERS.items():
        classifier = new(case.examples).fit(data.rows[start], data.y[start])
        found[name] = blocks(classifier.predict(data.rows[messages]) == data.y[messages])
    return {"right": found}


def run_agent(case, data, start, messages):
    """Right decisions of an agent that gets its texts as the service does, thumbs, and the time of a decision."""
    texts = isinstance(data.contexts, list)
    features = {"features": taciturn.Features(embed="wordllama")} if texts else {}
    method, settings = ("viewucb", SETTINGS) if case.method == ROUTER else (case.method, {})
    agent = taciturn.make(method, arms=data.arms, seed=case.seed, **features, **settings)
    draws = np.random.default_rng([case.seed, 101]).random(len(messages))
    wrong, right = (share * (1 - case.silent) for share in ANSWERS[case.answers])
    given = [data.contexts[i] for i in start] if texts else data.contexts[start]
    agent.warm_start(given, [data.arms[k] for k in data.y[start]])
    hits, thumbs, spent = np.zeros(len(messages), bool), [0, 0], 0.0
    for step, row in enumerate(messages):
        before = time.process_time()
        decision = agent.decide(data.contexts[row])
        spent += time.process_time() - before
        hits[step] = decision.arm == data.arms[data.y[row]]
        answered = draws[step] < (right if hits[step] else wrong)
        agent.feedback(decision.id, float(hits[step]) if answered else None)
        if answered:
            thumbs[int(not hits[step])] += 1
    return {
        "right": blocks(hits),
        "up": thumbs[0],
        "down": thumbs[1],
        "milliseconds": round(1000 * spent / len(messages), 1),
    }


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, help="runs are kept here, and those that are there are not done again")
    options.add_argument("--short", action="store_true", help="500 messages, once")
    options.add_argument("--minutes", type=float, default=600.0, help="no run begins after so many minutes")
    options.add_argument("--only", help="some of the methods, comma-separated")
    given = options.parse_args()
    runs = json.loads(given.json.read_text(encoding="utf-8")) if given.json and given.json.exists() else []
    done, started = {Case(**one["case"]) for one in runs}, time.monotonic()
    for case in cases(short=given.short):
        if case in done or (given.only and case.method not in given.only.split(",")):
            continue
        if time.monotonic() - started > 60 * given.minutes:
            print("there are more runs to be done; the same command goes on with them")
            break
        if (data := data_named(case.data)) is None:
            continue
        with threadpool_limits(1):
            runs.append({"case": case._asdict(), **run(case, data)})
        print(*case, {key: value for key, value in runs[-1].items() if key != "case"}, flush=True)
        if given.json:
            write(given.json, runs)


def write(target, runs):
    """Write one line a run, whole or not at all."""
    partial = target.with_suffix(".part")
    partial.write_text("[\n" + ",\n".join(json.dumps(one) for one in runs) + "\n]\n", encoding="utf-8")
    partial.replace(target)


if __name__ == "__main__":
    main()
