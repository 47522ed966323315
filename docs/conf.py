"""The documentation's site: the pages in docs/ and those they lead to, by Sphinx.

Its source is the whole repository, so that a link between two pages is the same here,
in an editor and wherever else the repository is shown. `make docs` builds it offline.
"""

import os
import shlex
import subprocess
import sys
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fediac.console import own_version

project = "fediac"
author = "The fediac authors"
project_copyright = author
version = release = own_version()

root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "examples/**.md",
    "results/**.md",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]
exclude_patterns = ["[.]*", "build", "dist", "runs", "src", "tests"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
myst_heading_anchors = 4

# Docstrings are in Google's style; what is in backticks of either kind is code.
default_role = "code"
autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "fediac"
html_copy_source = False
html_additional_pages = {"index": "redirect.html"}
html_js_files = ["access.js"]
html_static_path = ["static"]
templates_path = ["templates"]


class Help(SphinxDirective):
    """What a command says of itself with ``--help``, as it is today."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar = {"whole": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Return the text; ``:whole:`` takes the command as it is."""
        words = shlex.split(self.arguments[0])
        asked = words if "whole" in self.options else [*words, "--help"]
        done = subprocess.run(
            [sys.executable, "-m", "fediac", *asked],
            capture_output=True,
            env=os.environ | {"COLUMNS": "80", "PYTHONUTF8": "1"},
            text=True,
            check=True,
        )
        block = nodes.literal_block(done.stdout, done.stdout, language="text")
        return [block]


def setup(app: Sphinx) -> None:
    """Add what only this site has."""
    app.add_directive("help", Help)
