"""The page of the router's story holds the numbers of its runs."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

HOME = Path(__file__).parent.parent
PAGE = (HOME / "docs" / "router-story.md").read_text(encoding="utf-8")
RUNS = json.loads((HOME / "docs" / "router-story.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def writer():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HOME / "benchmarks")
        yield importlib.import_module("router_page")


def test_the_tables_are_those_of_the_runs(writer):
    assert writer.filled(PAGE, writer.Runs(RUNS)) == PAGE


def test_a_run_that_went_otherwise_changes_the_tables(writer):
    runs = json.loads(json.dumps(RUNS))
    first = next(run for run in runs if run["case"]["method"] == writer.ROUTER)
    first["right"] = [0] * len(first["right"])
    assert writer.filled(PAGE, writer.Runs(runs)) != PAGE


@pytest.mark.usefixtures("writer")
def test_no_message_is_among_the_examples_and_longer_runs_begin_as_shorter_ones():
    router = importlib.import_module("router")
    y = np.arange(400) % 7
    short, long = (router.Case("banking77", "router", 3, messages, 0.9, "anybody", 4) for messages in (50, 300))
    (start, few), (same, many) = router.split(y, short), router.split(y, long)
    assert np.bincount(y[start]).tolist() == [3] * 7
    assert not set(start) & set(many)
    assert start.tolist() == same.tolist()
    assert few.tolist() == many[:50].tolist()
