"""What a fit leaves behind beside the model: rows to compare with, importances, errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._trees.checks import check_numbers
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
        check_numbers(
            self,
            background=(max(len(self.background), 1), n_columns),
            targets=(self.index.size, *self.targets.shape[1:2]),
            importances=(2, n_features_in if self.importances.size else 0),
        )
        if self.index.ndim != 1 or self.targets.ndim != 2 or (self.index < 0).any():
            raise ValueError("The places of the rows are out of range.")


def notes_on(
    rows: FloatArray,
    Y: NDArray[Any],
    weight: FloatArray | None,
    columns: Columns,
    seed: int,
    index: NDArray[np.intp] | None = None,
    **found: Any,
) -> FitNotes:
    """Return notes on a fit of rows (N, D) with targets (N, K) and weights (N,).

    ``columns`` is what the trees see of the rows. ``index`` (N,) are the places of the rows in the
    table that was fitted, where the model keeps them; ``found`` are importances and measures, and
    a background that was drawn otherwise.
    """
    if "background" not in found:
        found["background"] = draw_background(rows, Y, weight, columns, seed)
    if index is None:
        index, Y = np.empty(0, np.intp), Y[:0]
    found = {"importances": np.empty((2, 0)), **found}
    return FitNotes(index=index.astype(np.int64), targets=Y.astype(np.float64), **found)


def draw_background(
    rows: FloatArray, Y: NDArray[Any], weight: FloatArray | None, columns: Columns, seed: int
) -> FloatArray:
    """Return a few rows that stand for all: spread as these in targets or scores Y, and in X.

    The rows are sorted by Y, by its first output first, and cut into parts of equal weight. One
    row is taken from each part, so that the mean prediction of the few is near that of all. Of
    some candidates in each part it is the one with which the mean of a Laplace kernel over the few
    is nearest to that over all candidates.
    """
    order = np.lexsort([np.arange(rows.shape[0]), *Y.T[::-1]])
    share = np.cumsum(np.ones(rows.shape[0]) if weight is None else weight[order])
    n, m = min(settings.BACKGROUND_ROWS, rows.shape[0]), settings.BACKGROUND_CANDIDATES
    wanted = (np.arange(n * m) + np.random.default_rng([seed, 9]).uniform(size=n * m)) / (n * m)
    place = np.searchsorted(share, wanted * share[-1])
    candidates = rows[order[np.minimum(place, rows.shape[0] - 1)]]
    seen = columns(candidates)
    distance = cdist(seen, seen, "cityblock")
    K = np.exp(-distance / (distance.mean() or 1.0))
    parts = np.arange(n * m).reshape(n, m)
    chosen, near = parts[:, 0].copy(), K.mean(axis=1)
    for _ in range(settings.BACKGROUND_ROUNDS):
        for k, part in enumerate(parts):
            others = np.delete(chosen, k)
            chosen[k] = part[np.argmax((near - K[:, others].sum(axis=1) / n)[part])]
    return np.ascontiguousarray(candidates[chosen])


def without_measures(notes: FitNotes | None) -> FitNotes | None:
    """Return notes without what was measured of the one model that they belong to."""
    if notes is None:
        return None
    return FitNotes(notes.background, notes.index, notes.targets, np.empty((2, 0)))
