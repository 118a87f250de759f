"""Estimates of memory against what the system says that agents took."""

import pytest

import memory_kit
from taciturn.registry import METHODS

pytestmark = pytest.mark.skipif(not memory_kit.SUPPORTED, reason="the system does not say how much memory was used")

SHAPES = {
    "many arms": ("linucb", 50, 600, 600, {"labelled": 80, "decided": 6}, {}),
    "many contexts": ("linucb", 2, 500, 500, {"pending": 12_300, "labelled": 64}, {"max_nodes": 12_000}),
    "an even sample": (
        "linucb",
        2,
        500,
        500,
        {"pending": 12_300, "labelled": 64},
        {"max_nodes": 12_000, "forget": "reservoir"},
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
        2000,
        {"labelled": 1200, "decided": 25},
        {"max_nodes": 1200, "hidden": 4, "start_epochs": 0},
    ),
    "many hidden units": (
        "gcnucb",
        12,
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
    "warm-up": ("gcnucb", 40, 600, 600, {"labelled": 80, "decided": 6}, {"max_nodes": 100, "start_epochs": 1}),
    "views of many arms": (
        "viewucb",
        500,
        30,
        30,
        {"answered": 2100, "labelled": 16, "decided": 3},
        {"max_nodes": 2000, "refit_growth": 0.3},
    ),
    "views of many features": ("viewucb", 30, 800, 800, {"labelled": 80, "decided": 6}, {"max_nodes": 100}),
    "views of sparse contexts": (
        "viewucb",
        2,
        2500,
        300,
        {"pending": 1600, "labelled": 80, "decided": 3},
        {"max_nodes": 1500, "refit_growth": 0.5},
    ),
    "clusters": (
        "bilinucb-kmeans",
        2,
        2000,
        40,
        {"pending": 2000, "labelled": 80, "decided": 3},
        {"max_nodes": 2200, "warmup": 0, "imputer_params": {"clusters": 2000}},
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


@pytest.mark.parametrize("shape", SHAPES)
def test_the_estimate_is_what_an_agent_takes_at_most(shape):
    name, arms, features, entries, plan, params = SHAPES[shape]
    found = memory_kit.measure(
        "steady", name=name, arms=arms, features=features, entries=entries, plan=plan, params=params
    )
    assert found["measured"] > 100e6, "so much that other memory of the process does not matter"
    assert found["measured"] <= 1.3 * found["estimate"]
    assert found["estimate"] <= 1.3 * found["measured"]
