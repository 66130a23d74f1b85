"""The words of the command line; imports nothing heavy, so that help is at once there."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from mondrian_kernel import __version__

_DATA = "CSV, TSV (also gzipped) or Parquet file with a header; - reads a pipe"


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="mondrian-kernel",
        description="Laplace-kernel learning with the kernel width chosen for you.",
        epilog="Start with 'mondrian-kernel demo'; 'mondrian-kernel COMMAND --help' has an example "
        "of each. Exit codes: 0 success, 1 failure, 2 wrong usage.",
    )
    parser.add_argument("--version", action="version", version=f"mondrian-kernel {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (summary, text, options, shared) in _COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, description=text.partition("\n\n")[0],
            epilog=text.partition("\n\n")[2],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        options(command)
        _shared(command, shared)
    return parser


def _shared(command: argparse.ArgumentParser, some: str) -> None:
    """Add the options that all commands have, and those of ``some``."""
    group = command.add_argument_group("running")
    if "seed" in some:
        seed = "seed of all that is random (0)"
        group.add_argument("--seed", type=_whole(0), default=0, metavar="N", help=seed)
    if "jobs" in some:
        group.add_argument("--jobs", type=int, default=-1, metavar="N", help="threads (all cores)")
    group.add_argument("--json", action="store_true", help="the result as JSON")
    group.add_argument("--quiet", action="store_true", help="no words, notes or progress")
    group.add_argument("--debug", action="store_true", help="the traceback of an error")


def _demo(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--report", default="mondrian-demo.html", metavar="FILE",
        help="where to write the report (mondrian-demo.html)",
    )  # fmt: skip


def _learning(command: argparse.ArgumentParser) -> None:
    command.add_argument("data", metavar="DATA", help=_DATA)
    command.add_argument("--target", required=True, metavar="COL", help="the column to predict")
    command.add_argument(
        "--task", choices=["auto", "regression", "classification"], default="auto",
        help="auto: classification if the target is text or has two values, else regression",
    )  # fmt: skip
    command.add_argument(
        "--drop", action="append", default=[], metavar="COL",
        help="leave a column out, such as an identifier; may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--categorical", action="append", default=[], metavar="COL",
        help="take the numbers of a column as categories; may be repeated",
    )  # fmt: skip


def _fit(command: argparse.ArgumentParser) -> None:
    _learning(command)
    command.add_argument(
        "-o", "--output", default="model.mondrian", metavar="FILE",
        help="where to save the model (model.mondrian)",
    )  # fmt: skip
    command.add_argument("--report", metavar="FILE", help="also write a report, an HTML file")
    command.add_argument(
        "--holdout", type=_share(least=0.0), default=0.2, metavar="SHARE",
        help="part of the rows to set aside for measuring (0.2); 0 for none",
    )  # fmt: skip
    command.add_argument(
        "--trees", type=_whole(1), metavar="M",
        help="number of trees; more come closer to the exact kernel",
    )  # fmt: skip


def _predict(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help="a file that 'fit' has written")
    command.add_argument("data", metavar="DATA", help=_DATA)
    command.add_argument(
        "--interval", type=_share(), metavar="P",
        help="also an interval which holds the true value with this probability, such as 0.9",
    )  # fmt: skip
    command.add_argument(
        "-o", "--output", default="-", metavar="FILE",
        help="where to write: .csv, .tsv (also .gz) or .parquet; - is the standard output",
    )  # fmt: skip


def _path(command: argparse.ArgumentParser) -> None:
    _learning(command)
    command.add_argument(
        "--plot", metavar="FILE", help="draw the path instead, as .png, .svg or .pdf"
    )
    command.add_argument(
        "--trees", type=_whole(1), default=350, metavar="M", help="number of trees (350)"
    )
    command.add_argument(
        "--max-rows", type=_whole(2), default=4000, metavar="N",
        help="use a random sample of so many rows of a larger file (4000)",
    )  # fmt: skip


def _update(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help="a file that 'fit' has written")
    command.add_argument("data", metavar="DATA", help=_DATA)
    command.add_argument(
        "-o", "--output", metavar="FILE", help="where to save the model (in its own place)"
    )


def _inspect(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help="a saved model")


def _reproduce(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "names", nargs="*", default=["all"], metavar="NAME", help="experiments, by default all"
    )
    command.add_argument(
        "--data", metavar="DIR", help="folder of the data sets, for experiments on real data"
    )
    command.add_argument("--quick", action="store_true", help="small versions, in minutes")
    command.add_argument(
        "--out", default="reproduced", metavar="DIR", help="where to write results (reproduced)"
    )


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


_COMMANDS = {
    "demo": (
        "learn a built-in data set and show what this is good for",
        """\
Learn the kernel width of a built-in data set, compare with tuned rivals and write a report.

example:
  mondrian-kernel demo""",
        _demo,
        "seed jobs",
    ),
    "fit": (
        "fit a table and save the model",
        """\
Fit a model that predicts one column of a table from the others, and save it.

Numbers are used as they are; text becomes one column of zeros and ones for each of its (at most
50) most frequent categories; missing values (empty, ?, NA, NaN, null, None) become the median, or
no category, and one more column says where they were. All of that is kept in the model.

A random fifth of the rows is set aside before anything is fitted, and errors are measured there.
Up to 8000 rows (50000 for classes) the width found is then fitted to all rows, and that is the
model saved. Of larger files so many random rows are fitted, with 400 trees (fewer above 250000
rows, 100 from a million on), and the others are learnt one after the other as 'update' does; the
rows set aside stay out, and intervals get their width from them, the same for every row.

example:
  mondrian-kernel fit houses.csv --target price --report houses.html
  mondrian-kernel predict model.mondrian new_houses.csv --interval 0.9 -o prices.csv""",
        _fit,
        "seed jobs",
    ),
    "predict": (
        "predict the rows of a table",
        """\
Predict the rows of a table with a saved model.

Writes one line a row, in their order: the prediction and, if asked for, the ends of an interval;
for classes the most probable one and the probability of each. A category that the model does not
know counts as none of those it knows.

example:
  mondrian-kernel predict model.mondrian new.csv --interval 0.9 -o predicted.csv
  zcat new.csv.gz | mondrian-kernel predict model.mondrian - | head""",
        _predict,
        "jobs",
    ),
    "path": (
        "show the error at every kernel width",
        """\
Follow one set of trees through all kernel widths and show the error at each.

The width is 1/lifetime, on columns divided by their standard deviation. After Ctrl-C the path so
far is shown.

example:
  mondrian-kernel path houses.csv --target price
  mondrian-kernel path houses.csv --target price --plot path.svg""",
        _path,
        "seed jobs",
    ),
    "update": (
        "learn further rows, online",
        """\
Let a saved model learn further rows; those it was fitted on are not needed.

Either all rows are learnt and the model replaced, or it stays as it was. The encoding of columns
stays: a category that the model does not know counts as none of those it knows.

example:
  mondrian-kernel update model.mondrian today.csv""",
        _update,
        "jobs",
    ),
    "inspect": (
        "describe a saved model",
        """\
Describe a saved model: its columns, its width, what it was measured at.

example:
  mondrian-kernel inspect model.mondrian""",
        _inspect,
        "",
    ),
    "reproduce": (
        "run the experiments of the paper",
        """\
Run the experiments of the paper and compare its claims with what was found.

example:
  mondrian-kernel reproduce --quick
  mondrian-kernel reproduce all --data folder --out results""",
        _reproduce,
        "seed",
    ),
}
