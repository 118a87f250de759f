"""The TypeScript client: made from today's OpenAPI document, strictly typed, and at work against a running service."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import taciturn
from process_kit import served

HOME = Path(__file__).parents[2]
PACKAGE = HOME / "clients" / "typescript"
API = PACKAGE / "src" / "api.ts"
PAGES = ["docs/interop.md", "clients/typescript/README.md"]


def run(*command, cwd=PACKAGE, **variables):
    """Run a program of the package; returns what it prints, and fails with all of that."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TACITURN_")} | variables
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def programs():
    """The folder of the package's programs."""
    found = PACKAGE / "node_modules" / ".bin"
    if shutil.which("node") is None or not (found / "tsc").exists():
        reason = "node or the packages of clients/typescript are not installed; with node 20 and npm: make typescript"
        pytest.fail(reason) if "CI" in os.environ else pytest.skip(reason)
    return found


def test_the_committed_types_are_those_of_todays_document(programs, tmp_path):
    document, made = tmp_path / "openapi.json", tmp_path / "api.ts"
    document.write_text(run(sys.executable, "document.py", PYTHONPATH=os.pathsep.join(sys.path)))
    options = re.search(r"--root\S+( --root\S+)*", (PACKAGE / "package.json").read_text())[0].split()
    run(programs / "openapi-typescript", document, *options, "--output", made)
    assert made.read_text() == API.read_text(), "make typescript brings src/api.ts up to date"


def test_the_package_has_the_version_of_taciturn():
    assert json.loads((PACKAGE / "package.json").read_text())["version"] == taciturn.__version__


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The address of a running service, and the token of a key that it needs."""
    folder = tmp_path_factory.mktemp("service")
    added = run(sys.executable, "-m", "taciturn", "keys", "add", "node", "--data-dir", folder / "data", cwd=folder)
    with served(folder) as address:
        yield address, added.split()[-1]


def test_the_client_is_strictly_typed_and_works_against_a_running_service(programs, service, tmp_path):
    run(programs / "tsc", "--outDir", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    address, token = service
    out = run("node", "--test", tmp_path / "test", TACITURN_URL=address, TACITURN_KEY=token)
    counts = dict(re.findall(r"^# (pass|fail|skipped) (\d+)$", out, re.MULTILINE))
    assert int(counts["pass"]) >= 20 and counts["fail"] == counts["skipped"] == "0", out


def test_the_examples_of_the_documentation_run_with_the_package_that_is_built(programs, service, tmp_path):
    address, token = service
    package = tmp_path / "node_modules" / "taciturn"
    run(programs / "tsc", "--project", "tsconfig.build.json", "--outDir", package / "dist")
    shutil.copy(PACKAGE / "package.json", package)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for i, page in enumerate(PAGES):
        (code,) = re.findall(r"```typescript\n(.*?)```", (HOME / page).read_text(encoding="utf-8"), re.DOTALL)
        code = code.replace('"http://localhost:8420"', f'"{address}", {{ key: "{token}" }}')
        (tmp_path / "example.ts").write_text(code.replace('"shop"', f'"page{i}"'))
        run(programs / "tsc", "--strict", "--module", "NodeNext", "--lib", "ES2022,DOM", "example.ts", cwd=tmp_path)
        assert run("node", "example.js", cwd=tmp_path).startswith("decision 0 is rewarded: ")
