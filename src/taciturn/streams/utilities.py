"""Utilities: what each arm is worth where every arm has a reward, and perhaps a cost."""

import numpy as np
from numpy.typing import NDArray

from taciturn.contracts import Dataset
from taciturn.errors import InvalidData
from taciturn.validate import check_number

EQUAL = 1e-9
"""Mean costs whose logarithms differ by less are equal: sums of the same numbers in another order are not quite."""


def utilities(dataset: Dataset, cost_weight: float) -> NDArray[np.float64] | None:
    """Return what each arm is worth at each row (N, K), ``clip(reward − cost_weight·c, 0, 1)``; None without rewards.

    The c (K,) of `relative_costs` count only where the weight, from 0 to 1, is not 0.
    """
    check_number("cost_weight", cost_weight, 0, 1)
    if cost_weight == 0:
        return dataset.rewards
    rewards, costs = dataset.rewards, dataset.costs
    if rewards is None or costs is None:
        missing = "rewards" if rewards is None else "costs"
        raise InvalidData(
            f"{dataset.name}: cost_weight={cost_weight:g} needs rewards and costs of every arm; there are no {missing}"
        )
    return np.clip(rewards - cost_weight * relative_costs(dataset.name, costs), 0.0, 1.0)


def relative_costs(name: str, costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of each arm's mean cost (K,), from 0 for the cheapest to 1; zeros where all are equal."""
    wrong = np.argwhere(costs <= 0)
    if len(wrong):
        row, arm = wrong[0].tolist()
        raise InvalidData(
            f"{name}: costs of row {row}, arm {arm} are {costs[row, arm]:g}; with a cost_weight, which takes their "
            "logarithm, costs above 0 are needed"
        )
    logs = np.log(costs.mean(axis=0))
    spread = np.ptp(logs)
    return np.zeros_like(logs) if spread < EQUAL else np.asarray((logs - logs.min()) / spread)
