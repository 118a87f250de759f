"""A few faults of every kind, with all checks; `faults.py` is the program for hundreds of them."""

from contextlib import closing

import psutil
import pytest

from service.cluster.faults import FAULTS, run
from service.cluster.served import TITLES, Served


@pytest.fixture(scope="module")
def served(tmp_path_factory, postgres_programs):
    with closing(Served(postgres_programs, tmp_path_factory.mktemp("served"))) as served:
        yield served


def test_what_was_acknowledged_survives_every_kind_of_fault(served, tmp_path):
    outcome = run(served, tmp_path, count=len(FAULTS) + 1, seed=0)
    assert outcome.violations == []
    assert len(outcome.begun) == len(FAULTS) + 1
    assert len(outcome.timings) > 100


def test_no_process_of_the_service_stands_back_for_others_on_the_machine(served):
    """Ray gives workers a niceness of 15, with which a new shard gets little of a processor that others use."""
    processes = [process for part in TITLES for process in served.processes(part)]
    assert {process.nice() for process in processes} == {psutil.Process().nice()}
