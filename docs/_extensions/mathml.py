"""Formulas as MathML, which browsers draw by themselves: no script, no font and no network."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.logging import getLogger

logger = getLogger(__name__)


def _mathml(node, as_block):
    """Return the MathML of a formula; what docutils cannot translate is a warning."""
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return ""


def visit_inline(translator, node):
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_block(translator, node):
    translator.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Tell Sphinx the renderer, which ``html_math_renderer = "mathml"`` chooses."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
