"""Builds the site: ``PYTHONPATH=tools python -m docsite [--out FOLDER] [--store-pictures]``."""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sphinx.cmd.build import build_main

from docsite import check, llms, pictures
from docsite.layout import HOME
from docsite.reference import Undocumented
from docsite.staging import BrokenLink, Staging

EXECUTE = HOME / "examples" / "gallery" / "execute.py"
"""Executes the notebooks of the gallery and stores their outputs, if it is there."""


def main() -> int:
    """Build the site; returns 1 after the first problem, which was printed."""
    parser = argparse.ArgumentParser(prog="docsite", description="Build the site of the documentation.")
    parser.add_argument("--out", type=Path, default=HOME / "site", help="the folder to write, site/ by default")
    parser.add_argument("--execute", action="store_true", help="execute the notebooks of the gallery first")
    parser.add_argument("--stored-pictures", action="store_true", help="show the pictures of docs/, take none")
    parser.add_argument("--store-pictures", action="store_true", help="also write the pictures to docs/")
    chosen = parser.parse_args()
    if chosen.execute and EXECUTE.exists():
        subprocess.run([sys.executable, EXECUTE], check=True)
    with tempfile.TemporaryDirectory() as folder:
        return _build(Path(folder), chosen)


def _build(folder: Path, chosen: argparse.Namespace) -> int:
    """Write the sources into a folder, build the site from them and check it."""
    began = time.perf_counter()
    sources = folder / "sources"
    sources.mkdir()
    try:
        staging = Staging(HOME, sources)
        staging.write()
    except (BrokenLink, Undocumented) as error:
        print(f"docsite: {error}", file=sys.stderr)
        return 1
    if not chosen.stored_pictures:
        print(pictures.take(sources))
    if chosen.store_pictures:
        pictures.store(sources, HOME / "docs")
    if not to_html(sources, folder / "doctrees", chosen.out):
        return 1
    llms.write(staging, chosen.out)
    problems = check.problems(chosen.out)
    for problem in problems:
        print(f"docsite: {problem}", file=sys.stderr)
    if not problems:
        pages = len(list(chosen.out.rglob("*.html")))
        print(f"{chosen.out / 'index.html'}: {pages} pages in {time.perf_counter() - began:.0f} s")
    return 1 if problems else 0


def to_html(sources: Path, doctrees: Path, out: Path) -> bool:
    """Whether Sphinx has built the pages without a warning; all warnings are shown."""
    options = ["-W", "--keep-going", "-q", "-E", "-b", "html", "-c", str(Path(__file__).parent), "-d", str(doctrees)]
    return build_main([*options, str(sources), str(out)]) == 0


if __name__ == "__main__":
    sys.exit(main())
