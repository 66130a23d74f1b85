"""The command line: its arguments, running a command, and telling an error in one sentence.

Nothing heavy is imported here, so that help comes at once. A command's module is imported when the
command runs.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module

from mondrian_kernel import __version__
from mondrian_kernel import _settings as settings
from mondrian_kernel.app.console import STANDARD_OUTPUT, Console

_DATA = "CSV, TSV (also gzipped) or Parquet file with a header; - reads a pipe"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 for success and 1 for failure. Wrong arguments exit with 2."""
    args = make_parser().parse_args(argv)
    console = Console(as_json=args.json, quiet=args.quiet)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_: console.note(str(message))
            module = import_module(f"mondrian_kernel.app.{args.module}")
            getattr(module, args.command)(args, console)
        return 0
    except (Exception, KeyboardInterrupt) as error:
        if args.debug:
            traceback.print_exc()
        return _fail(error, console)


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
        epilog="Start with 'mondrian-kernel demo'. 'mondrian-kernel COMMAND --help' shows examples."
        " Exit codes: 0 success, 1 failure, 2 wrong usage.",
    )
    parser.add_argument("--version", action="version", version=f"mondrian-kernel {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (summary, text, add_arguments, module, shared) in _COMMANDS.items():
        description, _, details = text.partition("\n\n")
        command = commands.add_parser(
            name,
            help=summary,
            description=description,
            epilog=details,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_arguments(command)
        command.set_defaults(module=module)
        _add_shared(command, shared)
    return parser


def _add_shared(command: argparse.ArgumentParser, shared: str) -> None:
    """Add the options of all commands, and those named in ``shared``."""
    group = command.add_argument_group("running")
    if "seed" in shared:
        seed = "seed of everything random (0)"
        group.add_argument("--seed", type=_whole(0), default=0, metavar="N", help=seed)
    if "jobs" in shared:
        group.add_argument("--jobs", type=int, metavar="N", help="threads (all cores)")
    group.add_argument("--json", action="store_true", help="print the result as JSON")
    group.add_argument("--quiet", action="store_true", help="no words, notes or progress")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")


def _add_data(command: argparse.ArgumentParser) -> None:
    command.add_argument("data", metavar="DATA", help=_DATA)
    decimal = "decimal sign of numbers in a text file: . (default) or ,"
    command.add_argument("--decimal", choices=[".", ","], default=".", help=decimal)


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help="a file that 'fit' has written")


def _add_output(command: argparse.ArgumentParser, default: str | None, text: str) -> None:
    command.add_argument("-o", "--output", default=default, metavar="FILE", help=text)


def _learning(command: argparse.ArgumentParser) -> None:
    _add_data(command)
    command.add_argument("--target", required=True, metavar="COL", help="the column to predict")
    command.add_argument(
        "--task",
        choices=["auto", "regression", "classification"],
        default="auto",
        help="auto: classification if the target is text or has two values, else regression",
    )
    drop = "leave a column out, such as an identifier; may be repeated"
    command.add_argument("--drop", action="append", default=[], metavar="COL", help=drop)
    categorical = "treat the numbers of a column as categories; may be repeated"
    command.add_argument(
        "--categorical", action="append", default=[], metavar="COL", help=categorical
    )


def _fit(command: argparse.ArgumentParser) -> None:
    _learning(command)
    _add_output(command, "model.mondrian", "where to save the model (model.mondrian)")
    command.add_argument("--report", metavar="FILE", help="also write a report, an HTML file")
    holdout = (
        f"share of the rows to set aside for measuring ({settings.HELD_OUT_SHARE}); 0 for none"
    )
    command.add_argument(
        "--holdout",
        type=_share(least=0.0),
        default=settings.HELD_OUT_SHARE,
        metavar="SHARE",
        help=holdout,
    )
    trees = "number of trees; more trees come closer to the exact kernel"
    command.add_argument("--trees", type=_whole(1), metavar="M", help=trees)


def _predict(command: argparse.ArgumentParser) -> None:
    _add_model(command)
    _add_data(command)
    interval = f"share of true values to be inside the intervals ({settings.COVERAGE})"
    command.add_argument("--interval", type=_share(), metavar="P", help=interval)
    output = "where to write: .csv, .tsv (also .gz) or .parquet; - is the standard output"
    _add_output(command, "-", output)


def _path(command: argparse.ArgumentParser) -> None:
    _learning(command)
    plot = "draw the path instead, as .png, .svg or .pdf"
    command.add_argument("--plot", metavar="FILE", help=plot)
    trees = f"number of trees ({settings.PATH_TREES})"
    command.add_argument(
        "--trees", type=_whole(1), default=settings.PATH_TREES, metavar="M", help=trees
    )
    rows = f"of a larger file use a random sample of so many rows ({settings.PATH_ROWS})"
    command.add_argument(
        "--max-rows", type=_whole(2), default=settings.PATH_ROWS, metavar="N", help=rows
    )


def _update(command: argparse.ArgumentParser) -> None:
    _add_model(command)
    _add_data(command)
    _add_output(command, None, "where to save the model (MODEL is replaced)")


def _inspect(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help="a saved model")


def _demo(command: argparse.ArgumentParser) -> None:
    report = "where to write the report (mondrian-demo.html)"
    command.add_argument("--report", default="mondrian-demo.html", metavar="FILE", help=report)


def _whole(least: int) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {number}")
        return number

    return whole_number


def _share(least: float | None = None) -> Callable[[str], float]:
    def number(text: str) -> float:
        share = float(text)
        if not (0 < share < 1 or share == least):
            raise argparse.ArgumentTypeError(f"must lie between 0 and 1, got {text}")
        return share

    return number


# Of each command: a line for the list, the help text, the function that adds its arguments, its
# module, and which shared options it has.
_COMMANDS = {
    "demo": (
        "learn a generated data set and compare with other methods",
        """\
Learn a generated data set, compare with other methods, and write a report.

examples:
  mondrian-kernel demo
  mondrian-kernel demo --seed 1 --report demo.html""",
        _demo,
        "demo",
        "seed jobs",
    ),
    "fit": (
        "fit a table and save the model",
        """\
Fit a model that predicts one column of a table from the others, and save it.

Numbers are used as they are. A missing number (empty, ?, NA, NaN, null, None) becomes the median,
and a further column marks it. Text becomes one column for each category, and missing text is a
category. A column with more than 50 categories becomes the mean of the target in each. The model
keeps all of this.

A random fifth of the rows is held out. A model of the other rows is measured on them. The model
that is saved is then fitted to all rows. The report describes the model that was measured.

The first command on a machine compiles for some seconds.

examples:
  mondrian-kernel fit houses.csv --target price --report houses.html
  mondrian-kernel fit haeuser.csv --target preis --decimal , --drop id -o haeuser.mondrian""",
        _fit,
        "commands",
        "seed jobs",
    ),
    "predict": (
        "predict the rows of a table",
        """\
Predict the rows of a table with a saved model.

Writes one line for each row, in their order. For numbers: the prediction and the lower and upper
end of its interval. For classes: the most probable one and the probability of each. A category that
the model does not know is as far from all others as these are from each other. Text that a
spreadsheet would take for a formula begins with an apostrophe in CSV and TSV files.

examples:
  mondrian-kernel predict model.mondrian new.csv --interval 0.8 -o predicted.csv
  zcat new.csv.gz | mondrian-kernel predict model.mondrian - | head""",
        _predict,
        "predict",
        "jobs",
    ),
    "path": (
        "show the error at every lifetime",
        """\
Grow one set of trees through all lifetimes and show the error at each.

The kernel's width is 1/lifetime, on columns divided by their standard deviation. Errors are those
of rows that were left out or held out. After Ctrl-C the path so far is shown.

examples:
  mondrian-kernel path houses.csv --target price
  mondrian-kernel path houses.csv --target price --plot path.svg""",
        _path,
        "commands",
        "seed jobs",
    ),
    "update": (
        "let a saved model learn more rows",
        """\
Let a saved model learn more rows. It does not need those it was fitted on.

Either all rows are learnt and the model is saved, or nothing changes. Columns are encoded as
before: categories that the model does not know count as one. The errors that 'inspect' shows stay
those of the fit.

examples:
  mondrian-kernel update model.mondrian today.csv
  mondrian-kernel update model.mondrian today.csv -o newer.mondrian""",
        _update,
        "commands",
        "jobs",
    ),
    "inspect": (
        "describe a saved model",
        """\
Describe a saved model: its lifetimes, its errors on rows held out, and its columns.

examples:
  mondrian-kernel inspect model.mondrian
  mondrian-kernel inspect model.mondrian --json""",
        _inspect,
        "commands",
        "",
    ),
}
