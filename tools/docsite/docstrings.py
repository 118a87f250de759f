"""Docstrings, which are written to be read as they are, as the markup that Sphinx reads."""

import re
from itertools import groupby
from typing import Any

from sphinx.application import Sphinx

INHERITED = re.compile(r"Arguments of `(\w+)`:")
ARGUMENTS = re.compile(r"Arguments, and .*:")  # "… attributes of the same names:"
COLUMNS = re.compile(r"\S {3,}\S")


def marked_up(lines: list[str]) -> list[str]:
    """Return the lines with formulas and tables of spaces as literal blocks, and inherited arguments as sections."""
    lines = [ARGUMENTS.sub("Arguments:", INHERITED.sub(r"Arguments of \1:", line)) for line in lines]
    result: list[str] = []
    for blank, group in groupby(lines, key=lambda line: not line.strip()):
        block = list(group)
        if not blank and (block[0].startswith("    ") or any(COLUMNS.search(line) for line in block)):
            indent = "" if block[0].startswith("    ") else "    "
            block = ["::", "", *(indent + line for line in block)]
        result += block
    return result


def _process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = marked_up(lines)


def _sections(app: Sphinx, config: Any) -> None:
    """Tell napoleon of the sections with inherited arguments: one for each base of an agent."""
    from taciturn.registry import METHODS, import_agent

    kinds = {base.__name__ for method in METHODS.values() for base in import_agent(method.target).__mro__}
    config.napoleon_custom_sections = [(f"Arguments of {kind}", "params_style") for kind in sorted(kinds)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to the events of Sphinx."""
    app.connect("autodoc-process-docstring", _process, priority=400)  # napoleon has 500
    app.connect("config-inited", _sections, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
