"""Extend Mondrian trees by new rows with the conditional Mondrian, in place.

A tree that has been sampled on a box B knows nothing of cuts outside B. When a row x at L1
distance Δ from B arrives, the cuts that part x from B ring at rate Δ while B is alive; the first
of them, if there is one, puts a new node above B. Otherwise B is enlarged to hold x and the walk
goes on in the child on the side of x. Lack of memory lets one unit exponential serve the whole
walk: the walk spends Δ (t₁ - t₀) of it at a node alive from t₀ to t₁, and a cut comes where it
runs out. The tree that results has the law of a tree sampled on all rows at once.

The arrays are those of :class:`mondrian_kernel._trees.trees.Trees`, longer than what is used:

``tally`` int64 (2,)
    Number of nodes in use, and number of rows in the trees.
``column`` int32 (R, capacity), ``n_cells`` int64 (R, M + 1), ``rungs`` float64 (R,)
    At each rung λ, increasing up to the lifetime: the cell that a node is or lies in (-1 if it is
    cut by λ), and the number of cells of each tree and, last, of all. Old nodes keep their numbers
    for ever.
``stop`` float64 (capacity,)
    Time to which the clock of a leaf has run.
``start`` int64 (2,), ``progress`` int64 (2,), ``leaf`` int32 (n, M)
    The batch at hand: the tally before it; how many of its n·M insertions are done and how many
    boxes are saved; the leaf of each row.
``saved_node`` int32 (S,), ``saved_box`` float64 (S, 2 D), ``touched`` bool (capacity,)
    The leaves that the batch enlarged and their boxes before it, lower then upper; a mark on them.
"""

import numpy as np
from numba import njit

from mondrian_kernel._kernels.streams import root_key, uniform
from mondrian_kernel._kernels.walk import box_distance

NODES, ROWS = range(2)
DONE, SAVED = range(2)
# Parts the streams of rows from those of nodes, which are hashed from the same seed.
_OF_ROWS = np.uint64(0xA0761D6478BD642F)


@njit(cache=True, nogil=True)
def all_below(X, root, lower, upper, bound):
    """Whether all numbers of the rows, and of the rows in the first tree, are below a bound."""
    for i in range(X.shape[0]):
        for d in range(X.shape[1]):
            if not abs(X[i, d]) < bound:
                return False
    if root[0] >= 0:
        for d in range(X.shape[1]):
            if not max(-lower[root[0], d], upper[root[0], d]) < bound:
                return False
    return True


@njit(cache=True, nogil=True)
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
    loc = low + uniform(key, 2) * (high - low)
    if not loc < high:
        loc = max(low, np.nextafter(high, low))
    return dim, loc


@njit(cache=True, nogil=True)
def _enlarge(X, i, lower, upper, node):
    for d in range(X.shape[1]):
        lower[node, d] = min(lower[node, d], X[i, d])
        upper[node, d] = max(upper[node, d], X[i, d])


@njit(cache=True, nogil=True)
def _replace(root, left, right, m, above, old, new):
    """Let ``new`` take the place of ``old`` under ``above``, or as the root of tree ``m``."""
    if above < 0:
        root[m] = new
    elif left[above] == old:
        left[above] = new
    else:
        right[above] = new


@njit(cache=True, nogil=True)
def _insert(
    X, i, m, key, node, distance, cut_time, lifetime, rungs, n_cells, tally, root, tree, parent,
    left, right, dim, loc, time, lower, upper, count, stop, column,
):  # fmt: skip
    """Append a leaf for row ``i`` and, unless ``node`` is -1, a cut above ``node``: the leaf."""
    leaf = tally[NODES] + (node >= 0)
    tally[NODES] = leaf + 1
    tree[leaf], count[leaf], parent[leaf] = m, 1, -1
    left[leaf] = right[leaf] = dim[leaf] = -1
    loc[leaf] = time[leaf] = np.inf
    stop[leaf] = lifetime
    lower[leaf] = upper[leaf] = X[i]
    if node < 0:
        root[m] = leaf
    else:
        new, above = leaf - 1, parent[node]
        tree[new], count[new], parent[new] = m, count[node] + 1, above
        dim[new], loc[new] = _cut(X, i, lower, upper, node, distance, key)
        time[new], stop[new] = cut_time, lifetime
        lower[new], upper[new] = lower[node], upper[node]
        _enlarge(X, i, lower, upper, new)
        _replace(root, left, right, m, above, node, new)
        parent[leaf] = parent[node] = new
        if X[i, dim[new]] <= loc[new]:
            left[new], right[new] = leaf, node
        else:
            left[new], right[new] = node, leaf
    for r in range(rungs.size):
        # A cut after λ leaves the row in the cell which the old node is or lies in at λ.
        if node >= 0 and cut_time > rungs[r]:
            column[r, leaf] = column[r, leaf - 1] = column[r, node]
        else:
            column[r, leaf] = n_cells[r, -1]
            n_cells[r, m] += 1
            n_cells[r, -1] += 1
            if node >= 0:
                column[r, leaf - 1] = -1
    return leaf


@njit(cache=True, nogil=True)
def _descend(X, i, left, right, dim, loc, count, node, step):
    """Go down from ``node`` to a leaf by the cuts, adding ``step`` to the counts: the leaf."""
    count[node] += step
    while left[node] >= 0:
        node = left[node] if X[i, dim[node]] <= loc[node] else right[node]
        count[node] += step
    return node


