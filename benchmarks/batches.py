"""GCNUCB in batches beside GCNUCB on all contexts: time per step as contexts grow, and accuracy on real data."""

import numpy as np
from common import SEED, Stopwatch, Table, main, shown, times
from growth import ARMS, SIZES, STEPS, stream_of

import taciturn

BATCH_SIZE, SEEDS = 512, 3


def step_times(batch_size):
    """Median milliseconds per step at all sizes, all earlier contexts labelled."""
    X, y = stream_of(SIZES[-1] + 1)
    settings = {"warmup": 0, "start_epochs": 1, "batch_size": batch_size}
    agent, count = taciturn.make("gcnucb", arms=ARMS, seed=SEED, **settings), 0
    rng, found = np.random.default_rng(SEED), []
    for size in SIZES:
        agent.warm_start(X[count : size - STEPS], y[count : size - STEPS])
        watch = Stopwatch()
        for t in range(size - STEPS, size):
            with watch():
                decision = agent.decide(X[t])
                agent.feedback(decision.id, None if rng.random() < 0.5 else float(decision.arm == y[t]))
        count = size
        found.append(1000 * float(np.median(watch.laps)))
    return found


def growth():
    """Compare the time per step."""
    full, batches = step_times(None), step_times(BATCH_SIZE)
    return Table(
        "GCNUCB in batches: time per step",
        f"Milliseconds per step (median of {STEPS}), on the contexts of the table Growth.",
        ["t", "all contexts", f"batch_size={BATCH_SIZE}", "ratio"],
        [[f"{t}", shown(a), shown(b), times(a, b)] for t, a, b in zip(SIZES, full, batches, strict=True)],
    )


def accuracy():
    """Compare the accuracy, by the mean over seeds."""
    rows = []
    for name in ("cnae9", "cora"):
        data = taciturn.load_dataset(name, scaling="l1")
        percents = []
        for batch_size in (None, BATCH_SIZE):
            runs = []
            for seed in range(SEEDS):
                agent = taciturn.make("gcnucb", arms=data.arms, preset="paper", seed=seed, batch_size=batch_size)
                runs.append(taciturn.evaluate(agent, taciturn.Stream(data, missing=0.25, seed=seed)).accuracy)
            percents.append(100 * np.mean(runs))
        rows.append([name, *(f"{percent:.1f}" for percent in percents), f"{percents[1] - percents[0]:+.1f}"])
    return Table(
        "GCNUCB in batches: accuracy",
        f"Percent of right decisions with a quarter of the rewards missing, the mean of {SEEDS} seeds.",
        ["data", "all contexts", f"batch_size={BATCH_SIZE}", "difference"],
        rows,
    )


if __name__ == "__main__":
    main(growth, accuracy)
