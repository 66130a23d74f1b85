"""Checks of what trees are grown on: rows, their ranges, the bound on cells; and the seed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from mondrian_kernel import _settings as settings
from mondrian_kernel._kernels.tables import OnlineTable
from mondrian_kernel._typing import FloatArray

_HUGE = float(np.finfo(np.float64).max)

Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_or_nothing(fit: Fit) -> Fit:
    """Decorate a fit: parameters are checked first, and the estimator stays as it was on failure.

    Otherwise a model that was fitted on other columns would keep its trees and take the number of
    columns of the rows that failed.
    """
    checked = _fit_context(prefer_skip_nested_validation=True)(fit)

    @wraps(fit)
    def whole(self: Any, *args: Any, **options: Any) -> Any:
        with kept_on_failure(self):
            return checked(self, *args, **options)

    return whole  # type: ignore[return-value]


@contextmanager
def kept_on_failure(estimator: Any, undo: Callable[[], None] | None = None) -> Iterator[None]:
    """If anything fails, give an estimator its attributes back and call ``undo``."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        if undo is not None:
            undo()
        raise


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of an argument in front of errors about its contents."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error


@contextmanager
def no_overflow(name: str) -> Iterator[None]:
    """Turn the error of a whole number that no float can hold into one that names an argument."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(f"{name} holds a whole number that is too large.") from error


def refuse_masked(values: Any, name: str) -> None:
    """Raise ValueError for a masked array whose masked entries would count as numbers."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries, which count as NaN: leave these rows out.")


def refuse_dates(values: Any, name: str) -> None:
    """Raise TypeError for dates, which become huge numbers, and ValueError for masked entries."""
    refuse_masked(values, name)
    dtype = getattr(values, "dtype", None)
    dtypes = getattr(values, "dtypes", ()) if dtype is None else (dtype,)
    if not {getattr(d, "kind", None) for d in dtypes}.isdisjoint({"m", "M"}):
        raise TypeError(f"{name} holds dates: turn them into numbers, such as days, first.")


def check_rows(estimator: BaseEstimator, X: ArrayLike, *, reset: bool = False) -> FloatArray:
    """Validate rows as a float64 array whose ranges do not overflow."""
    refuse_dates(X, "X")
    with no_overflow("X"):
        rows: FloatArray = validate_data(
            estimator, X, reset=reset, dtype=np.float64, order="C", estimator=estimator
        )
    if reset:
        check_ranges(rows)
    return rows


def check_columns(estimator: Any, n_columns: int) -> None:
    """Raise ValueError unless a fitted estimator has ``n_columns`` columns, named or not."""
    names = getattr(estimator, "feature_names_in_", None)
    named = names is None or (isinstance(names, np.ndarray) and names.shape == (n_columns,))
    if estimator.n_features_in_ != n_columns or not named:
        raise ValueError(f"The trees have {n_columns} columns, but the rows have others.")


def require(holds: object, problem: str) -> None:
    """Raise ValueError with a problem unless something holds."""
    if not holds:
        raise ValueError(problem)


def check_vectors(**arrays: Any) -> None:
    """Raise ValueError unless each is a vector of float64."""
    for name, array in arrays.items():
        vector = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.ndim == 1
        require(vector, f"{name} is not a vector of numbers.")


def check_numbers(record: object, **shapes: tuple[int, ...]) -> None:
    """Raise ValueError unless these arrays of a record hold finite float64 in these shapes."""
    for name, shape in shapes.items():
        array = getattr(record, name)
        fits = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == shape
        if not fits or not np.isfinite(array).all():
            raise ValueError(
                f"{name} of {type(record).__name__} is not an array of finite numbers of shape "
                f"{shape}."
            )


def check_ranges(rows: FloatArray) -> None:
    """Raise ValueError if the range of a column, or their sum, overflows."""
    with np.errstate(over="ignore"):
        sides = rows.max(axis=0) - rows.min(axis=0)
        overflow = not np.isfinite(sides.sum())
    if overflow:
        worst = int(np.argmax(sides))
        raise ValueError(
            f"The ranges of the columns of X overflow: column {worst} runs from "
            f"{rows[:, worst].min():.3g} to {rows[:, worst].max():.3g}. Rescale X."
        )


