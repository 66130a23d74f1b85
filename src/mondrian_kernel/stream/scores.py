"""Scores of rows under weights of the cells, without a sparse matrix in between."""

from __future__ import annotations

import numpy as np

from mondrian_kernel.features import MondrianFeatures
from mondrian_kernel.partition.trees import FloatArray, IntArray, in_threads


def linear_scores(
    features: MondrianFeatures, rows: FloatArray, W: FloatArray, b: FloatArray
) -> FloatArray:
    """Scores b + Wᵀφ(x) of valid rows (n, D) under weights (C, K), of shape (n, K)."""
    from mondrian_kernel._core.filter import linear_scores

    cells, log_stay = cells_of(features, rows)
    scores = np.empty((rows.shape[0], b.size))
    W = np.ascontiguousarray(W)
    in_threads(
        lambda i, j: linear_scores(cells[i:j], log_stay[i:j], W, b, scores[i:j]),
        rows.shape[0],
        features.n_jobs,
        work=cells.size * b.size,
    )
    return scores


def cells_of(features: MondrianFeatures, rows: FloatArray) -> tuple[IntArray, FloatArray]:
    """Cell of each valid row in each tree, and the log-probability that the row lies in it."""
    node, log_stay = features.trees_.walk(rows, features.lifetime_, features.n_jobs)
    return features._cells.column[node], log_stay
