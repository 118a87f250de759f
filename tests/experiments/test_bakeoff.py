"""The bake-off: its file, what is left out, and the command."""

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cli_kit import taciturn
from taciturn.datasets.catalog import CATALOG
from taciturn.errors import DataUnavailable, TaciturnError
from taciturn.experiments import bakeoff as baking
from taciturn.experiments.bakeoff_info import read_info
from taciturn.experiments.checks import toy_data
from taciturn.experiments.recorder import RUNS, read_runs
from taciturn.experiments.spec import Spec
from taciturn.registry import METHODS, PEERS

EXAMPLES = Path(__file__).parents[2] / "examples"
SILENCE = [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99]


def planned(spec, blocks, load=lambda *_: toy_data()):
    told = []
    return baking.Planner(spec, load, told.append).plan("own", blocks), told


def own(**keys):
    return baking.Bakeoff(size={}, **keys)


def test_the_built_in_file_names_methods_and_data_that_there_are():
    given = baking.read_bakeoff()
    names = {*METHODS, *PEERS}
    for size in ("quick", "default", "full"):
        for block in given.blocks(size).values():
            assert set(block.methods) <= names
            assert set(block.data) <= CATALOG.keys()
    assert set(given.tuned_on) <= CATALOG.keys()
    for method, of_method in given.reasons().items():
        assert method in names
        assert of_method.keys() <= CATALOG.keys()


def test_the_default_size_has_every_axis_and_every_peer():
    blocks = baking.read_bakeoff().blocks("default")
    assert blocks["silence"].missing == SILENCE
    assert len(blocks["silence"].data) >= 12
    assert {*PEERS} <= {method for block in blocks.values() for method in block.methods}
    assert {kind.partition(":")[0] for kind in blocks["mechanism"].missing} == {"context", "reward"}
    assert blocks["delay"].delay != [0]
    assert set(blocks["drift"].drift) == {"labels", "features"}
    assert blocks["memory"].max_nodes != ["none"]
    assert blocks["restart"].restart != ["none"]
    for name in ("mechanism", "delay", "drift", "memory", "restart"):
        rates = {float(str(kind).rpartition(":")[2]) for kind in blocks[name].missing}
        assert rates <= set(SILENCE), "there is a run without the setting to compare with"


def test_every_run_comes_once_and_the_first_seed_of_all_before_the_second():
    blocks = {
        "one": Spec(data=["toy"], methods=["linucb", "knn"], missing=[0.0, 0.5], seeds=2),
        "two": Spec(data=["toy"], methods=["linucb"], missing=[0.5, 0.9], seeds=3),
    }
    (runs, info), told = planned(own(), blocks)
    assert told == []
    assert len(runs) == len({run.id for run in runs}) == 2 * 2 * 2 + 3 + 1
    assert all(one.task.seed <= two.task.seed for one, two in pairwise(runs))
    assert info.left_out == {}


def test_blocks_get_the_data_in_their_own_form_each_loaded_once():
    """A data set was loaded as the first block that names it says, and the others got the same."""
    loaded = []

    def load(name, block):
        loaded.append((name, block.row_scaling, block.label))
        return toy_data()

    forms = [{}, {"scaling": "l1"}, {"label": "best"}, {}]
    blocks = {str(i): Spec(data=["toy"], methods=["linucb"], seeds=1, **form) for i, form in enumerate(forms)}
    planned(own(), blocks, load)
    assert loaded == [("toy", "none", None), ("toy", "l1", None), ("toy", "none", "best")]


def test_what_is_not_here_or_left_out_on_purpose_is_not_run_and_said_once(monkeypatch):
    monkeypatch.setitem(PEERS, "absent", PEERS["vw-bag"]._replace(package="no-such-package"))

    def load(name, _):
        if name == "gone":
            raise DataUnavailable("gone: it is not here")
        return toy_data()

    reason = baking.LeftOut(methods=["knn", "logreg"], data=["toy", "gone"], reason="too slow")
    blocks = {name: Spec(data=["toy", "gone"], methods=["linucb", "knn", "absent"], seeds=1) for name in ("one", "two")}
    (runs, info), told = planned(own(left_out=[reason]), blocks, load)
    assert [run.task.method for run in runs] == ["linucb"]
    assert info.left_out == {}, "knn ran nowhere, so that there is no row that lacks cells"
    assert len(told) == 2
    assert told[0] == "gone: it is not here"
    assert "no-such-package" in told[1]
    with pytest.raises(TaciturnError, match="nothing is left to run"):
        planned(own(left_out=[reason]), {"one": Spec(data=["gone"], methods=["linucb"])}, load)


