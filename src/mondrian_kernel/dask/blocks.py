"""Rows in blocks that stay where they are: functions go to them, and answers are put together."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.columns import column_scale, rounded
from mondrian_kernel._trees.checks import (
    check_magnitudes,
    check_weight_range,
    naming,
    no_overflow,
    refuse_dates,
)
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.cluster import Recipe, beside, compute, parts_of, total, warn_if_cramped


class Rows(NamedTuple):
    """Rows of a block: X (n, D), scaled; targets (n, ...) or None; and positive weights (n,)."""

    X: FloatArray
    Y: NDArray[Any] | None
    weight: FloatArray


class Summary(NamedTuple):
    """Rows of each block, sum of weights, and of each number bounds, mean and squared deviations.

    The numbers are the columns, the targets where they are numeric, and the weight. ``mean`` is
    weighted, ``square`` the weighted sum of squared deviations from it.
    """

    lengths: NDArray[np.int64]
    weight: float
    lower: FloatArray
    upper: FloatArray
    mean: FloatArray
    square: FloatArray


class Blocks:
    """Rows (N, D), targets and weights of dask collections, in blocks.

    Every pass over the blocks starts from the collections: rows are not kept in between, so that a
    block may be read from disk each time, and one that was lost with its worker is read again. Rows
    of weight 0 are left out. ``numeric`` says that targets are numbers, which are summarised too.
    """

    def __init__(
        self, X: da.Array, y: Any = None, sample_weight: Any = None, *, numeric: bool = False
    ) -> None:
        none = [None] * X.numblocks[0]
        self.n_columns, self._numeric = int(X.shape[1]), numeric
        self._X = parts_of(X)
        self._y = none if y is None else parts_of(beside(y, X, "y"))
        self._weight = (
            none if sample_weight is None else parts_of(beside(sample_weight, X, "sample_weight"))
        )
        self._scale: FloatArray | None = None

    @cached_property
    def summary(self) -> Summary:
        """Return what has to be known of the rows before they are scaled, from one pass."""
        summary: Summary = self.total(_summarise, _merge_summaries, self._numeric)
        if summary.lengths.sum() == 0:
            raise ValueError("X has no rows, or sample_weight is zero for every one of them.")
        warn_if_cramped(8 * self.n_columns * int(summary.lengths.max()))
        return summary

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self._X)

    @property
    def n_rows(self) -> int:
        """Number of rows with a weight."""
        return int(self.summary.lengths.sum())

    @property
    def box(self) -> FloatArray:
        """Bounding box of the rows, (2, D): division by a scale keeps the order."""
        box = self._bounds[:, : self.n_columns]
        return box if self._scale is None else box / self._scale

    @property
    def _bounds(self) -> FloatArray:
        return np.stack([self.summary.lower, self.summary.upper])

    def check_numbers(self) -> None:
        """Raise ValueError if rows, targets or weights are too large, small or unequal to fit."""
        bounds, n, least = self._bounds, self.n_columns, 1.0 / settings.LARGEST_NUMBER
        check_magnitudes(bounds[:, :n], "X", least=least)
        check_weight_range(bounds[:, -1], "sample_weight")
        if self._numeric:
            check_magnitudes(bounds[:, n:-1], "y", least=least)

    @property
    def target_mean(self) -> FloatArray:
        """Mean of numeric targets, (T,)."""
        return self.summary.mean[self.n_columns : -1]

    def column_scale(self, scale: Any) -> FloatArray:
        """Return what each column is divided by: ``column_scale`` of all rows."""
        if not isinstance(scale, str):
            return column_scale(scale, self.box[:1], None)
        total, n = self.summary.weight, self.n_columns
        mean, square = self.summary.mean[:n], self.summary.square[:n]
        with np.errstate(over="ignore", invalid="ignore"):
            variance = square / total
            # StandardScaler's rule for columns that are constant up to rounding.
            eps = np.finfo(float).eps
            constant = variance <= total * eps * variance + (total * mean * eps) ** 2
        usable = np.isfinite(variance) & ~constant
        return rounded(np.sqrt(np.where(usable, variance, 1.0)))

    def scaled(self, scale: FloatArray) -> Blocks:
        """Return the blocks with every column divided by its scale."""
        _ = self.summary  # of the rows as they come; the copy shares it
        blocks = copy.copy(self)
        blocks._scale = scale
        return blocks

    def without_targets(self) -> Blocks:
        """Return the blocks of rows and weights alone, so that y is not read."""
        blocks = copy.copy(self)
        blocks._y = [None] * self.n_blocks
        return blocks

    def map(
        self, function: Callable[..., Any], *message: Any, each: Sequence[Any] | None = None
    ) -> list[Delayed]:
        """Delayed ``function(rows, *message)`` of each block; the message is sent once.

        With ``each``, one argument for each block, it is ``function(rows, own, *message)``.
        """
        # One task a block, which reads it too where it can: its rows are gone with the task.
        call, sent = dask.delayed(_call, pure=False), dask.delayed(message, traverse=False)
        own = [()] * self.n_blocks if each is None else [(part,) for part in each]
        blocks = zip(self._X, self._y, self._weight, own, strict=True)
        return [call(function, x, y, w, self._scale, sent, *o) for x, y, w, o in blocks]

    def total(
        self, function: Callable[..., Any], merge: Callable[[Any, Any], Any], *message: Any
    ) -> Any:
        """Compute ``function(rows, *message)`` of all blocks and put the answers together."""
        return total(self.map(function, *message), merge)

    def take(self, numbers: NDArray[np.integer]) -> Rows:
        """Fetch the rows of these numbers, in that order. Rows of weight 0 have no number."""
        order = np.argsort(numbers, kind="stable")
        begin = np.concatenate([[0], np.cumsum(self.summary.lengths)])
        pieces = np.split(numbers[order], np.searchsorted(numbers[order], begin[1:-1]))
        wanted = [piece - first for piece, first in zip(pieces, begin[:-1], strict=True)]
        parts: list[Rows] = compute(self.map(_pick, each=wanted))
        back = np.argsort(order, kind="stable")

        def joined(arrays: Sequence[Any]) -> Any:
            return None if arrays[0] is None else np.concatenate(arrays)[back]

        return Rows(*(joined(arrays) for arrays in zip(*parts, strict=True)))


def numbers(y: NDArray[Any]) -> FloatArray:
    """Targets as a float64 matrix (n, T), also where n is 0."""
    refuse_dates(y, "y")
    with naming("y"), no_overflow("y"):
        Y: FloatArray = np.asarray(y, dtype=np.float64)
    return Y[:, None] if Y.ndim == 1 else Y


def _call(
    function: Callable[..., Any],
    x: Any,
    y: Any,
    weight: Any,
    scale: FloatArray | None,
    message: tuple[Any, ...],
    *own: Any,
) -> Any:
    x, y, weight = (part() if isinstance(part, Recipe) else part for part in (x, y, weight))
    X = np.asarray(x, dtype=np.float64)
    Y = None if y is None else np.asarray(y)
    with naming("sample_weight"):
        s = np.ones(X.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
    for name, part in ("y", Y), ("sample_weight", s):
        if part is not None and part.shape[0] != X.shape[0]:
            raise ValueError(
                f"A block of X has {X.shape[0]} rows and that of {name} has {part.shape[0]}."
            )
    if weight is not None:
        used = s != 0
        X, Y, s = X[used], None if Y is None else Y[used], s[used]
    if scale is not None:
        X = np.divide(X, scale, order="C")
    del x  # what was read
    return function(Rows(np.ascontiguousarray(X), Y, s), *own, *message)


def _pick(rows: Rows, index: NDArray[np.integer]) -> Rows:
    Y = None if rows.Y is None else rows.Y[index]
    return Rows(rows.X[index], Y, rows.weight[index])


def _summarise(rows: Rows, numeric: bool) -> Summary:
    X, s = rows.X, rows.weight
    _check_finite(X, "X")
    _check_finite(s[:, None], "sample_weight")
    if s.size and s.min() < 0:
        raise ValueError(f"sample_weight has the negative entry {s.min()}.")
    parts = [X, s[:, None]]
    if numeric:
        assert rows.Y is not None
        Y = numbers(rows.Y)
        _check_finite(Y, "y")
        parts.insert(1, Y)
    values, total = np.hstack(parts), float(s.sum())
    with np.errstate(over="ignore", invalid="ignore"):
        mean = s @ values / total if total > 0 else np.zeros(values.shape[1])
        square = s @ (values - mean) ** 2
    lower, upper = values.min(axis=0, initial=np.inf), values.max(axis=0, initial=-np.inf)
    return Summary(np.array([s.size]), total, lower, upper, mean, square)


def _check_finite(values: FloatArray, name: str) -> None:
    bad = ~np.isfinite(values).all(axis=0)
    if bad.any():
        raise ValueError(
            f"{name} holds NaN or infinity, in column {int(np.argmax(bad))}. Fill or drop the rows."
        )


def _merge_summaries(a: Summary, b: Summary) -> Summary:
    """Join two summaries; means and squares by Chan, Golub and LeVeque's update."""
    total = a.weight + b.weight
    share = b.weight / total if total > 0 else 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        step = b.mean - a.mean
        mean, square = a.mean + share * step, a.square + b.square + a.weight * share * step**2
    lower, upper = np.minimum(a.lower, b.lower), np.maximum(a.upper, b.upper)
    return Summary(np.concatenate([a.lengths, b.lengths]), total, lower, upper, mean, square)
