"""A few faults of every kind, with all checks; `faults.py` is the program for hundreds of them."""

from contextlib import closing

import pytest

from service.cluster.faults import FAULTS, run
from service.cluster.served import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory, postgres_programs):
    with closing(Served(postgres_programs, tmp_path_factory.mktemp("served"))) as served:
        yield served


def test_what_was_acknowledged_survives_every_kind_of_fault(served, tmp_path):
    outcome = run(served, tmp_path, count=len(FAULTS) + 1, seed=0)
    assert outcome.violations == []
    assert len(outcome.begun) == len(FAULTS) + 1
    assert len(outcome.timings) > 100
