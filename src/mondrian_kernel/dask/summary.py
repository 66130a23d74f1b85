"""What has to be known of the rows before trees can grow, from one pass over the blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._model.scaling import dim_scale, rounded
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.blocks import Blocks, Rows
from mondrian_kernel.dask.room import warn_if_cramped
from mondrian_kernel.dask.targets import numbers


class Moments(NamedTuple):
    """Sum of weights, and weighted mean and sum of squared deviations of each column."""

    weight: float
    mean: FloatArray
    square: FloatArray


class Summary(NamedTuple):
    """Rows of each block, bounds of the columns, and moments of columns and targets."""

    lengths: NDArray[np.int64]
    lower: FloatArray
    upper: FloatArray
    rows: Moments
    targets: Moments | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.lengths.sum())

    def box(self, scale: FloatArray) -> FloatArray:
        """Bounding box of the scaled rows, lower then upper sides: division keeps the order."""
        return np.concatenate([self.lower / scale, self.upper / scale])


def summarise(blocks: Blocks, *, numeric: bool = False) -> Summary:
    """Go through the rows once; ``numeric`` targets are looked at too."""
    summary: Summary = blocks.total(_summarise, _merge, numeric)
    if summary.n_rows == 0:
        raise ValueError("X has no rows, or sample_weight is zero for every one of them.")
    warn_if_cramped(8 * blocks.n_dims * int(summary.lengths.max()))
    return summary


def _summarise(rows: Rows, numeric: bool) -> Summary:
    X, s = rows.X, rows.weight
    _check_finite(X, "X")
    _check_finite(s[:, None], "sample_weight")
    if s.size and s.min() < 0:
        raise ValueError(f"sample_weight has the negative entry {s.min()}.")
    targets = None
    if numeric:
        assert rows.Y is not None
        Y = numbers(rows.Y)
        _check_finite(Y, "y")
        targets = _moments(Y, s)
    return Summary(
        np.array([s.size]),
        X.min(axis=0, initial=np.inf),
        X.max(axis=0, initial=-np.inf),
        _moments(X, s),
        targets,
    )


def _check_finite(values: FloatArray, name: str) -> None:
    bad = ~np.isfinite(values).all(axis=0)
    if bad.any():
        raise ValueError(
            f"{name} holds NaN or infinity, in column {int(np.argmax(bad))}. Fill or drop the rows."
        )


def _moments(values: FloatArray, weight: FloatArray) -> Moments:
    total = float(weight.sum())
    with np.errstate(over="ignore", invalid="ignore"):
        mean = weight @ values / total if total > 0 else np.zeros(values.shape[1])
        return Moments(total, mean, weight @ (values - mean) ** 2)


def _merge(a: Summary, b: Summary) -> Summary:
    targets = None
    if a.targets is not None and b.targets is not None:
        targets = _merge_moments(a.targets, b.targets)
    return Summary(
        np.concatenate([a.lengths, b.lengths]),
        np.minimum(a.lower, b.lower),
        np.maximum(a.upper, b.upper),
        _merge_moments(a.rows, b.rows),
        targets,
    )


def _merge_moments(a: Moments, b: Moments) -> Moments:
    """Chan, Golub and LeVeque's update of means and sums of squares."""
    total = a.weight + b.weight
    share = b.weight / total if total > 0 else 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        step = b.mean - a.mean
        return Moments(
            total, a.mean + share * step, a.square + b.square + a.weight * share * step**2
        )


def column_scale(scale: Any, summary: Summary) -> FloatArray:
    """Return what each column is divided by: ``dim_scale`` of all rows."""
    if not isinstance(scale, str):
        return dim_scale(scale, summary.lower[None], None)
    total, mean, square = summary.rows
    with np.errstate(over="ignore", invalid="ignore"):
        variance = square / total
        # StandardScaler's rule for columns that are constant up to rounding.
        eps = np.finfo(float).eps
        constant = variance <= total * eps * variance + (total * mean * eps) ** 2
    usable = np.isfinite(variance) & ~constant
    return rounded(np.sqrt(np.where(usable, variance, 1.0)))
