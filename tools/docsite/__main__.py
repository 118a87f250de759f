"""Builds the site: ``PYTHONPATH=tools python -m docsite [--out FOLDER] [--execute] [--store-pictures]``."""

import argparse
import shutil
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

EXECUTE = HOME / "examples" / "gallery" / "build.py"
"""Executes the notebooks of the gallery and stores their outputs."""


def main() -> int:
    """Build the site; returns 1 after the first problem, which was printed."""
    parser = argparse.ArgumentParser(prog="docsite", description="Build the site of the documentation.")
    parser.add_argument("--out", type=Path, default=HOME / "site", help="the folder to write, site/ by default")
    parser.add_argument("--execute", action="store_true", help="execute the notebooks of the gallery first")
    parser.add_argument("--stored-pictures", action="store_true", help="show the pictures of docs/, take none")
    parser.add_argument("--store-pictures", action="store_true", help="also write the pictures to docs/")
    chosen = parser.parse_args()
    if chosen.execute and subprocess.run([sys.executable, EXECUTE], check=False).returncode:
        return 1
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
    site = folder / "site"
    if not to_html(sources, folder / "doctrees", site):
        return 1
    llms.write(staging, site)
    problems = check.problems(site) or replace(chosen.out, site)
    for problem in problems:
        print(f"docsite: {problem}", file=sys.stderr)
    if not problems:
        pages = len(list(chosen.out.rglob("*.html")))
        print(f"{chosen.out / 'index.html'}: {pages} pages in {time.perf_counter() - began:.0f} s")
    return 1 if problems else 0


def replace(old: Path, new: Path) -> list[str]:
    """Put a new site into the place of an old one, none of whose pages stay; returns why not, if it is no site."""
    if old.exists() and any(old.iterdir()) and not (old / ".buildinfo").exists():
        return [f"{old} has other files than those of a site; another folder is needed for --out"]
    shutil.rmtree(old, ignore_errors=True)
    shutil.move(new, old)
    return []


def to_html(sources: Path, doctrees: Path, out: Path) -> bool:
    """Whether Sphinx has built the pages without a warning; all warnings are shown."""
    options = ["-W", "--keep-going", "-q", "-E", "-b", "html", "-c", str(Path(__file__).parent), "-d", str(doctrees)]
    return build_main([*options, str(sources), str(out)]) == 0


if __name__ == "__main__":
    sys.exit(main())
