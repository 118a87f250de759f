"""Which parameters suit each peer? A small grid, on data sets that are then left out of every ranking.

First all combinations of what its documentation says to tune; then, from the best of these, one switch at a time, which
stays where it helps. The best of all that was tried is chosen, by the mean accuracy over the data sets with half of the
rewards missing. What the file `--out` has already is not run again.

    python benchmarks/tune_peers.py vw-squarecb cb-linucb --out tuned.jsonl
"""

import argparse
import json
import time
from itertools import product
from pathlib import Path

import numpy as np

import taciturn

DATA = ("digits", "mushroom", "magic")
MISSING, STEPS, SEEDS = 0.5, 600, (0,)

RATES = (0.1, 0.5, 2.0)
LINEAR = {"alpha": (0.02, 0.1, 0.5), "l2_lambda": (1.0, 10.0, 100.0)}


def vw(*options):
    return {"options": [f"{option} -l {rate}" for option, rate in product(options, RATES)]}


PLAIN = {"vw": {"interactions": "sa", "cb_type": "mtr"}, "mabwiser-knearest": {"metric": "euclidean"}}
"""The switches as they are before they are tried: what the registry says of a peer must not decide what is tuned."""

GRIDS = {  # what is combined, and the switches
    "vw-squarecb": (
        vw(*(f"--squarecb --gamma_scale {scale}" for scale in (10, 100, 1000, 10000))),
        {"interactions": "ssa"},
    ),
    "vw-regcb": (vw(*(f"--regcb --mellowness {c}" for c in (0.1, 0.01, 0.001, 0.0001))), {"interactions": "ssa"}),
    "vw-bag": (
        vw("--bag 5", "--bag 5 --greedify", "--bag 10 --greedify"),
        {"cb_type": "dr", "interactions": "ssa"},
    ),
    "vw-cover": (
        vw("--cover 3 --psi 1", "--cover 3 --psi 0.1 --nounif", "--cover 3 --psi 0.01 --nounif"),
        {"cb_type": "dr", "interactions": "ssa"},
    ),
    "cb-linucb": ({"alpha": (0.02, 0.1, 0.5), "from_empty": (False, True), "lambda_": (1.0, 10.0, 100.0)}, {}),
    "cb-bootstrapped": ({"percentile": (60, 80, 95)}, {}),  # C=1, scikit-learn's: it takes minutes
    "cb-adaptive": ({"percentile": (10, 30, 60), "C": (0.1, 1.0)}, {}),
    "mabwiser-linucb": (LINEAR, {}),
    "mabwiser-lints": (LINEAR, {}),
    "mabwiser-knearest": ({"k": (5, 10, 20), "alpha": (0.1, 0.5, 1.25)}, {"metric": "cosine"}),
    "river-linucb": ({"alpha": (1.0, 10.0, 100.0, 1000.0), "beta": (1.0, 25.0, 100.0)}, {}),
}


def accuracies(name, params):
    """The accuracy on each data set, averaged over seeds."""
    plain = PLAIN.get(name, PLAIN["vw"] if name.startswith("vw") else {})
    params = {"all_arms": False} | plain | params
    found = []
    for data in map(taciturn.load_dataset, DATA):
        runs = []
        for seed in SEEDS:
            agent = taciturn.make(name, arms=data.arms, seed=seed, **params)
            stream = taciturn.Stream(data, missing=MISSING, seed=seed, steps=STEPS)
            runs.append(taciturn.evaluate(agent, stream, progress=False).accuracy)
        found.append(float(np.mean(runs)))
    return found


def tune(name, known, write):
    """The best parameters of a peer; `write` is called with each that is tried and not `known`."""

    def mean_of(params):
        if (key := (name, json.dumps(params))) not in known:
            started, found = time.perf_counter(), accuracies(name, params)
            known[key] = float(np.mean(found))
            write({"peer": name, "params": params, **dict(zip(DATA, found, strict=True)), "mean": known[key]})
            seconds = time.perf_counter() - started
            print(f"{name} {params} {np.round(found, 3)} {known[key]:.4f} {seconds:.0f} s", flush=True)
        return known[key]

    grid, switches = GRIDS[name]
    if name != "mabwiser-knearest":  # which cannot be told of several arms
        switches = switches | {"all_arms": True}
    candidates = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    best_mean, best = max(((mean_of(params), params) for params in candidates), key=lambda pair: pair[0])
    for switch, value in switches.items():
        params = best | {switch: value}
        if (mean := mean_of(params)) > best_mean:
            best_mean, best = mean, params
    return json.loads(max((mean, text) for (peer, text), mean in known.items() if peer == name)[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peers", nargs="*", default=list(GRIDS))
    parser.add_argument("--out", type=Path, default=Path("tuned.jsonl"))
    arguments = parser.parse_args()
    with arguments.out.open("a+", encoding="utf-8") as file:
        file.seek(0)
        lines = [json.loads(line) for line in file]
        known = {(line["peer"], json.dumps(line["params"])): line["mean"] for line in lines}
        for name in arguments.peers:
            best = tune(name, known, lambda line: (file.write(json.dumps(line) + "\n"), file.flush()))
            print(f"{name}: {best} {known[name, json.dumps(best)]:.4f}", flush=True)


if __name__ == "__main__":
    main()
