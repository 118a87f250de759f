"""Axes about the agent's life and the stream's: restart, bounded memory and drift."""

import json
import weakref
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taciturn
from cli_kit import taciturn as command_line
from oracles.zoo import few_trees
from taciturn.errors import TaciturnError
from taciturn.experiments.axes import parse_max_nodes, parse_restart
from taciturn.experiments.checks import toy_data
from taciturn.experiments.recorder import RUNS, read_runs, run_id
from taciturn.experiments.runner import execute
from taciturn.experiments.spec import Experiment, expand, read_spec
from taciturn.registry import METHODS
from taciturn.reports.page import write_report
from taciturn.reports.tables import accuracy_rows, header, row_texts

PLAIN = toy_data(40)
GRAPH = toy_data(40, edges=True)


@settings(max_examples=25)
@given(
    method=st.sampled_from(sorted(METHODS)),
    share=st.sampled_from([0, 0.2, 0.5, ".9", 1.0]),
    seed=st.integers(0, 9),
    data=st.sampled_from([PLAIN, GRAPH]),
    options=st.sampled_from([{}, {"max_nodes": 16}, {"expire_after": 3}, {"epsilon": 0.3}]),
    drift=st.sampled_from(["none", "labels", "features"]),
)
def test_a_restart_in_mid_stream_changes_no_decision(method, share, seed, data, options, drift):
    """With rewards pending, late and missing; the agent is saved, dropped and loaded."""
    stream = taciturn.Stream(data, 0.3, seed, delay="uniform:6", drift=drift)
    agents = [taciturn.make(method, arms=data.arms, seed=seed, **few_trees(method), **options) for _ in range(2)]
    whole = taciturn.evaluate(agents[0], stream)
    restarted = taciturn.evaluate(agents[1], stream, restart=share)
    np.testing.assert_array_equal(restarted.choices, whole.choices)
    np.testing.assert_array_equal(restarted.rewards, whole.rewards)
    if 0 < float(share) < 1:
        assert agents[1].next_id < agents[0].next_id, "another agent went on"


class Forgetful:
    """An agent that cannot be saved; it notes what happens to it."""

    lives: list = []  # noqa: RUF012 - for the tests

    def __init__(self, *, arms, seed=0):
        self.params, self.arm_names = {"arms": arms, "seed": seed}, tuple(arms)
        self.notes = SimpleNamespace(start=[], decided=[], neighbors=set(), answered=[])
        Forgetful.lives.append(self.notes)

    def warm_start(self, X0, y0, edges=None):
        self.notes.start.append(list(y0))
        return list(range(len(y0)))

    def decide(self, x, neighbors=None):
        id = len(self.arm_names) + len(self.notes.decided)
        self.notes.decided.append(id)
        self.notes.neighbors.update(neighbors or ())
        return taciturn.Decision(id, self.arm_names[0], np.zeros(3), np.zeros(3), 1.0)

    def feedback(self, id, reward):
        self.notes.answered.append(id)


def test_an_agent_that_cannot_be_saved_starts_afresh_from_the_labelled_start(tmp_path):
    runs = expand(Experiment(datasets=[GRAPH], methods=[f"{__name__}:Forgetful"], delay=[5], restart=[0.5], seeds=[0]))
    Forgetful.lives.clear()
    (record,) = execute(runs, tmp_path)
    assert record.error is None
    first, second = (life for life in Forgetful.lives if life.decided)
    assert first.start == second.start == [GRAPH.arms]
    assert (len(first.decided), len(second.decided)) == (18, 19)
    assert len(first.answered) == 18 - 5, "what was on its way is lost"
    assert second.answered == second.decided[: 19 - 5], "and not taken for an answer to another decision"
    assert second.neighbors <= {0, 1, 2, *second.decided}
    with pytest.raises(TaciturnError, match="a Forgetful cannot be saved; for a restart, anew"):
        taciturn.evaluate(Forgetful(arms=GRAPH.arms), taciturn.Stream(GRAPH), restart=0.5)


def experiment(**changes):
    base = {"datasets": [PLAIN], "methods": ["linucb", "majority"], "missing": [0.2], "seeds": range(2)}
    return Experiment(**{**base, **changes})


def test_ids_are_those_of_before_without_the_axes_and_new_ones_with_them():
    (run,) = expand(experiment(methods=["linucb"], seeds=[0]))
    before = run_id(
        fingerprint=PLAIN.fingerprint,
        method="linucb",
        code=None,
        params=run.params,
        missing="mcar:0.2",
        delay="fixed:0.0",
        seed=0,
        steps=None,
        taciturn=version("taciturn"),
    )
    assert run.id == before
    same = expand(experiment(methods=["linucb"], seeds=[0], drift=["none", "none:1"], restart=["none"]))
    assert [run.id for run in same] == [before]
    axes = {"drift": ["none", "labels", "labels:.5", "features:0.5"], "restart": ["none", ".5", 0.5, 1]}
    runs = expand(experiment(methods=["linucb"], seeds=[0], max_nodes=["none", 16, "20"], **axes))
    assert len({run.id for run in runs}) == 3 * 3 * 3
    bounded = expand(experiment(max_nodes=[16]))
    assert {run.id for run in bounded} == {run.id for run in expand(experiment(params={"max_nodes": 16}))}


