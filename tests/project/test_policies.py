"""What people and the code host read beside the code: its form is right, and it says what the package says."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

import taciturn

HOME = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))
GITHUB = HOME / ".github"
POLICIES = ("SECURITY.md", "CODE_OF_CONDUCT.md", ".github/PULL_REQUEST_TEMPLATE.md")
SCHEMAS = {
    "CITATION.cff": "vendor.citation-file-format",
    ".github/dependabot.yml": "vendor.dependabot",
    ".github/ISSUE_TEMPLATE/bug.yml": "vendor.github-issue-forms",
    ".github/ISSUE_TEMPLATE/idea.yml": "vendor.github-issue-forms",
    ".github/ISSUE_TEMPLATE/config.yml": "vendor.github-issue-config",
    ".github/DISCUSSION_TEMPLATE/q-a.yml": "vendor.github-discussion",
    ".github/workflows/test.yml": "vendor.github-workflows",
}


def complaints(schema, path):
    """What check-jsonschema says of a file, "" if nothing; its schemas are in the package, no network is used."""
    result = CliRunner().invoke(check_jsonschema, ["--builtin-schema", schema, "--default-filetype", "yaml", str(path)])
    return "" if result.exit_code == 0 else result.output + str(result.exception)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_file_of_the_code_host_follows_its_schema(name, tmp_path):
    assert complaints(SCHEMAS[name], HOME / name) == ""
    broken = tmp_path / Path(name).name
    broken.write_text((HOME / name).read_text(encoding="utf-8") + "\nunheard-of: {}\n", encoding="utf-8")
    assert "unheard-of" in complaints(SCHEMAS[name], broken)


def test_every_file_of_the_code_host_has_a_schema():
    there = {path.relative_to(HOME).as_posix() for path in GITHUB.rglob("*.y*ml")}
    assert there == {name for name in SCHEMAS if name.startswith(".github/")}


def test_the_citation_names_the_package_and_the_paper():
    citation = yaml.safe_load((HOME / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == taciturn.__version__
    assert citation["license"] == PYPROJECT["project"]["license"]
    assert citation["keywords"] == PYPROJECT["project"]["keywords"]
    (paper,) = citation["references"]
    readme = " ".join((HOME / "README.md").read_text(encoding="utf-8").split())
    authors = ", ".join(author["family-names"] for author in paper["authors"])
    assert f"*{paper['title']}* ({authors}, {paper['year']})" in readme


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_names_files_that_exist(name):
    text = (HOME / name).read_text(encoding="utf-8")
    for target, section in re.findall(r"\]\(([^)#]+)#?([^)]*)\)", text):
        assert (HOME / target).is_file()
        headings = re.findall(r"^#+ (.+)", (HOME / target).read_text(encoding="utf-8"), re.MULTILINE)
        assert not section or section in {heading.lower().replace(" ", "-") for heading in headings}
    for module in re.findall(r"`(test_\w+\.py)`", text):
        assert list((HOME / "tests").rglob(module)), module
    for target in re.findall(r"`make (\w+)`", text):
        assert re.search(rf"^{target}:", (HOME / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_policies_send_nobody_to_an_address_that_was_made_up():
    for name in (*POLICIES, *SCHEMAS):
        text = (HOME / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://|[\w.]+@[\w-]+\.\w+", text), name
