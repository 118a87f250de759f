"""Settings of Sphinx, which builds the site."""

import sys
from pathlib import Path

import taciturn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # for the extensions `docsite.…`

from docsite.reference import MOCKED  # noqa: E402 - needs the path

project = "taciturn"
html_title = "taciturn"
version = release = taciturn.__version__
copyright = "the authors of taciturn"
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docsite.docstrings",  # before napoleon, which reads what it has made of a docstring
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "docsite.mathml",
    "docsite.accessible",
]
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "html_image"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "misc.highlighting_failure"]  # headings of notebooks; JSON with "…" in it
exclude_patterns = ["**/.ipynb_checkpoints"]

default_role = "code"  # docstrings name things as Markdown does
autodoc_mock_imports = MOCKED
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = str(HERE / "static" / "icon.svg")
html_logo = str(HERE / "static" / "icon.svg")
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2456c7", "color-brand-content": "#2456c7"},
    "dark_css_variables": {"color-brand-primary": "#8ab0ff", "color-brand-content": "#8ab0ff"},
}
copybutton_prompt_text = "$ "
