"""Test the oldest and the newest versions of dependencies that pyproject.toml allows: `make floors`.

The package, and the package with each of its extras, gets an environment of its own, since what one extra needs would
raise the floors of another. Environments are made by uv and removed afterwards.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
# What tests import whatever they test, in versions that go with what is tested.
TEST_TOOLS = ("pytest", "pytest-cov", "pytest-xdist", "fsspec", "hypothesis", "httpx2", "pandas", "polars", "psutil")
OWN_TOOLS = {"s3": ("moto[s3,server]",)}  # which does not go with what others need
TEST_EXTRAS = ".[parquet,postgres,serve]"
BESIDE_NUMPY_1 = "pyarrow<16"  # newer ones need NumPy 2, and do not say so

# What is installed, and the tests of it. Tests that are marked as slow run only where an extra has no others.
CORE = "core"
TESTS = {
    CORE: (
        "tests/kernels",
        "tests/features",
        "tests/agents",
        "tests/streams",
        "tests/test_ope.py",
        "tests/test_bars.py",
    ),
    "plot": ("tests/test_plotting.py",),
    "serve": ("tests/service/test_http.py", "tests/service/test_access.py", "tests/service/test_web.py"),
    "parquet": ("tests/datasets/test_tables.py",),
    "river": ("tests/adapters/test_river.py",),
    "gymnasium": ("tests/adapters/test_gymnasium.py",),
    "text": ("tests/features/test_embed_wordllama.py",),
    "otel": ("tests/service/test_tracing.py",),
    "mcp": ("tests/adapters/test_mcp.py",),
    "route": ("tests/router/test_config.py", "tests/router/test_thumbs.py", "tests/router/test_budget.py"),
    "postgres": ("tests/service/test_journal.py",),
    "s3": ("tests/service/test_shared_snapshots.py",),
    "ray": ("tests/experiments/test_ray.py",),
}
SLOW = {"mcp", "postgres", "s3", "ray"}
WARMED = ("linucb", "viewucb", "gcnucb")


def main() -> None:
    """Run the tests of the groups that were asked for; exits with 1 where some failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", choices=RESOLUTIONS)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"{', '.join(TESTS)}; all without one")
    parser.add_argument("--python", default=sys.executable, help="the interpreter; this one without it")
    arguments = parser.parse_args()
    if unknown := set(arguments.groups) - set(TESTS):
        parser.error(f"there is no group {min(unknown)}; groups are {', '.join(TESTS)}")
    failed = [
        group
        for group in arguments.groups or TESTS
        if not passes(group, RESOLUTIONS[arguments.versions], arguments.python)
    ]
    if failed:
        sys.exit(f"with the {arguments.versions} versions tests fail of: {', '.join(failed)}")


def passes(group: str, resolution: str, python: str) -> bool:
    """Whether the tests of a group pass in a new environment."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="taciturn-floors-") as folder:
        environment = Path(folder, "environment")
        try:
            versions = install(environment, group, resolution, python)
        except subprocess.CalledProcessError:
            return False
        print(f"== {group}: {versions}", flush=True)
        selected = [] if group in SLOW else ["-m", "not slow"]
        if resolution == RESOLUTIONS["oldest"]:  # they do what newer ones of others warn of
            selected += ["-W", "ignore::DeprecationWarning"]
        python_there = (environment / "bin" / "python", "-m")
        # Compiled by a test, kernels would count towards the time that a request may take.
        subprocess.run([*python_there, "taciturn.warm", *WARMED], env=clean(), stdout=subprocess.DEVNULL, check=True)
        command = (*python_there, "pytest", "-q", "--numprocesses", "2", *selected)
        run = subprocess.run([*command, "-p", "no:cacheprovider", *TESTS[group]], cwd=HOME, env=clean(), check=False)
    print(f"== {group}: {time.perf_counter() - started:.0f} s", flush=True)
    return run.returncode == 0


def install(environment: Path, group: str, resolution: str, python: str) -> str:
    """Install the package as a user would, then what tests need beside it; returns what the first brought."""
    uv = (sys.executable, "-m", "uv")
    pip = (*uv, "pip", "install", "--quiet", "--python", str(environment))
    subprocess.run([*uv, "venv", "--quiet", "--python", python, str(environment)], check=True)
    target = "." if group == CORE else f".[{group}]"
    subprocess.run([*pip, "--resolution", resolution, target], cwd=HOME, check=True)
    frozen = subprocess.check_output([*uv, "pip", "freeze", "--python", str(environment)], text=True)
    versions = [line for line in frozen.splitlines() if not line.startswith("taciturn")]
    kept = environment / "kept.txt"  # so that what tests need changes nothing of it
    beside = [BESIDE_NUMPY_1] if any(version.startswith("numpy==1.") for version in versions) else []
    kept.write_text("\n".join([*versions, *beside]), encoding="utf-8")
    subprocess.run(
        [*pip, "--constraint", str(kept), TEST_EXTRAS, *TEST_TOOLS, *OWN_TOOLS.get(group, ())], cwd=HOME, check=True
    )
    return " ".join(versions)


def clean() -> dict[str, str]:
    """The environment variables without those that would bring in another taciturn."""
    own = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own


if __name__ == "__main__":
    main()
