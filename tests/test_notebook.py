"""The notebooks of `examples/gallery` run in a real kernel, and the outputs that are stored in them are those of today.

To store them anew: ``python examples/gallery/build.py``.
"""

import asyncio
import base64
import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

GALLERY = Path(__file__).parent.parent / "examples" / "gallery"
STORIES = [file.stem for file in sorted(GALLERY.glob("*.ipynb"))]
FIRST = "01-five-lines"


@pytest.fixture(scope="module")
def build():
    """The module of the script, whose folder is no package."""
    spec = importlib.util.spec_from_file_location("gallery_build", GALLERY / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.compile_kernels()
    return module


def executed(build, name):
    """A notebook as it is stored, as a kernel has left it, and as the script would store it."""
    stored = nbformat.read(GALLERY / f"{name}.ipynb", as_version=4)
    if absent := build.missing_data(stored):
        pytest.skip(f"{absent[0]} is not on this machine")
    raw = asyncio.run(build.execute(stored))
    return SimpleNamespace(stored=stored, raw=raw, fresh=build.tidy(raw))


def test_there_are_eight_and_the_list_names_each():
    assert [name[:2] for name in STORIES] == [f"{number:02}" for number in range(1, 9)]
    listed = re.findall(r"\]\((.+?)\.ipynb\)", (GALLERY / "README.md").read_text(encoding="utf-8"))
    assert listed == STORIES


@pytest.mark.parametrize("name", STORIES)
def test_every_notebook_runs_and_its_outputs_are_the_stored_ones(name, build):
    one = executed(build, name)
    assert build.differences(one.stored, one.fresh) == []
    assert build.problems(one.fresh, (GALLERY / f"{name}.ipynb").stat().st_size) == []
    if name == FIRST:  # which takes too long to be executed again
        every_object_is_shown_as_html(one.raw)
        progress_is_one_output_a_run_and_not_stored(one.raw, one.fresh)


@pytest.mark.parametrize("name", STORIES)
def test_every_notebook_has_a_title_outputs_and_no_links_that_lead_nowhere(name, build):
    stored = nbformat.read(GALLERY / f"{name}.ipynb", as_version=4)
    assert stored.cells[0].source.startswith("# ")
    assert 4 <= len(build.code_cells(stored)) <= 12
    assert all(cell.execution_count for cell in build.code_cells(stored))
    text = "\n".join(cell.source for cell in stored.cells if cell.cell_type == "markdown")
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", text):
        assert (GALLERY / re.sub(r"\s+", " ", target)).is_file(), target


def test_pictures_are_small_and_sharp(build):
    for name in STORIES:
        stored = nbformat.read(GALLERY / f"{name}.ipynb", as_version=4)
        outputs = [one for cell in build.code_cells(stored) for one in cell.outputs]
        for output in [one for one in outputs if "image/png" in one.get("data", {})]:
            assert base64.b64decode(output.data["image/png"]).startswith(b"\x89PNG")
            assert output.metadata["image/png"]["width"] <= 700  # as it is shown; it has twice as many pixels


def outputs(notebook, source):
    """The outputs of the cell with this piece of code, which is the only one."""
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and source in cell.source]
    return cell.outputs


def every_object_is_shown_as_html(notebook):
    for source, wanted in (
        ("taciturn.ViewUCB(", "3: &#x27;refund&#x27;, &#x27;order&#x27;, &#x27;human&#x27;"),
        ("silent.id, None", "1 rewarded, 1 silent"),
        ("silent.id, None", "of 1 category, 1 number, 1 text"),
        ("decision = ", "<strong>Decision 0: "),
        ("explain", "<strong>Why decision 1"),
        ("health", "<strong>Health after 600 decisions"),
        ("steps=600, seed=0)", "<strong>Stream of digits: 600 rounds"),
    ):
        assert wanted in outputs(notebook, source)[-1].data["text/html"]


def progress_is_one_output_a_run_and_not_stored(raw, tidied):
    *bars, picture = outputs(raw, "progress=True")
    assert len(bars) == 6
    assert all("600/600" in bar.data["text/html"] and "% right" in bar.data["text/html"] for bar in bars)
    (stored,) = outputs(tidied, "progress=True")
    assert "image/png" in picture.data
    assert "image/png" in stored.data


class TestDifferences:
    """What the script takes for another output."""

    def notebook(self, *outputs, made_with="numpy 1"):
        cell = nbformat.v4.new_code_cell("1 + 1", outputs=list(outputs))
        return nbformat.v4.new_notebook(cells=[cell], metadata={"made_with": [made_with]})

    def printed(self, text):
        return nbformat.v4.new_output("stream", name="stdout", text=text)

    def picture(self, png, text="<Figure size 10x10>"):
        return nbformat.v4.new_output("display_data", data={"image/png": png, "text/plain": text})

    def test_text_is_compared_exactly(self, build):
        stored = self.notebook(self.printed("61.2 % right\n"))
        assert build.differences(stored, self.notebook(self.printed("61.2 % right\n"))) == []
        (line,) = build.differences(stored, self.notebook(self.printed("61.3 % right\n")))
        assert "1 + 1" in line
        assert "61.2" in line
        assert "61.3" in line

    def test_with_other_libraries_or_data_digits_may_differ_but_nothing_else(self, build):
        stored = self.notebook(self.printed("from 61.2 to 63\n"))
        other = self.notebook(self.printed("from 9.15 to  7\n"), made_with="numpy 2")
        assert build.differences(stored, other) == []
        assert build.differences(stored, self.notebook(self.printed("up to 63\n"), made_with="numpy 2"))

    def test_pictures_only_have_to_be_there(self, build):
        stored = self.notebook(self.picture("abcd"))
        assert build.differences(stored, self.notebook(self.picture("efgh", "<Figure size 9x9>"))) == []
        assert build.differences(stored, self.notebook())
        assert build.differences(stored, self.notebook(self.picture("abcd"), self.picture("abcd")))

    def test_what_is_written_to_stderr_or_too_large_is_a_problem(self, build):
        warned = self.notebook(nbformat.v4.new_output("stream", name="stderr", text="careful\n"))
        assert build.problems(warned, 10) == ["it writes to stderr: careful"]
        assert build.problems(self.notebook(), build.LARGEST + 1) == ["it has 150001 bytes; 150000 are allowed"]


def test_without_its_data_a_notebook_is_kept(build, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TACITURN_DATA", str(tmp_path))
    monkeypatch.setattr("taciturn.datasets.fetch.cache_folder", lambda: tmp_path)
    file = tmp_path / "04-warfarin.ipynb"
    before = (GALLERY / file.name).read_bytes()
    file.write_bytes(before)
    assert asyncio.run(build.build(file, check=False, anew=False)) == []
    assert file.read_bytes() == before
    assert "taciturn datasets info warfarin" in capsys.readouterr().out


def test_a_cell_that_fails_is_one_line_and_nothing_is_written(build, tmp_path):
    file = tmp_path / "09-broken.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), file)
    before = file.read_bytes()
    assert asyncio.run(build.build(file, check=False, anew=False)) == ["09-broken: ZeroDivisionError: division by zero"]
    assert file.read_bytes() == before
