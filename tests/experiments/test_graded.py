"""Agents, runs and records on data with a reward for every arm."""

import sys
from dataclasses import replace
from importlib.metadata import version

import msgspec
import numpy as np
import pytest

import taciturn
from rewards_kit import ARMS, graded_data, worth_by_hand
from taciturn.errors import TaciturnError
from taciturn.experiments.checks import toy_data
from taciturn.experiments.evaluate import evaluate
from taciturn.experiments.recorder import RUNS, TRACES, RunRecord, read_correct, read_earned, read_runs, run_id
from taciturn.experiments.runner import execute
from taciturn.experiments.spec import Experiment, expand
from taciturn.registry import METHODS
from taciturn.streams.stream import Stream

NAMES = ["mean_reward", "regret", "constant_reward", "cost_weight"]


def experiment(**changes):
    base = {"datasets": [graded_data()], "methods": ["linucb", "majority"], "missing": [0.5], "seeds": range(2)}
    return Experiment(**{**base, **changes})


@pytest.mark.parametrize("weight", [0.0, 0.3])
@pytest.mark.parametrize("delay", [0, "uniform:4"])
def test_a_trace_has_what_the_arms_chosen_were_worth(weight, delay):
    data = graded_data(edges=[[0, 1], [4, 7], [7, 30]])
    stream = Stream(data, missing="reward:0.5", seed=1, cost_weight=weight, delay=delay)
    trace = evaluate(taciturn.LinUCB(arms=ARMS, one_right_arm=False), stream, progress=False)
    worth = [worth_by_hand(data, weight)[row] for row in stream.order]
    earned = [row[k] for row, k in zip(worth, trace.choices.tolist(), strict=True)]
    assert trace.graded
    np.testing.assert_allclose(trace.earned, earned, atol=1e-12)
    np.testing.assert_allclose(trace.best_earned, [max(row) for row in worth], atol=1e-12)
    silent = np.isnan(trace.rewards)
    assert 0 < silent.sum() < len(stream)
    np.testing.assert_array_equal(trace.rewards[~silent], trace.earned[~silent])
    np.testing.assert_array_equal(trace.correct, trace.earned == trace.best_earned)
    assert trace.mean_reward == pytest.approx(sum(earned) / len(earned))
    assert trace.running_reward[-1] == pytest.approx(trace.mean_reward)
    assert trace.running_reward[4] == pytest.approx(sum(earned[:5]) / 5)
    assert trace.regret == pytest.approx(sum(max(row) - got for row, got in zip(worth, earned, strict=True)))
    assert trace.regret > 0
    assert trace.best_constant_arm == stream.best_constant_arm


class Recording(taciturn.LinUCB):
    """Keeps what it is told."""

    def __post_init__(self):
        super().__post_init__()
        self.started, self.near, self.told = 0, [], {}

    def warm_start(self, X0, y0, edges=None):
        self.started += 1
        return super().warm_start(X0, y0, edges)

    def decide(self, x, neighbors=None, **options):
        self.near.append(neighbors)
        return super().decide(x, neighbors, **options)

    def feedback(self, id, reward):
        self.told[id] = reward
        super().feedback(id, reward)


def test_without_a_labelled_start_an_agent_is_not_warm_started_and_ids_follow_positions():
    stream = Stream(graded_data(edges=[[i, i + 1] for i in range(59)]), missing=0.3, seed=2)
    agent = Recording(arms=ARMS)
    trace = evaluate(agent, stream, progress=False)
    assert agent.started == 0
    assert agent.near == [list(round.neighbors) for round in stream], "the first decision has the id 0"
    told = [np.nan if agent.told[step] is None else agent.told[step] for step in range(60)]
    np.testing.assert_array_equal(told, trace.rewards)
    labelled = Recording(arms=toy_data().arms)
    evaluate(labelled, Stream(toy_data()), progress=False)
    assert labelled.started == 1


def test_where_one_arm_is_right_a_trace_has_earned_what_was_right():
    trace = evaluate(taciturn.LinUCB(arms=toy_data().arms), Stream(toy_data(), missing=0.4), progress=False)
    parts = (trace.arm_names, trace.choices, trace.rewards, trace.correct, trace.step_seconds, trace.seconds)
    for one in (trace, taciturn.Trace(*parts), taciturn.Trace(*parts, trace.params, trace.best_constant_arm)):
        assert not one.graded
        np.testing.assert_array_equal(one.earned, one.correct.astype(float))
        np.testing.assert_array_equal(one.best_earned, np.ones(87))
        assert one.earned.dtype == one.best_earned.dtype == np.float64
        assert one.mean_reward == one.accuracy
        assert one.regret == (~one.correct).sum()
        np.testing.assert_array_equal(one.running_reward, one.running_accuracy)


