"""Scores of new rows under weights of the cells, without a feature matrix in between."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.tables import NodeTable
from mondrian_kernel._kernels.walk import box_distance

LANES = 8  # rows that go down a tree side by side, so that the processor need not wait for memory


@kernel
def level_scores(X, arrays, steps, lifetimes, column, offset, value, W, scores):
    """Add Σ_l value[l] Σ_m p_lm W[offset[l] + column[l, node]] to ``scores`` (n, K + 1).

    ``arrays`` are those of a ``NodeTable``, as a plain tuple, and ``steps`` its ``STEP`` records;
    ``column`` int32 (L, n_nodes) numbers the cells at each lifetime; ``W`` (F, K) are their
    weights, level after level; p_lm is the probability that a row stays in its cell, see
    :func:`mondrian_kernel._kernels.walk.walk`. The last column of ``scores`` receives the mean of
    p_0m² instead.
    """
    nodes = NodeTable(*arrays)
    n_rows, n_outputs, n_levels = X.shape[0], W.shape[1], lifetimes.size
    at, log_stay = np.empty(LANES, np.int64), np.empty(n_levels)
    for m in range(nodes.root.size):
        for begin in range(0, n_rows, LANES):
            n_lanes = min(LANES, n_rows - begin)
            for j in range(n_lanes):
                at[j] = nodes.root[m]
            moving = True
            while moving:
                moving = False
                for j in range(n_lanes):
                    step = steps[at[j]]
                    is_right = np.int64(X[begin + j, step.dim] > step.loc)
                    after = step.left + is_right * (step.right - step.left)  # not a branch
                    moving |= after != at[j]
                    at[j] = after
            for j in range(n_lanes):
                i, node = begin + j, at[j]
                _log_stay(X, i, nodes, node, lifetimes, log_stay)
                for level in range(n_levels):
                    c = offset[level] + column[level, node]
                    feature = value[level]
                    if log_stay[level] < 0.0:
                        feature *= np.exp(log_stay[level])
                    for k in range(n_outputs):
                        scores[i, k] += feature * W[c, k]
                stay = np.exp(2.0 * log_stay[0]) if log_stay[0] < 0.0 else 1.0
                scores[i, n_outputs] += stay / nodes.root.size


@kernel
def _log_stay(X, i, nodes, node, lifetimes, log_stay):
    """Write to ``log_stay`` (L,) what :func:`walk` does for row ``i`` at its last ``node``."""
    lower, upper, parent, time = nodes.lower, nodes.upper, nodes.parent, nodes.time
    n_levels = lifetimes.size
    for k in range(n_levels):
        log_stay[k] = 0.0
    death, first = lifetimes[n_levels - 1], n_levels - 1
    distance = box_distance(X, i, lower, upper, node)
    while distance > 0.0:
        node = np.int64(parent[node])
        birth = time[node] if node >= 0 else 0.0
        while first > 0 and lifetimes[first - 1] > birth:
            first -= 1
        if death > birth:  # a distance may be infinite: no 0 · inf
            for k in range(first, n_levels):
                log_stay[k] -= distance * (min(death, lifetimes[k]) - birth)
        death = birth
        distance = box_distance(X, i, lower, upper, node) if node >= 0 else 0.0
