"""No decision of any agent changes unless somebody means it to; then `traces.py` writes the traces anew."""

import os
import subprocess
import sys

import numpy as np
import pytest

from golden import traces


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    file = tmp_path_factory.mktemp("golden") / "traces.npz"
    untraced = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    environment = {**untraced, **traces.ENVIRONMENT}
    subprocess.run([sys.executable, traces.__file__, file], check=True, env=environment, timeout=900)
    return np.load(file)


GOLDEN = np.load(traces.FILE)


@pytest.mark.skipif(
    str(GOLDEN["libraries"]) != traces.libraries(), reason=f"the traces were taken with {GOLDEN['libraries']}"
)
@pytest.mark.parametrize("method", traces.METHODS)
def test_every_decision_is_the_one_that_was_recorded(method, now):
    runs = [name.removesuffix("/chosen") for name in GOLDEN.files if name.startswith(f"{method}/") and "chosen" in name]
    assert len(runs) == len(traces.SCENARIOS) * len(traces.SEEDS)
    for run in runs:
        chosen, expected = now[f"{run}/chosen"], GOLDEN[f"{run}/chosen"]
        assert len(chosen) == len(expected) == traces.STEPS
        (other,) = np.nonzero(chosen != expected)
        assert not len(other), (
            f"{run}: the first other arm is at step {other[0]}: {chosen[other]} for {expected[other]}"
        )
        for part in ("own", "full"):
            np.testing.assert_allclose(now[f"{run}/{part}"], GOLDEN[f"{run}/{part}"], rtol=1e-9, atol=1e-9, err_msg=run)
