"""Scores of rows under weights of the cells, without a sparse matrix in between."""

from __future__ import annotations

import numpy as np

from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features import MondrianFeatures


def linear_scores(
    features: MondrianFeatures, rows: FloatArray, W: FloatArray, b: FloatArray
) -> FloatArray:
    """Scores b + Wᵀφ(x) of valid rows (n, D) under weights (C, K), of shape (n, K)."""
    from mondrian_kernel._kernels.scores import linear_scores

    t, lifetime, column = features.trees_, features.lifetime_, features._cells.column
    scores, W, nodes = np.empty((rows.shape[0], b.size)), np.ascontiguousarray(W), tuple(t.nodes)

    def run(begin: int, end: int) -> None:
        linear_scores(rows[begin:end], nodes, lifetime, column, W, b, scores[begin:end])

    in_threads(run, rows.shape[0], features.n_jobs, work=10 * rows.shape[0] * t.n_trees)
    return scores


def cells_of(features: MondrianFeatures, rows: FloatArray) -> tuple[IntArray, FloatArray]:
    """Cell of each valid row in each tree, and the log-probability that the row lies in it."""
    node, log_stay = features.trees_.walk(rows, features.lifetime_, features.n_jobs)
    return features._cells.column[node], log_stay
