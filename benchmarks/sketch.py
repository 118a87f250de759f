"""How often LinUCB is right with its covariances in a sketch, beside exact ones, where both can run."""

import numpy as np
from common import Table, main

import taciturn

SEEDS = 3
FORMS = {
    "exact": {"covariance": "exact"},
    "sketch": {"covariance": "sketch"},
    "sketch, rank=32": {"covariance": "sketch", "rank": 32},
}


def accuracy():
    """Compare the accuracy, by the mean over seeds."""
    rows = []
    for name in ("cnae9", "cora"):
        data = taciturn.load_dataset(name)
        percents = [percent_right(data, **form) for form in FORMS.values()]
        rows.append([name, f"{len(data.arms)} × {data.X.shape[1]}", *(f"{percent:.1f}" for percent in percents)])
    return Table(
        "LinUCB with a sketch: accuracy",
        f"Percent of right decisions with half of the rewards missing, the mean of {SEEDS} seeds. Without `rank` a "
        "sketch has as many features as 2²⁰ entries of all arms together allow.",
        ["data", "arms × features", *FORMS],
        rows,
    )


def percent_right(data, **form):
    """Return the percentage of right decisions of LinUCB in such a form."""
    runs = []
    for seed in range(SEEDS):
        agent = taciturn.make("linucb", arms=data.arms, seed=seed, **form)
        runs.append(taciturn.evaluate(agent, taciturn.Stream(data, missing=0.5, seed=seed)).accuracy)
    return 100 * float(np.mean(runs))


if __name__ == "__main__":
    main(accuracy)
