"""What the pages show as it is: measured tables, help texts, and names that must exist.

``{measured}`` renders a table of the benchmarks. ``{run}`` shows lines of Python and what they
print, ``{readme-code}`` the first ones in the README. ``{command}`` shows lines of the command line
and what they print, ``{help}`` what a command prints with ``--help``. The roles ``{source}`` and
``{testcase}`` name a thing of the library and a test; a name that does not exist is a warning, and
hence ends the build.
"""

import importlib
import re
import sys
from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from page_code import Session, blocks
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.logging import getLogger

ROOT = Path(__file__).parents[2]
logger = getLogger(__name__)

# The benchmarks are a package of the checkout, not of the library.
sys.path.insert(0, str(ROOT))
tables = cache(importlib.import_module("benchmarks.tables").rendered)


class Measured(SphinxDirective):
    """A table or picture of the benchmarks, or how to make it where it was not measured."""

    required_arguments = 1

    def run(self):
        self.env.note_reread()
        missing = "*Not measured yet in this checkout:* `python -m benchmarks` *does it.*"
        text = tables().get(self.arguments[0], missing)
        root = "../" * (self.env.docname.count("/") + 1)
        lines = text.replace("](benchmarks/", f"]({root}benchmarks/").splitlines()
        box = nodes.container(classes=["measured"])
        self.state.nested_parse(StringList(lines, self.arguments[0]), 0, box)
        return [box]


class Code(SphinxDirective):
    """A block that is run in the session of its page."""

    has_content = True

    def session(self):
        return self.env.temp_data.setdefault("session", Session())

    def shown(self, language, code):
        """Return nodes of the code and of what it prints; commands are part of what they print."""
        texts = {"text": self.session().run(language, code)}
        if language != "command":
            texts = {"python": code} | texts
        return [nodes.literal_block(t, t, language=kind) for kind, t in texts.items() if t]

    def run(self):
        return self.shown(self.name, "\n".join(self.content))


class Help(Code):
    """What a command prints with ``--help``."""

    optional_arguments = 1

    def run(self):
        return self.shown("command", " ".join(["mondrian-kernel", *self.arguments, "--help"]))


class ReadmeCode(Code):
    """The first lines of Python in the README, run, and what they print."""

    def run(self):
        file = ROOT / "README.md"
        self.env.note_dependency(str(file))
        found = blocks(file.read_text())
        return self.shown("run", next(code for language, code in found if language == "python"))


class Source(SphinxRole):
    """A dotted name of the library, which must exist."""

    def run(self):
        if not _exists(f"mondrian_kernel.{self.text}"):
            logger.warning(
                "mondrian_kernel.%s does not exist", self.text, location=self.get_location()
            )
        return [nodes.literal(self.text, self.text)], []


class TestCase(SphinxRole):
    """A file of ``tests``, or one of its tests after ``::``, which must exist."""

    def run(self):
        name, _, case = self.text.partition("::")
        file = ROOT / "tests" / name
        found = file.is_file() and (
            not case or re.search(rf"(def|class) {case.rpartition('::')[2]}\b", file.read_text())
        )
        if not found:
            logger.warning("there is no test %s", self.text, location=self.get_location())
        # A test says in its name what holds; as words it can be read, and wrapped.
        words = case.removeprefix("test_").replace("_", " ")
        said = [nodes.inline("", ": "), nodes.emphasis(words, words)] if case else []
        return [nodes.literal(name, name), *said], []


def _exists(name):
    """Whether a dotted name is a module, or something in one."""
    module, rest = name, []
    while module:
        try:
            thing = importlib.import_module(module)
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
            continue
        for part in rest:
            thing = getattr(thing, part, None)
        return thing is not None
    return False


def quote_attributes(app, what, name, obj, options, lines):
    """Quote names such as ``n_cells_`` in shapes, which are links to reStructuredText."""
    for i, line in enumerate(lines):
        if "of shape" in line:
            lines[i] = re.sub(r"(?<![`\w.])([a-z]\w*_(?:\[[^]]*\])?)(?![`\w])", r"``\1``", line)


def hide_private(app, what, name, obj, options, signature, return_annotation):
    """Leave out the signature of a class that is made by the library and not by hand."""
    if what == "class" and signature and ", _" in signature:
        return "", None
    return None


def setup(app):
    """Tell Sphinx the directives and roles."""
    app.add_directive("measured", Measured)
    app.add_directive("readme-code", ReadmeCode)
    app.add_directive("run", Code)
    app.add_directive("command", Code)
    app.add_directive("help", Help)
    app.add_role("source", Source())
    app.add_role("testcase", TestCase())
    app.connect("autodoc-process-docstring", quote_attributes, priority=100)  # before numpydoc
    app.connect("autodoc-process-signature", hide_private)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
