"""The site holds every public name, every page and nothing of other hosts; and the build refuses what is broken."""

import inspect
import re
import subprocess
import sys
from pathlib import PurePosixPath

import pytest

import taciturn
from docs_kit import HOME, PAGES, TOOLS
from docsite import check, docstrings, layout, links, llms, staging
from docsite.__main__ import replace
from taciturn import client, errors, ope


def test_every_public_name_and_member_is_in_the_reference(built_site):
    ids = {id for page in (built_site / "api").glob("*.html") for id in check.read(page).ids}
    names = {f"taciturn.{name}": getattr(taciturn, name) for name in taciturn.__all__}
    names |= {f"taciturn.client.{name}": getattr(client, name) for name in client.__all__ if name != "Client"}
    for module in (ope, errors):
        kinds = {
            name: thing for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__
        }
        names |= {f"{module.__name__}.{name}": thing for name, thing in kinds.items() if public(name)}
    del names["taciturn.errors.how_to_install"]  # for messages
    missing = {name for name in names if name not in ids and f"module-{name}" not in ids}
    for name, kind in names.items():
        if inspect.isclass(kind) and not issubclass(kind, Exception):
            missing |= {f"{name}.{member}" for member in members(kind)} - {
                f"{name}.{member}" for member in shown(name, ids)
            }
    assert missing == set()


def public(name):
    return not name.startswith("_")


def members(kind):
    """The public methods and properties of a class that it has of taciturn; parameters are in its docstring."""
    found = {
        name: getattr(kind, name, None) for base in kind.__mro__ if ours(base) for name in vars(base) if public(name)
    }
    return {name for name, thing in found.items() if inspect.isroutine(thing) or isinstance(thing, property)}


def ours(kind):
    return kind.__module__.startswith("taciturn")


def shown(name, ids):
    """The members of a class that the reference shows, with it or, of agents, with `BaseAgent`."""
    kind = getattr(taciturn, name.removeprefix("taciturn."), None)
    agent = inspect.isclass(kind) and issubclass(kind, taciturn.BaseAgent)
    places = (name, "taciturn.BaseAgent") if agent else (name,)
    return {id.rpartition(".")[2] for id in ids if id.rpartition(".")[0] in places}


def test_every_page_notebook_and_linked_file_is_a_page(built_site):
    sources = [path.relative_to(HOME) for path in (*PAGES, *HOME.glob("*.md"), *HOME.glob("examples/**/*.ipynb"))]
    places = {layout.place_of(PurePosixPath(source)).with_suffix(".html") for source in sources}
    assert all((built_site / place).exists() for place in places)
    front = check.read(built_site / "index.html").links
    assert places - {PurePosixPath("index.html")} <= {PurePosixPath(link) for link in front}
    assert (built_site / "files" / "deploy" / "compose.yaml.html").exists()


def test_formulas_are_mathml(built_site):
    text = (built_site / "viewucb.html").read_text(encoding="utf-8")
    assert text.count("<math") > 20
    assert "\\operatorname" not in text


def test_llms_txt_lists_every_page_with_its_first_sentence(built_site):
    lines = (built_site / "llms.txt").read_text(encoding="utf-8").splitlines()
    entries = dict(re.findall(r"^- \[.*?\]\((.*?)\): (.+)", "\n".join(lines), re.MULTILINE))
    assert all((built_site / place).exists() for place in entries)
    listed = {f"_sources/{page.name}.txt" for page in PAGES if page.parent.name == "docs"} - {"_sources/index.md.txt"}
    assert listed <= set(entries)
    assert entries["_sources/embeddings.md.txt"].startswith("Hashed words know that two texts share a word.")
    assert "# Start here" in (built_site / "llms-full.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ('<a href="#nowhere">', "#nowhere leads to no place on that page"),
        ('<a href="other.html#there">', "other.html#there leads to no place on that page"),
        ('<a href="gone.html">', "gone.html leads to no file"),
        ('<a href="htp://example.org">', "htp://example.org is no address"),
        ('<script src="https://cdn.example.org/x.js">', "it loads https://cdn.example.org/x.js from another host"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "it loads //example.org/x.css from another host"),
        ('<img src="gone.png">', "gone.png, which it loads, does not exist"),
        ('<img srcset="https://example.org/a.png 2x">', "it loads https://example.org/a.png from another host"),
        ('<a href="other.html#here"><a href="https://example.org/?a=b"><img src="data:,">', None),
    ],
)
def test_a_broken_link_or_a_resource_of_another_host_is_found(tmp_path, page, said):
    (tmp_path / "page.html").write_text(page)
    (tmp_path / "other.html").write_text('<p id="here">')
    assert check.problems(tmp_path) == ([f"page.html: {said}"] if said else [])


def test_a_style_that_loads_from_another_host_is_found(tmp_path):
    (tmp_path / "x.css").write_text("@font-face { src: url( 'https://fonts.example.org/a.woff2') }")
    assert check.problems(tmp_path) == ["x.css: it loads from another host"]


def test_links_follow_their_targets_and_code_stays():
    text = "[a](b.md#c) ![p](p.png)\n```md\n[a](b.md)\n```\n[h](https://x.org/b.md) [s](../src/x.py) [i](#i)"
    moved = links.relink(text, PurePosixPath("docs/a.md"), PurePosixPath("deep/a.md"), layout.place_of)
    code = "```md\n[a](b.md)\n```"
    assert moved == f"[a](../b.md#c) ![p](../p.png)\n{code}\n[h](https://x.org/b.md) [s](../files/src/x.py.md) [i](#i)"


def test_a_link_to_a_file_that_does_not_exist_is_refused(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Home\n[x](gone.md)")
    (tmp_path / "out").mkdir()
    with pytest.raises(staging.BrokenLink, match="docs/index.md links to docs/gone.md, which does not exist"):
        staging.Staging(tmp_path, tmp_path / "out").write()


def test_a_warning_fails_the_build(tmp_path):
    """An anchor that is on no page."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "index.md").write_text("# Home\n\n[x](#nowhere)\n")
    code = "import sys, pathlib, docsite.__main__ as site; print(site.to_html(*map(pathlib.Path, sys.argv[1:])))"
    folders = [tmp_path / name for name in ("sources", "doctrees", "site")]
    built = subprocess.run(
        [sys.executable, "-c", code, *folders], env=TOOLS, capture_output=True, text=True, check=False
    )
    assert built.stdout.strip() == "False"
    assert "nowhere" in built.stderr


def test_a_site_is_replaced_and_no_other_folder(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        (folder / f"{folder.name}.html").touch()
    assert "other files than those of a site" in replace(old, new)[0]
    (old / ".buildinfo").touch()
    assert replace(old, new) == []
    assert [path.name for path in old.iterdir()] == ["new.html"]


def test_docstrings_keep_their_formulas_and_tables():
    lines = ["Text:", "", "    y = ax", "", "reward 1    all", "silence     none", "", "Arguments of `A`:", "    x: y."]
    assert docstrings.marked_up(lines) == [
        *("Text:", "", "::", "", "    y = ax", ""),
        *("::", "", "    reward 1    all", "    silence     none", ""),
        *("Arguments of A:", "    x: y."),
    ]


def test_the_opening_of_a_page_is_its_first_paragraph():
    text = "---\norphan: true\n---\n\n# Title\n\n![p](p.png)\n\n```python\nx\n```\n\nA [link](a.md)\nhere.\n\nMore."
    assert llms.title_and_opening(text) == ("Title", "A link here.")