@njit(cache=True, nogil=True)
def _outermost(X, i, parent, lower, upper, node):
    """Return the highest of the nodes above a leaf whose boxes do not hold the row, -1 if none."""
    outside = -1
    while node >= 0 and box_distance(X, i, lower, upper, node) > 0.0:
        outside = node
        node = parent[node]
    return outside


@njit(cache=True, nogil=True)
def extend(
    X, seed, lifetime, max_cells, rungs, n_cells, tally, start, progress, leaf, saved_node,
    saved_box, touched, root, tree, parent, left, right, dim, loc, time, lower, upper, count, stop,
    column,
):  # fmt: skip
    """Insert the rows of ``X`` into each tree, row by row, until all are in or the table is full.

    Goes on from ``progress`` and keeps it; every array but ``X``, ``rungs`` and ``start`` is
    changed in place. The table is full when fewer than 2 nodes are left; ``saved_node`` must have
    room for every insertion, or for every leaf there was before the batch. A root of -1 is a tree
    without rows. Draws depend on ``seed`` uint64, the tree and the number of the row
    (``tally[ROWS]``) alone. Once the last rung has ``max_cells`` cells no cut is made: the row goes
    down by the cuts there are and joins a leaf, with all boxes and counts on its way.

    Boxes are nested, and one that holds the row lets it pass. So a row goes down by the cuts alone,
    then up again to the first box that holds it; only below that one is anything drawn or enlarged.
    """
    n_dims, n_trees, n_rungs = X.shape[1], root.size, rungs.size
    while progress[DONE] < leaf.size and tally[NODES] + 2 <= time.size:
        i, m = progress[DONE] // n_trees, progress[DONE] % n_trees
        key = root_key(root_key(seed ^ _OF_ROWS, m), tally[ROWS])
        node = below = root[m]
        joins = node >= 0
        cut_time = distance = 0.0
        if joins:
            below = _descend(X, i, left, right, dim, loc, count, node, 1)
            node = _outermost(X, i, parent, lower, upper, below)
        if joins and node >= 0:
            room = n_cells[n_rungs - 1, -1] < max_cells
            budget = -np.log1p(-uniform(key, 0)) if room else np.inf
            birth = time[parent[node]] if parent[node] >= 0 else 0.0
            while True:
                distance = box_distance(X, i, lower, upper, node)
                death = min(time[node], lifetime)
                cut_time = birth + budget / distance
                if cut_time < death:
                    _descend(X, i, left, right, dim, loc, count, node, -1)
                    joins = False
                    break
                if node == below and node < start[NODES] and not touched[node]:
                    touched[node] = True
                    saved_node[progress[SAVED]] = node
                    saved_box[progress[SAVED], :n_dims] = lower[node]
                    saved_box[progress[SAVED], n_dims:] = upper[node]
                    progress[SAVED] += 1
                _enlarge(X, i, lower, upper, node)
                if node == below:
                    break
                budget = max(budget - distance * (death - birth), 0.0)
                birth = time[node]
                node = left[node] if X[i, dim[node]] <= loc[node] else right[node]
        if joins:
            leaf[i, m] = below
        else:
            leaf[i, m] = _insert(
                X, i, m, key, node, distance, cut_time, lifetime, rungs, n_cells, tally, root, tree,
                parent, left, right, dim, loc, time, lower, upper, count, stop, column,
            )  # fmt: skip
        progress[DONE] += 1
        if m == n_trees - 1:
            tally[ROWS] += 1


@njit(cache=True, nogil=True)
def undo(
    n_cells, start_cells, tally, start, progress, leaf, saved_node, saved_box, touched,
    root, parent, left, right, lower, upper, count,
):  # fmt: skip
    """Take back the insertions of a batch, the last one first.

    The boxes of old leaves are put back; above them a box is the union of its children's, which
    is exact once all rows of the batch that went through it are taken back. ``n_cells`` and
    ``tally`` return to what they were; appended nodes are free again without being erased.
    """
    n_dims, n_trees = lower.shape[1], root.size
    for k in range(progress[SAVED]):
        node = saved_node[k]
        touched[node] = False
        for d in range(n_dims):
            lower[node, d], upper[node, d] = saved_box[k, d], saved_box[k, n_dims + d]
    while progress[DONE] > 0:
        progress[DONE] -= 1
        i, m = progress[DONE] // n_trees, progress[DONE] % n_trees
        node = leaf[i, m]
        count[node] -= 1
        above = parent[node]
        # The row made this leaf, and the node above it if there is one.
        if count[node] == 0 and node >= start[NODES]:
            if above < 0:
                root[m] = -1
            else:
                other = right[above] if left[above] == node else left[above]
                _replace(root, left, right, m, parent[above], above, other)
                above = parent[other] = parent[above]
        while above >= 0:
            count[above] -= 1
            a, b = left[above], right[above]
            for d in range(n_dims):
                lower[above, d] = min(lower[a, d], lower[b, d])
                upper[above, d] = max(upper[a, d], upper[b, d])
            above = parent[above]
    progress[SAVED] = 0
    tally[:] = start
    n_cells[:] = start_cells
