"""Grow trees in rounds on rows that lie in several places, such as the blocks of a cluster.

The tables of nodes are those of :mod:`mondrian_kernel._kernels.grow`, without the row order:
node ``m`` is the root of tree ``m``, and a leaf has ``left`` = -1. A place receives the cuts so far
and sends its own rows down them, so that it remembers nothing about the rows between rounds.
``cuts`` has the arrays ``root`` (M,), ``left``, ``right``, ``dim`` int32 and ``loc`` (n_nodes,).
"""

import numpy as np
from numba import njit

from mondrian_kernel._kernels.grow import ring
from mondrian_kernel._kernels.streams import left_key, right_key
from mondrian_kernel._settings import WALK_ROWS


@njit(cache=True, nogil=True)
def find_leaves(X, cuts, leaf):
    """Write the leaf of each row of ``X`` (N, D) in each tree to ``leaf`` int32 (N, M)."""
    root, left, right, dim, loc = cuts.root, cuts.left, cuts.right, cuts.dim, cuts.loc
    for begin in range(0, X.shape[0], WALK_ROWS):
        end = min(begin + WALK_ROWS, X.shape[0])
        for m in range(root.size):
            for i in range(begin, end):
                node = root[m]
                while left[node] >= 0:
                    node = left[node] if X[i, dim[node]] <= loc[node] else right[node]
                leaf[i, m] = node


@njit(cache=True, nogil=True)
def bound_leaves(X, cuts, first, bounds):
    """Bound and count the rows of ``X`` (N, D) in the leaves from node ``first`` on.

    Only trees with a root in ``cuts.root`` are visited. ``bounds`` has the arrays ``lower`` and
    ``upper`` (K, D) and ``n_rows`` (K,); entry k belongs to node ``first + k`` and is updated in
    place.
    """
    root, left, right, dim, loc = cuts.root, cuts.left, cuts.right, cuts.dim, cuts.loc
    lower, upper = bounds.lower, bounds.upper
    for begin in range(0, X.shape[0], WALK_ROWS):
        end = min(begin + WALK_ROWS, X.shape[0])
        for m in range(root.size):
            for i in range(begin, end):
                node = root[m]
                while left[node] >= 0:
                    node = left[node] if X[i, dim[node]] <= loc[node] else right[node]
                k = node - first
                if k >= 0:
                    bounds.n_rows[k] += 1
                    for d in range(X.shape[1]):
                        lower[k, d] = min(lower[k, d], X[i, d])
                        upper[k, d] = max(upper[k, d], X[i, d])


@njit(cache=True, nogil=True)
def next_cuts(clocks, tight, count, lifetime, dim, loc):
    """Let the lazy clocks of K nodes run on to their next cut, or to ``lifetime``.

    ``clocks`` is a ``Clocks`` with the inherited boxes; its ``draw``, ``clock`` and ``box`` are
    changed in place. ``tight`` (K, 2D) are the boxes of the rows, the lower sides first, ``count``
    (K,) their numbers. Rings and tightenings are those of :func:`._kernels.grow.grow`, bit for bit.
    ``dim`` receives -1 where no cut comes by ``lifetime``, else the dim of the cut, and ``loc``
    its location.
    """
    draw, clock, boxes = clocks.draw, clocks.clock, clocks.box
    n_dims = boxes.shape[1] // 2
    for b in range(clocks.key.size):
        dim[b] = -1
        while count[b] > 1:
            time, d, where = ring(clocks.key[b], np.int64(draw[b]), clock[b], boxes, b, lifetime)
            if d < 0:
                break
            draw[b] += 3
            clock[b] = time
            boxes[b, d], boxes[b, n_dims + d] = tight[b, d], tight[b, n_dims + d]
            if tight[b, d] <= where < tight[b, n_dims + d]:
                dim[b], loc[b] = d, where
                break


@njit(cache=True, nogil=True)
def child_keys(key):
    """Keys of the left and right children of nodes, alternating, uint64 (2K,)."""
    out = np.empty(2 * key.size, np.uint64)
    for b in range(key.size):
        out[2 * b], out[2 * b + 1] = left_key(key[b]), right_key(key[b])
    return out


@njit(cache=True, nogil=True)
def preorder(left, right, time, n_trees, lifetime, nodes):
    """Write the nodes born by ``lifetime`` tree by tree, each before its children, to ``nodes``.

    Returns how many each tree has, int64 (n_trees,).
    """
    sizes = np.empty(n_trees, np.int64)
    stack = np.empty(time.size + 1, np.int32)
    at = 0
    for tree in range(n_trees):
        begin = at
        stack[0] = tree
        top = 0
        while top >= 0:
            node = stack[top]
            top -= 1
            nodes[at] = node
            at += 1
            if time[node] <= lifetime and time[node] < np.inf:
                stack[top + 1], stack[top + 2] = right[node], left[node]
                top += 2
        sizes[tree] = at - begin
    return sizes


@njit(cache=True, nogil=True)
def add_pairs(cells, weight, begin, end, first, A):
    """Add the rows of M ΦᵀSΦ that belong to the trees ``begin:end`` to ``A``, up to the diagonal.

    ``cells`` int32 (N, M) increase along a row; ``weight`` (N,) is the diagonal of S. Row ``c`` of
    ``A`` is that of the cell ``first + c``, the first of them belonging to tree ``begin``.
    """
    for i in range(cells.shape[0]):
        for m in range(begin, end):
            row = A[cells[i, m] - first]
            for k in range(m + 1):
                row[cells[i, k]] += weight[i]
