"""Grow trees in rounds on rows that lie in several places, such as the blocks of a cluster.

In a round every open node is cut once. A place sorts its own rows into the children and answers
with their bounds; the clocks of the nodes run where the answers are put together.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.grow import ring


@kernel
def part_nodes(X, order, cuts, begin, end, edge, spare):
    """Sort the rows of K nodes into their children, in place.

    ``order`` uint16 (M, N) holds the rows of ``X`` (N, D) in each tree; a node owns the slice from
    ``begin`` to ``end``, int32 (K,), of the order of its tree. ``cuts`` has the arrays ``tree``,
    ``dim`` int32 and ``loc`` (K,). Child 2k of node k, the left one, then owns the slice from
    ``edge[2k]`` to ``edge[2k + 1]``, child 2k + 1 that from there to ``end[k]``; ``edge`` is int32
    (2K,). ``spare`` uint16 (N,) is working memory. Rows that are parted already
    stay in their order.
    """
    for k in range(begin.size):
        tree, d, loc = cuts.tree[k], cuts.dim[k], cuts.loc[k]
        middle = begin[k]
        n_right = 0
        for j in range(begin[k], end[k]):
            i = order[tree, j]
            is_left = X[i, d] <= loc
            # Both are written and one of them kept: branches would be mispredicted.
            order[tree, middle] = i
            spare[n_right] = i
            middle += is_left
            n_right += not is_left
        for j in range(n_right):
            order[tree, middle + j] = spare[j]
        edge[2 * k], edge[2 * k + 1] = begin[k], middle


@kernel
def bound_nodes(X, order, tree, begin, end, bounds):
    """Bound and count the rows of K nodes, which own slices as in :func:`part_nodes`.

    ``bounds`` has the arrays ``lower`` and ``upper`` (K, D) and ``n_rows`` (K,), which are updated
    in place. Four columns at a time are kept in registers (2 to 3 times faster than one by one);
    the last of them may be the same column.
    """
    lower, upper, last = bounds.lower, bounds.upper, X.shape[1] - 1
    for k in range(begin.size):
        m = tree[k]
        bounds.n_rows[k] += end[k] - begin[k]
        for a in range(0, X.shape[1], 4):
            b, c, d = min(a + 1, last), min(a + 2, last), min(a + 3, last)
            low_a, low_b, low_c, low_d = lower[k, a], lower[k, b], lower[k, c], lower[k, d]
            high_a, high_b, high_c, high_d = upper[k, a], upper[k, b], upper[k, c], upper[k, d]
            for j in range(begin[k], end[k]):
                i = order[m, j]
                low_a, high_a = min(low_a, X[i, a]), max(high_a, X[i, a])
                low_b, high_b = min(low_b, X[i, b]), max(high_b, X[i, b])
                low_c, high_c = min(low_c, X[i, c]), max(high_c, X[i, c])
                low_d, high_d = min(low_d, X[i, d]), max(high_d, X[i, d])
            lower[k, a], lower[k, b], lower[k, c], lower[k, d] = low_a, low_b, low_c, low_d
            upper[k, a], upper[k, b], upper[k, c], upper[k, d] = high_a, high_b, high_c, high_d


@kernel
def bound_ends(X, number, node, bounds):
    """Widen the ``bounds`` of :func:`bound_nodes` by rows ``X`` (N, D) in any order.

    Row i is in node ``node[i]``, uint32 (N,), and counts for the entry ``number[node[i]]``, if that
    is not below 0.
    """
    lower, upper = bounds.lower, bounds.upper
    for i in range(node.size):
        k = number[node[i]]
        if k >= 0:
            bounds.n_rows[k] += 1
            for d in range(X.shape[1]):
                v = X[i, d]
                lower[k, d] = v if v < lower[k, d] else lower[k, d]
                upper[k, d] = v if v > upper[k, d] else upper[k, d]


@kernel
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


@kernel
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


@kernel
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
