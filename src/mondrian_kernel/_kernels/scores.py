"""Scores of new rows, without their features in between."""

import numpy as np
from numba import njit

from mondrian_kernel._kernels.tables import NodeTable
from mondrian_kernel._kernels.walk import walk_trees


@njit(cache=True, nogil=True)
def linear_scores(X, arrays, lifetime, column, W, b, scores):
    """Scores b + Wᵀφ(x) of rows, to ``scores`` (n, K); the features φ are those of ``walk``.

    ``arrays`` are those of a ``NodeTable``, as a plain tuple. ``column`` int32 (n_nodes,) numbers
    the cells at ``lifetime``, ``W`` (C, K) are their weights.
    """
    nodes = NodeTable(*arrays)
    n_rows, n_outputs = scores.shape
    node_of, log_stay = np.empty((n_rows, 1), np.int32), np.empty((n_rows, 1, 1))
    lifetimes = np.array([lifetime])
    scores[:] = 0.0
    for m in range(nodes.root.size):
        walk_trees(X, nodes, m, m + 1, lifetimes, node_of, log_stay)
        for i in range(n_rows):
            c = column[node_of[i, 0]]
            value = np.exp(log_stay[i, 0, 0]) if log_stay[i, 0, 0] < 0.0 else 1.0
            for k in range(n_outputs):
                scores[i, k] += value * W[c, k]
    for i in range(n_rows):
        for k in range(n_outputs):
            scores[i, k] = b[k] + scores[i, k] / np.sqrt(nodes.root.size)
