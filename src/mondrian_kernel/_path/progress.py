"""How a path tells that it advances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Callback = Callable[[int, int, dict[str, Any]], None]
Verbose = int | Callback


def listener(verbose: Verbose) -> Callback | None:
    """Return what a path is to call as it advances: nothing, :func:`report` or the given one."""
    if callable(verbose):
        return verbose
    return report if verbose else None


def report(done: int, total: int, info: dict[str, Any]) -> None:
    """Print how far a path has come."""
    print(f"lifetime path {done}/{total}: lifetime {info['lifetime']:.4g}, best {info['best']:.4g}")
