"""One agent of every kind, small enough for many examples."""

from functools import partial

import numpy as np
from sklearn.naive_bayes import MultinomialNB

import tacit

ARMS = ["left", "middle", "right"]
FEATURES = 5
SMALL = {"hidden": 2, "neighbors": 2, "start_epochs": 3}
AGENTS = {
    "linucb": tacit.LinUCB,
    "linucb, all can be right": partial(tacit.LinUCB, one_right_arm=False),
    "linucb, silence is 0.3": partial(tacit.LinUCB, silence=0.3),
    "rogcn": partial(tacit.ROGCN, **SMALL),
    "bilinucb-gcn": partial(tacit.BILinUCB, imputer_params=SMALL, warmup=4),
    "bilinucb-kmeans": partial(tacit.BILinUCB, imputer="kmeans", imputer_params={"clusters": 3}, warmup=4),
    "bilinucb-random": partial(tacit.BILinUCB, imputer="random", warmup=4, bounded=False),
    "bilinucb-nb": partial(tacit.BILinUCB, imputer=MultinomialNB(), warmup=0),
    "bilinucb, silence is ignored": partial(tacit.BILinUCB, imputer="kmeans", warmup=100, silence="ignore"),
    "gcnucb": partial(tacit.GCNUCB, **SMALL, warmup=4),
    "gcnucb, in warm-up": partial(tacit.GCNUCB, **SMALL, warmup=100),
    "graphucb": partial(tacit.GraphUCB, neighbors=2),
    "graphucb, all can be right": partial(tacit.GraphUCB, neighbors=2, one_right_arm=False),
    "graphucb, silence is 1": partial(tacit.GraphUCB, neighbors=2, silence=1),
    "majority": partial(tacit.make, "majority"),
    "labelspreading": partial(tacit.make, "labelspreading", every=3),
}


def contexts(count, seed=0):
    return np.abs(np.random.default_rng(seed).normal(size=(count, FEATURES)))
