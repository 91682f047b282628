"""Sphinx configuration of the documentation site: `make docs` builds it into docs/_build/html, without the network."""

import logging
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

import spaql

sys.path.insert(0, str(Path(__file__).parent))  # for api_pages

project = "spaql"
author = "The spaql authors"
project_copyright = author
version = release = spaql.__version__

extensions = [
    "api_pages",
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
highlight_language = "none"  # blocks without a language are commands and what they print

# Markdown: links lead to the headings of other pages, as on a page of the repository
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Tutorials are run whenever the site is built; an error in one ends the build
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_ipywidgets_js = {}  # would be loaded from the network

# The API
autosummary_generate = True
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
default_role = "py:obj"  # names in docstrings
maximum_signature_line_length = 72
modindex_common_prefix = ["spaql."]
numpydoc_show_class_members = False
suppress_warnings = ["config.cache"]  # functions in autosummary_context: pages are written anew in every build
templates_path = ["_templates"]
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "spaql"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_context = {"default_mode": "auto"}
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 7,
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def write_math(translator: Any, node: nodes.Element) -> None:
    """Write a formula as MathML, which browsers draw themselves: no script, no font, no network."""
    display = "block" if isinstance(node, nodes.math_block) else "inline"
    translator.body.append(convert(node.astext(), display=display))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register the renderer of formulas; a section may have no pages yet."""
    logging.getLogger("sphinx.sphinx.directives.other").addFilter(lambda record: "toctree glob" not in str(record.msg))
    app.add_html_math_renderer("mathml", inline_renderers=(write_math, None), block_renderers=(write_math, None))
