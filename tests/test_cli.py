"""The command line, run as people run it."""

import json
import subprocess
import sys

import numpy as np
import pytest


def tacit(*arguments, cwd=None):
    command = [sys.executable, "-m", "tacit", *map(str, arguments)]
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


def test_run_on_your_own_file_and_resume(own_file, tmp_path):
    out = tmp_path / "results"
    arguments = ["run", "--data", own_file / "own.csv", "--label", "best", "--edges", own_file / "edges.csv"]
    arguments += ["--methods", "linucb,gcnucb", "--missing", "0,context:.5", "--seeds", "2", "--out", out, "--json"]
    first = tacit(*arguments)
    assert first.returncode == 0, first.stderr
    records = json.loads(first.stdout)
    assert len(records) == 8
    assert {record["missing"] for record in records} == {"mcar:0.0", "context:0.5"}
    assert all(record["accuracy"] > 0.4 for record in records)
    lines = (out / "runs.jsonl").read_text()
    assert [json.loads(line) for line in lines.splitlines()] == records
    again = tacit(*arguments)
    assert json.loads(again.stdout) == records
    assert (out / "runs.jsonl").read_text() == lines


def test_run_prints_a_table(own_file, tmp_path):
    result = tacit("run", "--data", own_file / "own.npz", "--methods", "linucb", "--seeds", 2, "--out", tmp_path)
    assert result.returncode == 0
    assert "linucb" in result.stdout
    assert "50%" in result.stdout
    assert "±" in result.stdout


def test_datasets():
    listed = {row["name"]: row for row in json.loads(tacit("datasets", "list", "--json").stdout)}
    assert set(listed) == {"digits", "cnae9", "internet-ads", "warfarin", "cora"}
    assert listed["digits"]["here"]
    assert listed["warfarin"]["terms"] == "CC BY-SA 4.0"
    assert "cnae9" in tacit("datasets").stdout
    assert {row["name"] for row in json.loads(tacit("datasets", "--json").stdout)} == set(listed)
    info = json.loads(tacit("datasets", "info", "digits", "--json").stdout)
    assert (info["rows"], info["features"], sum(info["arms"].values())) == (1797, 64, 1797)
    assert "scikit-learn" in tacit("datasets", "fetch", "digits").stdout


def test_demo_shows_a_table_and_draws_a_picture(tmp_path):
    result = tacit("demo", "--out", tmp_path / "demo", "--json")
    assert result.returncode == 0, result.stderr
    records = json.loads(result.stdout)
    assert [record["method"] for record in records] == ["linucb", "rogcn", "bilinucb-kmeans", "gcnucb"]
    assert (tmp_path / "demo" / "running-accuracy.png").stat().st_size > 10_000
    assert (tmp_path / "demo" / "running-accuracy.png").read_bytes().startswith(b"\x89PNG")


BAD = {
    "no such command": (["rn"], "No such command"),
    "missing option": (["run", "--methods", "linucb"], "--data"),
    "unknown method": (["run", "--data", "digits", "--methods", "linucbb", "--out", "o"], "did you mean 'linucb'"),
    "unknown data": (["run", "--data", "digit", "--methods", "linucb", "--out", "o"], "did you mean 'digits'"),
    "bad rate": (["run", "--data", "digits", "--methods", "linucb", "--missing", "1.5", "--out", "o"], "from 0 to 1"),
    "no file": (["run", "--data", "absent.csv", "--methods", "linucb", "--out", "o"], "no file absent.csv"),
    "bad preset": (["run", "--data", "digits", "--methods", "linucb", "--preset", "x", "--out", "o"], "unknown preset"),
    "empty list": (["run", "--data", "digits", "--methods", ",", "--out", "o"], "--methods is empty"),
    "unknown to fetch": (["datasets", "fetch", "mnist"], "unknown data set 'mnist'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(case, tmp_path):
    arguments, message = BAD[case]
    result = tacit(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert not list(tmp_path.iterdir()), "nothing was written"


@pytest.mark.parametrize(
    "command", [[], ["demo"], ["run"], ["datasets"], ["datasets", "list"], ["datasets", "fetch"], ["datasets", "info"]]
)
def test_help_has_an_example(command):
    result = tacit(*command, "--help")
    assert result.returncode == 0
    assert "Example" in result.stdout


def test_info_on_your_own_file(own_file):
    info = json.loads(tacit("datasets", "info", own_file / "own.csv", "--label", "best", "--json").stdout)
    assert (info["rows"], info["features"], info["edges"]) == (90, 5, None)


def test_nothing_at_all_shows_the_help():
    result = tacit()
    assert "Usage" in result.stdout
    assert result.stderr == ""


def test_demo_without_matplotlib_shows_the_table_and_says_what_is_missing(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ModuleNotFoundError('no', name='matplotlib')")
    folder = str(tmp_path)
    code = f"import sys; sys.path.insert(0, {folder!r}); sys.argv[1:] = ['demo', '--out', {folder!r}, '--json']"
    code += "; from tacit.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, len(json.loads(result.stdout))) == (2, 4)
    assert "pip install 'tacit[plot]'" in result.stderr


def test_version():
    assert tacit("--version").stdout.strip().count(".") == 2


def test_quick_paths_import_nothing_heavy():
    heavy = "{'numba', 'scipy', 'sklearn', 'matplotlib', 'pooch', 'requests'}"
    for quick in ("import tacit", "import tacit.cli"):
        code = f"{quick}; import sys; print({heavy} & set(sys.modules))"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert result.stdout.strip() == "set()", quick
