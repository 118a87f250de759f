"""Invented results folders for the tests of the leaderboard: records without any run."""

import hashlib

import msgspec
import numpy as np

from taciturn.experiments.recorder import RunRecord

VERSIONS = {"taciturn": "0.3.0", "python": "3.11.7", "numpy": "2.4.6"}


def invented(method, data="toy", missing="mcar:0.5", seed=0, result=0.5, **values):
    """A record of a run; with `result=None` it failed, and with `graded=True` the result is a mean reward."""
    graded, max_nodes = values.pop("graded", False), values.pop("max_nodes", None)
    setting = [values.get(name) for name in ("delay", "drift", "restart")]
    fields = {
        "id": hashlib.sha256(repr((method, data, missing, seed, setting, max_nodes)).encode()).hexdigest()[:16],
        "dataset": data,
        "source": f"{data}.npz",
        "fingerprint": f"f-{data}",
        "scaling": "none",
        "method": method,
        "preset": None,
        "params": {} if max_nodes is None else {"max_nodes": max_nodes},
        "missing": missing,
        "delay": "fixed:0.0",
        "seed": seed,
        "accuracy": result,
        "constant_arm": "a",
        "constant_accuracy": 0.3,
        "steps": 0 if result is None else 600,
        "seconds": 0.0 if result is None else 1.2,
        "peak_memory_mb": 200.0,
        "versions": VERSIONS,
        "error": "ValueError: it failed" if result is None else None,
    }
    if graded and result is not None:
        fields |= {"mean_reward": result, "regret": 600 * (0.9 - result), "constant_reward": 0.4, "accuracy": 0.2}
    return RunRecord(**fields | values)


def write_runs(folder, records):
    """Write a results folder with these records."""
    folder.mkdir(exist_ok=True)
    lines = [msgspec.json.encode(record) + b"\n" for record in records]
    (folder / "runs.jsonl").write_bytes(b"".join(lines))


def big_bakeoff(methods, data, *, rates, seeds, settings=(), graded=(), seed=0):
    """Records of every method, data set, rate and seed, and of other settings; better methods come first."""
    rng = np.random.default_rng(seed)
    hard = {name: 0.1 + 0.35 * rng.random() for name in data}
    records = []
    for i, method in enumerate(methods):
        speed = 10 ** rng.uniform(-1, 1.5)
        for name in data:
            taste = 0.03 * rng.standard_normal()
            for setting in [*({"missing": f"mcar:{rate}"} for rate in rates), *settings]:
                rate = float(setting.get("missing", "mcar:0.9").split(":")[1])
                loss = (0.02 + 0.006 * i) * 6 * rate**2 + 0.004 * i + (0.0 if "missing" in setting else 0.05)
                for number in range(seeds):
                    result = 1 - hard[name] - loss + taste + 0.015 * rng.standard_normal()
                    records.append(
                        invented(
                            method,
                            name,
                            seed=number,
                            result=float(np.clip(round(600 * result) / 600, 0, 1)),
                            graded=name in graded,
                            seconds=speed * 0.6 * (1 + 0.1 * rng.random()),
                            peak_memory_mb=float(180 + 20 * i + rng.integers(9)),
                            **{"missing": "mcar:0.9"} | setting,
                        )
                    )
    return records
