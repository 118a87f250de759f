"""Formulas as MathML, which browsers show without scripts and fonts of others."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def _mathml(node: nodes.Element, display: str) -> str:
    """The MathML of a formula; what has none is a warning, and so an error of the build."""
    text = node.astext()
    markup = convert(text, display=display)
    if "\\" in markup:
        logger.warning("a formula has what cannot be shown as MathML: %s", text, location=node)
    return markup


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    # A wide formula scrolls, and what scrolls can be reached by keyboard.
    translator.body.append(f'<div class="formula" tabindex="0">{_mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
