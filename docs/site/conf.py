"""Settings of Sphinx for the site that `make docs` builds.

The source folder is the whole project, so links between pages are the same on the site as in the checkout.
The site needs no network: no font, script or picture comes from elsewhere.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.writers.html5 import HTML5Translator

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # for autodoc, wherever the package is installed from

project = "odsynth"
author = "The odsynth developers"
copyright = author
version = importlib.metadata.version("certified-commutes")

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
root_doc = "docs/site/index"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/site/*.md",
    "docs/site/reference/**",
    "notebooks/*.md",
    "notebooks/*.ipynb",
    "benchmarks/*.md",
]
html_theme = "furo"
html_title = "odsynth"
html_show_sourcelink = False
html_copy_source = False
html_additional_pages = {"index": "to_index.html"}
html_math_renderer = "mathml"
templates_path = [str(ROOT / "docs" / "site" / "templates")]

# Headings have the anchors that the checkout's host gives them; a link to one that is not there is a warning.
myst_heading_anchors = 6
myst_enable_extensions = ["dollarmath"]  # formulas of notebooks

# In docstrings, what stands in single backticks is a name, linked where it has a page.
default_role = "py:obj"
add_module_names = False
autosummary_imported_members = True
autodoc_typehints = "none"  # numpydoc has them
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Every notebook is executed; a cell that fails fails the build.
nb_execution_mode = "force"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True


def _as_mathml(self: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML, which browsers show by themselves; MathJax would come from elsewhere."""
    self.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode


def _link_to_example(app: Sphinx, document: str, source: list[str]) -> None:
    """Send a link to a folder of examples, which a checkout shows as a list, to its files on the site."""
    source[0] = re.sub(r"\]\(\.\./examples/(\w+)\)", r"](site/examples.md#\1)", source[0])


def _outside_of_contents(app: Sphinx, document: str, source: list[str]) -> None:
    """Leave the studies, to which pages link, out of the contents."""
    if document.startswith("benchmarks/"):
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"


def _refuse_network(app: Sphinx, error: Exception | None) -> None:
    """Refuse a site with a page that loads anything from elsewhere."""
    loads = re.compile(r"""<(script|img|iframe|link)[^>]*\s(src|href)=["'](https?:)?//""")
    pages = app.outdir.rglob("*.html") if error is None else ()
    if found := [page.name for page in pages if loads.search(page.read_text(encoding="utf-8"))]:
        raise ExtensionError(f"pages that need a network: {', '.join(found)}")


def setup(app: Sphinx) -> None:
    """Register how formulas are written, and where links to folders lead."""
    app.connect("source-read", _link_to_example)
    app.connect("source-read", _outside_of_contents)
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_as_mathml, None), block_renderers=(_as_mathml, None)
    )
