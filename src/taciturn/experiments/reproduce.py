"""The paper's tables and figures as experiments."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.contracts import Dataset
from taciturn.experiments.evaluate import evaluate
from taciturn.experiments.spec import Experiment
from taciturn.registry import make, preset_file
from taciturn.streams.stream import Stream

QUICK_SEEDS, QUICK_STEPS = 2, 600
FIGURE_DATA, FIGURE_MISSING = "cnae9", 0.5
SPACES = ("linucb", "gcnucb")
"""The methods whose context space the paper draws, on `FIGURE_DATA` at 25 % silence, greedy."""


def paper_datasets(what: str) -> list[str]:
    """The data sets that a part of the paper needs."""
    printed = preset_file("paper")["printed"]
    return list(printed["table1"]) if what in ("table1", "all") else [FIGURE_DATA]


def paper_experiments(what: str, datasets: Sequence[Dataset], *, quick: bool) -> Iterator[Experiment]:
    """The runs behind table1, table2, the figures, or all of them, on the data sets at hand."""
    paper = preset_file("paper")
    settings: dict[str, Any] = {
        "seeds": range(QUICK_SEEDS if quick else paper["experiment"]["resamplings"]),
        "steps": QUICK_STEPS if quick else None,
        "preset": "paper",
    }
    wanted: list[tuple[str, list[float]]] = []
    if what in ("table1", "table2", "all"):
        tables = ["table1", "table2"] if what == "all" else [what]
        wanted += [(table, paper["experiment"]["missing"]) for table in tables]
    if what in ("figures", "all"):
        wanted.append(("table1", [FIGURE_MISSING]))
    for table, missing in wanted:
        figure = missing == [FIGURE_MISSING]
        for name, methods in paper["printed"][table].items():
            here = [data for data in datasets if data.name == name and (not figure or name == FIGURE_DATA)]
            if here:
                yield Experiment(datasets=here, methods=list(methods), missing=missing, **settings)


def write_spaces(folder: Path, dataset: Dataset, *, steps: int | None = None, rows: int = 300, seed: int = 0) -> None:
    """Figures b and c: what greedy agents see, put on a plane by t-SNE, as ``spaces/METHOD.npz``.

    The arrays: `points` (N, 2), the `arm` whose view each is, the `truth` of its context, and `weights` (K, 2).
    """
    from sklearn.manifold import TSNE  # noqa: PLC0415 - slow to import, and only this figure needs it

    target = folder / "spaces"
    target.mkdir(parents=True, exist_ok=True)
    for method in SPACES:
        stream = Stream(dataset, missing=0.25, seed=seed, steps=steps)
        agent: Any = make(method, arms=dataset.arms, preset="paper", seed=seed, alpha=0.0)
        accuracy = evaluate(agent, stream).accuracy
        space = agent.context_space()
        chosen = np.random.default_rng(seed).permutation(len(space.contexts))[:rows]
        views = space.contexts.shape[1]
        vectors = np.concatenate([space.contexts[chosen].reshape(-1, space.contexts.shape[2]), space.weights])
        plane = TSNE(random_state=seed, perplexity=30.0, init="pca").fit_transform(vectors)
        count = len(chosen) * views
        scratch = target / f"{method}.tmp"
        with scratch.open("wb") as file:
            np.savez_compressed(
                file,
                points=plane[:count],
                weights=plane[count:],
                truth=np.repeat(stream.truth[chosen], views),
                arm=np.tile(np.arange(views), len(chosen)) if views > 1 else np.full(count, -1),
                accuracy=np.array(accuracy),
            )
        scratch.replace(target / f"{method}.npz")
