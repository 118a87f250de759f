"""``python -m taciturn.warm [METHOD …]`` compiles all kernels into their cache: for images, or once installed.

The cache is where numba keeps it: beside the package, in the user's cache folder where that cannot be written to, or in
the folder that NUMBA_CACHE_DIR names. It holds for one kind of processor; on another one kernels are compiled anew.
"""

import sys
import time
from collections.abc import Sequence

from taciturn.agents.warm import compile_kernels
from taciturn.errors import TaciturnError
from taciturn.kernels.jit import say_nothing
from taciturn.registry import METHODS, unknown_name


def main(methods: Sequence[str]) -> int:
    """Compile the kernels of some methods, by default all, with a line for each; returns the exit code."""
    if set(methods) & {"-h", "--help"}:
        sys.stdout.write(f"python -m taciturn.warm [METHOD …]\n\nmethods, by default all: {', '.join(METHODS)}\n")
        return 0
    try:
        for name in methods:
            if name not in METHODS:
                raise unknown_name("method", name, METHODS)
        say_nothing()  # of compiling, which is what was asked for
        for name in methods or METHODS:
            before = time.monotonic()
            compile_kernels([name])
            sys.stdout.write(f"{name}: {time.monotonic() - before:.1f} s\n")
            sys.stdout.flush()
    except TaciturnError as error:
        sys.stderr.write(f"taciturn: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
