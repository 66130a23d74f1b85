"""Walk frozen trees: cells at a lifetime, features and scores of new rows."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.tables import NodeTable
from mondrian_kernel._settings import WALK_LANES as LANES
from mondrian_kernel._settings import WALK_ROWS as ROW_BLOCK


@kernel
def label_cells(root, left, right, time, lifetime, column, n_cells, stack):
    """Label the cells at ``lifetime`` from left to right, tree by tree.

    ``column`` int32 (n_nodes,): a node alive at ``lifetime`` receives its cell's number, a node
    below one that of the cell it lies in, a node cut by then -1. ``n_cells`` int64 (n_trees,)
    receives the number of cells of each tree. ``stack`` int32 (n_nodes + 1, 2) is working memory.
    """
    total = 0
    for m in range(root.size):
        first = total
        stack[0, 0], stack[0, 1] = root[m], -1
        top = 0
        while top >= 0:
            node, cell = stack[top, 0], np.int64(stack[top, 1])
            top -= 1
            if cell < 0 and (time[node] > lifetime or time[node] == np.inf):
                cell = np.int64(total)
                total += 1
            column[node] = cell
            if left[node] >= 0:
                stack[top + 1, 0], stack[top + 1, 1] = right[node], cell
                stack[top + 2, 0], stack[top + 2, 1] = left[node], cell
                top += 2
        n_cells[m] = total - first


# The sum may be taken in any order, so that it vectorises (twice as fast); it is 0 in every order
# for a row inside, and always the same for the same row and box.
@kernel(fastmath={"reassoc", "nsz"}, forceinline=True)
def box_distance(X, i, lower, upper, node):
    """L1 distance from row ``i`` to the box of ``node``, exactly 0 inside."""
    zero = X.dtype.type(0)  # sums have the type of the rows
    distance = zero
    for d in range(X.shape[1]):
        below, over = lower[node, d] - X[i, d], X[i, d] - upper[node, d]
        far = over if over > below else below
        distance += far if far > zero else zero
    return distance


@kernel(forceinline=True)
def _log_stay(X, i, nodes, node, lifetimes, log_stay):
    """Write log-probabilities that row ``i`` stays in its cells to ``log_stay`` (L,); see ``walk``.

    ``node`` is that of the last lifetime. Boxes are nested: above a box that holds the row all do,
    and nothing is lost. What is lost between two lifetimes is summed up first, and then counts for
    all lifetimes from the later one on.
    """
    lower, upper, parent, time = nodes.lower, nodes.upper, nodes.parent, nodes.time
    k, lost = lifetimes.size - 1, 0.0
    death = lifetimes[k]
    distance = box_distance(X, i, lower, upper, node)
    while distance > 0.0:
        node = np.int64(parent[node])
        birth = time[node] if node >= 0 else 0.0
        while k > 0 and lifetimes[k - 1] > birth:
            if death > lifetimes[k - 1]:  # a distance may be infinite: no 0 · inf
                lost += distance * (death - lifetimes[k - 1])
            log_stay[k], lost, death = -lost, 0.0, lifetimes[k - 1]
            k -= 1
        if death > birth:
            lost += distance * (death - birth)
        death = birth
        distance = box_distance(X, i, lower, upper, node) if node >= 0 else 0.0
    log_stay[k] = -lost
    for before in range(k):
        log_stay[before] = 0.0
    for after in range(k + 1, lifetimes.size):
        log_stay[after] += log_stay[after - 1]


@kernel
def walk_trees(X, nodes, first, last, lifetimes, node_of, log_stay):
    """Send each row down the trees ``first:last``; see :func:`walk`.

    ``nodes`` is a ``NodeTable``; ``node_of`` int32 (N, K) and ``log_stay`` (N, K, L) have a column
    for each of the K = last - first trees.
    """
    left, right, dim, loc, time = nodes.left, nodes.right, nodes.dim, nodes.loc, nodes.time
    end_time = lifetimes[lifetimes.size - 1]
    for begin in range(0, X.shape[0], ROW_BLOCK):
        end = min(begin + ROW_BLOCK, X.shape[0])
        for m in range(first, last):
            for i in range(begin, end):
                node = nodes.root[m]
                while time[node] <= end_time and time[node] < np.inf:
                    node = left[node] if X[i, dim[node]] <= loc[node] else right[node]
                node_of[i, m - first] = node
                _log_stay(X, i, nodes, np.int64(node), lifetimes, log_stay[i, m - first])


@kernel
def walk(X, arrays, lifetimes, node_of, log_stay):
    """Send each row down each tree to its cell at the last of ascending ``lifetimes`` (L,).

    At a node with box B alive from t₀ to t₁ a row at L1 distance Δ from B stays with B with
    probability exp(-Δ (t₁ - t₀)): the mean over the conditional Mondrian that extends the tree to
    the row. ``arrays`` are those of a ``NodeTable``, as a plain tuple. ``node_of`` int32 (N, M)
    receives the node of the cell, ``log_stay`` float64 (N, M, L) the logarithm of the product along
    the way up to each lifetime, exactly 0 for rows the trees were grown on.
    """
    nodes = NodeTable(*arrays)
    walk_trees(X, nodes, 0, nodes.root.size, lifetimes, node_of, log_stay)


@kernel
def decay(X, nodes, whole, real):
    """Note the pieces of log φ along the way of each row down each tree, to its leaf.

    At a node with box B alive from ``start`` on, a row at L1 distance ``slope`` from B has
    log(√M φ) = level - slope (t - start). Pieces where this is 0 throughout are left out, and
    consecutive constant ones are joined. ``nodes`` is a ``NodeTable``; ``whole`` int32 (2, n)
    receives row and tree, and ``real`` (3, n) start, level and slope of the pieces that fit, sorted
    by row, tree and start. Returns the number of all pieces.
    """
    left, right, dim, loc, time = nodes.left, nodes.right, nodes.dim, nodes.loc, nodes.time
    n = 0
    for i in range(X.shape[0]):
        for m in range(nodes.root.size):
            node = nodes.root[m]
            birth = log_p = 0.0
            flat = True
            while True:
                distance = box_distance(X, i, nodes.lower, nodes.upper, node)
                if distance > 0.0 or not flat:
                    if n < whole.shape[1]:
                        whole[0, n], whole[1, n] = i, m
                        real[0, n], real[1, n], real[2, n] = birth, log_p, distance
                    n += 1
                flat = distance == 0.0
                if left[node] < 0:
                    break
                if distance > 0.0:
                    log_p -= distance * (time[node] - birth)
                birth = time[node]
                node = left[node] if X[i, dim[node]] <= loc[node] else right[node]
    return n


@kernel
def descend(X, root, steps, node_of, at):
    """Send rows down a tree to the ends of its ``STEP`` records; ``node_of`` (n,) receives these.

    There are always as many lanes, so that the loop over them is unrolled. Beyond the last row they
    repeat it. ``at`` uint64 (LANES,) is working memory; without a sign no index is negative.
    """
    n_rows, last = X.shape[0], X.shape[0] - 1
    for begin in range(0, n_rows, LANES):
        for j in range(LANES):
            at[j] = root
        moving = True
        while moving:
            moving = False
            for j in range(LANES):
                i, step = np.uint64(begin + j if begin + j < last else last), steps[at[j]]
                goes_left = X[i, np.uint64(step["dim"])] <= step["loc"]
                after = np.uint64(step["left"] if goes_left else step["right"])
                moving |= after != at[j]
                at[j] = after
        for j in range(LANES if begin + LANES < n_rows else n_rows - begin):
            node_of[begin + j] = at[j]


@kernel
def level_scores(X, arrays, steps, lifetimes, cells, value, W, scores, node_of, at, log_stay):
    """Add Σ_l value[l] Σ_m p_lm W[cells[node, l]] to ``scores`` (n, K + 1).

    ``arrays`` are those of a ``NodeTable``, as a plain tuple, and ``steps`` its ``STEP`` records;
    ``cells`` int32 (n_nodes, L) are the cells of a node at each lifetime, and ``W`` (F, K) their
    weights; p_lm is the probability that a row stays in its cell, see
    :func:`mondrian_kernel._kernels.walk.walk`. The last column of ``scores`` receives the mean of
    p_0m² instead. ``node_of`` uint32 (n,), ``at`` uint64 (LANES,) and ``log_stay`` (L,) are working
    memory.
    """
    nodes = NodeTable(*arrays)
    n_outputs = W.shape[1]
    for m in range(nodes.root.size):
        descend(X, nodes.root[m], steps, node_of, at)
        for i in range(X.shape[0]):
            node = np.uint64(node_of[i])
            _log_stay(X, i, nodes, np.int64(node), lifetimes, log_stay)
            for level in range(lifetimes.size):
                c, stay = np.uint64(cells[node, level]), 1.0
                if log_stay[level] < 0.0:
                    stay = np.exp(log_stay[level])
                if level == 0:
                    scores[i, n_outputs] += stay * stay / nodes.root.size
                for k in range(n_outputs):
                    scores[i, k] += value[level] * stay * W[c, k]
