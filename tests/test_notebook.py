"""`examples/first-steps.ipynb` runs in a real kernel, and the outputs that are stored in it are those of today.

To store them anew: ``jupyter execute --inplace examples/first-steps.ipynb``.
"""

import base64
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from taciturn.agents.warm import compile_kernels

FILE = Path(__file__).parent.parent / "examples" / "first-steps.ipynb"
LARGEST = 150_000
"""Bytes of the file, pictures included."""


@pytest.fixture(scope="module")
def stored():
    """The notebook as it is in the repository."""
    return nbformat.read(FILE, as_version=4)


@pytest.fixture(scope="module")
def executed(stored):
    """The same, executed from the first cell on."""
    compile_kernels(["viewucb", "linucb"])  # in the cache, so that the kernel need not say that it compiles them
    notebook = nbformat.from_dict(stored)
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return notebook


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook, source):
    """The outputs of the cell with this piece of code, which is the only one."""
    (cell,) = [cell for cell in code_cells(notebook) if source in cell.source]
    return cell.outputs


def kinds(notebook):
    """For each cell the kinds of its outputs and of their contents."""
    return [[(one.output_type, sorted(one.get("data", ()))) for one in cell.outputs] for cell in code_cells(notebook)]


def html(output):
    return output.data["text/html"]


def test_nothing_is_written_to_stderr_and_nothing_is_printed(executed):
    printed = [one for cell in code_cells(executed) for one in cell.outputs if one.output_type in ("stream", "error")]
    assert printed == []


def test_every_object_is_shown_as_html(executed):
    for source, wanted in (
        ("taciturn.ViewUCB(", "3: &#x27;refund&#x27;, &#x27;order&#x27;, &#x27;human&#x27;"),
        ("silent.id, None", "1 rewarded, 1 silent"),
        ("silent.id, None", "of 1 category, 1 number, 1 text"),
        ("decision = ", "<strong>Decision 0: "),
        ("explain", "<strong>Why decision 1"),
        ("health", "<strong>Health after 2 decisions"),
        ("load_dataset", "<strong>Dataset digits: 1797 rows"),
        ("Stream(", "<strong>Stream of digits: 600 rounds"),
        ('"viewucb", arms', "<strong>Trace of 600 steps, "),
    ):
        assert wanted in html(outputs(executed, source)[-1])


def test_progress_is_one_output_which_ends_at_the_last_step(executed):
    bar, trace = outputs(executed, "progress=True")
    assert "600/600" in html(bar)
    accuracy = re.search(r"Trace of 600 steps, ([\d.]+) % right", html(trace))[1]
    assert f"{accuracy}% right" in html(bar)
    assert float(accuracy) > 60


@pytest.mark.parametrize("source", ["trace.plot()", "taciturn.plot("])
def test_plots_are_pictures(executed, source):
    (picture,) = outputs(executed, source)
    assert base64.b64decode(picture.data["image/png"]).startswith(b"\x89PNG")


def test_the_stored_outputs_are_of_the_same_kinds_and_small(stored, executed):
    assert kinds(stored) == kinds(executed)
    assert FILE.stat().st_size < LARGEST
