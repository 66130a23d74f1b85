"""Which rows are held out to choose by, and to measure errors with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._typing import FloatArray


class Folds(NamedTuple):
    """Parts of the rows, each held out once: ``of_row`` (N,) is its number, -1 for none."""

    of_row: NDArray[np.intp]
    n_folds: int

    def take(self, some: NDArray[np.intp]) -> Folds:
        """Return the parts of some of the rows."""
        return Folds(self.of_row[some], self.n_folds)

    def first(self, n_folds: int) -> Folds:
        """Return the first of the parts; rows of the others are never held out."""
        n_folds = min(n_folds, self.n_folds)
        return Folds(np.where(self.of_row < n_folds, self.of_row, -1), n_folds)

    @property
    def held_out(self) -> NDArray[np.intp]:
        """Return the rows that are held out once."""
        return np.flatnonzero(self.of_row >= 0)

    def fitted(self) -> FloatArray:
        """Return 1 where a row is fitted while a part is held out, else 0: (N, n_folds)."""
        fitted: FloatArray = (self.of_row[:, None] != np.arange(self.n_folds)).astype(np.float64)
        return fitted

    def take_held_out(self, by_fold: FloatArray) -> FloatArray:
        """Return, for each row held out, its entry of (N, n_folds, ...) in its own fold."""
        rows = self.held_out
        out: FloatArray = by_fold[rows, self.of_row[rows]]
        return out


def draw_folds(n_rows: int, seed: int) -> Folds:
    """Return five folds of all rows where they are few, else parts of 15 % of the rows.

    There are as many parts as it takes to have some thousand errors, at most three.
    """
    order = np.random.default_rng([seed, 3]).permutation(n_rows)
    of_row = np.full(n_rows, -1, np.intp)
    if n_rows <= settings.FOLD_ALL_ROWS:
        n_folds = min(5, n_rows // 2)
        if n_folds >= 2:
            of_row[order] = np.arange(n_rows) % n_folds
        return Folds(of_row, n_folds if n_folds >= 2 else 0)
    size = min(int(settings.FOLD_SHARE * n_rows), settings.FOLD_MOST_ROWS)
    n_folds = int(np.clip(np.ceil(settings.FOLD_ROWS / size), 1, 3))
    of_row[order[: n_folds * size]] = np.repeat(np.arange(n_folds), size)
    return Folds(of_row, n_folds)
