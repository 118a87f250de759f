"""The paper's experiments, and the comparison with the printed tables."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console

from taciturn.contracts import Dataset
from taciturn.experiments.reproduce import paper_datasets, paper_experiments, write_spaces
from taciturn.experiments.runner import execute
from taciturn.experiments.spec import expand
from taciturn.reports import figures, paper


def stand_in(name, seed=0):
    """A small data set under the name of a real one, with as many arms as CNAE-9."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(180) % 9)
    X = rng.random((180, 12)) * 0.3
    X[np.arange(180), y] += 1
    return Dataset(name, sp.csr_matrix(X), y, [str(k) for k in range(1, 10)], source=f"{name}.test")


def test_each_part_of_the_paper_has_the_documented_number_of_runs():
    data = [stand_in(name, i) for i, name in enumerate(paper_datasets("all"))]

    def runs(what, datasets=data, *, quick=False):
        return {run.id for part in paper_experiments(what, datasets, quick=quick) for run in expand(part)}

    assert len(runs("table1")) == 4 * 3 * 5 * 10
    assert len(runs("table2")) == 3 * 4 * 10
    assert len(runs("figures")) == 5 * 10
    assert len(runs("all")) == 600 + 120 - 30, "bilinucb-kmeans on CNAE-9 is in both tables"
    assert runs("figures") <= runs("table1"), "figure a is drawn from runs of table 1"
    assert len(runs("all", quick=True)) == 690 / 10 * 2
    assert len(runs("all", data[1:])) == 450


def test_every_cell_is_compared_with_the_printed_one(tmp_path):
    (table2,) = paper_experiments("table2", [stand_in("cnae9")], quick=True)
    records = list(execute(expand(table2), tmp_path))
    cells = paper.comparison(records)
    assert {cell.table for cell in cells} == {"table1", "table2"}, "bilinucb-kmeans is in table 1 too"
    random75 = next(cell for cell in cells if (cell.method, cell.silent) == ("ilinucb-random", "75%"))
    assert (random75.printed, random75.printed_deviation, random75.runs) == (49.77, 4.68, 2)
    own = [record.accuracy for record in records if record.method == "ilinucb-random" and record.missing == "mcar:0.75"]
    assert random75.ours == pytest.approx(100 * np.mean(own))
    assert random75.verdict == "above"
    text = paper.comparison_markdown(cells)
    assert "### Table 2: cnae9" in text
    constant = [cell for cell in cells if cell.kind == "constant arm"]
    assert [(cell.table, cell.silent, cell.printed) for cell in constant] == [
        ("table1", silent, None) for silent in ("25%", "50%", "75%")
    ]
    assert text.count(f"| {constant[0].method} |") == 3
    assert text.count("| ilinucb-random |") == 3
    assert random75._replace(ours=50.0).verdict == "within"
    assert random75._replace(ours=40.0).verdict == "below"
    assert random75._replace(printed=None).difference is None


def shown(cells):
    """The comparison as a terminal of 80 columns shows it."""
    console = Console(width=80, file=io.StringIO())
    for table in paper.comparison_tables(cells):
        console.print(table)
    return console.file.getvalue()


def test_the_comparison_is_whole_in_a_terminal_of_80_columns():
    """Numbers were cut off for the sake of a column that said the same of all methods."""
    found = ("l1 rows, agents as they are", "method", 10, 34.7, 14.4, 38.1, 12.5)
    cells = [
        paper.Cell("table1", "cora", "25%", "always Neural_Networks", "", "constant arm", 10, 30.2, 0.0, None, None),
        *(paper.Cell("table1", "cora", "25%", method, *found) for method in ("linucb", "bilinucb-kmeans")),
    ]
    text = shown(cells)
    assert "…" not in text
    assert text.count("34.7 (14.4)") == text.count("38.1 (12.5)") == 2
    assert text.count("l1 rows") == 1
    others = shown([*cells, cells[1]._replace(scaling="none")])
    assert "none" in others, "each row says its scaling where these differ"


def test_context_spaces_are_projected_to_2d_and_drawn(tmp_path):
    write_spaces(tmp_path, stand_in("cnae9"), rows=40)
    for method, views in (("linucb", 1), ("gcnucb", 9)):
        file = tmp_path / "spaces" / f"{method}.npz"
        with np.load(file, allow_pickle=False) as arrays:
            assert arrays["points"].shape == (40 * views, 2)
            assert arrays["weights"].shape == (9, 2)
            assert len(arrays["truth"]) == len(arrays["arm"]) == 40 * views
        figures.draw_space(file, method, tmp_path / "space.png")
        assert (tmp_path / "space.png").read_bytes().startswith(b"\x89PNG")


LINUCB_ONLY = """
from taciturn.cli import main
from taciturn.registry import preset_file

printed = preset_file("paper")["printed"]
printed["table1"] = {name: {"linucb": printed["table1"][name]["linucb"]} for name in ("cnae9", "warfarin")}
main()
"""


def test_the_command_skips_unavailable_data_and_runs_the_rest(real_folder, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cnae+9.zip").symlink_to(real_folder / "cnae+9.zip")
    (tmp_path / "data" / "iwpc-warfarin.csv.gz").write_bytes(b"not gzip")
    command = [
        sys.executable,
        "-c",
        LINUCB_ONLY,
        "reproduce",
        "table1",
        "--quick",
        "--jobs",
        "1",
        "--json",
        "--out",
        "o",
    ]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        env={
            "TACITURN_DATA": str(tmp_path / "data"),
            "HOME": str(tmp_path),
            "PATH": "",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        },
    )
    assert result.returncode == 0, result.stderr
    assert {cell["dataset"] for cell in json.loads(result.stdout)} == {"cnae9"}
    assert result.stderr.startswith("skipped: ")
    assert "iwpc-warfarin.csv.gz: damaged" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert (tmp_path / "o" / "comparison.md").exists()
