"""How long a step takes: LinUCB over all of CNAE-9, GCNUCB at the end of Cora, on one thread.

Run with the real data at hand: TACIT_DATA=folder .venv/bin/python benchmarks/step.py
"""

from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

import tacit


def step_milliseconds(name, method, limit_ms, part):
    """The mean over the part of the stream that is asked, after a short run that compiles the kernels."""
    data = tacit.load_dataset(name)
    stream = tacit.Stream(data, missing=0.25, seed=0)
    tacit.evaluate(tacit.make(method, arms=data.arms, preset="paper", seed=0), tacit.Stream(_some(data), seed=0))
    agent = tacit.make(method, arms=data.arms, preset="paper", seed=0)
    milliseconds = 1000 * tacit.evaluate(agent, stream).step_seconds[part]
    spread = np.percentile(milliseconds, [50, 99])
    print(
        f"{method:8} {name:6} steps {part.start or 0:>4} to {len(stream)}: mean {milliseconds.mean():6.3f} ms, "
        f"median {spread[0]:6.3f}, 99 % {spread[1]:6.3f}; limit {limit_ms} ms"
    )


def _some(data, rows=400):
    """The first rows of a data set, without its graph's edges to the others."""
    edges = None if data.edges is None else data.edges[(data.edges < rows).all(axis=1)]
    return replace(data, X=data.X[:rows], y=data.y[:rows], edges=edges)


if __name__ == "__main__":
    threadpool_limits(1)
    step_milliseconds("cnae9", "linucb", 0.5, slice(None))
    step_milliseconds("cora", "gcnucb", 25.0, slice(2600, None))
