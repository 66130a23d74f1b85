"""The scale of each input dim, which a Laplace kernel depends on."""

from __future__ import annotations

from typing import Any

import numpy as np

from mondrian_kernel._typing import FloatArray


def dim_scale(scale: Any, rows: FloatArray, sample_weight: FloatArray | None) -> FloatArray:
    """Return what each dim is divided by: "std", None (nothing) or given positive numbers."""
    n_dims = rows.shape[1]
    if scale is None:
        return np.ones(n_dims)
    if isinstance(scale, str):
        std = _deviation(rows, sample_weight)
        return rounded(np.where(np.isfinite(std) & (std > 0), std, 1.0))
    given = np.array(scale, dtype=np.float64)  # a copy: the caller may change the array
    if given.shape != (n_dims,):
        raise ValueError(
            f"scale must have one number for each of the {n_dims} columns of X, got shape "
            f"{given.shape}."
        )
    if not (np.isfinite(given) & (given > 0)).all():
        raise ValueError(f"scale must be positive and finite, got {scale!r}.")
    return given


def _deviation(rows: FloatArray, sample_weight: FloatArray | None) -> FloatArray:
    """Return the standard deviation of each dim, 0 where it is not more than rounding.

    As of :class:`sklearn.preprocessing.StandardScaler`, which takes longer than to learn from many
    a batch.
    """
    s = np.ones(rows.shape[0]) if sample_weight is None else sample_weight
    n = s.sum()
    with np.errstate(over="ignore", invalid="ignore"):
        mean = s @ rows / n
        rest = rows - mean
        variance = np.maximum(s @ rest**2 - (s @ rest) ** 2 / n, 0.0) / n
        eps = np.finfo(np.float64).eps
        noise = n * eps * variance + (n * mean * eps) ** 2
        deviation: FloatArray = np.where(variance <= noise, 0.0, np.sqrt(variance))
    return deviation


def rounded(scale: FloatArray) -> FloatArray:
    """Round to 32 bits, so that the order in which deviations were summed up does not show."""
    mantissa, exponent = np.frexp(scale)
    out: FloatArray = np.ldexp(np.rint(mantissa * 2.0**32) * 2.0**-32, exponent)
    return out
