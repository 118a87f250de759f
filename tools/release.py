"""Build what would be published, and try it as a stranger would: `make release`.

Writes dist/: the wheel, the sdist, sbom.json (CycloneDX: what the wheel brings with it) and SHA256SUMS.
Uploads nothing.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
DIST = HOME / "dist"
IN_SDIST = ("src/", "tests/", "examples/", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", ".gitignore")


class Unfit(Exception):
    """What would be published is not fit to be, for the reason given."""


def main() -> None:
    """Build, check and try a release; exits with 1 and a line that says why where it is not fit."""
    try:
        release()
    except Unfit as reason:
        sys.exit(f"no release: {reason}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"no release: {' '.join(map(str, error.cmd))} ended with {error.returncode}")


def release() -> None:
    """Build, check and try a release."""
    if changes := output("git", "status", "--porcelain"):
        raise Unfit(f"there are changes that are not committed:\n{changes}")
    version = released_version(
        (HOME / "src/taciturn/__init__.py").read_text(encoding="utf-8"),
        (HOME / "CHANGELOG.md").read_text(encoding="utf-8"),
        (HOME / "CITATION.cff").read_text(encoding="utf-8"),
    )
    wheel, sdist = built(version)
    check_contents(wheel, sdist, output("git", "ls-files").splitlines())
    with tempfile.TemporaryDirectory(prefix="taciturn-release-") as folder:
        from_sdist = Environment(Path(folder, "sdist"))
        from_sdist.install(str(sdist))
        try_package(from_sdist, version)
        from_wheel = Environment(Path(folder, "wheel"))
        from_wheel.install(str(wheel))
        try_package(from_wheel, version)
        write_sbom(from_wheel, DIST / "sbom.json")
        from_wheel.install(f"{wheel}[plot,serve]")
        try_demo(from_wheel)
        try_service(from_wheel)
    write_digests([wheel, sdist, DIST / "sbom.json"])
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size:>10,} bytes  dist/{path.name}")


def released_version(package: str, changelog: str, citation: str) -> str:
    """The version in the text of the package, which the changelog's newest heading and CITATION.cff must name too.

    A heading "Unreleased" is accepted, for a rehearsal, and said so.
    """
    version = found(r'^__version__ = "(.+)"', package, "src/taciturn/__init__.py has no __version__")
    heading = found(r"^## (.+)", changelog, "CHANGELOG.md has no heading of a version")
    cited = found(r"^version: (.+)", citation, "CITATION.cff has no version")
    if cited != version:
        raise Unfit(f"CITATION.cff is of version {cited}, the package of {version}")
    if heading == "Unreleased":
        print(f"a rehearsal: CHANGELOG.md has {version} as unreleased")
    elif re.split(r"[\s,\]]", heading.lstrip("["))[0] != version:
        raise Unfit(f"the newest heading of CHANGELOG.md is {heading!r}, the package's version {version}")
    return version


def found(pattern: str, text: str, otherwise: str) -> str:
    """The first group of a pattern's first match in a text; `Unfit` where there is none."""
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise Unfit(otherwise)
    return match[1]


def built(version: str) -> tuple[Path, Path]:
    """The wheel and the sdist, built into an empty dist/; the wheel is built from the sdist."""
    DIST.mkdir(exist_ok=True)
    for path in DIST.iterdir():
        path.unlink()
    with timed("build"):
        run(sys.executable, "-m", "build", "--outdir", DIST, HOME)
    wheel, sdist = DIST / f"taciturn-{version}-py3-none-any.whl", DIST / f"taciturn-{version}.tar.gz"
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    return wheel, sdist


