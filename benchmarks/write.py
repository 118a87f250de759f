"""Run all benchmarks except the whole reproduction, each in its own process, and write docs/performance.md."""

import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from common import Table, machine, markdown, versions

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PARTS = ("linucb", "gcnucb", "graph", "growth", "hotspots")
HEAD = """# Performance

Time per step, compared with other libraries. Every comparison runs in one process, on one thread, over the same inputs,
and checks that the results are equal where the algorithms are. Written by `make bench`; the whole reproduction, which
takes longer, is timed by `benchmarks/whole.py`.

{machine}; {versions}.
"""


def main():
    tables = {}
    with tempfile.TemporaryDirectory() as folder:
        for part in PARTS:
            target = Path(folder) / f"{part}.json"
            subprocess.run([sys.executable, HERE / f"{part}.py", "--json", target], check=True)
            tables[part] = [Table(**table) for table in json.loads(target.read_text(encoding="utf-8"))]
    draw_growth(tables["growth"][0], DOCS / "growth.png")
    text = [HEAD.format(machine=machine(), versions=versions("taciturn", "numpy", "scipy", "numba"))]
    for part in PARTS:
        text += [markdown(table) for table in tables[part]]
        if part == "growth":
            text.append("![Milliseconds per step by number of contexts](growth.png)\n")
    page = DOCS / "performance.md"
    kept = page.read_text(encoding="utf-8").partition("## The first call")[1:] if page.exists() else ()
    page.write_text("\n".join(text) + "\n" * bool(kept) + "".join(kept), encoding="utf-8")
    print(f"{page} written, {datetime.now(UTC):%H:%M} UTC")


def draw_growth(table, target):
    """Draw milliseconds per step by number of contexts, on logarithmic axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    sizes = [int(name.removeprefix("t = ")) for name in table.head[1:-1]]
    for name, *cells, exponent in table.rows:
        milliseconds = [float(cell.split(" / ")[0]) for cell in cells]
        axes.loglog(sizes, milliseconds, marker="o", label=f"{name} (t^{exponent})")
    axes.set_xlabel("contexts")
    axes.set_ylabel("milliseconds per step")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(target, dpi=140)


if __name__ == "__main__":
    main()
