"""What a fit leaves behind beside the model: rows to compare with, importances, errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._typing import FloatArray


@dataclass(frozen=True, eq=False)
class FitNotes:
    """Notes on a fit; no prediction needs them.

    Attributes
    ----------
    background : ndarray of shape (B, D)
        Some of the rows, as numbers, that explanations compare with.
    index : ndarray of shape (N,)
        Place of each row of the model in the table that was fitted; empty if rows are not kept.
    targets : ndarray of shape (N, K)
        Their targets, or in a column the numbers of their classes.
    importances : ndarray of shape (2, n_features_in)
        How much the error on rows held out grows when a column is shuffled, and its deviation;
        (2, 0) if no rows were held out.
    measures : dict
        What was measured on rows held out, by name.
    """

    background: FloatArray
    index: NDArray[np.int64]
    targets: FloatArray
    importances: FloatArray
    measures: dict[str, float] = field(default_factory=dict)

    def check(self, n_columns: int, n_features_in: int) -> None:
        """Raise ValueError unless these can be notes on a model."""
        if self.background.ndim != 2 or self.background.shape[1] != n_columns:
            raise ValueError(f"The background has the shape {self.background.shape}.")
        if self.background.shape[0] == 0:
            raise ValueError("The background has no rows.")
        if self.index.ndim != 1 or self.targets.ndim != 2 or (self.index < 0).any():
            raise ValueError("The places of the rows are out of range.")
        if self.targets.shape[0] != self.index.size:
            raise ValueError(f"There are {self.index.size} rows, but other targets.")
        if self.importances.shape not in ((2, 0), (2, n_features_in)):
            raise ValueError(f"The importances have the shape {self.importances.shape}.")
        for values in (self.background, self.targets, self.importances):
            if values.dtype != np.float64 or not np.isfinite(values).all():
                raise ValueError("A number of the notes is not finite, or of another type.")


def notes_on(
    rows: FloatArray,
    Y: NDArray[Any],
    weight: FloatArray | None,
    seed: int,
    index: NDArray[np.intp] | None = None,
    **found: Any,
) -> FitNotes:
    """Return notes on a fit of rows (N, D) with targets (N, K) and weights (N,).

    ``index`` (N,) are the places of the rows in the table that was fitted, where the model keeps
    them; ``found`` are importances and measures.
    """
    background = draw_background(rows, Y, weight, seed)
    if index is None:
        index, Y = np.empty(0, np.intp), Y[:0]
    found = {"importances": np.empty((2, 0)), **found}
    return FitNotes(background, index.astype(np.int64), Y.astype(np.float64), **found)


def draw_background(
    rows: FloatArray, Y: NDArray[Any], weight: FloatArray | None, seed: int
) -> FloatArray:
    """Return a few rows whose targets are spread as those of all rows.

    The rows are sorted by y, by its first output first, and cut into parts of equal weight. One
    row is drawn from each part, so that the mean prediction of the few is near that of all.
    """
    order = np.lexsort([np.arange(rows.shape[0]), *Y.T[::-1]])
    s = np.ones(rows.shape[0]) if weight is None else weight[order]
    n = min(settings.BACKGROUND_ROWS, rows.shape[0])
    wanted = (np.arange(n) + np.random.default_rng([seed, 9]).uniform(size=n)) / n
    share = np.cumsum(s) / s.sum()
    some = np.minimum(np.searchsorted(share, wanted), rows.shape[0] - 1)
    return np.ascontiguousarray(rows[order[some]])


def without_measures(notes: FitNotes | None) -> FitNotes | None:
    """Return notes without what was measured of the one model that they belong to."""
    if notes is None:
        return None
    return FitNotes(notes.background, notes.index, notes.targets, np.empty((2, 0)))