def test_reasons_are_kept_for_methods_that_run_elsewhere():
    def load(name, _):
        return replace(toy_data(seed=len(name)), name=name)

    reason = baking.LeftOut(methods=["knn"], data=["first", "other"], reason="too slow")
    blocks = {"one": Spec(data=["first", "second"], methods=["linucb", "knn"], seeds=1)}
    (runs, info), _ = planned(own(left_out=[reason], tuned_on=["second"]), blocks, load)
    assert {(run.dataset.name, run.task.method) for run in runs} == {
        ("first", "linucb"),
        ("second", "linucb"),
        ("second", "knn"),
    }
    assert info.left_out == {"knn": {"first": "too slow"}}
    assert info.tuned_on == ["second"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "size"),
        ("size = 3", "size"),
        ('speed = "high"\n[size.default.one]\ndata = "digits"\nmethods = "linucb"', "speed"),
        ('[size.quick.one]\ndata = "digits"\nmethods = "linucb"', "unknown size 'default'"),
        ('[size.default.one]\ndata = "digits"', "[size.default.one]: methods is missing"),
        ('[size.default.one]\ndata = []\nmethods = "linucb"', "[size.default.one]: data is missing"),
        ('[size.default.one]\ndata = "digits"\nmethods = "@ours"', "unknown group 'ours'"),
        ('[size.default.one]\ndata = "digits"\nmethods = "linucb"\nmising = 0.5', "did you mean 'missing'?"),
        ('[size.default.one]\ndata = "digits"\nmethods = "linucb"\nseeds = "many"', "[size.default.one]"),
        ('[size.default.one]\ndata = "digits"\nmethods = "linucbb"', "did you mean 'linucb'?"),
        ('[size.default.one]\ndata = "digitz"\nmethods = "linucb"', "did you mean 'digits'?"),
        ("not toml at all", "not a TOML file"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path, text, message):
    (tmp_path / "mine.toml").write_text(text)
    done = taciturn(tmp_path, "bakeoff", "mine.toml", "--jobs", "1")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


@pytest.fixture
def mine(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    np.savez(tmp_path / "mine.npz", X=rng.random((60, 5)) + 2 * np.eye(5)[y], y=y)
    (tmp_path / "mine.toml").write_text(
        'title = "Mine"\ntuned_on = ["wine"]\n[groups]\nsome = ["linucb", "knn"]\n'
        '[size.default.one]\ndata = ["iris", "wine"]\nmethods = ["@some", "viewucb"]\nmissing = [0, 0.5]\n'
        "steps = 30\nseeds = 2\n"
    )
    return tmp_path


def test_the_command_writes_a_leaderboard_and_goes_on_where_it_stopped(mine):
    words = ["bakeoff", "mine.toml", "--jobs", "1", "--out", "results"]
    done = taciturn(mine, *words)
    assert done.returncode == 0, done.stderr
    assert "viewucb" in done.stdout
    results = mine / "results"
    board = json.loads((results / "leaderboard.json").read_text(encoding="utf-8"))
    assert board["title"] == "Mine"
    assert board["size"] == "own"
    assert (results / "leaderboard.html").exists()
    assert read_info(results).tuned_on == ["wine"]
    assert len(list(read_runs(results))) == 2 * 3 * 2 * 2
    lines = (results / RUNS).read_bytes().splitlines(keepends=True)
    (results / RUNS).write_bytes(b"".join(lines[:-3]) + lines[-3][:20])  # killed while it wrote
    again = taciturn(mine, *words)
    assert again.returncode == 0
    assert {record.id for record in read_runs(results)} == {json.loads(line)["id"] for line in lines}
    assert json.loads((results / "leaderboard.json").read_text())["ranks"] == board["ranks"]


def test_own_data_methods_and_a_program_enter(mine):
    shutil.copy(EXAMPLES / "counts.sh", mine / "agent.sh")
    words = ["bakeoff", "mine.toml", "--data", "mine.npz", "--methods", "linucb,viewucb", "--seeds", "1"]
    words += ["--agent", "command:sh agent.sh", "--steps", "20", "--jobs", "1", "--out", "results", "--json"]
    done = taciturn(mine, *words)
    assert done.returncode == 0, done.stderr
    board = json.loads(done.stdout)
    libraries = {method["name"]: method["library"] for method in board["methods"]}
    assert libraries == {"linucb": "taciturn", "viewucb": "taciturn", "command:sh agent.sh": "yours"}
    assert [data["name"] for data in board["data"]] == ["mine"]
    assert len(board["cells"]) == 3 * 2


def test_the_file_to_cut_down_is_printed(tmp_path):
    done = taciturn(tmp_path, "bakeoff", "--print-spec")
    assert done.returncode == 0
    (tmp_path / "copy.toml").write_text(done.stdout, encoding="utf-8")
    assert baking.read_bakeoff(tmp_path / "copy.toml") == baking.read_bakeoff()


def test_two_sizes_at_once_are_refused(tmp_path):
    done = taciturn(tmp_path, "bakeoff", "--quick", "--full")
    assert done.returncode == 2
    assert "give one of them" in done.stderr
