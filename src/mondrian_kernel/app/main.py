"""Run a command of the command line, and tell an error in one sentence."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module

from mondrian_kernel.app.arguments import make_parser
from mondrian_kernel.app.console import STANDARD_OUTPUT, Console

# The module of each command. It is imported when the command runs, so that help comes at once.
_MODULES = {
    "fit": "fit_update_inspect",
    "update": "fit_update_inspect",
    "inspect": "fit_update_inspect",
    "predict": "predict",
    "path": "path_demo_reproduce",
    "demo": "path_demo_reproduce",
    "reproduce": "path_demo_reproduce",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str or None, default=None
        The arguments after the name of the program; None reads them from the system.

    Returns
    -------
    code : int
        0 for success, 1 for failure. Wrong arguments exit with 2.
    """
    args = make_parser().parse_args(argv)
    console = Console(as_json=args.json, quiet=args.quiet)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_: console.note(str(message))
            module = import_module(f"mondrian_kernel.app.{_MODULES[args.command]}")
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
        return "There is not enough memory; lower --trees."
    message = " ".join(str(error).split())
    if isinstance(error, ValueError):
        return message
    return f"An unexpected {type(error).__name__}: {message}. With --debug it says where."
