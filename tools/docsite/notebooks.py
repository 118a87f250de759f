"""Notebooks as pages, with the outputs that are stored in them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from jinja2 import DictLoader
from nbconvert import MarkdownExporter

# HTML goes through a directive: in Markdown it would end at its first blank line.
TEMPLATE = """{% extends 'markdown/index.md.j2' %}
{% block data_html %}
``````{raw} html
<div class="output">{{ output.data['text/html'] }}</div>
``````
{% endblock %}
{% block stream %}
```text
{{ output.text | strip_ansi }}
```
{% endblock %}
{% block data_text %}
```text
{{ output.data['text/plain'] }}
```
{% endblock %}
"""


def convert(path: Path, relink: Callable[[str], str]) -> tuple[str, dict[str, bytes]]:
    """Return the Markdown of a notebook, in whose text `relink` has replaced the links, and its pictures by name."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = relink(cell.source)
    exporter = MarkdownExporter(extra_loaders=[DictLoader({"page": TEMPLATE})], template_file="page")
    body, resources = exporter.from_notebook_node(notebook, {"output_files_dir": path.stem, "unique_key": "output"})
    pictures: dict[str, Any] = resources["outputs"]
    return body, pictures
