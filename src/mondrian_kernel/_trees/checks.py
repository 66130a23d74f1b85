"""Checks of what trees are grown on: rows, their ranges, the bound on cells; and the seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray

_HUGE = float(np.finfo(np.float64).max)


def check_rows(estimator: BaseEstimator, X: ArrayLike, *, reset: bool = False) -> FloatArray:
    """Validate rows as a float64 array whose ranges do not overflow."""
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


def check_vectors(**arrays: Any) -> None:
    """Raise ValueError unless each is a vector of float64."""
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.ndim != 1:
            raise ValueError(f"{name} is not a vector of numbers.")


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


def check_more_ranges(trees: Trees, rows: FloatArray) -> None:
    """Raise ValueError if the ranges of new rows and of those in the trees together overflow."""
    from mondrian_kernel._kernels.extend import all_below

    if all_below(rows, trees.root, trees.lower, trees.upper, _HUGE / (4 * trees.n_dims)):
        return
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


def draw_seed(random_state: Any) -> int:
    """Draw the seed of the trees from a scikit-learn ``random_state``."""
    seed: int = check_random_state(random_state).randint(2**63 - 1, dtype=np.int64)
    return int(seed)
