"""Runs, their records and `evaluate`."""

from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest

import taciturn
from taciturn.errors import TaciturnError, UnknownName
from taciturn.experiments.checks import toy_data
from taciturn.experiments.recorder import RUNS, read_correct, read_runs
from taciturn.experiments.runner import execute
from taciturn.experiments.spec import Experiment, expand
from taciturn.reports.tables import accuracy_rows


def experiment(**changes):
    base = {"datasets": [toy_data()], "methods": ["linucb", "rogcn"], "missing": [0.2, "reward:0.5"], "seeds": range(2)}
    return Experiment(**{**base, **changes})


def test_a_run_writes_one_record_and_one_trace_and_is_not_repeated(tmp_path):
    runs = expand(experiment())
    records = list(execute(runs, tmp_path))
    assert len({record.id for record in records}) == len(runs) == 8
    content = (tmp_path / RUNS).read_bytes()
    assert [record.id for record in read_runs(tmp_path)] == [record.id for record in records]
    for record in records:
        assert np.mean(read_correct(tmp_path, record.id)) == pytest.approx(record.accuracy)
        assert record.steps == 87
        assert set(record.versions) >= {"taciturn", "numpy", "python"}
    assert list(execute(runs, tmp_path)) == records
    assert (tmp_path / RUNS).read_bytes() == content, "nothing ran again"


def test_ids_are_equal_for_equal_runs_and_different_otherwise():
    def ids(**changes):
        return {run.id for run in expand(experiment(**changes))}

    base = ids()
    assert base == ids()
    assert base == ids(missing=["mcar:0.20", "reward:.5"]), "two spellings of one setting"
    assert len(expand(experiment(missing=[0.2, "0.20"], methods=["linucb", "linucb"]))) == 2, "each run once"
    assert len(expand(experiment(missing=[1 / 3, 0.333333], seeds=[0], methods=["linucb"]))) == 2
    other_data = toy_data(seed=9)
    for change in (
        {"seeds": [5, 6]},
        {"missing": [0.3]},
        {"params": {"ties": "first"}},
        {"delay": [3]},
        {"steps": 50},
        {"datasets": [other_data]},
    ):
        assert not base & ids(**change), change


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_an_incomplete_last_line_is_ignored_truncated_and_its_run_repeated(tmp_path, cut):
    runs = expand(experiment(missing=[0.2]))
    records = list(execute(runs, tmp_path))
    file = tmp_path / RUNS
    file.write_bytes(file.read_bytes()[:-cut])
    assert list(read_runs(tmp_path)) == records[:-1]
    again = list(execute(runs, tmp_path))
    assert [(record.id, record.accuracy) for record in again] == [(record.id, record.accuracy) for record in records]
    assert list(read_runs(tmp_path)) == again


def test_wrong_names_rates_and_folders_are_refused_before_anything_runs(tmp_path):
    with pytest.raises(UnknownName, match="linucb"):
        expand(experiment(methods=["linucb", "linuc"]))
    with pytest.raises(TaciturnError, match="rate from 0 to 1"):
        expand(experiment(missing=[2]))
    (tmp_path / "file").write_text("")
    with pytest.raises(TaciturnError, match="cannot write results"):
        list(execute(expand(experiment()), tmp_path / "file"))


def test_a_line_that_is_not_a_record_is_reported_with_its_number(tmp_path):
    (tmp_path / RUNS).write_text('{"hello": 1}\n')
    with pytest.raises(TaciturnError, match="line 1 is not a run"):
        list(execute(expand(experiment()), tmp_path))


def test_evaluate_refuses_an_agent_with_other_arms_than_the_stream():
    stream = taciturn.Stream(toy_data())
    with pytest.raises(TaciturnError, match="arms"):
        taciturn.evaluate(taciturn.LinUCB(arms=3), stream)
    with pytest.raises(taciturn.TaciturnError, match="in this order; given were Stream and LinUCB"):
        taciturn.evaluate(stream, taciturn.LinUCB(arms=3))


