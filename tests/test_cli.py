"""The command line: in this process where the process is not the point."""

import io
import json
import subprocess
import sys
import threading
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from rich.console import Console

from cli_kit import taciturn
from rewards_kit import graded_data
from taciturn.cli import paper, running
from taciturn.cli.commands import run_command
from taciturn.datasets import catalog
from taciturn.experiments import bakeoff as baking
from taciturn.experiments.recorder import RUNS, RunRecord, read_runs
from taciturn.reports.tables import accuracy_table


def in_a_process(*arguments, cwd=None):
    command = [sys.executable, "-m", "taciturn", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


@pytest.fixture(scope="module")
def own_file(tmp_path_factory):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    X = rng.random((90, 5)) + 2 * np.eye(5)[y]
    folder = tmp_path_factory.mktemp("own")
    np.savez(folder / "own.npz", X=X, y=y)
    rows = "\n".join(
        ",".join(f"{value:.3f}" for value in row) + f",arm{label}" for row, label in zip(X, y, strict=True)
    )
    (folder / "own.csv").write_text("a,b,c,d,e,best\n" + rows + "\n")
    (folder / "edges.csv").write_text("\n".join(f"{i},{i + 3}" for i in range(0, 80, 2)))
    return folder


def test_run_on_an_own_file_and_run_again_from_the_records(own_file, tmp_path):
    out = tmp_path / "results"
    arguments = ["run", "--data", own_file / "own.csv", "--label", "best", "--edges", own_file / "edges.csv"]
    arguments += ["--methods", "linucb,gcnucb", "--missing", "0,context:.5", "--seeds", "2", "--out", out, "--json"]
    first = in_a_process(*arguments)
    assert first.returncode == 0, first.stderr
    records = json.loads(first.stdout)
    assert len(records) == 8
    assert {record["missing"] for record in records} == {"mcar:0.0", "context:0.5"}
    assert all(record["accuracy"] > 0.4 for record in records)
    content = (out / RUNS).read_bytes()
    written = {record.id: msgspec.to_builtins(record) for record in read_runs(out)}
    assert written == {record["id"]: record for record in records}
    again = taciturn(tmp_path, *arguments)
    assert json.loads(again.stdout) == records
    assert (out / RUNS).read_bytes() == content


def test_what_runs_beside_others_begins_once_after_its_share_of_them(monkeypatch, tmp_path):
    begun, finished = [], 0

    def execute(runs, *_, **__):
        nonlocal finished
        for run in runs:
            finished += 1
            yield SimpleNamespace(id=run.id, dataset="d", method="m", result=None, measure=None)
            if finished == 3:
                assert has_begun.wait(60)

    def begin():
        begun.append(finished)
        has_begun.set()

    has_begun = threading.Event()
    monkeypatch.setattr(running.runner, "execute", execute)
    runs = [SimpleNamespace(id=str(i)) for i in range(6)]
    records = running.run_all(runs, tmp_path, jobs=2, quiet=True, meanwhile=begin, after=0.5)
    assert [record.id for record in records] == list("012345")
    assert begun == [3]


def test_context_spaces_that_could_not_be_made_beside_the_runs_are_made_after_them(monkeypatch, tmp_path):
    calls = []

    def write_spaces(folder, data, *, steps):
        calls.append((folder, data.name, steps))
        if len(calls) == 1:
            raise MemoryError("no room for both")

    drawn = []
    monkeypatch.setattr(paper.reproducing, "write_spaces", write_spaces)
    monkeypatch.setattr(paper.figures, "draw_space", lambda file, method, _: drawn.append((file.name, method)))
    data = SimpleNamespace(name="cnae9")
    spaces = paper._Spaces(tmp_path, [SimpleNamespace(name="cora"), data], paper.Part.all, quick=False)
    spaces.try_to_draw()
    assert drawn == []
    spaces.draw()
    spaces.draw()
    assert calls == [(tmp_path, "cnae9", None)] * 2
    assert drawn == [("linucb.npz", "linucb"), ("gcnucb.npz", "gcnucb")]
    assert paper._Spaces(tmp_path, [data], paper.Part.table1, quick=False).data is None


def test_flags_take_precedence_over_the_spec_file(own_file, tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(
        f'data = ["{own_file / "own.npz"}"]\nmethods = "linucb"\nmissing = [0.5]\nseeds = 3\n[params]\nalpha = 0.1\n'
    )
    flags = ["--delay", "geometric:5", "--seeds", 1, "--steps", 40, "--out", "o", "--jobs", 1, "--json"]
    result = taciturn(tmp_path, "run", spec, *flags)
    (record,) = json.loads(result.stdout)
    assert (record["delay"], record["steps"], record["params"]["alpha"]) == ("geometric:5.0", 40, 0.1)


OWN_AGENT = """
import taciturn

class Mine(taciturn.LinUCB):
    pass

class Fails(taciturn.LinUCB):
    def decide(self, x, **options):
        raise RuntimeError("cannot decide")

class FailsLate(taciturn.LinUCB):
    def decide(self, x, **options):
        decision = super().decide(x, **options)
        if decision.id > 30 and self.seed == 1:
            raise RuntimeError("stopped")
        return decision
"""


def test_an_own_agent_is_checked_and_compared_with_other_methods(own_file, tmp_path):
    (tmp_path / "mine.py").write_text(OWN_AGENT)
    arguments = ["run", "--data", own_file / "own.npz", "--methods", "linucb", "--seeds", 2, "--out", "o", "--json"]
    records = json.loads(in_a_process(*arguments, "--agent", "mine:Mine", cwd=tmp_path).stdout)
    accuracies = {(record["method"], record["seed"]): record["accuracy"] for record in records}
    assert accuracies["mine:Mine", 1] == accuracies["linucb", 1]
    for agent, message in (
        ("mine:Fails", "RuntimeError: cannot decide"),
        ("mine:Absent", "no agent at"),
        ("absent:A", "no agent"),
    ):
        refused = in_a_process(*arguments, "--agent", agent, cwd=tmp_path)
        assert refused.returncode == 2
        assert message in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failed_run_is_recorded_repeated_next_time_and_does_not_stop_the_others(own_file, tmp_path, jobs):
    (tmp_path / "mine.py").write_text(OWN_AGENT)
    arguments = ["run", "--data", own_file / "own.npz", "--agent", "mine:FailsLate", "--seeds", 3, "--out", "o"]
    arguments += ["--json", "--jobs", jobs]
    result = in_a_process(*arguments, cwd=tmp_path)
    assert result.returncode == 1
    assert "1 of 3 runs failed" in result.stderr
    assert "RuntimeError: stopped" in result.stderr
    records = json.loads(result.stdout)
    assert [record["error"] is None for record in records] == [True, False, True]
    assert "in decide" in records[1]["details"]
    (tmp_path / "mine.py").write_text(OWN_AGENT.replace('raise RuntimeError("stopped")', "pass"))
    repeated = json.loads(in_a_process(*arguments, cwd=tmp_path).stdout)
    assert all(record["error"] is None for record in repeated)


def test_runs_of_other_experiments_in_the_folder_are_kept_and_mentioned(own_file, tmp_path):
    arguments = ["run", "--data", own_file / "own.npz", "--methods", "linucb", "--out", tmp_path, "--jobs", 1]
    taciturn(tmp_path, *arguments, "--seeds", 2)
    result = taciturn(tmp_path, *arguments, "--seeds", 1)
    assert "also holds 1 runs of other experiments; they are kept" in result.stderr
    assert len(list(read_runs(tmp_path))) == 2


def test_run_prints_a_table(own_file, tmp_path):
    arguments = ["run", "--data", own_file / "own.npz", "--methods", "linucb", "--seeds", 2, "--jobs", 1]
    result = taciturn(tmp_path, *arguments, "--out", "o")
    assert result.returncode == 0
    assert "linucb" in result.stdout
    assert "50%" in result.stdout
    assert "95 % interval" in result.stdout
    assert "±" not in result.stdout


def test_datasets_are_listed_described_and_fetched(tmp_path):
    listed = {row["name"]: row for row in json.loads(taciturn(tmp_path, "datasets", "list", "--json").stdout)}
    assert set(listed) == set(catalog.CATALOG)
    assert listed["digits"]["here"]
    assert listed["warfarin"]["terms"] == "CC BY-SA 4.0"
    assert "cnae9" in taciturn(tmp_path, "datasets").stdout
    assert {row["name"] for row in json.loads(taciturn(tmp_path, "datasets", "--json").stdout)} == set(listed)
    info = json.loads(taciturn(tmp_path, "datasets", "info", "digits", "--json").stdout)
    assert (info["rows"], info["features"], sum(info["arms"].values())) == (1797, 64, 1797)
    assert "scikit-learn" in taciturn(tmp_path, "datasets", "fetch", "digits").stdout


FEW_DIGITS = """
import dataclasses
from taciturn.datasets import catalog

def few(*arguments, load=catalog.load_dataset, **options):
    digits = load(*arguments, **options)
    return dataclasses.replace(digits, X=digits.X[:100], y=digits.y[:100])

catalog.load_dataset = few
"""
"""So that a demo takes seconds: how many digits there are is not the point."""


def test_demo_runs_five_methods_and_draws_a_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "load_dataset", catalog.load_dataset)
    exec(FEW_DIGITS, {})  # noqa: S102 - it is undone at the end
    result = taciturn(tmp_path, "demo", "--json", "--out", "demo")
    assert result.returncode == 0, result.stderr
    records = json.loads(result.stdout)
    assert [record["method"] for record in records] == ["linucb", "rogcn", "bilinucb-kmeans", "gcnucb", "viewucb"]
    terminal = Console(width=80, file=io.StringIO())
    terminal.print(accuracy_table(msgspec.convert(records, list[RunRecord])))
    *lines, caption = terminal.file.getvalue().splitlines()
    assert len(lines) == 7, "a name is broken in a terminal of 80 columns"
    assert caption.startswith("One seed: ")
    assert (tmp_path / "demo" / "running-accuracy.png").stat().st_size > 10_000
    assert (tmp_path / "demo" / "running-accuracy.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def rewards_file(tmp_path):
    """A file with a reward and a cost for every arm."""
    data = graded_data()
    np.savez(tmp_path / "routing.npz", X=data.contexts, rewards=data.rewards, costs=data.costs, arms=data.arms)
    return tmp_path / "routing.npz"


def test_rewards_and_costs_of_every_arm_from_file_to_report(rewards_file, tmp_path):
    run = ["run", "--data", rewards_file, "--methods", "linucb,viewucb", "--seeds", 2, "--out", "o", "--jobs", 1]
    shown = taciturn(tmp_path, *run)
    assert shown.returncode == 0, shown.stderr
    assert "mean reward" in shown.stdout
    assert "regret" in shown.stdout
    weighed = json.loads(taciturn(tmp_path, *run, "--cost-weight", ".3", "--json").stdout)
    assert {record["cost_weight"] for record in weighed} == {0.3}
    plain = json.loads(taciturn(tmp_path, *run, "--json").stdout)
    assert [record["cost_weight"] for record in plain] == [0.0] * 4
    assert len(list(read_runs(tmp_path / "o"))) == 8, "each cost weight once, and neither again"
    assert {record["constant_arm"] for record in plain} == {"dear"}
    assert {record["constant_arm"] for record in weighed} == {"cheap"}
    data = graded_data()
    for record in plain:
        assert record["constant_reward"] == pytest.approx(data.rewards[:, 2].mean())
        assert record["mean_reward"] + record["regret"] / 60 == pytest.approx(data.rewards.max(axis=1).mean())
        assert record["params"]["one_right_arm"] is False
        assert (
            f"{np.mean([one['mean_reward'] for one in plain if one['method'] == record['method']]):.3f} ["
            in shown.stdout
        )
    constant = f"{data.rewards[:, 2].mean():.3f}"
    assert f"{constant} [{constant}, {constant}]" in shown.stdout
    report = taciturn(tmp_path, "report", "o")
    assert report.returncode == 0, report.stderr
    assert "routing, cost weight 0.3" in (tmp_path / "o" / "tables.md").read_text(encoding="utf-8")


def test_a_cost_weight_can_stand_in_the_file_of_an_experiment(rewards_file, tmp_path):
    (tmp_path / "spec.toml").write_text(f'data = "{rewards_file}"\nmethods = "linucb"\nseeds = 1\ncost_weight = 1\n')
    arguments = ["run", "spec.toml", "--out", "o", "--jobs", 1, "--json"]
    (record,) = json.loads(taciturn(tmp_path, *arguments).stdout)
    assert record["cost_weight"] == 1.0
    (record,) = json.loads(taciturn(tmp_path, *arguments, "--cost-weight", "0").stdout)
    assert record["cost_weight"] == 0.0


def test_a_method_that_needs_the_right_arm_is_left_out_with_one_line(rewards_file, tmp_path):
    run = ["run", "--data", rewards_file, "--seeds", 1, "--out", "o", "--jobs", 1, "--json"]
    result = taciturn(tmp_path, *run, "--methods", "linucb,oracle-full")
    assert result.returncode == 0
    assert [record["method"] for record in json.loads(result.stdout)] == ["linucb"]
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("left out: oracle-full is told the right arm after every decision; routing has a reward")
    alone = taciturn(tmp_path, *run, "--methods", "oracle-full")
    assert alone.returncode == 2
    assert alone.stderr.startswith("taciturn: oracle-full is told the right arm")
    assert len(alone.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "weight", "message"),
    [
        ({}, "2", "cost_weight=2.0 is not allowed; a number from 0 to 1 is"),
        ({}, "nan", "cost_weight=nan is not allowed"),
        ({}, "much", "Invalid value for '--cost-weight'"),
        ({"costs": None}, ".1", "bad: cost_weight=0.1 needs rewards and costs of every arm; there are no costs"),
        ({"costs": -1.0}, ".1", "bad: costs of row 0, arm 0 are -1"),
        ({"rewards": np.nan}, "0", "bad: rewards of row 0, arm 0 are nan; from 0 to 1 is allowed"),
    ],
)
def test_wrong_rewards_costs_and_weights_are_one_line(tmp_path, changes, weight, message):
    data = graded_data()
    arrays = {"X": data.contexts, "rewards": data.rewards, "costs": data.costs, "arms": data.arms}
    for name, value in changes.items():
        arrays[name] = None if value is None else np.full((60, 3), value)
    folder = tmp_path / "data"
    folder.mkdir()
    np.savez(folder / "bad.npz", **{name: array for name, array in arrays.items() if array is not None})
    (tmp_path / "here").mkdir()
    run = ["run", "--data", folder / "bad.npz", "--methods", "linucb", "--out", "o", "--cost-weight", weight]
    result = taciturn(tmp_path / "here", *run)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert not list((tmp_path / "here").iterdir()), "nothing was written"


BAD = {
    "costs of none": (
        ["run", "--data", "digits", "--methods", "linucb", "--cost-weight", ".1", "--out", "o"],
        "digits: cost_weight=0.1 needs rewards and costs of every arm; there are no rewards",
    ),
    "no such command": (["rn"], "No such command"),
    "missing option": (["run", "--methods", "linucb"], "--data is missing or empty"),
    "unknown method": (["run", "--data", "digits", "--methods", "linucbb", "--out", "o"], "did you mean 'linucb'"),
    "unknown data": (["run", "--data", "digit", "--methods", "linucb", "--out", "o"], "did you mean 'digits'"),
    "bad rate": (["run", "--data", "digits", "--methods", "linucb", "--missing", "1.5", "--out", "o"], "from 0 to 1"),
    "no file": (["run", "--data", "absent.csv", "--methods", "linucb", "--out", "o"], "no file absent.csv"),
    "bad preset": (["run", "--data", "digits", "--methods", "linucb", "--preset", "x", "--out", "o"], "unknown preset"),
    "no spec": (["run", "absent.toml"], "no file absent.toml"),
    "bad delay": (
        ["run", "--data", "digits", "--methods", "linucb", "--delay", "late:3", "--out", "o"],
        "unknown kind of delay",
    ),
    "empty list": (["run", "--data", "digits", "--methods", ",", "--out", "o"], "--methods is missing or empty"),
    "unknown to fetch": (["datasets", "fetch", "imagenet"], "unknown data set 'imagenet'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(case, tmp_path):
    arguments, message = BAD[case]
    result = taciturn(tmp_path, *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert not list(tmp_path.iterdir()), "nothing was written"


@pytest.mark.parametrize(
    "command",
    [[], ["demo"], ["run"], ["route"], ["datasets"], ["datasets", "list"], ["datasets", "fetch"], ["datasets", "info"]],
)
def test_help_has_an_example(command, tmp_path):
    result = taciturn(tmp_path, *command, "--help")
    assert result.returncode == 0
    assert "Example" in result.stdout


def test_info_on_an_own_file(own_file):
    info = json.loads(taciturn(own_file, "datasets", "info", "own.csv", "--label", "best", "--json").stdout)
    assert (info["rows"], info["features"], info["edges"]) == (90, 5, None)
    assert [column["name"] for column in info["columns"]] == list("abcde")


def test_info_says_what_was_made_of_each_column(tmp_path):
    rows = ["41.5;DE;True;2024-02-29;parcel is late;a", "NA;FR;False;2025-01-02;no parcel;b", "-3;DE;?;2024-12-31;;a"]
    (tmp_path / "mine.csv").write_text("age;country;vip;since;note;best\n" + "\n".join(rows) + "\n")
    arguments = ["datasets", "info", "mine.csv", "--label", "best"]
    info = json.loads(taciturn(tmp_path, *arguments, "--json").stdout)
    facts = {column.pop("name"): column for column in info["columns"]}
    assert [column["kind"] for column in facts.values()] == ["number", "category", "flag", "date", "text"]
    assert [column["missing"] for column in facts.values()] == [1, 0, 1, 0, 1]
    assert [column["distinct"] for column in facts.values()] == [2, 2, 2, 3, 2]
    assert (facts["age"]["low"], facts["age"]["high"]) == (-3, 41.5)
    assert facts["since"]["high"] == "2025-01-02 00:00:00"
    assert facts["country"]["examples"] == ["DE", "FR"]
    assert "missing" in facts["age"]["becomes"]
    assert info["arms"] == {"a": 2, "b": 1}
    shown = taciturn(tmp_path, *arguments).stdout
    assert "a 66.7%" in shown
    for name, column in facts.items():
        assert name in shown
        assert column["kind"] in shown


def test_no_arguments_show_the_help(tmp_path):
    result = taciturn(tmp_path)
    assert "Usage" in result.stdout
    assert result.stderr == ""


def test_demo_without_matplotlib_prints_results_and_names_the_extra(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ModuleNotFoundError('no', name='matplotlib')")
    folder = str(tmp_path)
    code = f"import sys; sys.path.insert(0, {folder!r}); sys.argv[1:] = ['demo', '--out', {folder!r}, '--json']"
    code += FEW_DIGITS + "from taciturn.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, len(json.loads(result.stdout))) == (2, 5)
    assert "pip install '.[plot]' in a checkout" in result.stderr


def test_version_is_printed():
    assert in_a_process("--version").stdout.strip().count(".") == 2


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import taciturn", "numba scipy sklearn matplotlib pooch requests"),
        ("import taciturn.cli.commands", "numba scipy sklearn matplotlib pooch requests"),
        ("import taciturn.service.run", "sklearn scipy.linalg scipy.stats matplotlib pooch requests httpx pydantic"),
    ],
)
def test_an_import_loads_no_heavy_package_that_it_does_not_need(statement, heavy):
    code = f"{statement}; import sys; print(sorted(set({heavy.split()}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_an_interrupted_command_says_that_what_finished_is_kept(monkeypatch, capsys):
    """typer makes an exit code of Ctrl-C, so that the line was never printed."""

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(baking, "built_in_spec", interrupt)
    monkeypatch.setattr(sys, "argv", ["taciturn", "bakeoff", "--print-spec"])
    with pytest.raises(SystemExit) as ended:
        run_command()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "taciturn: interrupted; the runs that finished are kept\n"