def test_a_callback_gets_what_was_earned_or_whether_it_was_right():
    earned, right = [], []
    trace = evaluate(taciturn.LinUCB(arms=ARMS), Stream(graded_data()), progress=earned.append)
    assert earned == trace.earned.tolist()
    trace = evaluate(taciturn.LinUCB(arms=toy_data().arms), Stream(toy_data()), progress=right.append)
    assert right == trace.correct.tolist()
    assert {type(value) for value in right} == {bool}


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"oracle-full"}))
def test_every_method_runs_on_graded_rewards(method, tmp_path):
    (record,) = execute(expand(experiment(methods=[method], seeds=[0])), tmp_path)
    assert record.error is None
    assert 0 < record.mean_reward < 1
    assert record.params["one_right_arm"] is False


def test_an_agent_that_is_told_the_right_arm_is_refused_or_left_out():
    stream = Stream(graded_data())
    with pytest.raises(TaciturnError, match="OracleFull is told the right arm .* graded has a reward for every arm"):
        evaluate(taciturn.make("oracle-full", arms=ARMS), stream)
    both = experiment(datasets=[graded_data(), toy_data()], methods=["oracle-full", "linucb"])
    with pytest.raises(TaciturnError, match="oracle-full is told the right arm"):
        expand(both)
    reasons = []
    runs = expand(both, on_left_out=reasons.append)
    assert len(reasons) == 1
    assert reasons[0].startswith("oracle-full is told the right arm after every decision; graded has")
    pairs = {(run.dataset.name, run.task.method) for run in runs}
    assert pairs == {("graded", "linucb"), ("toy", "linucb"), ("toy", "oracle-full")}
    with pytest.raises(TaciturnError, match="oracle-full is told the right arm") as error:
        expand(experiment(methods=["oracle-full"]), on_left_out=reasons.append)
    assert "\n" not in str(error.value)
    assert len(reasons) == 1


