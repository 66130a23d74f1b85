"""Extend Mondrian trees by new rows in place, and cut them further when their lifetime is raised.

A tree that has been sampled on a box B knows nothing of cuts outside B. When a row x at L1
distance Δ from B arrives, the cuts that part x from B ring at rate Δ while B is alive; the first
of them, if there is one, puts a new node above B. Otherwise B is enlarged to hold x and the walk
goes on in the child on the side of x. Lack of memory lets one unit exponential serve the whole
walk: the walk spends Δ (t₁ - t₀) of it at a node alive from t₀ to t₁, and a cut comes where it
runs out. The tree that results has the law of a tree sampled on all rows at once.

When the lifetime is raised, a leaf whose clock stopped at the old one goes on once a row arrives
in it. The rows it holds are not stored, so its whole box B is cut, at the rate |B| and uniformly
on its sides: the Mondrian of B itself, whose restriction to any rows in B is theirs. Of the two
boxes of a cut, which fill B, the one on the row's side goes on; the other stops, until a row comes
there.

Numba compiles a kernel anew for every literal integer it is called with; ``np.int64`` avoids that.
``nodes`` is an ``OnlineTable`` and ``batch`` a ``Batch`` of :mod:`mondrian_kernel._kernels.tables`.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.streams import root_key, uniform, uniform_between
from mondrian_kernel._kernels.tables import Batch, OnlineTable
from mondrian_kernel._kernels.walk import box_distance

# Entries of ``tally`` and of the ``progress`` of a batch; what :func:`extend` returns.
NODES, ROWS = range(2)
SEEN, CHANGED, GROWN, DONE, SAVED = range(5)
FINISHED, TOO_LARGE, NO_NODES, NO_ORIGIN = range(4)
# Separate the streams of rows and of refinements from those of nodes, hashed from the same seed.
_OF_ROWS, _OF_TIME = np.uint64(0xA0761D6478BD642F), np.uint64(0xE7037ED1A0B428DB)


@kernel
def _all_below(X, nodes, bound):
    """Whether all numbers of the rows, and of the rows in the first tree, are below a bound."""
    for i in range(X.shape[0]):
        for d in range(X.shape[1]):
            if not abs(X[i, d]) < bound:
                return False
    root = nodes.root[0]
    if root >= 0:
        for d in range(X.shape[1]):
            if not (-nodes.lower[root, d] < bound and nodes.upper[root, d] < bound):
                return False
    return True


@kernel
def _cut(X, i, lower, upper, node, distance, key):
    """Dim and location of a cut between row ``i`` and the box of ``node``, uniform on the gaps.

    The location lies in the half-open gap, so that ``x[dim] <= loc`` parts the row from the box
    whatever the rounding. Uses the draws 1 and 2 of the stream.
    """
    target = uniform(key, 1) * distance
    dim = -1
    for d in range(X.shape[1]):
        gap = max(lower[node, d] - X[i, d], X[i, d] - upper[node, d])
        if gap > 0.0:
            dim = d
            if target < gap:
                break
            target -= gap
    if X[i, dim] > upper[node, dim]:
        low, high = upper[node, dim], X[i, dim]
    else:
        low, high = X[i, dim], lower[node, dim]
    return dim, uniform_between(key, 2, low, high)


@kernel
def _enlarge(X, i, lower, upper, node):
    """Enlarge the box of ``node`` to hold row ``i``."""
    for d in range(X.shape[1]):
        lower[node, d] = min(lower[node, d], X[i, d])
        upper[node, d] = max(upper[node, d], X[i, d])


@kernel(inline="always")
def _replace(nodes, m, above, old, new):
    """Let ``new`` take the place of ``old`` under ``above``, or as the root of tree ``m``."""
    if above < 0:
        nodes.root[m] = new
    elif nodes.left[above] == old:
        nodes.left[above] = new
    else:
        nodes.right[above] = new


@kernel
def _write_leaf(nodes, leaf, m, parent, count, stop):
    """Write the fields of a leaf of tree ``m``, but not its box nor its cells."""
    nodes.tree[leaf], nodes.parent[leaf] = m, parent
    nodes.left[leaf] = nodes.right[leaf] = nodes.dim[leaf] = -1
    nodes.loc[leaf] = nodes.time[leaf] = np.inf
    nodes.count[leaf], nodes.stop[leaf] = count, stop


@kernel
def _insert(X, i, m, key, node, distance, cut_time, lifetime, rungs, nodes):
    """Append a leaf for row ``i`` and, unless ``node`` is -1, a cut above ``node``: the leaf."""
    parent, lower, upper, column = nodes.parent, nodes.lower, nodes.upper, nodes.column
    n_cells, n_trees = nodes.n_cells, nodes.root.size
    leaf = nodes.tally[NODES] + (node >= 0)
    nodes.tally[NODES] = leaf + 1
    _write_leaf(nodes, leaf, m, np.int64(-1), np.int64(1), lifetime)
    for d in range(X.shape[1]):
        lower[leaf, d] = upper[leaf, d] = X[i, d]
    if node < 0:
        nodes.root[m] = leaf
    else:
        new, above = leaf - 1, np.int64(parent[node])
        _write_leaf(nodes, new, m, above, nodes.count[node] + 1, lifetime)
        dim, loc = _cut(X, i, lower, upper, node, distance, key)
        nodes.dim[new], nodes.loc[new], nodes.time[new] = dim, loc, cut_time
        for d in range(X.shape[1]):
            lower[new, d], upper[new, d] = lower[node, d], upper[node, d]
        _enlarge(X, i, lower, upper, new)
        _replace(nodes, m, above, node, new)
        parent[leaf] = parent[node] = new
        if X[i, dim] <= loc:
            nodes.left[new], nodes.right[new] = leaf, node
        else:
            nodes.left[new], nodes.right[new] = node, leaf
    for r in range(rungs.size):
        # A cut after λ leaves the row in the cell which the old node is or lies in at λ.
        if node >= 0 and cut_time > rungs[r]:
            column[r, leaf] = column[r, leaf - 1] = column[r, node]
        else:
            column[r, leaf] = n_cells[r, n_trees]
            n_cells[r, m] += 1
            n_cells[r, n_trees] += 1
            if node >= 0:
                column[r, leaf - 1] = -1
    return leaf


@kernel(inline="always")
def _descend(X, i, nodes, node, step):
    """Go down from ``node`` to a leaf by the cuts, adding ``step`` to the counts: the leaf."""
    nodes.count[node] += step
    while nodes.left[node] >= 0:
        goes_left = X[i, nodes.dim[node]] <= nodes.loc[node]
        node = np.int64(nodes.left[node] if goes_left else nodes.right[node])
        nodes.count[node] += step
    return node


@kernel(inline="always")
def _outermost(X, i, nodes, node):
    """Return the highest of the nodes above a leaf whose boxes do not hold the row, -1 if none."""
    outside = np.int64(-1)
    while node >= 0 and box_distance(X, i, nodes.lower, nodes.upper, node) > 0.0:
        outside = node
        node = np.int64(nodes.parent[node])
    return outside


@kernel(inline="always")
def _save_box(nodes, node, batch):
    """Keep the box of an old leaf, once in a batch."""
    if node >= batch.progress[GROWN] or nodes.touched[node]:
        return
    nodes.touched[node] = True
    k, n_dims = batch.progress[SAVED], nodes.lower.shape[1]
    batch.saved_node[k] = node
    for d in range(n_dims):
        batch.saved_box[k, d] = nodes.lower[node, d]
        batch.saved_box[k, n_dims + d] = nodes.upper[node, d]
    batch.progress[SAVED] += 1


@kernel
def extend(X, begins, bound, seed, lifetime, max_cells, rungs, table_arrays, batch_arrays):
    """Insert the rows of ``X`` into each tree, row by row, after clocks have run on.

    Returns ``FINISHED``; or, to be called again, ``NO_NODES`` when fewer than 2 nodes are left in
    the table, ``NO_ORIGIN`` when that array is full, and ``TOO_LARGE`` if a number of the rows or
    trees is ``bound`` or more. A batch that ``begins`` may be in the arrays of the one before;
    otherwise this goes on from ``progress``. ``table_arrays`` and
    ``batch_arrays`` are those of an ``OnlineTable`` and a ``Batch``, as plain tuples; they are
    changed in place. ``rungs`` (R,) are the lifetimes at which cells are numbered, increasing up to
    ``lifetime``. Draws depend on ``seed`` uint64, the tree and the number of the row alone. Once
    the last rung has ``max_cells`` cells no cut is made: the row goes down by the cuts there are
    and joins a leaf, with all boxes and counts on its way.

    Boxes are nested, and one that holds the row lets it pass. So a row goes down by the cuts alone,
    then up again to the first box that holds it; only below that one is anything drawn or enlarged.
    """
    nodes, batch = OnlineTable(*table_arrays), Batch(*batch_arrays)
    if begins:
        for k in range(batch.progress[SAVED]):
            nodes.touched[batch.saved_node[k]] = False
        batch.tally[:], batch.n_cells[:] = nodes.tally, nodes.n_cells
        batch.progress[:], batch.n_origin[:], batch.origin[:] = 0, 0, -1
    if not _all_below(X, nodes, bound):
        return TOO_LARGE
    if batch.progress[DONE] == 0:
        if batch.cut_node.size > 0:
            status = _refine(X, seed, lifetime, max_cells, rungs, nodes, batch)
            if status != FINISHED:
                return status
        batch.progress[GROWN] = nodes.tally[NODES]
    lower, upper, time, progress = nodes.lower, nodes.upper, nodes.time, batch.progress
    n_trees, n_rungs, one = nodes.root.size, rungs.size, np.int64(1)
    while progress[DONE] < batch.leaf.size:
        if nodes.tally[NODES] + 2 > time.size:
            return NO_NODES
        i, m = progress[DONE] // n_trees, progress[DONE] % n_trees
        key = root_key(root_key(seed ^ _OF_ROWS, m), nodes.tally[ROWS])
        node = below = np.int64(nodes.root[m])
        joins = bool(node >= 0)
        cut_time = distance = 0.0
        if joins:
            below = _descend(X, i, nodes, node, one)
            node = _outermost(X, i, nodes, below)
        if joins and node >= 0:
            room = nodes.n_cells[n_rungs - 1, n_trees] < max_cells
            budget = -np.log1p(-uniform(key, 0)) if room else np.inf
            birth = time[nodes.parent[node]] if nodes.parent[node] >= 0 else 0.0
            while True:
                distance = box_distance(X, i, lower, upper, node)
                death = min(time[node], lifetime)
                cut_time = birth + budget / distance
                if cut_time < death:
                    _descend(X, i, nodes, node, -one)
                    joins = False
                    break
                if node == below:
                    _save_box(nodes, node, batch)
                _enlarge(X, i, lower, upper, node)
                if node == below:
                    break
                budget = max(budget - distance * (death - birth), 0.0)
                birth = time[node]
                goes_left = X[i, nodes.dim[node]] <= nodes.loc[node]
                node = np.int64(nodes.left[node] if goes_left else nodes.right[node])
        if not joins:
            below = _insert(X, i, m, key, node, distance, cut_time, lifetime, rungs, nodes)
        batch.leaf[i, m] = below
        progress[DONE] += 1
        if m == n_trees - 1:
            nodes.tally[ROWS] += 1
    return FINISHED


@kernel
def undo(nodes, batch):
    """Take back the insertions of a batch, the last one first, and then the cuts of its clocks.

    The boxes of old leaves are put back; above them a box is the union of its children's, which
    is exact once all rows of the batch that went through it are taken back. ``n_cells`` and
    ``tally`` return to what they were; appended nodes are free again without being erased.
    """
    left, right, parent = nodes.left, nodes.right, nodes.parent
    lower, upper = nodes.lower, nodes.upper
    n_dims, n_trees, progress = lower.shape[1], nodes.root.size, batch.progress
    for k in range(progress[SAVED]):
        node = batch.saved_node[k]
        nodes.touched[node] = False
        for d in range(n_dims):
            lower[node, d], upper[node, d] = batch.saved_box[k, d], batch.saved_box[k, n_dims + d]
    while progress[DONE] > 0:
        progress[DONE] -= 1
        i, m = progress[DONE] // n_trees, progress[DONE] % n_trees
        node = np.int64(batch.leaf[i, m])
        nodes.count[node] -= 1
        above = np.int64(parent[node])
        # The row made this leaf, and the node above it if there is one.
        if nodes.count[node] == 0 and node >= progress[GROWN]:
            if above < 0:
                nodes.root[m] = -1
            else:
                other = right[above] if left[above] == node else left[above]
                _replace(nodes, m, np.int64(parent[above]), above, np.int64(other))
                above = np.int64(parent[above])
                parent[other] = above
        while above >= 0:
            nodes.count[above] -= 1
            a, b = left[above], right[above]
            for d in range(n_dims):
                lower[above, d] = min(lower[a, d], lower[b, d])
                upper[above, d] = max(upper[a, d], upper[b, d])
            above = np.int64(parent[above])
    _unrefine(nodes, batch)
    progress[:] = 0
    nodes.tally[:], nodes.n_cells[:] = batch.tally, batch.n_cells


@kernel
def _cut_of_box(lower, upper, node, rate, key):
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
    return dim, uniform_between(key, 2, lower[node, dim], upper[node, dim])


@kernel
def _split(nodes, node, m, dim, loc, clock, rungs, batch):
    """Cut a leaf of tree ``m`` into two; see :func:`_refine`. Returns the left child.

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
    _write_leaf(nodes, a, m, node, n_left, clock)
    _write_leaf(nodes, b, m, node, nodes.count[node] - n_left, clock)
    for d in range(lower.shape[1]):
        lower[a, d] = lower[b, d] = lower[node, d]
        upper[a, d] = upper[b, d] = upper[node, d]
    upper[a, dim] = lower[b, dim] = loc
    for r in range(rungs.size):
        column[r, a] = column[r, b] = column[r, node]
        if clock <= rungs[r]:
            batch.origin[r, batch.n_origin[r]] = column[r, node]
            batch.n_origin[r] += 1
            column[r, b] = n_cells[r, n_trees]
            column[r, node] = -1
            n_cells[r, m] += 1
            n_cells[r, n_trees] += 1
    return a


