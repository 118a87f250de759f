"""Peers run beside taciturn's own methods, and results say which version of their library it was."""

from importlib.metadata import PackageNotFoundError, version

import pytest

from taciturn import registry
from taciturn.errors import TaciturnError
from taciturn.experiments.checks import toy_data
from taciturn.experiments.runner import execute
from taciturn.experiments.spec import Experiment, expand


def test_results_carry_the_version_of_the_library_and_depend_on_it(tmp_path, monkeypatch):
    methods = ["linucb", "vw-squarecb", "vw-squarecb-zero"]
    given = Experiment(datasets=[toy_data()], methods=methods, seeds=range(1), steps=20)
    runs = expand(given)
    records = {record.method: record for record in execute(runs, tmp_path)}
    assert all(record.error is None for record in records.values())
    assert records["vw-squarecb"].versions["vowpalwabbit"] == version("vowpalwabbit")
    assert "vowpalwabbit" not in records["linucb"].versions
    assert records["vw-squarecb-zero"].params["silence"] == 0.0
    monkeypatch.setattr(registry, "version", lambda _: "0")
    same = [one.id == other.id for one, other in zip(runs, expand(given), strict=True)]
    assert same == [True, False, False]


def test_a_peer_that_cannot_be_saved_starts_afresh_at_a_restart_and_one_that_can_goes_on(tmp_path):
    given = {"datasets": [toy_data()], "methods": ["vw-squarecb", "mabwiser-linucb"], "seeds": range(1), "steps": 40}
    records = {
        (record.method, record.restart): record
        for record in execute(expand(Experiment(**given, restart=["none", 0.5])), tmp_path)
    }
    assert all(record.error is None for record in records.values()), [record.error for record in records.values()]
    whole, resumed = records["vw-squarecb", None], records["vw-squarecb", 0.5]
    assert whole.accuracy == resumed.accuracy
    assert len(records) == 4


def test_an_experiment_with_a_peer_that_is_not_installed_is_one_line(monkeypatch):
    """Its version was looked up before the peer was made, and the command line took the error for the service's."""

    def absent(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr(registry, "version", absent)
    with pytest.raises(TaciturnError, match=r"^vw-squarecb needs vowpalwabbit: pip install '\.\[peers\]'[^\n]*$"):
        expand(Experiment(datasets=[toy_data()], methods=["linucb", "vw-squarecb"], seeds=range(1)))


def test_a_peer_whose_contexts_were_evicted_starts_afresh_at_a_restart(tmp_path):
    """Vowpal Wabbit can be saved, unless it has learned what is no longer held: such runs failed."""
    given = {"datasets": [toy_data()], "methods": ["vw-squarecb"], "seeds": range(1), "max_nodes": [16]}
    whole, restarted = execute(expand(Experiment(**given, restart=["none", 0.5])), tmp_path)
    assert [whole.error, restarted.error] == [None, None]
    assert whole.accuracy != restarted.accuracy
