"""`tools/release.py` refuses what is not fit to be published, and `tools/floors.py` tests every extra."""

import importlib.util
import re
import tarfile
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))


def tool(name):
    """A module of tools/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, HOME / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release, floors = tool("release"), tool("floors")
PACKAGE, CITATION = '"""Words."""\n__version__ = "1.2.0"\n', "cff-version: 1.2.0\nversion: 1.2.0\n"
TRACKED = [
    "src/taciturn/__init__.py",
    "src/taciturn/papers/opr2020.toml",
    "tests/test_cli.py",
    "README.md",
    "docs/x.md",
]
IN_WHEEL = ["taciturn/__init__.py", "taciturn/papers/opr2020.toml", "taciturn-1.2.0.dist-info/licenses/LICENSE"]
IN_SDIST = [*TRACKED[:4], "PKG-INFO"]


@pytest.mark.parametrize("heading", ["Unreleased", "1.2.0", "1.2.0 (2026-11-17)", "[1.2.0] - 2026-11-17"])
def test_a_version_that_all_files_name(heading):
    assert release.released_version(PACKAGE, f"# Changelog\n\n## {heading}\n\n## 1.1.0\n", CITATION) == "1.2.0"


@pytest.mark.parametrize("heading", ["1.1.0", "1.2.0.1", "1.2.0rc1", "11.2.0", "unheard of"])
def test_a_changelog_of_another_version_is_refused(heading):
    with pytest.raises(release.Unfit, match=re.escape(f"newest heading of CHANGELOG.md is '{heading}'")):
        release.released_version(PACKAGE, f"# Changelog\n\n## {heading}\n\n## 1.2.0\n", CITATION)


def test_a_citation_of_another_version_is_refused():
    with pytest.raises(release.Unfit, match="CITATION.cff is of version 1.3.0"):
        release.released_version(PACKAGE, "## 1.2.0\n", CITATION.replace("\nversion: 1.2.0", "\nversion: 1.3.0"))


@pytest.mark.parametrize(("package", "changelog", "citation"), [("", "## 1", "version: 1"), (PACKAGE, "# 1", CITATION)])
def test_a_version_that_is_not_there_is_refused(package, changelog, citation):
    with pytest.raises(release.Unfit, match="has no"):
        release.released_version(package, changelog, citation)


@pytest.fixture
def contents(tmp_path):
    """Check a wheel and an sdist that hold these files."""

    def check(in_wheel, in_sdist):
        wheel, sdist = tmp_path / "t.whl", tmp_path / "t.tar.gz"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name in in_wheel:
                archive.writestr(name, "x")
        with tarfile.open(sdist, "w:gz") as archive:
            for name in in_sdist:
                archive.add(HOME / "LICENSE", f"taciturn-1.2.0/{name}")
        release.check_contents(wheel, sdist, TRACKED)

    return check


def test_archives_of_what_is_tracked_are_fit(contents):
    contents(IN_WHEEL, IN_SDIST)


@pytest.mark.parametrize("lacking", IN_WHEEL)
def test_a_wheel_that_lacks_a_file_is_refused(contents, lacking):
    with pytest.raises(release.Unfit, match="t.whl (lacks|has no licence)"):
        contents([name for name in IN_WHEEL if name != lacking], IN_SDIST)


@pytest.mark.parametrize(
    "more", ["tests/test_cli.py", "docs/x.md", "taciturn/leftover.py", "taciturn/__pycache__/a.pyc"]
)
def test_a_wheel_with_anything_else_is_refused(contents, more):
    with pytest.raises(release.Unfit, match=f"t.whl has {more}"):
        contents([*IN_WHEEL, more], IN_SDIST)


@pytest.mark.parametrize("lacking", IN_SDIST[:4])
def test_an_sdist_that_lacks_a_file_is_refused(contents, lacking):
    with pytest.raises(release.Unfit, match=f"t.tar.gz lacks {lacking}"):
        contents(IN_WHEEL, [name for name in IN_SDIST if name != lacking])


def test_the_sdist_is_what_pyproject_says():
    """At the top of the project: a name without a slash before it is included from every folder that has one."""
    included = {f"/{name.rstrip('/')}" for name in release.IN_SDIST} - {"/pyproject.toml", "/.gitignore"}  # by hatch
    assert included == set(PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])


def test_a_bill_of_materials_keeps_all_but_files_of_this_machine():
    local = {"type": "distribution", "url": "file:///home/somebody/dist/taciturn.whl"}
    website = {"type": "website", "url": "https://pypi.org"}
    bill = {"version": 1, "components": [{"name": "x", "externalReferences": [local, website]}, {"tools": [[local]]}]}
    kept = {"version": 1, "components": [{"name": "x", "externalReferences": [website]}, {"tools": [[]]}]}
    assert release.without_files(bill) == kept


def test_digests_are_those_that_sha256sum_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(release, "DIST", tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    release.write_digests([tmp_path / "empty"])
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert (tmp_path / "SHA256SUMS").read_text(encoding="utf-8") == f"{empty}  empty\n"


def test_floors_are_tested_of_every_extra():
    others = {"peers", "bench", "docs", "release", "dev"}  # what taciturn is compared with, and its own tools
    assert set(floors.TESTS) == {floors.CORE, *PROJECT["project"]["optional-dependencies"]} - others
    for paths in floors.TESTS.values():
        assert all((HOME / path).exists() for path in paths)


def test_every_dependency_has_a_floor():
    project = PROJECT["project"]
    for requirement in chain(project["dependencies"], *project["optional-dependencies"].values()):
        assert requirement.startswith("taciturn[") or re.search(r"[>=]=\d", requirement), requirement
