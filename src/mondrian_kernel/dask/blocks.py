"""Rows in blocks that stay where they are: functions go to them, and answers are put together."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.faults import clear_errors
from mondrian_kernel.dask.inputs import beside
from mondrian_kernel.dask.recipes import Recipe, parts_of


class Rows(NamedTuple):
    """Rows of a block: X (n, D), scaled; targets (n, ...) or None; and positive weights (n,)."""

    X: FloatArray
    Y: NDArray[Any] | None
    weight: FloatArray


class Blocks:
    """Rows, targets and weights in blocks.

    Every pass over the blocks starts from the collections: nothing is kept in between, so that a
    block may be read from disk each time, and one that was lost with its worker is read again.

    Parameters
    ----------
    X : dask array of shape (N, D), one chunk of columns
        Rows.
    y : dask collection or array-like of shape (N,) or (N, T), or None
        Targets.
    sample_weight : dask collection or array-like of shape (N,), or None
        Weights; rows of weight 0 are left out.
    """

    def __init__(self, X: da.Array, y: Any = None, sample_weight: Any = None) -> None:
        none = [None] * X.numblocks[0]
        self.n_dims = int(X.shape[1])
        self._X = parts_of(X)
        self._y = none if y is None else parts_of(beside(y, X, "y"))
        self._weight = (
            none if sample_weight is None else parts_of(beside(sample_weight, X, "sample_weight"))
        )
        self._scale: FloatArray | None = None
        self._keep: list[Any] = none

    def without_targets(self) -> Blocks:
        """Return the blocks of rows and weights alone, so that y is not read."""
        blocks = copy.copy(self)
        blocks._y = [None] * len(self._X)
        return blocks

    def scaled(self, scale: FloatArray) -> Blocks:
        """Return the blocks with every column divided by its scale."""
        blocks = copy.copy(self)
        blocks._scale = scale
        return blocks

    def some(self, keep: Sequence[NDArray[np.bool_]]) -> Blocks:
        """Return the blocks with some of their rows (of those that have a weight)."""
        blocks = copy.copy(self)
        # On the workers, once: they are as long as the data.
        blocks._keep = persist([dask.delayed(np.asarray, pure=False)(mask) for mask in keep])
        return blocks

    def map(
        self, function: Callable[..., Any], *message: Any, sent: Delayed | None = None
    ) -> list[Delayed]:
        """Delayed ``function(rows, sent, *message)`` of each block; the message is sent once.

        ``sent`` is what :func:`send` has returned, and goes in front of the message.
        """
        once = dask.delayed(message, traverse=False)
        return self._call(function, [once] * len(self._X), [] if sent is None else [sent])

    def total(
        self, function: Callable[..., Any], merge: Callable[[Any, Any], Any], *message: Any
    ) -> Any:
        """Compute ``function(rows, *message)`` of all blocks and put the answers together."""
        return total(self.map(function, *message), merge)

    def take(self, numbers: NDArray[np.integer], lengths: NDArray[np.int64]) -> Rows:
        """Fetch the rows of these numbers, in that order; ``lengths`` are those of the blocks."""
        order = np.argsort(numbers, kind="stable")
        begin = np.concatenate([[0], np.cumsum(lengths)])
        pieces = np.split(numbers[order], np.searchsorted(numbers[order], begin[1:-1]))
        wanted = [(piece - first,) for piece, first in zip(pieces, begin[:-1], strict=True)]
        parts: list[Rows] = compute(self._call(_pick, wanted))
        back = np.argsort(order, kind="stable")

        def joined(arrays: Sequence[Any]) -> Any:
            return None if arrays[0] is None else np.concatenate(arrays)[back]

        return Rows(*(joined(arrays) for arrays in zip(*parts, strict=True)))

    def _call(
        self, function: Callable[..., Any], messages: Sequence[Any], sent: Sequence[Delayed] = ()
    ) -> list[Delayed]:
        # One task a block, which reads it too where it can: its rows are gone with the task.
        call = dask.delayed(_call, pure=False)
        blocks = zip(self._X, self._y, self._weight, self._keep, messages, strict=True)
        return [call(function, x, y, w, keep, self._scale, m, *sent) for x, y, w, keep, m in blocks]


def total(parts: list[Delayed], merge: Callable[[Any, Any], Any]) -> Any:
    """Put answers together two by two, always in the same order, on the workers.

    An answer joins its neighbour as soon as both are there, so that few of them wait in memory.
    """
    together = dask.delayed(merge, pure=False)
    while len(parts) > 1:
        pairs = [together(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[2 * len(pairs) :]
    return compute(parts)[0]


def delayed_call(
    parts: list[Delayed], function: Callable[..., Any], message: tuple[Any, ...]
) -> list[Delayed]:
    """Delayed ``function(part, *message)`` of each part; the message is sent once."""
    sent = dask.delayed(message, traverse=False)
    call = dask.delayed(_apply, pure=False)
    return [call(function, part, sent) for part in parts]


def compute(parts: list[Delayed]) -> list[Any]:
    """Compute, on whatever scheduler is the default, with clear errors."""
    with clear_errors():
        return list(dask.compute(*parts))


def persist(parts: list[Delayed]) -> list[Delayed]:
    """Compute and keep where they are computed."""
    with clear_errors():
        return list(dask.persist(*parts))


def send(message: Any) -> Delayed:
    """Send a message that many passes need to a worker, from which the others fetch it."""
    return persist([dask.delayed(message, traverse=False)])[0]


def add(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add answers that are tuples of arrays or numbers."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _apply(function: Callable[..., Any], part: Any, message: tuple[Any, ...]) -> Any:
    return function(part, *message)


def _call(
    function: Callable[..., Any],
    x: Any,
    y: Any,
    weight: Any,
    keep: NDArray[np.bool_] | None,
    scale: FloatArray | None,
    message: tuple[Any, ...],
    *sent: Any,
) -> Any:
    x, y, weight = (part() if isinstance(part, Recipe) else part for part in (x, y, weight))
    X = np.asarray(x, dtype=np.float64)
    Y = None if y is None else np.asarray(y)
    s = np.ones(X.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
    for name, part in ("y", Y), ("sample_weight", s):
        if part is not None and part.shape[0] != X.shape[0]:
            raise ValueError(
                f"A block of X has {X.shape[0]} rows and that of {name} has {part.shape[0]}."
            )
    for used in None if weight is None else s != 0, keep:
        if used is not None:
            X, Y, s = X[used], None if Y is None else Y[used], s[used]
    if scale is not None:
        X = np.divide(X, scale, order="C")
    del x  # what was read
    return function(Rows(np.ascontiguousarray(X), Y, s), *sent, *message)


def _pick(rows: Rows, index: NDArray[np.integer]) -> Rows:
    Y = None if rows.Y is None else rows.Y[index]
    return Rows(rows.X[index], Y, rows.weight[index])