def check_contents(wheel: Path, sdist: Path, tracked: list[str]) -> None:
    """`Unfit` unless the wheel is the package as tracked with its licence, and the sdist what it should be."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/taciturn/")}
    described = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    compare(wheel.name, names - described, package)
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in described):
        raise Unfit(f"{wheel.name} has no licence")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()} - {"PKG-INFO"}
    compare(sdist.name, names, {name for name in tracked if name.startswith(IN_SDIST)})


def compare(name: str, there: set[str], wanted: set[str]) -> None:
    """`Unfit` where an archive lacks a file, or has one that does not belong there."""
    if wanted - there:
        raise Unfit(f"{name} lacks {min(wanted - there)}")
    if there - wanted:
        raise Unfit(f"{name} has {min(there - wanted)}, which does not belong there")


class Environment:
    """A virtual environment with nothing in it, not even pip; commands run in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.empty = folder, folder / "empty"
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        self.empty.mkdir()
        self.python, self.taciturn = folder / "bin" / "python", folder / "bin" / "taciturn"
        # Kernels are compiled anew, as at a stranger's first start.
        own = {"NUMBA_CACHE_DIR": str(folder / "kernels"), "PYTHONNOUSERSITE": "1"}
        hidden = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        self.variables = {name: value for name, value in kept.items() if not name.startswith("TACITURN_")} | own

    def install(self, what: str) -> None:
        """Install from a file, with what it needs from the index."""
        with timed(f"pip install {Path(what).name}"):
            pip = (sys.executable, "-m", "pip", "--python", self.python, "--disable-pip-version-check")
            run(*pip, "install", "--quiet", what)
            run(*pip, "check")

    def output(self, *command: Path | str) -> str:
        """What a command prints, run in the empty folder."""
        return output(*command, cwd=self.empty, env=self.variables)


def try_package(environment: Environment, version: str) -> None:
    """The command's version and the README's first lines of Python."""
    said = environment.output(environment.taciturn, "--version")
    if version not in said:
        raise Unfit(f"taciturn --version says {said!r}, not {version}")
    readme = (HOME / "README.md").read_text(encoding="utf-8")
    lines = found(r"^```python\n((?:.*\n)+?)```", readme, "README.md has no lines of Python")
    with timed("the README's first lines, kernels compiled"):
        environment.output(environment.python, "-I", "-c", lines)


def try_demo(environment: Environment) -> None:
    """`taciturn demo` shows its table and draws its figure."""
    with timed("taciturn demo"):
        shown = environment.output(environment.taciturn, "demo")
    if "viewucb" not in shown or not list(environment.empty.glob("taciturn-demo/*.png")):
        raise Unfit(f"taciturn demo showed no table or drew no figure:\n{shown}")
    print(shown)


def try_service(environment: Environment) -> None:
    """`taciturn serve` answers with its page, the style that the page names, and its documentation."""
    command = [environment.taciturn, "serve", "--port", "0"]
    options = {"cwd": environment.empty, "env": environment.variables, "text": True}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as service:
        try:
            address = found(r"(http://\S+?)/[ ,]", service.stdout.readline(), "taciturn serve did not say where")
            page = fetched(address + "/")
            style = found(r'href="([^"]+\.css[^"]*)"', page, "the service's page has no style")
            for path in (style, "/docs", "/metrics"):
                fetched(address + path)
        finally:
            service.terminate()
            service.communicate(timeout=60)
    print(f"taciturn serve answers at / with {len(page)} characters, at {style}, /docs and /metrics")


def fetched(url: str) -> str:
    """The text at a URL of this machine; `Unfit` where it is empty."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        text: str = answer.read().decode()
    if not text:
        raise Unfit(f"{url} is empty")
    return text


def write_sbom(environment: Environment, path: Path) -> None:
    """Write what is in an environment, as CycloneDX, without where on this machine it was built."""
    command = ("environment", "--pyproject", HOME / "pyproject.toml", "--output-reproducible", "--of", "JSON")
    said = output(sys.executable, "-m", "cyclonedx_py", *command, environment.python)
    path.write_text(json.dumps(without_files(json.loads(said)), indent=2) + "\n", encoding="utf-8")
    print(f"sbom.json has {len(json.loads(path.read_text(encoding='utf-8'))['components'])} components")


def without_files(node: object) -> object:
    """A copy of parsed JSON without the entries of lists whose `url` is a file of this machine."""
    if isinstance(node, dict):
        return {key: without_files(value) for key, value in node.items()}
    if isinstance(node, list):
        local = [isinstance(value, dict) and str(value.get("url", "")).startswith("file:") for value in node]
        return [without_files(value) for value, is_local in zip(node, local, strict=True) if not is_local]
    return node


def write_digests(paths: list[Path]) -> None:
    """Write dist/SHA256SUMS, which `sha256sum --check` reads."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    (DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def run(*command: Path | str) -> None:
    """Run a command; its output is shown."""
    subprocess.run(command, check=True, cwd=HOME)


def output(*command: Path | str, **options: object) -> str:
    """What a command prints."""
    call: Callable[..., str] = subprocess.check_output
    return call(command, **{"text": True, "cwd": HOME, **options}).strip()


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long something took."""
    started = time.perf_counter()
    yield
    print(f"{time.perf_counter() - started:6.1f} s  {what}", flush=True)


if __name__ == "__main__":
    main()
