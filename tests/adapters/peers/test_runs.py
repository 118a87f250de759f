"""Peers run beside taciturn's own methods, and results say which version of their library it was."""

from importlib.metadata import version

from taciturn import registry
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
