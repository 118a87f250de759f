"""Estimates of memory against what the system says that agents took."""

import numpy as np
import pytest

import memory_kit
import taciturn
from taciturn.errors import TaciturnError
from taciturn.registry import METHODS

pytestmark = pytest.mark.skipif(not memory_kit.SUPPORTED, reason="the system does not say how much memory was used")

SHAPES = {
    "many arms": ("linucb", 50, 600, 600, {"labelled": 80, "decided": 6}, {"covariance": "exact"}),
    "a sketch of many features": (
        "linucb",
        100,
        60_000,
        900,
        {"labelled": 200, "decided": 6},
        {"max_nodes": 210},
    ),
    "a sketch of many arms": (
        "linucb",
        2000,
        500,
        500,
        {"answered": 1900, "labelled": 80, "decided": 6},
        {"max_nodes": 2000},
    ),
    "many contexts": ("linucb", 2, 500, 500, {"pending": 20_300, "labelled": 64}, {"max_nodes": 20_000}),
    "an even sample": (
        "linucb",
        2,
        500,
        500,
        {"pending": 20_300, "labelled": 64},
        {"max_nodes": 20_000, "forget": "reservoir"},
    ),
    "many arms and contexts": ("linucb", 1000, 5, 5, {"pending": 10_300}, {"max_nodes": 10_000}),
    "many features": (
        "rogcn",
        10,
        50_000,
        50,
        {"labelled": 500, "decided": 6},
        {"max_nodes": 500, "hidden": 256, "start_epochs": 0},
    ),
    "sparse contexts": (
        "rogcn",
        4,
        40_000,
        1200,
        {"labelled": 2300, "decided": 6},
        {"max_nodes": 2300, "hidden": 4, "start_epochs": 0},
    ),
    "many hidden units": (
        "gcnucb",
        5,
        300,
        10,
        {"labelled": 2, "decided": 1},
        {"max_nodes": 16, "hidden": 2048, "warmup": 0, "start_epochs": 1},
    ),
    "networks over many contexts": (
        "gcnucb",
        40,
        60,
        60,
        {"pending": 1600, "labelled": 16, "decided": 2},
        {"max_nodes": 1500, "hidden": 256, "warmup": 1600, "start_epochs": 1, "steps_per_arrival": 0},
    ),
    "networks in batches": (  # of many arms: every 64 labelled contexts train on all that there are
        "gcnucb",
        320,
        10,
        10,
        {"labelled": 450, "decided": 6},
        {"max_nodes": 400, "hidden": 64, "warmup": 0, "start_epochs": 1, "batch_size": 64},
    ),
    "warm-up": ("gcnucb", 40, 600, 600, {"labelled": 80, "decided": 6}, {"max_nodes": 100, "start_epochs": 1}),
    "views of many arms": (
        "viewucb",
        500,
        30,
        30,
        {"answered": 2100, "labelled": 16, "decided": 3},
        {"max_nodes": 2000, "refit_growth": 0.3},
    ),
    "views of many arms and features": (
        "viewucb",
        600,
        500,
        20,
        {"answered": 1000, "labelled": 200, "decided": 3},
        {"max_nodes": 1300, "refit_growth": 0.3},
    ),
    "features of many contexts, made once": (
        "viewucb",
        150,
        600,
        600,
        {"labelled": 3590, "decided": 6},
        {"max_nodes": 3600, "refit_growth": 0.5},
    ),
    "widths of many features": (
        "viewucb",
        30,
        800,
        800,
        {"labelled": 80, "decided": 6},
        {"max_nodes": 100, "width_entries": 2**25},
    ),
    "views of dense contexts": (
        "viewucb",
        5,
        3000,
        3000,
        {"labelled": 1600, "decided": 6},
        {"max_nodes": 1700, "refit_growth": 0.5},
    ),
    "views of dense contexts that are scaled": (
        "viewucb",
        200,
        3000,
        3000,
        {"labelled": 1600, "decided": 6},
        {"max_nodes": 1700, "refit_growth": 0.5, "scaling": "auto"},
    ),
    "views of sparse contexts": (
        "viewucb",
        2,
        2500,
        300,
        {"pending": 1600, "labelled": 80, "decided": 3},
        {"max_nodes": 1500, "refit_growth": 0.5, "width_entries": 2**25},
    ),
    "clusters": (
        "bilinucb-kmeans",
        2,
        2500,
        40,
        {"pending": 1000, "labelled": 80, "decided": 3},
        {"max_nodes": 1100, "warmup": 0, "imputer_params": {"clusters": 1000}},
    ),
    "imputation by a network": ("bilinucb-gcn", 20, 600, 600, {"labelled": 80, "decided": 6}, {"max_nodes": 500}),
    "imputation at random": ("ilinucb-random", 20, 600, 600, {"labelled": 80, "decided": 6}, {"max_nodes": 500}),
}
"""A method, its arms, features and entries of a context, what is done with it, and its parameters."""


