"""The first call of a fresh installation: CPU seconds until a method has decided twice and learned once.

python benchmarks/first.py [--short]

Each method runs in a new process with an empty cache of compiled kernels, and in another with the cache that the first
has left. One run before all of them is not timed: it leaves the bytecode that an installation by pip has.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import Table, markdown

METHODS = ("linucb", "viewucb", "gcnucb", "rogcn", "bilinucb-gcn", "bilinucb-kmeans")
SHORT = ("linucb", "viewucb", "gcnucb")

CALLS = """
import json, sys, time
before = time.process_time()
import taciturn
method = sys.argv[1]
agent = taciturn.make(method, arms=3)
imported = time.process_time()
decision = agent.decide([0.5, 1.0, 0.0, 2.0])
agent.feedback(decision.id, 1)
agent.decide([1.0, 0.0, 0.5, 1.0])
print(json.dumps([imported - before, time.process_time() - imported]))
"""


def calls(method, cache):
    """Return CPU seconds of imports, and of the calls, in a new process with a folder for compiled kernels."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", CALLS, method]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def compare(methods):
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        calls(methods[-1], cache)  # which uses most modules
    for method in methods:
        with tempfile.TemporaryDirectory() as cache:
            _, empty = calls(method, cache)
            imports, full = calls(method, cache)
        rows.append([method, f"{imports:.2f}", f"{empty:.1f}", f"{full:.2f}"])
    return Table(
        "The first call",
        "CPU seconds of a new process: imports, and then a decision, a feedback and a decision, while nothing has been "
        "compiled yet (once for an installation, and after an upgrade) and once the kernels are in the cache. "
        "`python -m taciturn.warm` fills the cache beforehand.",
        ["method", "imports", "calls, empty cache", "calls, full cache"],
        rows,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--short", action="store_true", help=f"{', '.join(SHORT)} only")
    given = parser.parse_args()
    table = compare(SHORT if given.short else METHODS)
    print(markdown(table))
    if given.json:
        given.json.write_text(json.dumps([table._asdict()]), encoding="utf-8")


if __name__ == "__main__":
    main()
