"""Scores of new rows under weights of the cells, without a feature matrix in between."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.tables import NodeTable
from mondrian_kernel._kernels.walk import walk_trees


@kernel
def level_scores(X, arrays, lifetimes, column, offset, value, W, scores):
    """Add Σ_l value[l] Σ_m p_lm W[offset[l] + column[l, node]] to ``scores`` (n, K + 1).

    ``arrays`` are those of a ``NodeTable``, as a plain tuple; ``column`` int32 (L, n_nodes) numbers
    the cells at each lifetime; ``W`` (F, K) are their weights, level after level; p_lm is the
    probability that a row stays in its cell, see :func:`mondrian_kernel._kernels.walk.walk`. The
    last column of ``scores`` receives the mean of p_0m² instead.
    """
    nodes = NodeTable(*arrays)
    n_rows, n_outputs, n_levels = X.shape[0], W.shape[1], lifetimes.size
    node_of, log_stay = np.empty((n_rows, 1), np.int32), np.empty((n_rows, 1, n_levels))
    for m in range(nodes.root.size):
        walk_trees(X, nodes, m, m + 1, lifetimes, node_of, log_stay)
        for i in range(n_rows):
            node = node_of[i, 0]
            for level in range(n_levels):
                c = offset[level] + column[level, node]
                feature = value[level]
                if log_stay[i, 0, level] < 0.0:
                    feature *= np.exp(log_stay[i, 0, level])
                for k in range(n_outputs):
                    scores[i, k] += feature * W[c, k]
            scores[i, n_outputs] += np.exp(2.0 * log_stay[i, 0, 0]) / nodes.root.size
