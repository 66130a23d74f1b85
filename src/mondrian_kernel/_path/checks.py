"""What a path is asked for, checked before any work is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import _check_sample_weight

from mondrian_kernel._path.result import CRITERIA
from mondrian_kernel._typing import FloatArray

ALPHAS = np.logspace(-4, 1, 11)
# Without a matrix the smallest penalties take most of the steps.
_RIDGE_ALPHAS = ALPHAS[2:]


@contextmanager
def blamed_on(name: str) -> Iterator[None]:
    """Name the argument in errors that are about what is in it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def check_alphas(alphas: ArrayLike | None) -> FloatArray:
    """Positive penalties, increasing; the default ones for None."""
    if alphas is None:
        return _RIDGE_ALPHAS.copy()
    out = _numbers(np.atleast_1d(alphas), "alphas")
    if out.size == 0 or out.min() <= 0:
        raise ValueError(f"alphas must be positive numbers, at least one, got {alphas!r}.")
    return out


def _numbers(values: ArrayLike, name: str) -> FloatArray:
    out: FloatArray = check_array(
        values, ensure_2d=False, ensure_min_samples=0, dtype=np.float64, input_name=name
    )
    return np.unique(out)


def check_lifetimes(lifetimes: ArrayLike) -> FloatArray:
    """Lifetimes that are not negative, increasing."""
    out = _numbers(lifetimes, "lifetimes")
    if out.size == 0 or out.min() < 0:
        raise ValueError(f"lifetimes must be at least one and not negative, got {lifetimes!r}.")
    return out


def check_options(
    criterion: str,
    solver: str,
    validation: object,
    max_lifetime: float | None,
    n_lifetimes: int,
    tol: float,
) -> None:
    """Refuse what no path can be made of, before any work is done."""
    if criterion not in CRITERIA:
        raise ValueError(f"criterion must be one of {CRITERIA}, got {criterion!r}.")
    if solver not in ("auto", "dense", "lanczos", "sgd"):
        raise ValueError(f"solver must be 'auto', 'dense', 'lanczos' or 'sgd', got {solver!r}.")
    if criterion == "holdout" and validation is None:
        raise ValueError("criterion='holdout' needs rows to hold out: pass validation=(X, y).")
    if validation is not None and not (isinstance(validation, tuple) and len(validation) == 2):
        raise ValueError("validation must be a pair (X, y).")
    if max_lifetime is not None and not (isinstance(max_lifetime, Real) and max_lifetime > 0):
        raise ValueError(f"max_lifetime must be positive, got {max_lifetime!r}.")
    if not (isinstance(n_lifetimes, Integral) and n_lifetimes >= 1):
        raise ValueError(f"n_lifetimes must be a whole number, at least 1, got {n_lifetimes!r}.")
    if not (isinstance(tol, Real) and tol > 0):
        raise ValueError(f"tol must be positive, got {tol!r}.")


def check_targets(y: ArrayLike, rows: FloatArray) -> FloatArray:
    """Targets as a float64 matrix (N, T)."""
    first = np.asarray(y).ravel()[:1].tolist()
    if first and isinstance(first[0], str | bytes):
        raise ValueError(
            f"loss='squared' takes numbers, but y holds classes such as {first[0]!r}. Choose "
            "loss='log_loss' or 'hinge'."
        )
    Y: FloatArray = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    check_consistent_length(rows, Y)
    return Y[:, None] if Y.ndim == 1 else Y


def check_weights(sample_weight: ArrayLike | None, rows: FloatArray) -> FloatArray | None:
    """Sample weights that are not negative, or None."""
    if sample_weight is None:
        return None
    weight: FloatArray = _check_sample_weight(
        sample_weight, rows, dtype=np.float64, ensure_non_negative=True
    )
    if not weight.any():
        raise ValueError("sample_weight is zero for every row: nothing is left to fit.")
    return weight


def with_weight(
    rows: FloatArray, Y: FloatArray, weight: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return the rows whose weight is not zero."""
    if weight is None or weight.all():
        return rows, Y, weight
    used = weight > 0
    return rows[used], Y[used], weight[used]


def join_equal(
    rows: FloatArray, targets: NDArray[Any], sample_weight: FloatArray | None
) -> tuple[NDArray[np.intp], FloatArray]:
    """Find rows that differ in themselves or in their targets, in a fixed order.

    A row of weight 2 is as good as two equal ones then, and equal rows are left out together.

    Returns
    -------
    first : ndarray of int
        One row of each set of equal ones.
    weight : ndarray like ``first``
        Sum of their weights.
    """
    s = np.ones(rows.shape[0]) if sample_weight is None else sample_weight
    order = np.lexsort([*targets.T, *rows.T])
    changes = [(part[order[1:]] != part[order[:-1]]).any(axis=1) for part in (rows, targets)]
    begin = np.flatnonzero(np.append(True, changes[0] | changes[1]))
    return order[begin], np.add.reduceat(s[order], begin)


def join_copies(
    rows: FloatArray, Y: FloatArray, weight: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Join rows that agree in X and y into one of their summed weight, in order of appearance.

    Repeated rows and weights are then the same thing in all that follows, and copies of a row do
    not stay when it is left out.
    """
    first, total = join_equal(rows, Y, weight)
    if first.size == rows.shape[0]:
        return rows, Y, weight
    place = np.argsort(first)
    kept = first[place]
    return rows[kept], Y[kept], total[place]
