"""The paper's numbers on the real data, as means of few seeds with wide margins; `taciturn reproduce` has all seeds."""

import numpy as np
import pytest

import taciturn
from taciturn.registry import preset_file


def mean_percent(data, method, missing, seeds):
    traces = [
        taciturn.evaluate(
            taciturn.make(method, arms=data.arms, preset="paper", seed=seed),
            taciturn.Stream(data, missing=missing, seed=seed),
        )
        for seed in range(seeds)
    ]
    return 100 * np.mean([trace.accuracy for trace in traces])


def printed(dataset, method, missing):
    return preset_file("paper")["printed"]["table1"][dataset][method][[0.25, 0.5, 0.75].index(missing)][0]


@pytest.mark.parametrize("missing", [0.25, 0.5, 0.75])
def test_linucb_on_cnae9_is_within_4_points_of_the_paper(real, missing):
    assert (
        abs(mean_percent(real("cnae9", scaling="l1"), "linucb", missing, 5) - printed("cnae9", "linucb", missing)) < 4
    )


def test_linucb_on_cora_is_within_5_points_of_the_paper(real):
    assert abs(mean_percent(real("cora", scaling="l1"), "linucb", 0.25, 5) - printed("cora", "linucb", 0.25)) < 5


@pytest.mark.parametrize(("name", "missing"), [("cnae9", 0.25), ("cnae9", 0.75), ("cora", 0.5)])
def test_gcnucb_is_at_least_as_good_as_printed(real, name, missing):
    assert mean_percent(real(name, scaling="l1"), "gcnucb", missing, 2 if name == "cnae9" else 1) >= printed(
        name, "gcnucb", missing
    )


def test_the_bound_helps_a_random_imputer_where_most_rewards_are_missing(real):
    data = real("cnae9", scaling="l1")
    assert mean_percent(data, "bilinucb-random", 0.75, 5) > mean_percent(data, "ilinucb-random", 0.75, 5)
