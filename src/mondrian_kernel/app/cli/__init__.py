"""The command line: what is typed, done, and said when it fails."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module

from mondrian_kernel.app.cli.console import Console
from mondrian_kernel.app.cli.parser import make_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str or None, default=None
        What is typed after the name of the program; None reads it from the system.

    Returns
    -------
    code : int
        0 for success, 1 for failure. Words that make no sense exit with 2.
    """
    args = make_parser().parse_args(argv)
    console = Console(as_json=args.json, quiet=args.quiet)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_: console.note(str(message))
            import_module(f"mondrian_kernel.app.cli.{args.command}").run(args, console)
        sys.stdout.flush()
        return 0
    except (Exception, KeyboardInterrupt) as error:
        if args.debug:
            traceback.print_exc()
        return _failed(error, console)


def _failed(error: BaseException, console: Console) -> int:
    """Say in one sentence what went wrong, if that is something to be told."""
    if isinstance(error, BrokenPipeError):
        # Whoever read the output has left; what is still buffered must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    console.error(_sentence(error))
    return 1


def _sentence(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "Stopped; nothing was written."
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is missing: pip install 'mondrian-kernel[{_extra(error)}]'."
    if isinstance(error, MemoryError):
        return "There is not enough memory; lower --trees."
    if isinstance(error, ValueError):
        return " ".join(str(error).split())
    return f"An unexpected {type(error).__name__}: {error}. With --debug it says where."


def _extra(error: ModuleNotFoundError) -> str:
    return "plot" if error.name == "matplotlib" else "cli"
