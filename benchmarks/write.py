"""Run the benchmarks, each in its own process, and write docs/performance.md with its pictures.

python benchmarks/write.py [PART …] [--short]

Without names all parts are run, but for the whole reproduction. What was measured is kept in benchmarks/results, and
the page written from it; sections of the page that were not measured stay, at its end.
"""

import argparse
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from common import Table, machine, markdown, versions

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
RESULTS = HERE / "results"
PARTS = {
    "words": [],
    "wide": [],
    "arms": [],
    "sketch": [],
    "first": [],
    "linucb": [],
    "gcnucb": [],
    "batches": [],
    "graph": [],
    "growth": [],
    "million": ["--upto", "100000"],  # a whole million takes most of an hour
    "hotspots": [],
}
HAS_SHORT_RUN = {"words", "wide", "arms", "first"}
HEAD = """# Performance

Time per step, compared with other libraries. Every comparison runs on one thread, over the same inputs, and checks that
the results are equal where the algorithms are. No time includes compilation but where it says so. Written by
`make bench`; the whole reproduction, which takes longer, is timed by `benchmarks/whole.py`.

{machine}; {versions}.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--short", action="store_true", help="fewer decisions, where a part has a short run")
    given = parser.parse_args()
    if unknown := set(given.parts) - PARTS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    RESULTS.mkdir(exist_ok=True)
    for part in given.parts or PARTS:
        options = [*PARTS[part], *["--short"] * (given.short and part in HAS_SHORT_RUN)]
        command = [sys.executable, HERE / f"{part}.py", "--json", RESULTS / f"{part}.json", *options]
        subprocess.run(command, check=True)
    write()


def write():
    """Write the page from all that was measured."""
    page, text = DOCS / "performance.md", []
    for part in PARTS:
        file = RESULTS / f"{part}.json"
        tables = [Table(**table) for table in json.loads(file.read_text(encoding="utf-8"))] if file.exists() else []
        text += [markdown(table) for table in tables]
        if tables and part in DRAWN:
            DRAWN[part](tables[0], DOCS / f"{part}.png")
            text.append(f"![{tables[0].title}: milliseconds per step]({part}.png)\n")
    written = {line for part in text for line in part.splitlines() if line.startswith("## ")}
    sections = re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    text += [section.rstrip() + "\n" for section in sections if section.splitlines()[0] not in written]
    head = HEAD.format(machine=machine(), versions=versions("taciturn", "numpy", "scipy", "numba"))
    page.write_text("\n".join([head, *text]), encoding="utf-8")
    print(f"{page} written, {datetime.now(UTC):%H:%M} UTC")


def draw_growth(table, target):
    """Draw milliseconds per step of every agent by number of contexts."""
    sizes = [int(name.removeprefix("t = ")) for name in table.head[1:-1]]
    lines = {
        f"{name} (t^{exponent})": [float(cell.split(" / ")[0]) for cell in cells]
        for name, *cells, exponent in table.rows
    }
    draw(target, "contexts", sizes, lines)


def draw_million(table, target):
    """Draw milliseconds per step of one agent by number of decisions, for each kind of contexts."""
    kind, size = table.head.index("contexts"), table.head.index("decisions")
    sizes = sorted({int(row[size]) for row in table.rows})
    lines = {
        f"{name}, {measure}": [float(row[table.head.index(measure)]) for row in table.rows if row[kind] == name]
        for name in dict.fromkeys(row[kind] for row in table.rows)
        for measure in ("mean", "median")
    }
    draw(target, "decisions", sizes, lines, logarithmic=False)


DRAWN = {"growth": draw_growth, "million": draw_million}


def draw(target, label, sizes, lines, *, logarithmic=True):
    """Draw milliseconds per step, logarithmic where they differ by orders of magnitude and else from 0 on."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name, milliseconds in lines.items():
        axes.plot(sizes[: len(milliseconds)], milliseconds, marker="o", label=name)
    axes.set_xscale("log")
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(label)
    axes.set_ylabel("milliseconds per step")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(target, dpi=140)


if __name__ == "__main__":
    main()
