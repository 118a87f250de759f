"""An agent in Python alone: a linear score for each arm, learned by gradient steps; one decision in 20 at random."""

import json
import random
import sys


def features(context):
    if isinstance(context, str):
        return dict.fromkeys(context.split(), 1.0)
    if isinstance(context, list):
        return {i: value or 0.0 for i, value in enumerate(context)}
    if "indices" in context:
        return dict(zip(context["indices"], context["values"], strict=True))
    return {
        f"{k}={v}" if isinstance(v, str) else k: 1.0 if isinstance(v, str) else v or 0.0 for k, v in context.items()
    }


def score(arm, row):
    return sum(weights[arm].get(k, 0.0) * v for k, v in row.items())


def learn(arm, row, reward):
    step = (reward - score(arm, row)) / (1.0 + sum(v * v for v in row.values()))
    weights[arm].update({k: weights[arm].get(k, 0.0) + step * v for k, v in row.items()})


weights, pending = {}, {}
for line in sys.stdin:
    ask, answer = json.loads(line), {"ok": True}
    if ask["do"] == "start":
        weights = {arm: {} for arm in ask["arms"]}
        random.seed(ask["seed"])
    elif ask["do"] == "warm_start":
        for context, right in zip(ask["contexts"], ask["arms"], strict=True):
            learn(right, features(context), 1.0)
    elif ask["do"] == "decide":
        row = features(ask["context"])
        arm = max(weights, key=lambda arm: score(arm, row)) if random.random() > 0.05 else random.choice([*weights])
        pending[ask["id"]] = arm, row
        answer = {"arm": arm}
    elif ask["reward"] is not None:
        learn(*pending[ask["id"]], ask["reward"])
    print(json.dumps(answer), flush=True)
