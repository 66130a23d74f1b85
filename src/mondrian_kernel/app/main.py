"""The command line: its arguments, running a command, and telling an error in one sentence.

Nothing heavy is imported here, so that help comes at once. A command's module is imported when the
command runs.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from mondrian_kernel import __version__
from mondrian_kernel import _settings as settings
from mondrian_kernel.app.console import STANDARD_OUTPUT, Console


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 for success and 1 for failure. Wrong arguments exit with 2."""
    args = make_parser().parse_args(argv)
    if argv is None:
        _leave_out_imports()
    console = Console(as_json=args.json, quiet=args.quiet)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_: console.note(str(message))
            module = import_module(f"mondrian_kernel.app.{args.module}")
            getattr(module, args.command)(args, console)
            if argv is None:
                gc.freeze()  # the process ends: looking for garbage would take 0.3 seconds
        return 0
    except (Exception, KeyboardInterrupt) as error:
        if args.debug:
            traceback.print_exc()
        return _fail(error, console)


class _WithoutPandas:
    """A finder of modules that says of pandas that it is not installed."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("The command line does without pandas.", name=name)


class _Postponed(ModuleType):
    """Stands for a module until a name in it is looked up."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def _leave_out_imports() -> None:
    """Let this process do without pandas, and import scipy.stats when it is used.

    Importing scikit-learn imports both, which takes 0.2 and 0.25 of the 0.75 CPU seconds before a
    command starts.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _WithoutPandas())
    sys.modules.setdefault("scipy.stats", _Postponed("scipy.stats"))


def _fail(error: BaseException, console: Console) -> int:
    """Print the error, unless the command has succeeded or nobody reads the output any more."""
    if isinstance(error, OSError) and error.filename == STANDARD_OUTPUT:
        if sys.stdout is not None:
            # What is still buffered must not fail again when the program ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if console.saved is not None:
            console.note(f"{_sentence(error)} The model is saved in {console.saved}.")
            return 0
        if isinstance(error, BrokenPipeError):
            return 1
    if isinstance(error, KeyboardInterrupt) and console.saved is not None and not str(error):
        error = KeyboardInterrupt(f"Stopped; the model is saved in {console.saved}.")
    console.error(_sentence(error))
    return 1


def _sentence(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "Stopped; nothing was written."
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, ModuleNotFoundError):
        extra = "plot" if error.name == "matplotlib" else "cli"
        return f"{error.name} is missing: pip install 'mondrian-kernel[{extra}]'."
    if isinstance(error, MemoryError):
        return str(error) or "There is not enough memory; lower --trees."
    message = " ".join(str(error).split())
    if isinstance(error, ValueError):
        return message
    return f"An unexpected {type(error).__name__}: {message}. With --debug it says where."


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="mondrian-kernel",
        description="Predict one column of a table from the others, with intervals.",
        epilog=_START,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mondrian-kernel {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, own, running, text) in _COMMANDS.items():
        description, _, details = text.partition("\n\n")
        command = commands.add_parser(
            name,
            help=description,
            description=description,
            epilog=details,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(module=module)
        group = command.add_argument_group("running")
        for place, words in (command, own), (group, f"{running} --json --quiet --debug"):
            for word in words.split():
                options = _ARGUMENTS.get(f"{name} {word}") or _ARGUMENTS[word]
                place.add_argument(*(["-o"] if word == "--output" else []), word, **options)
    return parser


def _number(kind: type, is_valid: Callable[[Any], bool], rule: str) -> Callable[[str], Any]:
    def number(text: str) -> Any:
        value = kind(text)
        if not is_valid(value):
            raise argparse.ArgumentTypeError(f"must {rule}, got {text}")
        return value

    return number


def _option(text: str, metavar: str | None = None, default: Any = None, **options: Any) -> Any:
    """Return options for argparse; the help says what the default is."""
    said = f"{text} (default: {default})" if default or default == 0 else text
    return options | {"help": said, "default": default} | ({"metavar": metavar} if metavar else {})


def _flag(text: str) -> Any:
    return {"help": text, "action": "store_true"}


_COUNT = _number(int, lambda n: n >= 1, "be at least 1")
# Arguments by their names; "command name" is one that differs from that of other commands.
_ARGUMENTS: dict[str, Any] = {
    "data": _option(
        "CSV, TSV (also gzipped) or Parquet file with a header; - reads a pipe", "DATA"
    ),
    "model": _option("a file that 'fit' has written", "MODEL"),
    "inspect model": _option("a saved model", "MODEL"),
    "--decimal": _option(
        "decimal sign of numbers in a text file, . or ,", "SIGN", ".", choices=[".", ","]
    ),
    "--target": _option("the column to predict", "COL", required=True),
    "--task": _option(
        "auto is classification if the target is text or has two values",
        default="auto",
        choices=["auto", "regression", "classification"],
    ),
    "--drop": _option(
        "leave a column out, such as an identifier; may be repeated", "COL", [], action="append"
    ),
    "--categorical": _option(
        "treat the numbers of a column as categories; may be repeated", "COL", [], action="append"
    ),
    "fit --output": _option("where to save the model", "FILE", "model.mondrian"),
    "predict --output": _option(
        "where to write: .csv, .tsv (also .gz) or .parquet, or the standard output", "FILE", "-"
    ),
    "update --output": _option("where to save the model (default: MODEL is replaced)", "FILE"),
    "--report": _option("also write a report, an HTML file", "FILE"),
    "demo --report": _option("where to write the report", "FILE", "mondrian-demo.html"),
    "--holdout": _option(
        "share of the rows to measure on; 0 for none",
        "SHARE",
        settings.HELD_OUT_SHARE,
        type=_number(float, lambda p: 0 <= p < 1, "lie between 0 and 1"),
    ),
    "--interval": _option(
        f"share of true values that the intervals should hold (default: {settings.COVERAGE})",
        "P",
        type=_number(float, lambda p: 0 < p < 1, "lie between 0 and 1"),
    ),
    "--plot": _option("draw the path to a .png, .svg or .pdf file instead of printing it", "FILE"),
    "--trees": _option(
        "number of trees; more are more exact and slower (default: by the number of rows)",
        "M",
        type=_COUNT,
    ),
    "path --trees": _option("number of trees", "M", settings.PATH_TREES, type=_COUNT),
    "--max-rows": _option(
        "use a random sample of N rows if the file has more",
        "N",
        settings.PATH_ROWS,
        type=_number(int, lambda n: n >= 2, "be at least 2"),
    ),
    "--seed": _option(
        "seed of everything random", "N", 0, type=_number(int, lambda n: n >= 0, "be at least 0")
    ),
    "--jobs": _option("number of threads (default: all cores)", "N", type=int),
    "--json": _flag("print the result as JSON"),
    "--quiet": _flag("print no text, notes or progress"),
    "--debug": _flag("show the traceback of an error"),
}

_START = """\
'mondrian-kernel COMMAND --help' describes a command.
Exit codes: 0 success, 1 failure, 2 wrong usage.

