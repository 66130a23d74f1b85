"""Cut online trees further where new rows come, after their lifetime has been put off.

A leaf whose clock stopped at the old lifetime goes on when a row arrives in it. The rows it holds
are not at hand, so its whole box B is cut, at the rate |B| and uniformly on its sides: the Mondrian
of B itself, whose restriction to any rows in B is theirs. Of the two boxes of a cut, which fill B,
the one on the row's side goes on; the other stops, until a row comes there.

Elsewhere ``nodes`` is an ``OnlineTable`` and ``done`` a ``Refinement`` of
:mod:`mondrian_kernel._kernels.tables`.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.extend import NODES, ROWS, write_leaf
from mondrian_kernel._kernels.streams import root_key, uniform
from mondrian_kernel._kernels.tables import OnlineTable, Refinement

# Entries of ``progress``.
SEEN, CHANGED = range(2)
# Separates these streams from those of nodes and of rows, which are hashed from the same seed.
_OF_TIME = np.uint64(0xE7037ED1A0B428DB)


@kernel
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


@kernel
def _split(nodes, node, m, dim, loc, clock, rungs, done):
    """Cut a leaf of tree ``m`` into two; see :func:`refine`. Returns the left child.

    The left child keeps the number of the cell, the right one gets the next. A child's count is
    its share in proportion to its side.
    """
    lower, upper, column, n_cells = nodes.lower, nodes.upper, nodes.column, nodes.n_cells
    n_trees = nodes.root.size
    a, b = nodes.tally[NODES], nodes.tally[NODES] + 1
    nodes.tally[NODES] += 2
    nodes.dim[node], nodes.loc[node], nodes.time[node] = dim, loc, clock
    nodes.left[node], nodes.right[node] = a, b
    share = (loc - lower[node, dim]) / (upper[node, dim] - lower[node, dim])
    n_left = np.int64(np.rint(nodes.count[node] * share))
    write_leaf(nodes, a, m, node, n_left, clock)
    write_leaf(nodes, b, m, node, nodes.count[node] - n_left, clock)
    for d in range(lower.shape[1]):
        lower[a, d] = lower[b, d] = lower[node, d]
        upper[a, d] = upper[b, d] = upper[node, d]
    upper[a, dim] = lower[b, dim] = loc
    for r in range(rungs.size):
        column[r, a] = column[r, b] = column[r, node]
        if clock <= rungs[r]:
            done.origin[r, done.n_origin[r]] = column[r, node]
            done.n_origin[r] += 1
            column[r, b] = n_cells[r, n_trees]
            column[r, node] = -1
            n_cells[r, m] += 1
            n_cells[r, n_trees] += 1
    return a


@kernel
def refine(X, seed, lifetime, max_cells, rungs, table_arrays, refinement_arrays):
    """Let the clocks of the leaves in which the rows of ``X`` arrive run on to ``lifetime``.

    ``table_arrays`` and ``refinement_arrays`` are those of an ``OnlineTable`` and a ``Refinement``,
    as plain tuples; they are changed in place. Goes on from ``progress``. Returns True when
    all insertions are seen, and False when fewer than 2 nodes are left in the table or ``origin``
    is full. Makes no more than ``max_cells`` cells at the last rung. Draws depend on ``seed``
    uint64, the tree, the number of the row, which is to be inserted next, and the node.
    """
    nodes, done = OnlineTable(*table_arrays), Refinement(*refinement_arrays)
    n_trees, n_rungs, progress = nodes.root.size, rungs.size, done.progress
    left, right, lower, upper, stop = nodes.left, nodes.right, nodes.lower, nodes.upper, nodes.stop
    while progress[SEEN] < X.shape[0] * n_trees:
        i, m = progress[SEEN] // n_trees, progress[SEEN] % n_trees
        node = np.int64(nodes.root[m])
        while node >= 0 and left[node] >= 0:
            goes_left = X[i, nodes.dim[node]] <= nodes.loc[node]
            node = np.int64(left[node] if goes_left else right[node])
        row_key = root_key(root_key(seed ^ _OF_TIME, m), done.tally[ROWS] + i)
        while (
            node >= 0 and stop[node] < lifetime and nodes.n_cells[n_rungs - 1, n_trees] < max_cells
        ):
            # No rung is cut more often than the last.
            full = done.n_origin[n_rungs - 1] == done.origin.shape[1]
            if full or nodes.tally[NODES] + 2 > nodes.time.size:
                return False
            rate = 0.0
            for d in range(X.shape[1]):
                rate += upper[node, d] - lower[node, d]
            key = root_key(row_key, node)
            clock = np.inf
            if rate > 0.0:
                clock = stop[node] - np.log1p(-uniform(key, 0)) / rate
            if node < done.tally[NODES]:
                k = progress[CHANGED]
                done.cut_node[k], done.cut_stop[k] = node, stop[node]
                progress[CHANGED] += 1
            stop[node] = lifetime
            if not clock < lifetime:
                break
            d, at = _cut(lower, upper, node, rate, key)
            a = _split(nodes, node, m, d, at, clock, rungs, done)
            node = a if X[i, d] <= at else a + 1
        progress[SEEN] += 1
    return True


@kernel
def unrefine(nodes, done):
    """Make leaves again of the old leaves that :func:`refine` has cut; restore the counts."""
    left, column = nodes.left, nodes.column
    for k in range(done.progress[CHANGED]):
        node = done.cut_node[k]
        nodes.stop[node] = done.cut_stop[k]
        if left[node] >= 0:
            for r in range(column.shape[0]):
                heir = left[node]
                while column[r, heir] < 0:
                    heir = left[heir]
                column[r, node] = column[r, heir]
            left[node] = nodes.right[node] = nodes.dim[node] = -1
            nodes.loc[node] = nodes.time[node] = np.inf
    nodes.tally[NODES], nodes.tally[ROWS] = done.tally[NODES], done.tally[ROWS]
    for r in range(column.shape[0]):
        for m in range(nodes.n_cells.shape[1]):
            nodes.n_cells[r, m] = done.n_cells[r, m]