def test_an_agent_whose_memory_cannot_be_bounded_is_left_out_with_the_reason():
    mine, reasons = f"{__name__}:Forgetful", []
    runs = expand(experiment(methods=["linucb", mine], max_nodes=["none", 16, 20]), on_left_out=reasons.append)
    assert reasons == [f"{mine} has no parameter max_nodes, so its memory cannot be bounded"]
    assert {(run.task.method, run.task.max_nodes) for run in runs} == {
        *(("linucb", bound) for bound in (None, 16, 20)),
        (mine, None),
    }
    with pytest.raises(TaciturnError, match="max_nodes"):
        expand(experiment(methods=[mine], max_nodes=[16]), on_left_out=reasons.append)


def test_records_and_tables_hold_the_axes_and_folders_of_before_are_read(tmp_path):
    plain = expand(experiment())
    (record, *_) = list(execute(plain, tmp_path))
    assert (record.drift, record.restart, record.max_nodes) == ("none:0.0", None, None)
    assert "also" not in header(accuracy_rows([record]))
    file = tmp_path / RUNS
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        del line["drift"], line["restart"]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert record in read_runs(tmp_path), "a line of before"
    more = expand(experiment(drift=["none", "labels:.25"], restart=["none", 0.5], max_nodes=["none", 16]))
    records = list(execute(more, tmp_path))
    assert len(list(read_runs(tmp_path))) == len(records) == 2 * 8 * 2, "what was there is not repeated"
    rows = accuracy_rows(records)
    assert len(rows) == 8 * 3
    index = header(rows).index("also")
    assert {texts[index] for texts in row_texts(rows)} == {
        ", ".join(part for part in (drift, restart, bound) if part)
        for drift in ("", "labels drift at 25%")
        for restart in ("", "restart at 50%")
        for bound in ("", "16 nodes")
    }
    page = write_report(tmp_path).read_text()
    assert "toy, 20% silent, labels drift at 25%, restart at 50%, 16 nodes" in page
    results = {(r.method, r.seed, r.drift, r.max_nodes, r.restart): r.accuracy for r in records}
    for (*others, restart), accuracy in results.items():
        assert restart is None or accuracy == results[*others, None]


def test_the_command_line_takes_the_axes(tmp_path):
    axes = ["--drift", "none,labels:.25", "--restart", "none,.5", "--max-nodes", "none,500"]
    options = ["--data", "digits", "--methods", "majority", "--steps", 40, "--seeds", 1, "--jobs", 1]
    ran = command_line(tmp_path, "run", *options, *axes, "--json")
    assert ran.returncode == 0, ran.stderr
    found = {(record.drift, record.restart, record.max_nodes) for record in read_runs(tmp_path / "results")}
    assert found == {(d, r, m) for d in ("none:0.0", "labels:0.25") for r in (None, 0.5) for m in (None, 500)}
    for flag, value in (("--drift", "label"), ("--restart", "2"), ("--max-nodes", "few"), ("--max-nodes", "3")):
        ran = command_line(tmp_path, "run", *options, flag, value)
        assert ran.returncode == 2
        assert len(ran.stderr.strip().splitlines()) == 1


def test_worker_processes_get_the_axes_too(tmp_path):
    runs = expand(experiment(drift=["labels"], restart=[0.5], max_nodes=[16], methods=["linucb"]))
    one = {record.id: record.accuracy for record in execute(runs, tmp_path / "one")}
    assert one == {record.id: record.accuracy for record in execute(runs, tmp_path / "two", jobs=2)}


@pytest.mark.parametrize("given", ["half", -1, 1.5, "nan", True, [0.5]])
def test_wrong_restarts_are_refused(given):
    with pytest.raises(TaciturnError, match="restart=.*from 0 to 1"):
        parse_restart(given)


@pytest.mark.parametrize("given", ["few", 0, -3, 1.5, "1.5", True, "nan"])
def test_wrong_bounds_are_refused(given):
    with pytest.raises(TaciturnError, match="max_nodes=.*whole number"):
        parse_max_nodes(given)


def test_a_file_names_the_axes_alone_or_in_lists(tmp_path):
    file = tmp_path / "spec.toml"
    file.write_text('drift = "labels"\nrestart = ["none", 0.5]\nmax_nodes = 500\n')
    assert read_spec(file) == {"drift": ["labels"], "restart": ["none", 0.5], "max_nodes": [500]}
    file.write_text("restart = true\n")
    with pytest.raises(TaciturnError, match="restart"):
        read_spec(file)


def test_an_agent_may_bring_its_own_way_to_be_loaded():
    alive = []

    class Counting(Forgetful):
        def save(self, path):
            alive.append(weakref.ref(self))
            path.write_text(json.dumps([len(self.notes.decided)]))

        @classmethod
        def load(cls, path):
            assert alive[0]() is None, "the old one is dropped first"
            (count,) = json.loads(path.read_text())
            resumed = cls(arms=PLAIN.arms)
            resumed.notes.decided += [3 + i for i in range(count)]
            return resumed

    Forgetful.lives.clear()
    taciturn.evaluate(Counting(arms=PLAIN.arms), taciturn.Stream(PLAIN, delay=4), restart=0.5)
    first, second = Forgetful.lives
    assert second.start == []
    assert sorted(first.answered + second.answered) == [3 + i for i in range(37 - 4)], "nothing on its way is lost"
