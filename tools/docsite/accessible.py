"""What the theme leaves out for people who use a keyboard or a screen reader."""

from typing import Any

from sphinx.application import Sphinx

# What scrolls can be reached by keyboard, and a heading has a level.
IN_BODY = {"<pre>": '<pre tabindex="0">', '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper'}
IN_NAVIGATION = {'role="heading"': 'role="heading" aria-level="2"'}


def _complete(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    for name, replaced in (("body", IN_BODY), ("furo_navigation_tree", IN_NAVIGATION)):
        for old, new in replaced.items():
            context[name] = context.get(name, "").replace(old, new)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to the event of each page, after the theme."""
    app.connect("html-page-context", _complete, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
