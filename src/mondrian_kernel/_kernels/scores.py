"""Scores of new rows under weights of the cells, without a feature matrix in between."""

import numpy as np
from numba import njit

from mondrian_kernel._kernels.walk import walk


@njit(cache=True, nogil=True)
def level_scores(
    X, root, parent, left, right, dim, loc, time, lower, upper, lifetimes, column, weight, W, scores
):
    """Add Σ_l weight[l] Σ_m p_lm W[column[l, node]] to ``scores`` (n, K), one row after another.

    ``column`` int32 (L, n_nodes) numbers the cells of all levels, -1 where a tree has no such
    level; ``W`` (F, K) are their weights; p_lm is the probability that a row stays in its cell,
    see :func:`mondrian_kernel._kernels.walk.walk`. The last column of ``scores`` receives
    Σ_l weight[l] Σ_m p_lm² instead, and ``W`` has one column less.
    """
    n_rows, n_outputs, n_levels = X.shape[0], W.shape[1], lifetimes.size
    node_of, log_stay = np.empty((n_rows, 1), np.int32), np.empty((n_rows, 1, n_levels))
    for m in range(root.size):
        walk(
            X,
            root[m : m + 1],
            parent,
            left,
            right,
            dim,
            loc,
            time,
            lower,
            upper,
            lifetimes,
            node_of,
            log_stay,
        )
        for i in range(n_rows):
            node = node_of[i, 0]
            for level in range(n_levels):
                c = column[level, node]
                if c < 0:
                    continue
                value = weight[level]
                square = value
                if log_stay[i, 0, level] < 0.0:
                    stay = np.exp(log_stay[i, 0, level])
                    square *= stay * stay
                    value *= stay
                for k in range(n_outputs):
                    scores[i, k] += value * W[c, k]
                scores[i, n_outputs] += square