@kernel
def _refine(X, seed, lifetime, max_cells, rungs, nodes, batch):
    """Let the clocks of the leaves in which the rows of ``X`` arrive run on to ``lifetime``.

    Returns what :func:`extend` does. Makes no more than ``max_cells`` cells at the last rung. Draws
    depend on ``seed`` uint64, the tree, the number of the row, which is to be inserted next, and
    the node.
    """
    n_trees, n_rungs, progress = nodes.root.size, rungs.size, batch.progress
    left, right, lower, upper, stop = nodes.left, nodes.right, nodes.lower, nodes.upper, nodes.stop
    while progress[SEEN] < X.shape[0] * n_trees:
        i, m = progress[SEEN] // n_trees, progress[SEEN] % n_trees
        node = np.int64(nodes.root[m])
        while node >= 0 and left[node] >= 0:
            goes_left = X[i, nodes.dim[node]] <= nodes.loc[node]
            node = np.int64(left[node] if goes_left else right[node])
        row_key = root_key(root_key(seed ^ _OF_TIME, m), batch.tally[ROWS] + i)
        while (
            node >= 0 and stop[node] < lifetime and nodes.n_cells[n_rungs - 1, n_trees] < max_cells
        ):
            # No rung is cut more often than the last.
            if batch.n_origin[n_rungs - 1] == batch.origin.shape[1]:
                return NO_ORIGIN
            if nodes.tally[NODES] + 2 > nodes.time.size:
                return NO_NODES
            rate = 0.0
            for d in range(X.shape[1]):
                rate += upper[node, d] - lower[node, d]
            key = root_key(row_key, node)
            clock = np.inf
            if rate > 0.0:
                clock = stop[node] - np.log1p(-uniform(key, 0)) / rate
            if node < batch.tally[NODES]:
                k = progress[CHANGED]
                batch.cut_node[k], batch.cut_stop[k] = node, stop[node]
                progress[CHANGED] += 1
            stop[node] = lifetime
            if not clock < lifetime:
                break
            d, at = _cut_of_box(lower, upper, node, rate, key)
            a = _split(nodes, node, m, d, at, clock, rungs, batch)
            node = a if X[i, d] <= at else a + 1
        progress[SEEN] += 1
    return FINISHED


@kernel
def _unrefine(nodes, batch):
    """Make leaves again of the old leaves that :func:`_refine` has cut."""
    left, column = nodes.left, nodes.column
    for k in range(batch.progress[CHANGED]):
        node = batch.cut_node[k]
        nodes.stop[node] = batch.cut_stop[k]
        if left[node] >= 0:
            for r in range(column.shape[0]):
                heir = left[node]
                while column[r, heir] < 0:
                    heir = left[heir]
                column[r, node] = column[r, heir]
            left[node] = nodes.right[node] = nodes.dim[node] = -1
            nodes.loc[node] = nodes.time[node] = np.inf
