"""Cut online trees further where new rows come, after their lifetime has been put off.

A leaf whose clock stopped at the old lifetime goes on when a row arrives in it. The rows it holds
are not at hand, so its whole box B is cut, at the rate |B| and uniformly on its sides: the Mondrian
of B itself, whose restriction to any rows in B is theirs. Of the two boxes of a cut, which fill B,
the one on the row's side goes on; the other stops, until a row comes there.
"""

import numpy as np
from numba import njit

from mondrian_kernel._kernels.extend import NODES, ROWS
from mondrian_kernel._kernels.streams import root_key, uniform

# Parts these streams from those of nodes and of rows, which are hashed from the same seed.
_OF_TIME = np.uint64(0xE7037ED1A0B428DB)


@njit(cache=True, nogil=True)
def _cut(lower, upper, node, rate, key):
    """Dim and location of a cut of the box of ``node``, uniform on its sides; draws 1 and 2."""
    target = uniform(key, 1) * rate
    dim = -1
    for d in range(lower.shape[1]):
        side = upper[node, d] - lower[node, d]
        if side > 0.0:
            dim = d
            if target < side:
                break
            target -= side
    low, high = lower[node, dim], upper[node, dim]
    loc = low + uniform(key, 2) * (high - low)
    return dim, loc if loc < high else max(low, np.nextafter(high, low))


@njit(cache=True, nogil=True)
def refine(
    X, seed, lifetime, max_cells, rungs, n_cells, tally, start, progress, origin, n_origin,
    cut_node, cut_stop, root, tree, parent, left, right, dim, loc, time, lower, upper, count,
    stop, column,
):  # fmt: skip
    """Let the clocks of the leaves in which the rows of ``X`` arrive run on to ``lifetime``.

    The arrays are those of :mod:`mondrian_kernel._kernels.extend`. Goes on from ``progress`` int64
    (2,), the number of insertions seen and of old leaves changed, until all are seen: True; or
    fewer than 2 nodes are left in the table, or ``origin`` is full: False. Not past ``max_cells``
    cells at the last rung. Draws depend on ``seed`` uint64, the tree, the number of the row, which
    is to be inserted next, and the node.

    The left child of a cut keeps the number of the cell, the right one gets the next;
    ``origin[r, k]`` int32 receives the old number of the ``k``-th new cell at rung r, and
    ``n_origin`` int64 (R,) counts them. A child's count is its share in proportion to its side.
    ``cut_node`` int32 and ``cut_stop`` float64 receive the old leaves changed, and their times.
    """
    n_trees, n_rungs = root.size, rungs.size
    while progress[0] < X.shape[0] * n_trees:
        i, m = progress[0] // n_trees, progress[0] % n_trees
        node = root[m]
        while node >= 0 and left[node] >= 0:
            node = left[node] if X[i, dim[node]] <= loc[node] else right[node]
        row_key = root_key(root_key(seed ^ _OF_TIME, m), start[ROWS] + i)
        while node >= 0 and stop[node] < lifetime and n_cells[n_rungs - 1, n_trees] < max_cells:
            if tally[NODES] + 2 > time.size or n_origin.max() == origin.shape[1]:
                return False
            rate = 0.0
            for d in range(X.shape[1]):
                rate += upper[node, d] - lower[node, d]
            key = root_key(row_key, node)
            clock = np.inf
            if rate > 0.0:
                clock = stop[node] - np.log1p(-uniform(key, 0)) / rate
            if node < start[NODES]:
                cut_node[progress[1]], cut_stop[progress[1]] = node, stop[node]
                progress[1] += 1
            stop[node] = lifetime
            if not clock < lifetime:
                break
            d, at = _cut(lower, upper, node, rate, key)
            dim[node], loc[node], time[node] = d, at, clock
            a, b = tally[NODES], tally[NODES] + 1
            tally[NODES] += 2
            left[node], right[node] = a, b
            for child in (a, b):
                tree[child], parent[child], stop[child] = m, node, clock
                left[child] = right[child] = dim[child] = -1
                loc[child] = time[child] = np.inf
                lower[child], upper[child] = lower[node], upper[node]
            upper[a, d] = lower[b, d] = at
            share = (at - lower[node, d]) / (upper[node, d] - lower[node, d])
            count[a] = np.int32(np.round(count[node] * share))
            count[b] = count[node] - count[a]
            for r in range(n_rungs):
                column[r, a] = column[r, b] = column[r, node]
                if clock <= rungs[r]:
                    origin[r, n_origin[r]] = column[r, node]
                    n_origin[r] += 1
                    column[r, b] = n_cells[r, n_trees]
                    column[r, node] = -1
                    n_cells[r, m] += 1
                    n_cells[r, n_trees] += 1
            node = a if X[i, d] <= at else b
        progress[0] += 1
    return True


@njit(cache=True, nogil=True)
def unrefine(n_changed, cut_node, cut_stop, left, right, dim, loc, time, stop, column):
    """Make leaves again of the old leaves that :func:`refine` has cut."""
    for k in range(n_changed):
        node = cut_node[k]
        stop[node] = cut_stop[k]
        if left[node] >= 0:
            for r in range(column.shape[0]):
                heir = left[node]
                while column[r, heir] < 0:
                    heir = left[heir]
                column[r, node] = column[r, heir]
            left[node] = right[node] = dim[node] = -1
            loc[node] = time[node] = np.inf
