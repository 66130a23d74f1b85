"""Turn a grown block of trees into flat arrays that other kernels walk."""

import numpy as np
from numba import njit

from mondrian_kernel._kernels.grow import DIM, LEFT, LOC, RIGHT, START, STOP, TIME


@njit(cache=True, nogil=True)
def count_nodes(links, cut, n_trees, n_nodes, lifetime):
    """Nodes of each tree that are born by ``lifetime``, int64 (n_trees,)."""
    n = np.ones(n_trees, np.int64)
    for node in range(n_nodes):
        if cut[node, TIME] <= lifetime and cut[node, TIME] < np.inf:
            n[links[node, 0]] += 2
    return n


@njit(cache=True, nogil=True)
def freeze(
    X, order, links, cut, n_nodes, lifetime,
    parent, left, right, dim, loc, time, count, lower, upper, leaf, offset,
):  # fmt: skip
    """Write the block's trees, stopped at ``lifetime``, in preorder; tight boxes bottom up.

    ``X`` is float64 (N, D) in row order. The outputs are slices of the final table, ``n`` rows
    long where ``n = count_nodes(...).sum()``; ``offset`` is added to node numbers, as the slice
    may stand in the middle of the table. ``leaf`` int32 (N, T) receives the leaf of each row.
    """
    n_trees, n_dims = order.shape[0], X.shape[1]
    stack = np.empty((n_nodes + 1, 2), np.int32)  # (node in the block, its parent in the output)
    at = 0
    for tree in range(n_trees):
        first = at
        stack[0, 0], stack[0, 1] = tree, -1
        top = 0
        while top >= 0:
            node, above = stack[top, 0], stack[top, 1]
            top -= 1
            here = at
            at += 1
            parent[here] = above + offset if above >= 0 else -1
            left[here] = right[here] = dim[here] = -1
            loc[here] = time[here] = np.inf
            count[here] = links[node, STOP] - links[node, START]
            lower[here] = np.inf
            upper[here] = -np.inf
            if above >= 0:
                if here == above + 1:
                    left[above] = here + offset
                else:
                    right[above] = here + offset
            if cut[node, TIME] <= lifetime and cut[node, TIME] < np.inf:
                dim[here] = links[node, DIM]
                loc[here], time[here] = cut[node, LOC], cut[node, TIME]
                stack[top + 1, 0], stack[top + 1, 1] = links[node, RIGHT], here
                stack[top + 2, 0], stack[top + 2, 1] = links[node, LEFT], here
                top += 2
            else:
                for k in range(links[node, START], links[node, STOP]):
                    i = order[tree, k]
                    leaf[i, tree] = here + offset
                    for d in range(n_dims):
                        v = X[i, d]
                        lower[here, d] = min(lower[here, d], v)
                        upper[here, d] = max(upper[here, d], v)
        for here in range(at - 1, first, -1):  # children come after their parent
            above = parent[here] - offset
            for d in range(n_dims):
                lower[above, d] = min(lower[above, d], lower[here, d])
                upper[above, d] = max(upper[above, d], upper[here, d])