def test_agents_are_told_that_several_arms_can_be_good_unless_params_say_otherwise(tmp_path, monkeypatch):
    def params(**changes):
        (run,) = expand(experiment(**{"methods": ["linucb"], "seeds": [0], **changes}))
        return run.params

    assert params()["one_right_arm"] is False
    assert params(preset="paper")["one_right_arm"] is False
    assert params(params={"one_right_arm": True})["one_right_arm"] is True
    assert params(datasets=[toy_data()])["one_right_arm"] is True
    (tmp_path / "plainly.py").write_text(
        "import taciturn\n"
        "def plain(arms, seed): return taciturn.LinUCB(arms=arms, seed=seed)\n"
        "class Mine(taciturn.LinUCB): pass\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert params(methods=["plainly:plain"])["one_right_arm"] is True, "an agent that cannot be told is not"
    assert params(methods=["plainly:Mine"])["one_right_arm"] is False


def test_ids_of_runs_with_one_right_arm_are_those_of_before():
    for run in expand(experiment(datasets=[toy_data()], missing=[0.2, "reward:0.5"], delay=[0, 3], steps=50)):
        task = run.task
        assert run.id == run_id(
            fingerprint=toy_data().fingerprint,
            method=task.method,
            code=None,
            params=run.params,
            missing=task.missing,
            delay=task.delay,
            seed=task.seed,
            steps=50,
            taciturn=version("taciturn"),
        )


def test_ids_differ_by_cost_weight_and_from_those_of_before_rewards_were_graded():
    def ids(**changes):
        return {run.id for run in expand(experiment(**changes))}

    assert ids() == ids(cost_weight=0) == ids(cost_weight=0.0)
    assert ids(cost_weight=1) == ids(cost_weight=1.0)
    assert len(ids() | ids(cost_weight=0.1) | ids(cost_weight=0.2) | ids(cost_weight=1)) == 16
    (run,) = expand(experiment(methods=["linucb"], seeds=[0], params={"one_right_arm": True}))
    task = run.task
    before = {"fingerprint": task.fingerprint, "method": "linucb", "code": None, "params": run.params, "seed": 0}
    before |= {"missing": task.missing, "delay": task.delay, "steps": None, "taciturn": version("taciturn")}
    assert run.id != run_id(**before), "a run whose rewards were 0 and 1 is another"


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_records_have_rewards_regret_and_the_constant_arm_and_runs_are_not_repeated(tmp_path, weight):
    data = graded_data()
    runs = expand(experiment(cost_weight=weight, missing=[0.2, "reward:0.5"]))
    records = list(execute(runs, tmp_path))
    content = (tmp_path / RUNS).read_bytes()
    worth = np.array(worth_by_hand(data, weight))
    assert len(records) == 8
    for run, record in zip(runs, records, strict=True):
        stream = run.task.stream(data)
        assert (record.cost_weight, record.steps, record.cut_short) == (weight, 60, False)
        earned = read_earned(tmp_path, record.id)
        assert record.mean_reward == pytest.approx(earned.mean())
        assert record.regret == pytest.approx((stream.best_rewards - earned).sum())
        assert record.constant_reward == pytest.approx(worth.mean(axis=0).max())
        assert record.constant_arm == ARMS[worth.mean(axis=0).argmax()]
        assert record.constant_accuracy == stream.share_right(record.constant_arm)
        assert record.accuracy == pytest.approx(read_correct(tmp_path, record.id).mean())
        with np.load(tmp_path / TRACES / f"{record.id}.npz") as arrays:
            np.testing.assert_array_equal(arrays["best_earned"], stream.best_rewards)
    assert list(execute(runs, tmp_path)) == records
    assert (tmp_path / RUNS).read_bytes() == content, "nothing ran again"
    (tmp_path / RUNS).write_bytes(content[:-20])
    again = list(execute(runs, tmp_path))
    assert [(record.id, record.mean_reward) for record in again] == [(one.id, one.mean_reward) for one in records]


def test_records_and_traces_of_one_right_arm_have_no_rewards_of_every_arm(tmp_path):
    (record,) = execute(expand(experiment(datasets=[toy_data()], methods=["linucb"], seeds=[0])), tmp_path)
    assert [getattr(record, name) for name in NAMES] == [None, None, None, 0.0]
    with np.load(tmp_path / TRACES / f"{record.id}.npz") as arrays:
        assert set(arrays) == {"arm_names", "choices", "rewards", "correct", "step_seconds"}
    np.testing.assert_array_equal(read_earned(tmp_path, record.id), read_correct(tmp_path, record.id).astype(float))


def test_lines_of_before_are_read(tmp_path):
    (record,) = execute(expand(experiment(datasets=[toy_data()], methods=["linucb"], seeds=[0])), tmp_path)
    line = {name: value for name, value in msgspec.to_builtins(record).items() if name not in NAMES}
    (tmp_path / RUNS).write_bytes(msgspec.json.encode(line) + b"\n")
    assert list(read_runs(tmp_path)) == [record]
    assert isinstance(record, RunRecord)
    assert (record.measure.name, record.result) == ("right", record.accuracy)


def test_a_stream_is_cut_short_where_rows_are_left(tmp_path):
    cut = {
        steps: next(execute(expand(experiment(steps=steps, seeds=[0])), tmp_path)).cut_short for steps in (57, 59, 60)
    }
    assert cut == {57: True, 59: True, 60: False}


def test_a_cost_weight_that_cannot_be_is_refused_before_anything_runs():
    for changes, message in (
        ({"cost_weight": 2}, "cost_weight=2 is not allowed; a number from 0 to 1 is"),
        ({"cost_weight": "much"}, "cost_weight='much' is not allowed"),
        ({"cost_weight": 0.1, "datasets": [toy_data()]}, "toy: cost_weight=0.1 needs rewards and costs"),
        ({"cost_weight": 0.1, "datasets": [graded_data(costs=False)]}, "there are no costs"),
        ({"cost_weight": 0.1, "datasets": [replace_costs(-1.0)]}, "costs of row 0, arm 0 are -1"),
    ):
        with pytest.raises(TaciturnError, match=message) as error:
            expand(experiment(**changes))
        assert "\n" not in str(error.value)


def replace_costs(value):
    data = graded_data()
    return replace(data, X=data.contexts, costs=np.full((60, 3), value))


def test_real_prompts_are_routed_better_than_by_chance(real):
    data = real("model-routing")
    assert Stream(data).best_constant_arm[0] == "google/gemini-2.5-pro"
    stream = Stream(data, missing=0.5, seed=0, cost_weight=0.1, steps=1500)
    worth = np.array(worth_by_hand(data, 0.1))[stream.order]
    arm, mean = stream.best_constant_arm
    assert arm == "mistralai/mistral-large-2512", "a little worse, and far cheaper"
    assert mean == pytest.approx(worth.mean(axis=0).max())
    trace = evaluate(taciturn.LinUCB(arms=data.arms, one_right_arm=False, seed=0), stream, progress=False)
    np.testing.assert_allclose(trace.earned, worth[np.arange(1500), trace.choices], atol=1e-12)
    assert worth.mean() < trace.mean_reward < trace.best_earned.mean()