def check_magnitudes(values: FloatArray, name: str, *, least: float = 0.0) -> None:
    """Raise ValueError if squares of the columns of ``values`` (N, K) might over- or underflow.

    ``least`` is the smallest range of a column that is not constant.
    """
    low, high = values.min(axis=0), values.max(axis=0)
    with np.errstate(over="ignore"):
        side = high - low
        wrong = (np.maximum(high, -low) > settings.LARGEST_NUMBER) | ((side > 0) & (side < least))
    if wrong.any():
        k = int(np.argmax(wrong))
        culprit = name if values.shape[1] == 1 else f"Column {k} of {name}"
        raise ValueError(
            f"{culprit} runs from {low[k]:.3g} to {high[k]:.3g}. Squares of such numbers overflow "
            "or vanish: divide by a typical value first."
        )


def check_weight_range(weight: FloatArray, name: str) -> None:
    """Raise ValueError if positive weights are so unequal, large or small that sums lose them."""
    low, high = float(weight.min()), float(weight.max())
    if (
        high > settings.WEIGHT_RATIO * low
        or low < 1.0 / settings.LARGEST_WEIGHT
        or high > settings.LARGEST_WEIGHT
    ):
        raise ValueError(
            f"{name} gives weights from {low:.3g} to {high:.3g}, which rounding would lose. Divide "
            "them by their mean, and leave out rows below "
            f"{1.0 / settings.WEIGHT_RATIO:g} of the largest."
        )


def check_penalty(alpha: float, total: float) -> None:
    """Raise ValueError if a penalty is lost beside the sum of the weights of the rows."""
    if alpha < settings.LEAST_PENALTY * total:
        raise ValueError(
            f"alpha={alpha:g} is too small beside rows of the total weight {total:.3g}: rounding "
            f"errors are larger. Take {settings.LEAST_PENALTY * total:.0e} or more."
        )


def check_whole(value: Any, name: str) -> int:
    """Return a whole number from 1 on."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number from 1 on, got {value}.")
    return int(value)


def check_shares(given: ArrayLike, name: str) -> FloatArray:
    """Return numbers between 0 and 1 as a vector."""
    with naming(name):
        shares = np.atleast_1d(np.asarray(given, dtype=np.float64))
    if shares.ndim > 1 or shares.size == 0 or not ((shares > 0) & (shares < 1)).all():
        raise ValueError(f"{name} must lie between 0 and 1, got {given!r}.")
    return shares


def check_more_ranges(trees: OnlineTable, rows: FloatArray) -> None:
    """Raise ValueError if the ranges of new rows and of those in the trees together overflow."""
    root = trees.root[trees.root >= 0][:1]
    check_ranges(np.concatenate([trees.lower[root], trees.upper[root], rows]))


def check_budget(max_cells: int | None, n_estimators: int | str) -> None:
    """Raise ValueError if ``max_cells`` is below the one cell that every tree has."""
    if isinstance(n_estimators, str):  # chosen later
        return
    if max_cells is not None and max_cells < n_estimators:
        raise ValueError(
            f"max_cells={max_cells} is less than n_estimators={n_estimators}, but every tree has "
            "at least one cell. Raise max_cells or lower n_estimators."
        )


def check_memory(n_rows: int, n_bytes: float) -> None:
    """Raise MemoryError if a fit to so many rows takes more memory than the machine has."""
    if n_bytes > (most := machine_memory()):
        raise MemoryError(
            f"A fit to {n_rows} rows takes about {n_bytes / 1e9:.3g} GB of memory, but there are "
            f"{most / 1e9:.3g} GB. Lower n_estimators or max_cells, or fit to fewer of the rows."
        )


def machine_memory() -> float:
    """Return the bytes of memory of this machine or container, infinity if it is not known."""
    limit = Path("/sys/fs/cgroup/memory.max")
    try:
        most = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        text = limit.read_text().strip() if limit.is_file() else "max"
    except (AttributeError, OSError, ValueError):  # a system without these, or a file kept from us
        return np.inf
    return min(most, float(text)) if text.isdigit() else most


def draw_seed(random_state: Any) -> int:
    """Draw the seed of the trees from a scikit-learn ``random_state``."""
    seed: int = check_random_state(random_state).randint(2**63 - 1, dtype=np.int64)
    return int(seed)
