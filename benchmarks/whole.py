"""Time of the whole reproduction: `taciturn reproduce all --jobs 2` into an empty folder."""

import subprocess
import sys
import tempfile
from pathlib import Path

from common import Stopwatch, Table, main


def reproduce():
    watch = Stopwatch()
    taciturn = Path(sys.executable).with_name("taciturn")
    with tempfile.TemporaryDirectory() as folder, watch():
        subprocess.run([taciturn, "reproduce", "all", "--jobs", "2", "--out", folder], check=True)
    minutes = watch.laps[0] / 60
    return Table(
        "The whole reproduction",
        "`taciturn reproduce all --jobs 2`: Table 1, Table 2 and the figures, 690 runs.",
        ["minutes"],
        [[f"{minutes:.1f}"]],
    )


if __name__ == "__main__":
    main(reproduce)
