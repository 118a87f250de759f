"""What the theme leaves out for people who use a keyboard or a screen reader."""

import re
from typing import Any

from sphinx.application import Sphinx

# What scrolls can be reached by keyboard, and a heading has a level.
IN_BODY = {"<pre>": '<pre tabindex="0">', '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper'}
SIGNATURE = re.compile(r'(<span class="sig-paren">\(</span>\s*)<dl>(.*?)</dl>', re.DOTALL)
"""The parameters of a long signature, which are a list of definitions without anything to define."""
IN_NAVIGATION = {'role="heading"': 'role="heading" aria-level="2"'}


def _parameters(match: re.Match[str]) -> str:
    lines = match[2].replace("<dd>", '<span class="parameter">').replace("</dd>", "</span>")
    return f'{match[1]}<span class="parameters">{lines}</span>'


def _complete(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    for name, replaced in (("body", IN_BODY), ("furo_navigation_tree", IN_NAVIGATION)):
        for old, new in replaced.items():
            context[name] = context.get(name, "").replace(old, new)
    context["body"] = SIGNATURE.sub(_parameters, context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to the event of each page, after the theme."""
    app.connect("html-page-context", _complete, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
