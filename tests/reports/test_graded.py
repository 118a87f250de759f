"""Tables, pages and tests of significance where every arm has a reward, alone and beside data with one right arm."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from rewards_kit import graded_data
from taciturn.experiments.checks import toy_data
from taciturn.experiments.recorder import RunRecord
from taciturn.experiments.runner import execute
from taciturn.experiments.spec import Experiment, expand
from taciturn.reports import curves, figures, page, ranks, tables

METHODS = ["linucb", "majority", "knn"]


def runs(folder, *, toy, weights=(0.0, 0.3)):
    """The records of both cost weights, and perhaps of data with one right arm."""
    records = []
    for weight in weights:
        given = Experiment(datasets=[graded_data()], methods=METHODS, seeds=range(3), cost_weight=weight)
        records += execute(expand(given), folder)
    if toy:
        records += execute(expand(Experiment(datasets=[toy_data()], methods=METHODS, seeds=range(3))), folder)
    return records


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A folder with graded rewards only, and its records."""
    folder = tmp_path_factory.mktemp("graded")
    return folder, runs(folder, toy=False)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A folder with graded rewards and with one right arm, and its records."""
    folder = tmp_path_factory.mktemp("mixed")
    return folder, runs(folder, toy=True)


def of(records, method, weight):
    return [record for record in records if (record.method, record.cost_weight) == (method, weight)]


def test_rows_have_mean_rewards_and_regrets_by_cost_weight(graded):
    _, records = graded
    rows = tables.accuracy_rows(records)
    assert [row.label for row in rows] == ["graded"] * 4 + ["graded, cost weight 0.3"] * 4
    assert [row.method for row in rows] == [f"always {records[0].constant_arm}", *METHODS, "always cheap", *METHODS]
    assert rows[0].method == "always dear", "costs change which arm is best"
    for row in rows:
        weight = 0.3 if "weight" in row.label else 0.0
        if row.kind == "constant arm":
            stream = expand(Experiment(datasets=[graded_data()], methods=["linucb"], cost_weight=weight))[0]
            stream = stream.task.stream(graded_data())
            regrets = [sum(stream.best_rewards) - 60 * stream.best_constant_arm[1]]
            means = [record.constant_reward for record in of(records, "linucb", weight)]
        else:
            group = of(records, row.method, weight)
            means, regrets = [record.mean_reward for record in group], [record.regret for record in group]
        assert row.mean == pytest.approx(np.mean(means))
        assert row.deviation == pytest.approx(np.std(means, ddof=1))
        assert row.regret == pytest.approx(np.mean(regrets))


def expected_cell(row):
    low, high = row.interval
    return f"{row.mean:.3f} [{low:.3f}, {high:.3f}]" + (" ‡" if row.mark == "level" else "")


def test_all_forms_of_the_table_agree(graded):
    folder, records = graded
    rows = tables.accuracy_rows(records)
    header = ["data", "silent", "method", "mean reward", "regret", "seeds", "seconds", "ms per step", "scaling"]
    assert tables.header(rows) == header
    texts = tables.row_texts(rows)
    best = {row.mean for row in tables.best_rows(rows).values()}
    assert best == {max(row.mean for row in rows[:4]), max(row.mean for row in rows[4:])}
    console = Console(width=200, record=True, file=io.StringIO(), force_terminal=True)
    console.print(tables.accuracy_table(records))
    shown = console.export_text(styles=True)
    markdown, latex = tables.accuracy_markdown(rows), tables.accuracy_latex(rows)
    target = page.write_report(folder)
    html = target.read_text(encoding="utf-8")
    assert (folder / "tables.md").read_text(encoding="utf-8") == markdown
    assert (folder / "tables.tex").read_text(encoding="utf-8") == latex
    assert "\n\\begin{tabular}{lllrrl}" in latex
    assert "Mean reward & Regret & Scaling" in latex
    for row, cells in zip(rows, texts, strict=True):
        assert cells[3:5] == [expected_cell(row), f"{row.regret:.1f}"]
        first = row.mark == "first"
        assert f"| {row.method} | {f'**{cells[3]}**' if first else cells[3]} | {cells[4]} |" in markdown
        cell = f"<b>{cells[3]}</b>" if first else cells[3]
        assert f"<td>{row.method}</td><td>{cell}</td><td>{cells[4]}</td>" in html
        inside = cells[3].replace(" ‡", "$^\\ddagger$")
        inside = f"\\textbf{{{inside}}}" if first else inside
        assert f"{row.method} & {inside} & {cells[4]} &" in latex
        (line,) = [line for line in shown.splitlines() if cells[3] in line and row.method in line]
        assert line.startswith("\x1b[1m") == first, "what is best by test is bold"
    for text in (markdown, latex, html.partition("<script>")[0].partition("All 18 runs")[0]):
        assert "right" not in re.sub(r"one_right_arm", "", text)


def test_the_page_shows_mean_rewards_in_headings_axes_and_the_summary(graded):
    folder, records = graded
    html = page.write_report(folder).read_text(encoding="utf-8")
    for title in ("Mean reward", "Running mean reward", "Mean reward against time"):
        assert f">{title}</h2>" in html
    assert "Accuracy" not in html
    assert "mean reward so far</text>" in html
    best = tables.best_rows(tables.accuracy_rows(records)).values()
    for row in best:
        method = f"<b>{row.method}</b>" if row.mark == "first" else row.method
        assert f"{row.label}, 50% silent: {method}, mean reward {row.mean:.3f}" in html
    for record in records:
        assert f"<td>{record.mean_reward:.4g}</td><td>{record.regret:.4g}</td>" in html
    assert len(figures.write_figures(folder, records)) == 2
    for curve in curves.accuracy_curves(folder, of(records, "linucb", 0.3)):
        assert curve.mean[-1] == pytest.approx(np.mean([record.mean_reward for record in of(records, "linucb", 0.3)]))


def test_data_with_one_right_arm_keeps_its_percents_beside_graded_rewards(mixed):
    folder, records = mixed
    rows = tables.accuracy_rows(records)
    assert tables.header(rows)[3:6] == ["right", "mean reward", "regret"]
    for row, cells in zip(rows, tables.row_texts(rows), strict=True):
        if row.dataset == "toy":
            assert cells[3:6] == [row.results(" %")["right"], "", ""]
        else:
            assert cells[3:6] == ["", expected_cell(row), f"{row.regret:.1f}"]
    assert r"{lllrrrl}" in tables.accuracy_latex(rows)
    html = page.write_report(folder).read_text(encoding="utf-8")
    assert ">Accuracy and mean reward</h2>" in html
    assert "% right" in html
    assert "right so far (%)</text>" in html
    assert "mean reward so far</text>" in html
    alone = [record for record in records if record.dataset == "toy"]
    assert tables.header(tables.accuracy_rows(alone))[3:5] == ["right", "seeds"]
    assert tables.row_texts(tables.accuracy_rows(alone))[1][3] == tables.row_texts(rows)[9][3]


def record(method, seed, **values):
    """A record with only what tests of significance read."""
    common = {"id": "", "dataset": "d", "source": "", "scaling": "none", "preset": None, "params": {}, "steps": 9}
    common |= {"missing": "mcar:0.5", "delay": "fixed:0.0", "constant_arm": "a", "constant_accuracy": 0.5}
    common |= {"seconds": 1.0, "peak_memory_mb": None, "versions": {}, "method": method, "seed": seed}
    return RunRecord(**common | values)


def test_significance_is_tested_by_mean_reward_and_within_a_cost_weight():
    rng = np.random.default_rng(0)
    gains = {"best": 0.2, "second": 0.1, "third": 0.0}
    records = [
        record(
            method,
            seed,
            fingerprint=f"f{block}",
            cost_weight=weight,
            mean_reward=0.5 + gain - weight + 0.01 * rng.random(),
            regret=1.0,
            constant_reward=0.5,
            accuracy=0.9 - gain,  # the other way round
        )
        for block in range(4)
        for weight in (0.0, 0.4)
        for seed in range(3)
        for method, gain in gains.items()
    ]
    ranked = ranks.ranking(records)
    assert ranked.blocks == 8, "each cost weight is a setting of its own"
    assert list(ranked.mean_ranks) == ["best", "second", "third"]
    tests = {(test.better, test.worse): test for test in ranks.paired_tests(records)}
    assert set(tests) == {("best", "second"), ("best", "third"), ("second", "third")}
    assert tests["best", "third"].difference == pytest.approx(20, abs=1), "in hundredths"
    assert tests["best", "third"].p < 0.001


def test_runs_of_before_rewards_were_graded_are_not_compared_with_those_of_now(graded):
    _, records = graded
    before = [
        record("linucb", seed, fingerprint=records[0].fingerprint, dataset="graded", accuracy=0.7) for seed in (0, 1)
    ]
    rows = tables.accuracy_rows([*of(records, "linucb", 0.0), *before])
    assert [row.label for row in rows] == ["graded", "graded", "graded, one right arm", "graded, one right arm"]
    assert rows[-1].mean == pytest.approx(70)
    assert all(row.mean < 1 for row in rows[:2])
