"""What pages share: shells to fill in, one style sheet and sorting script, and sections, tables and figures as HTML."""

import re
from collections.abc import Collection, Iterable, Sequence
from html import escape
from importlib.resources import files

TEXT = ' class="t"'
"""What marks a cell that is text, and not a number."""


def fill(shell: str, **parts: str) -> str:
    """Return a page: the file of its shell, each ``{{name}}`` replaced by the HTML of that part.

    ``{{style}}`` and ``{{sort}}`` are the style sheet and the script that sorts tables. Every place is filled once, so
    that braces in the text of users stay what they are.
    """
    folder = files("taciturn.reports")
    shared = {"style": "style.css", "sort": "sort.js"}
    texts = parts | {name: folder.joinpath(file).read_text(encoding="utf-8") for name, file in shared.items()}
    page = folder.joinpath(shell).read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda place: texts[place[1]], page)


def anchor(title: str) -> str:
    """Return the id of a section."""
    return "".join(letter if letter.isalnum() else "-" for letter in title.lower()).strip("-")


def section(title: str, body: str) -> str:
    """Return a section with its heading; empty without a body."""
    name = anchor(title)
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2>{body}</section>' if body else ""


def sortable(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return an HTML table of texts whose columns can be sorted by mouse or keyboard."""
    return sortable_rows(
        header, ("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    )


def sortable_rows(header: Sequence[str], rows: Iterable[str], *, texts: Collection[str] = ()) -> str:
    """Return an HTML table like `sortable`, of rows that are HTML themselves; columns of `texts` have the class t."""
    head = "".join(
        f'<th scope="col"{TEXT if name in texts else ""}><button type="button">{escape(name)}</button></th>'
        for name in header
    )
    body = "".join(rows)
    return (
        f'<div class="wide"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def figure(svg: str, caption: str, files: Sequence[str] = ()) -> str:
    """Return a chart with its caption, and links to files of it that are beside the page."""
    links = "".join(f' <a href="{escape(file)}">{escape(file.rpartition(".")[2].upper())}</a>' for file in files)
    return f"<figure>{svg}<figcaption>{escape(caption)}{links}</figcaption></figure>"
