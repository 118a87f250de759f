"""One agent of every kind, small enough for many examples."""

from functools import partial

import numpy as np
from sklearn.naive_bayes import GaussianNB

import taciturn

ARMS = ["left", "middle", "right"]
FEATURES = 5


def in_history(agent):
    """An agent that keeps no exact matrices, however small they are: they would be large before it changes."""
    assert "ridge" in agent._parts.state_dict()
    agent._ridge._most_entries = 0
    return agent


SMALL = {"hidden": 2, "neighbors": 2, "start_epochs": 3}
BATCHES = SMALL | {"batch_size": 6}
AGENTS = {
    "linucb": taciturn.LinUCB,
    "linucb, several right arms": partial(taciturn.LinUCB, one_right_arm=False),
    "linucb, silence=0.3": partial(taciturn.LinUCB, silence=0.3),
    "linucb, sketch": partial(taciturn.LinUCB, covariance="sketch", rank=4),
    "linucb, sketch of several right arms": partial(taciturn.LinUCB, covariance="sketch", rank=4, one_right_arm=False),
    "linucb, history": lambda **params: in_history(taciturn.LinUCB(rank=64, **params)),
    "linucb, history and sketch": lambda **params: in_history(taciturn.LinUCB(rank=6, **params)),
    "bilinucb, sketch": partial(taciturn.BILinUCB, imputer="random", warmup=4, covariance="sketch", rank=4),
    "rogcn": partial(taciturn.ROGCN, **SMALL),
    "bilinucb-gcn": partial(taciturn.BILinUCB, imputer_params=SMALL, warmup=4),
    "bilinucb-kmeans": partial(taciturn.BILinUCB, imputer="kmeans", imputer_params={"clusters": 3}, warmup=4),
    "bilinucb-random": partial(taciturn.BILinUCB, imputer="random", warmup=4, bounded=False),
    "bilinucb-nb": partial(taciturn.BILinUCB, imputer=GaussianNB(), warmup=0),
    "bilinucb, silence=ignore": partial(taciturn.BILinUCB, imputer="kmeans", warmup=100, silence="ignore"),
    "gcnucb": partial(taciturn.GCNUCB, **SMALL, warmup=4),
    "gcnucb, in warm-up": partial(taciturn.GCNUCB, **SMALL, warmup=100),
    "rogcn, in batches": partial(taciturn.ROGCN, **BATCHES),
    "bilinucb-gcn, in batches": partial(taciturn.BILinUCB, imputer_params=BATCHES, warmup=4),
    "gcnucb, in batches": partial(taciturn.GCNUCB, **BATCHES, warmup=4),
    "viewucb": partial(taciturn.ViewUCB, neighbors=2),
    "viewucb, several right arms": partial(taciturn.ViewUCB, neighbors=2, one_right_arm=False),
    "viewucb, silence=1": partial(taciturn.ViewUCB, neighbors=2, silence=1),
    "majority": partial(taciturn.make, "majority"),
    "labelspreading": partial(taciturn.make, "labelspreading", every=3),
    "knn": partial(taciturn.make, "knn", neighbors=3),
    "logreg": partial(taciturn.make, "logreg", every=3),
    "extratrees": partial(taciturn.make, "extratrees", every=3, trees=2),
    "static": partial(taciturn.make, "static"),
}


def few_trees(name):
    """Parameters for methods by name: of a hundred trees, which take a hundred times as long to fit as one, a few."""
    return {"trees": 3} if name == "extratrees" else {}


def contexts(count, seed=0):
    """Random contexts without negative features (count, FEATURES)."""
    return np.abs(np.random.default_rng(seed).normal(size=(count, FEATURES)))
