"""The budget: which arms a decision can afford, so that the mean cost keeps to what was said.

With costs c_k ≥ 0, a budget b per decision and the counts n_k of decisions so far, an arm fits if

    Σ n_j c_j + c_k  ≤  b (Σ n_j + 1) + max_j c_j

and the cheapest arm always does, as its cost is at most b. So after any n decisions the total is at most n·b + max c:
it is ahead of the budget by the cost of one decision for the dearest arm, never by more.
"""

from collections.abc import Mapping


def affordable(costs: Mapping[str, float], counts: Mapping[str, int], budget: float) -> list[str]:
    """The arms that fit, in their order; there is one at least.

    Arguments:
        costs: of one decision for each arm that can be chosen.
        counts: how many decisions there were for each arm since the budget began.
        budget: per decision; at least the cost of the cheapest arm.
    """
    spent = sum(cost * counts.get(arm, 0) for arm, cost in costs.items())
    room = budget * (sum(counts.get(arm, 0) for arm in costs) + 1) + max(costs.values()) - spent
    cheapest = min(costs.values())
    return [arm for arm, cost in costs.items() if cost <= room or cost == cheapest]