def test_every_class_that_the_service_offers_is_measured():
    offered = {method.target: name for name, method in METHODS.items() if not method.reference}
    imputers = {method.params.get("imputer") for method in METHODS.values()}
    measured = [METHODS[name] for name, *_ in SHAPES.values()]
    assert offered.keys() == {method.target for method in measured}
    assert imputers == {method.params.get("imputer") for method in measured}


@pytest.fixture(scope="module")
def measure():
    with memory_kit.measurer() as measure:
        yield measure


@pytest.mark.parametrize("shape", SHAPES)
def test_the_estimate_is_what_an_agent_takes_at_most(shape, measure):
    name, arms, features, entries, plan, params = SHAPES[shape]
    found = measure("steady", name=name, arms=arms, features=features, entries=entries, plan=plan, params=params)
    assert found["measured"] > 100e6, "so much that other memory of the process does not matter"
    assert found["measured"] <= 1.3 * found["estimate"]
    assert found["estimate"] <= 1.3 * found["measured"]


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("linucb", {"covariance": "exact"}),
        ("viewucb", {"hops": 1}),
        ("bilinucb-random", {"covariance": "exact"}),
        ("rogcn", {"hidden": 2048}),
    ],
)
def test_features_grow_within_the_limit_copies_included(name, params, measure):
    found = measure("growing", name=name, arms=6, limit=200e6, features=500, step=97, params=params)
    assert found["measured"] <= 1.3 * 200e6
    assert found["features"] >= 2 * 500, "it grows as long as there is room"
    assert "arms and" in found["refusal"]
    assert found["refusal"].endswith("; memory_limit is 200 MB")
    assert found["unchanged"]


def test_contexts_without_end_are_refused_before_memory_is_short():
    agent = taciturn.LinUCB(arms=2, memory_limit=200_000)
    with pytest.raises(TaciturnError, match=r"2 arms and 6 features takes about .* contexts; memory_limit is 200 kB"):
        for _ in range(10_000):
            agent.decide(np.ones(5))
    held, next_id = len(agent.decisions), agent.next_id
    assert agent.memory_in_use() <= 200_000
    with pytest.raises(TaciturnError, match="memory_limit"):
        agent.decide_batch(np.ones((10, 5)))
    assert (len(agent.decisions), agent.next_id) == (held, next_id), "nothing has changed"
    agent.feedback(0, 1)


def test_the_same_contexts_are_refused_after_loading(tmp_path):
    """Whether memory is checked does not depend on what was allocated: a replay from a snapshot decides alike."""
    counts = []
    for saved_at in (None, 100, 333):
        agent = taciturn.LinUCB(arms=2, memory_limit=200_000)
        try:
            while agent.next_id < 10_000:
                agent.decide(np.ones(5))
                if agent.next_id == saved_at:
                    agent.save(tmp_path / "agent")
                    agent = taciturn.load(tmp_path / "agent")
        except TaciturnError:
            counts.append(agent.next_id)
    assert len(counts) == 3
    assert len(set(counts)) == 1
