"""The experiments behind the paper's tables and figures."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.contracts import Dataset
from taciturn.experiments.evaluate import evaluate
from taciturn.experiments.spec import Experiment
from taciturn.registry import make, preset_file
from taciturn.streams.stream import Stream
from taciturn.system import atomic_write, one_thread

QUICK_SEEDS, QUICK_STEPS = 2, 600
FIGURE_DATA, FIGURE_MISSING = "cnae9", 0.5
SPACES = ("linucb", "gcnucb")
"""The methods whose context space the paper draws: on `FIGURE_DATA`, 25 % silent, without exploration."""


def paper_datasets(what: str) -> list[str]:
    """Return the names of the data sets that a part of the paper needs: table1, table2, figures or all."""
    printed = preset_file("paper")["printed"]
    return list(printed["table1"]) if what in ("table1", "all") else [FIGURE_DATA]


def paper_experiments(what: str, datasets: Sequence[Dataset], *, quick: bool) -> Iterator[Experiment]:
    """Yield the experiments of table1, table2, figures or all, restricted to the given data sets."""
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
            available = [data for data in datasets if data.name == name and (not figure or name == FIGURE_DATA)]
            if available:
                yield Experiment(datasets=available, methods=list(methods), missing=missing, **settings)


def write_spaces(folder: Path, dataset: Dataset, *, steps: int | None = None, rows: int = 300, seed: int = 0) -> None:
    """Write the data of figures b and c, ``spaces/METHOD.npz``: context vectors of greedy agents in 2-d, by t-SNE.

    The arrays: `points` (N, 2), the index `arm` (N,) of the arm whose vector each one is (−1 where the arms share it),
    the index `truth` (N,) of the right arm of its context, and the arms' own vectors `weights` (K, 2).
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
        with one_thread():
            plane = TSNE(random_state=seed, perplexity=30.0, init="pca").fit_transform(vectors)
        count = len(chosen) * views
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            points=plane[:count],
            weights=plane[count:],
            truth=np.repeat(stream.truth[chosen], views),
            arm=np.tile(np.arange(views), len(chosen)) if views > 1 else np.full(count, -1),
            accuracy=np.array(accuracy),
        )
        atomic_write(target / f"{method}.npz", buffer.getvalue())
