"""What is refused: boxes, lifetimes and points that make no Mondrian process."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel._typing import FloatArray

MAX_BYTES = 2**30
"""A partition expected to need more memory than this is refused before any work."""


def check_lifetime(lifetime: float) -> float:
    """Lifetime as a float that is at least 0."""
    value = float(lifetime)
    if not value >= 0.0:
        raise ValueError(f"lifetime must be a number >= 0, got {lifetime!r}")
    return value


def _numbers(values: ArrayLike, name: str, ndim: int) -> FloatArray:
    """Copy ``values`` to float64; refuse text, objects, complex numbers and the wrong shape."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    with np.errstate(over="ignore"):  # of a longer float: infinite, and refused as such
        return array.astype(np.float64)


def check_box(lower: ArrayLike, upper: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Bounds of a box as new float64 arrays; a ValueError names the first bad dimension."""
    low, high = _numbers(lower, "lower", 1), _numbers(upper, "upper", 1)
    if low.shape != high.shape or low.size == 0:
        raise ValueError(
            "lower and upper must have the same, non-zero length, "
            f"got shapes {low.shape} and {high.shape}"
        )
    for name, bound in (("lower", low), ("upper", high)):
        if (bad := ~np.isfinite(bound)).any():
            d = bad.argmax()
            raise ValueError(f"{name}[{d}] must be finite, got {bound[d]}")
    if (bad := low > high).any():
        d = bad.argmax()
        raise ValueError(f"lower[{d}]={low[d]} is greater than upper[{d}]={high[d]}")
    with np.errstate(over="ignore"):
        side = 2.0 * (high - low)  # twice the side: room for the sum of its parts
    if (bad := ~np.isfinite(side)).any():
        d = bad.argmax()
        raise ValueError(
            f"upper[{d}] - lower[{d}] overflows: {high[d]} - {low[d]}; rescale dim {d}"
        )
    return low, high


def check_nested(
    lower: FloatArray,
    upper: FloatArray,
    outer_lower: FloatArray,
    outer_upper: FloatArray,
    action: str,
) -> None:
    """Refuse ``action`` unless [lower, upper] lies within [outer_lower, outer_upper]."""
    if lower.size != outer_lower.size:
        raise ValueError(
            f"cannot {action}: the smaller box has {lower.size} dim(s), "
            f"the larger box {outer_lower.size}"
        )
    if (bad := (lower < outer_lower) | (outer_upper < upper)).any():
        d = bad.argmax()
        raise ValueError(
            f"cannot {action}: in dim {d}, [{lower[d]}, {upper[d]}] does not lie within "
            f"[{outer_lower[d]}, {outer_upper[d]}]"
        )


def check_size(lower: FloatArray, upper: FloatArray, lifetime: float) -> None:
    """Refuse a box on which the partition is expected to need more than `MAX_BYTES`."""
    side = upper - lower
    with np.errstate(over="ignore"):
        expected = float(np.prod(1.0 + lifetime * side[side > 0]))
    bytes_per_cell = 2 * (2 * 8 * side.size + 2 * 8 + 4 * 4)  # about two nodes a cell
    if expected * bytes_per_cell > MAX_BYTES:
        raise ValueError(
            f"a Mondrian process on this box until lifetime={lifetime!r} has {expected:.3g} cells "
            f"on average (the product of 1 + lifetime * side over {side.size} dim(s)), more than "
            f"the {MAX_BYTES // bytes_per_cell:,} that are allowed; "
            "choose a smaller lifetime or a smaller box"
        )


def check_points(X: ArrayLike, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Rows as float64; a ValueError names the first row that is not in [lower, upper]."""
    points = _numbers(X, "X", 2)
    if points.shape[1] != lower.size:
        raise ValueError(f"X has {points.shape[1]} column(s), but the box has {lower.size} dim(s)")
    if (bad := ~((lower <= points) & (points <= upper))).any():
        row, d = np.argwhere(bad)[0]
        raise ValueError(
            f"row {row} of X is outside the box: in dim {d}, {points[row, d]} is not in "
            f"[{lower[d]}, {upper[d]}]; extend the partition to a box that contains it"
        )
    return points
