"""How many trees a model has, where that is not given."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mondrian_kernel._trees.checks import check_budget
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._typing import FloatArray

# Errors fall until there are some thousand trees; see the table of errors and times in the guide.
_MOST, _LEAST = 4000, 100
_PAIRS = 30_000_000
# A classifier solves many systems instead of one, each with a column a class.
_MOST_OF_CLASSES, _PAIRS_OF_CLASSES = 1000, 150_000_000
_BYTES = 1.2e9
_PILOT = 10


def enough_trees(
    n_estimators: int | str,
    shape: tuple[int, ...],
    max_cells: int | None,
    cells_of_a_few: Callable[[int], int],
    n_classes: int = 0,
) -> int:
    """Return the number of trees asked for, or as many as are worth it and fit in memory.

    ``shape`` is that of the rows; ``cells_of_a_few`` tells how many cells so many trees have;
    ``n_classes`` is 0 where numbers are predicted.
    """
    if isinstance(n_estimators, str):
        n_rows, n_dims = shape
        most, pairs = _MOST, _PAIRS / n_rows
        if n_classes:
            most = _MOST_OF_CLASSES
            pairs = _PAIRS_OF_CLASSES / (n_rows * (n_classes if n_classes > 2 else 1))
        cells = cells_of_a_few(_PILOT) / _PILOT
        bounds = [pairs, _BYTES / (2 * cells * (16 * n_dims + 44))]
        if max_cells is not None:
            bounds.append(max_cells / cells)
        n_estimators = int(np.clip(min(bounds), _LEAST, most))
    check_budget(max_cells, n_estimators)
    return n_estimators


def cells_of_trees(rows: FloatArray, lifetime: float, seed: int, n_trees: int = _PILOT) -> int:
    """Return the number of cells of a few trees at a lifetime."""
    growth = Growth(rows, n_trees, seed, 1)
    growth.advance_within(lifetime, n_trees * rows.shape[0])
    return growth.n_cells
