"""Which scaling an experiment uses, and that results say so."""

import re

import numpy as np
import pytest
from msgspec.structs import replace

import taciturn
from taciturn.cli.run import demo_experiment, load_experiment
from taciturn.experiments.checks import toy_data
from taciturn.experiments.recorder import read_runs
from taciturn.experiments.runner import execute
from taciturn.experiments.spec import Experiment, Spec, expand
from taciturn.reports import page, paper, ranks, tables

METHODS = ["linucb"]


@pytest.mark.parametrize(
    ("options", "scaling"),
    [
        ({}, "none"),
        ({"preset": "paper"}, "l1"),
        ({"preset": "paper", "scaling": "none"}, "none"),
        ({"scaling": "l2"}, "l2"),
    ],
)
def test_rows_are_scaled_as_said_or_as_the_preset_does_or_not_at_all(options, scaling):
    (data,) = load_experiment(Spec(data=["digits"], methods=METHODS, **options)).datasets
    assert data.scaling == scaling
    if scaling == "none":
        assert data.contexts.max() == 16
    else:
        np.testing.assert_allclose(np.linalg.norm(data.contexts, ord=int(scaling[1]), axis=1), 1.0)


def test_the_demo_is_what_run_does_by_default():
    demo = {run.id for run in expand(demo_experiment(seed=0))}
    run = [run.id for run in expand(load_experiment(Spec(data=["digits"], methods=METHODS, seeds=1)))]
    assert len(demo) == 5
    assert demo >= set(run)


def test_a_label_is_for_the_files_among_the_data_sets(tmp_path):
    (tmp_path / "mine.csv").write_text("a,best\n1,x\n2,y\n3,x\n")
    spec = Spec(data=["digits", str(tmp_path / "mine.csv")], methods=METHODS, label="best")
    assert [data.name for data in load_experiment(spec).datasets] == ["digits", "mine"]
    with pytest.raises(taciturn.TaciturnError, match="for your own files"):
        load_experiment(Spec(data=["digits"], methods=METHODS, label="best"))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scaling")
    data = [taciturn.load_dataset("digits", scaling=scaling) for scaling in ("l1", "none")]
    several = Experiment(datasets=[*data, toy_data()], methods=["linucb", "majority"], seeds=[0], steps=30)
    list(execute(expand(several), folder))
    return folder


def test_every_line_and_every_table_says_which_scaling_was_used(results):
    records = list(read_runs(results))
    assert [record.scaling for record in records] == ["l1", "l1", "none", "none", "none", "none"]
    html = page.write_report(results).read_text(encoding="utf-8")
    for record in records:
        said = tables.scaling_text(record)
        assert said.startswith("l1 rows") == (record.scaling == "l1")
        assert re.search(rf"\| {record.method} \|.*\| {said} \|", (results / "tables.md").read_text(encoding="utf-8"))
        assert re.search(rf"& {record.method} &.*& {said} ", (results / "tables.tex").read_text(encoding="utf-8"))
        rows = [row for row in html.split("<tr>") if f"<td>{record.method}</td>" in row and f"<td>{said}</td>" in row]
        assert len(rows) >= 2, "among the results and among the runs"


def test_the_agents_own_scaling_is_shown_beside_that_of_the_rows(results):
    record = next(read_runs(results))
    texts = {
        ("l1", "l1"): "l1 rows, agent l1",
        ("none", "auto"): "agent auto",
        ("l2", "none"): "l2 rows",
        ("none", "none"): "none",
    }
    for (rows, agent), text in texts.items():
        assert tables.scaling_text(replace(record, scaling=rows, params={"scaling": agent})) == text


def test_runs_that_differ_in_the_agents_scaling_have_rows_of_their_own(results):
    record = next(read_runs(results))
    others = [replace(record, params={"scaling": scaling}) for scaling in ("auto", "l1")]
    rows = [row for row in tables.accuracy_rows(others) if row.kind == "method"]
    assert [row.scaling for row in rows] == ["l1 rows, agent auto", "l1 rows, agent l1"]


def test_methods_that_are_equal_everywhere_are_not_ranked(results):
    record = next(read_runs(results))
    equal = [replace(record, method=m, missing=missing) for m in "abc" for missing in ("mcar:0.2", "mcar:0.4")]
    assert ranks.ranking(equal) is None
    better = [replace(run, accuracy=1.0) if run.method == "b" else run for run in equal]
    assert next(iter(ranks.ranking(better).mean_ranks)) == "b"


def test_the_comparison_with_the_paper_says_which_scaling_was_used(results):
    record = replace(next(read_runs(results)), dataset="cnae9", preset="paper", missing="mcar:0.25")
    assert re.search(r"\| linucb \|.*\| l1 rows", paper.comparison_markdown(paper.comparison([record])))
