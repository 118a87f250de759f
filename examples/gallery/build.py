"""Execute the notebooks of this folder and store their outputs in them, which is what the site shows.

    python examples/gallery/build.py             # all of them
    python examples/gallery/build.py 02 05       # those that begin so
    python examples/gallery/build.py --anew 04   # store its pictures too where its texts are the same
    python examples/gallery/build.py --check     # write nothing, and fail where an output is not the stored one

A notebook whose texts are the stored ones is left alone, as pictures differ with every version of a library; and one
whose data is not on this machine. Kernels run with `PROCESSOR`, so that numbers are the same on every machine with the
same libraries; they are compiled once for it.
"""

import argparse
import asyncio
import base64
import io
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from PIL import Image

from taciturn.datasets import catalog
from taciturn.system import atomic_write

FOLDER = Path(__file__).parent
LARGEST = 150_000
"""Bytes of a file, pictures included."""

AT_ONCE = 2
TIMEOUT = 300
"""Seconds that a cell may take; all of them together take some fifteen on an idle core."""

METHODS = ("viewucb", "linucb")
"""Those that notebooks run and whose kernels take seconds to compile."""

PROCESSOR = {
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    "OPENBLAS_CORETYPE": "Nehalem",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
KERNEL = ["--InlineBackend.figure_formats=retina", "--log-level=ERROR"]
"""Pictures have twice the pixels that they are shown with, for phones and close looks."""

COLORS = 64
"""Of a picture: a chart needs no more, and takes a fifth of the bytes."""

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
SLOW = re.compile(r'<pre style="line-height:1.2">|the embedder wordllama took')
"""How outputs begin that appear where the machine is slow: progress bars, and a line about loading."""


def notebooks(beginnings=()):
    """Return the files whose names begin with one of these, or all."""
    found = sorted(FOLDER.glob("[0-9][0-9]-*.ipynb"))
    return [file for file in found if not beginnings or file.name.startswith(tuple(beginnings))]


def data_files(notebook):
    """Return the files of the data sets that a notebook loads, by their names; None where this machine has none.

    What scikit-learn includes has no file.
    """
    source = "\n".join(cell.source for cell in code_cells(notebook))
    names = re.findall(r'load_dataset\("([\w-]+)"', source)
    return {name: catalog.local_file(name) for name in names if catalog.CATALOG[name].files}


def missing_data(notebook):
    """Return the names of the data sets that a notebook loads and this machine has no file of."""
    return [name for name, file in data_files(notebook).items() if file is None]


def libraries():
    """Return all that decides how numbers are rounded, beside `PROCESSOR` and the code itself."""
    packages = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite")
    return ", ".join([f"{name} {version(name)}" for name in packages] + [platform.machine()])


def code_cells(notebook):
    """Return the cells that are executed."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def compile_kernels():
    """Compile what all notebooks need, so that none of them says that it does and two do not do it at once."""
    command = [sys.executable, "-m", "taciturn.warm", *METHODS]
    subprocess.run(command, env=environment(), stdout=subprocess.DEVNULL, check=True)


def environment():
    """Return the environment of the kernels, which run in other folders than this process."""
    data = os.environ.get("TACITURN_DATA")
    return os.environ | PROCESSOR | ({"TACITURN_DATA": str(Path(data).resolve())} if data else {})


async def execute(notebook):
    """Return the notebook as a kernel leaves it that executed every cell, in an empty folder."""
    fresh = nbformat.from_dict(notebook)
    for cell in code_cells(fresh):
        cell.outputs, cell.execution_count = [], None
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            fresh,
            timeout=TIMEOUT,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
            coalesce_streams=True,
            extra_arguments=KERNEL,
        )
        await client.async_execute(env=environment())
    return fresh


def tidy(notebook):
    """Return the notebook with small pictures, and without what differs from run to run: progress bars and versions."""
    tidied = nbformat.from_dict(notebook)
    files = [file.name for file in data_files(notebook).values()]  # of some data there is more than one edition
    tidied.metadata = nbformat.from_dict({**METADATA, "made_with": [libraries(), *files]})
    for cell in code_cells(tidied):
        cell.outputs = [output for output in cell.outputs if not SLOW.match(_shown(output))]
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = small_picture(output.data["image/png"])
    return tidied


def _shown(output):
    return output.get("text", "") or output.get("data", {}).get("text/html", "")


def small_picture(png):
    """Return a picture, in base64 as notebooks have it, with a palette of a few colors."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    small = io.BytesIO()
    picture.quantize(COLORS, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode("ascii")


def differences(stored, fresh):
    """Return a line for each cell whose outputs are not the stored ones.

    Texts are the same, character by character, where libraries and files of data are those of then, and but for their
    digits where they are others; pictures only have to be there.
    """
    same = stored.metadata.get("made_with") == fresh.metadata.get("made_with")
    cells = zip(code_cells(stored), code_cells(fresh), strict=True)
    pairs = [(now.source, _texts(then, exact=same), _texts(now, exact=same)) for then, now in cells]
    return [
        f"the outputs of {source.partition(chr(10))[0]!r} differ:\n  stored  {then}\n  now     {now}"
        for source, then, now in pairs
        if then != now
    ]


def _texts(cell, *, exact):
    """Return the kind of each output, and what it says in each form but as a picture."""
    found = []
    for output in cell.outputs:
        forms = output.get("data") or {"text": output.get("text", output.get("traceback", ""))}
        has_picture = "image/png" in forms  # whose text is only its size
        texts = {form: "" if has_picture else str(text) for form, text in sorted(forms.items())}
        found.append((output.output_type, output.get("name", ""), texts))
    return found if exact else re.sub(r"[-+]?[\d.,]+|\s+|\\n", "#", str(found))


def problems(notebook, size):
    """Return why a notebook must not be stored, a line each."""
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    said = [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    return [f"it writes to stderr: {text.strip()}" for text in said] + (
        [f"it has {size} bytes; {LARGEST} are allowed"] if size > LARGEST else []
    )


async def build(file, *, check, anew):
    """Execute one notebook, write or check it, and return what was wrong, a line each."""
    stored = nbformat.read(file, as_version=4)
    if absent := missing_data(stored):
        say(f"{file.stem}: kept as it is; `taciturn datasets info {absent[0]}` says how to get its data")
        return []
    started = time.monotonic()
    try:
        fresh = tidy(await execute(stored))
    except CellExecutionError as error:
        return [f"{file.stem}: {error.ename}: {error.evalue}"]
    text = nbformat.writes(fresh) + "\n"
    changed = differences(stored, fresh)
    wrong = problems(fresh, len(text.encode())) + (changed if check else [])
    if not check and not wrong and (changed or anew):
        atomic_write(file, text.encode())
    say(f"{file.stem}: {time.monotonic() - started:.0f} s, {len(text.encode()) // 1000} kB")
    return [f"{file.stem}: {line}" for line in wrong]


async def build_all(files, *, check, anew):
    """Execute notebooks, some at once, and return what was wrong."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(file):
        async with limit:
            return await build(file, check=check, anew=anew)

    return [line for lines in await asyncio.gather(*map(one, files)) for line in lines]


def say(line):
    """Print a line at once."""
    print(line, flush=True)


def main(arguments=None):
    """Return 0, or 1 where a notebook failed or has other outputs than those stored."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("beginning", nargs="*", help="the notebooks whose names begin so, as 02; by default all")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where outputs differ")
    parser.add_argument("--anew", action="store_true", help="write also where only pictures can differ")
    options = parser.parse_args(arguments)
    files = notebooks(options.beginning)
    if not files:
        parser.error(f"no notebook in {FOLDER.name} begins with {' or '.join(options.beginning)}")
    say(f"{len(files)} notebooks, {AT_ONCE} at once; kernels are compiled before, the first time for half a minute")
    compile_kernels()
    wrong = asyncio.run(build_all(files, check=options.check, anew=options.anew))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
