"""The documentation site. `make docs` builds it; warnings are errors."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import weightspace

project = "weightspace"
author = "The weightspace contributors"
copyright = author
version = release = weightspace.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sitebuild"]
exclude_patterns = ["_build", "sitebuild", "**/_*.md"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
highlight_language = "none"
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"weightspace {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_inherit_docstrings = False  # other libraries refer to their own glossaries
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
python_use_unqualified_type_names = True

# Annotations name types of other libraries, whose documentation is not fetched, and private ones.
# What pages and docstrings refer to must exist: roles other than those of annotations are checked.
nitpicky = True
nitpick_ignore_regex = [("py:class", r".*"), ("py:data", r"(?!weightspace).*")]
