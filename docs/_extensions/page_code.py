"""The code of a page: its blocks share names and a folder, as the cells of a notebook do.

Pages are built with it, and a test runs all of them.
"""

import contextlib
import io
import re
import shlex
import shutil
import tempfile
import weakref

from mondrian_kernel.app.main import main

_BLOCK = re.compile(r"^```(\S+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(text):
    """Return the fenced blocks of a page, as pairs of a language and the lines."""
    return [(found[1].strip("{}"), found[2]) for found in _BLOCK.finditer(text)]


class Session:
    """Runs the blocks of one page, in a folder of its own."""

    def __init__(self):
        self._names = {"__name__": "__main__"}
        self._folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, self._folder)

    def run(self, language, code):
        """Run a block of ``python``, ``run`` or ``command`` and return what it prints."""
        out = io.StringIO()
        with contextlib.chdir(self._folder), contextlib.redirect_stdout(out):
            if language == "command":
                for line in code.splitlines():
                    print(f"$ {line}")
                    self._command(shlex.split(line)[1:])
            else:
                exec(code, self._names)
        return out.getvalue()

    def _command(self, words):
        with contextlib.suppress(SystemExit):  # of --help
            if main(words) != 0:
                raise RuntimeError(f"mondrian-kernel {shlex.join(words)} failed")