examples:
  mondrian-kernel demo
  mondrian-kernel fit houses.csv --target price"""
_LEARNING = "data --decimal --target --task --drop --categorical"
# Of each command: its module, its arguments, how it is run, the help text.
_COMMANDS = {
    "demo": (
        "demo",
        "--report",
        "--seed --jobs",
        """\
Learn a generated data set, compare with other methods, and write a report.

examples:
  mondrian-kernel demo
  mondrian-kernel demo --seed 1 --report demo.html""",
    ),
    "fit": (
        "commands",
        f"{_LEARNING} --output --report --holdout --trees",
        "--seed --jobs",
        """\
Fit a model that predicts one column of a table from the others, and save it.

Numbers are used as they are. A missing number (empty, ?, NA, NaN, null, None) becomes the median,
and a further column marks it. Text becomes one column for each category, and missing text is a
category. A column with more than 50 categories becomes the mean of the target in each category.
The saved model encodes new tables in the same way.

A random fifth of the rows is held out. A model of the other rows is measured on them. The model
that is saved is then fitted to all rows. The report describes the model that was measured.

The first command on a machine compiles for some seconds.

examples:
  mondrian-kernel fit houses.csv --target price --report houses.html
  mondrian-kernel fit haeuser.csv --target preis --decimal , --drop id -o haeuser.mondrian""",
    ),
    "predict": (
        "predict",
        "model data --decimal --interval --output",
        "--jobs",
        """\
Predict the rows of a table with a saved model.

Writes one line for each row, in their order. For numbers: the prediction and the lower and upper
end of its interval. For classes: the most probable one and the probability of each. A category that
the model has not seen counts as different from all others. In CSV and TSV files, text that a
spreadsheet would take for a formula gets an apostrophe in front.

examples:
  mondrian-kernel predict model.mondrian new.csv --interval 0.8 -o predicted.csv
  zcat new.csv.gz | mondrian-kernel predict model.mondrian - | head""",
    ),
    "path": (
        "commands",
        f"{_LEARNING} --plot --trees --max-rows",
        "--seed --jobs",
        """\
Grow one set of trees through all lifetimes and show the error at each.

The kernel's width is 1/lifetime, on columns divided by their standard deviation. Errors are those
of rows that were left out or held out. After Ctrl-C the path so far is shown.

examples:
  mondrian-kernel path houses.csv --target price
  mondrian-kernel path houses.csv --target price --plot path.svg""",
    ),
    "update": (
        "commands",
        "model data --decimal --output",
        "--jobs",
        """\
Let a saved model learn more rows. The rows of the fit are not needed.

Either all rows are learnt and the model is saved, or nothing changes. Columns are encoded as
in the fit, and all categories that are new count as one. The errors that 'inspect' shows stay
those of the fit.

examples:
  mondrian-kernel update model.mondrian today.csv
  mondrian-kernel update model.mondrian today.csv -o newer.mondrian""",
    ),
    "inspect": (
        "commands",
        "model",
        "",
        """\
Describe a saved model: its lifetimes, its errors on rows held out, and its columns.

examples:
  mondrian-kernel inspect model.mondrian
  mondrian-kernel inspect model.mondrian --json""",
    ),
}