def test_a_trace_agrees_with_the_stream(capsys):
    stream = taciturn.Stream(toy_data(), missing=0.4, seed=0)
    trace = taciturn.evaluate(taciturn.LinUCB(arms=stream.arms), stream, progress=True)
    assert "87/87" in capsys.readouterr().err
    assert len(trace.arms) == len(trace.rewards) == len(trace.step_seconds) == len(stream)
    assert np.isnan(trace.rewards).sum() == round(0.4 * len(stream))
    truth = [stream.is_right(round, arm) for round, arm in zip(stream, trace.arms, strict=True)]
    assert trace.accuracy == np.mean(truth) == trace.running_accuracy[-1]
    observed = ~np.isnan(trace.rewards)
    np.testing.assert_array_equal(trace.rewards[observed], np.array(truth)[observed])
    assert trace.seconds >= trace.step_seconds.sum() > 0
    assert set(trace.arms) <= set(stream.arms)


def test_fresh_replaces_the_records_of_its_own_runs_only(tmp_path):
    others = list(execute(expand(experiment(methods=["rogcn"], missing=[0.2])), tmp_path))
    mine = expand(experiment(methods=["linucb"], missing=[0.2]))
    once = list(execute(mine, tmp_path, fresh=True))
    again = list(execute(mine, tmp_path, fresh=True))
    assert [record.accuracy for record in once] == [record.accuracy for record in again]
    assert [record.id for record in read_runs(tmp_path)] == [record.id for record in others + again]


def test_the_table_distinguishes_data_sets_of_equal_name_and_shows_the_constant_arm(tmp_path):
    records = list(execute(expand(experiment(datasets=[toy_data(), toy_data(seed=9)], missing=[0.2])), tmp_path))
    rows = accuracy_rows(records)
    assert [row.kind for row in rows] == ["constant arm", "method", "method"] * 2
    assert [row.method for row in rows[1:3]] == ["linucb", "rogcn"]
    assert rows[0].method == f"always {records[0].constant_arm}"
    assert rows[0].mean == pytest.approx(100 * np.mean([record.constant_accuracy for record in records[:2]]))
    assert all(row.missing == ("mcar", 0.2) and row.delay == ("fixed", 0) for row in rows)
    assert len({row.label for row in rows}) == 2
    assert all(row.runs == 2 for row in rows)
    by_hand = [100 * record.accuracy for record in records if record.method == "rogcn"][:2]
    assert rows[2].mean == pytest.approx(np.mean(by_hand))


def test_a_trace_names_arms_as_the_user_did():
    for arms in (["a", "b", "c"], [1, 2.5, "x"], [("a", 1), ("b", 2), 3]):
        stream = taciturn.Stream(replace(toy_data(), arms=arms))
        assert set(taciturn.evaluate(taciturn.LinUCB(arms=arms), stream).arms.tolist()) <= set(arms)


def test_delayed_rewards_are_delivered_in_the_order_of_their_delivery_steps():
    stream = taciturn.Stream(toy_data(), missing=0.3, seed=0, delay="uniform:6")
    decided, received = [], []

    class Recording(taciturn.LinUCB):
        def decide(self, x, **options):
            decision = super().decide(x, **options)
            decided.append(decision.id)
            return decision

        def feedback(self, id, reward):
            received.append((decided[-1], id, reward))
            super().feedback(id, reward)

    trace = taciturn.evaluate(Recording(arms=stream.arms), stream)
    assert len(received) > 60
    for now, id, reward in received:
        round = list(stream)[id - 3]
        assert now == id + stream.delay(round)
        assert reward == stream.respond(round, trace.arms[id - 3])
    assert [id for _, id, _ in received] != sorted(id for _, id, _ in received)


def test_a_full_disk_is_a_one_line_error_and_loses_no_record(tmp_path, monkeypatch):
    runs = expand(experiment(missing=[0.2]))
    first = next(execute(runs[:1], tmp_path))

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("taciturn.system.os.fsync", full)
    with pytest.raises(TaciturnError, match="cannot write results to .*No space left"):
        list(execute(runs, tmp_path))
    monkeypatch.undo()
    assert len(list(execute(runs, tmp_path))) == len(runs)
    assert next(read_runs(tmp_path)) == first


def test_a_folder_written_by_another_version_is_refused_and_unchanged(tmp_path):
    runs = expand(experiment(missing=[0.2]))
    list(execute(runs[:1], tmp_path))
    file = tmp_path / RUNS
    file.write_text(file.read_text().replace(f'"taciturn":"{version("taciturn")}"', '"taciturn":"0.0.1"'))
    before = file.read_bytes()
    with pytest.raises(TaciturnError, match="written by taciturn 0.0.1, this is .*; give another folder"):
        list(execute(runs, tmp_path))
    assert file.read_bytes() == before
