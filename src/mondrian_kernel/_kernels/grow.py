"""Grow Mondrian trees on rows, forward in time, with lazy clocks, and freeze them.

A node inherits its parent's box, which may be larger than the bounding box of its own rows. Its
clock rings at the rate of that box. Only then is the tight range of the ringing dimension read,
in O(n). A location outside that range is a cut that misses all rows: the dimension is tightened
and the clock runs on. By lack of memory this is thinning, so the law is exact.

Kernels here allocate nothing and use no slices: that halves the time it takes to compile them.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.streams import left_key, right_key, uniform, uniform_between

# Columns of ``links`` and ``cut``, and entries of ``size``; see :mod:`._kernels.tables`.
TREE, PARENT, LEFT, RIGHT, DIM, START, STOP = range(7)
LOC, TIME = range(2)
NODES, STACKED, RESTING = range(3)


@kernel(inline="always")
def ring(key, draw, clock, boxes, b, lifetime):
    """Next ring of the clock of box ``b``: (time, dim, loc), or (inf, -1, 0) beyond ``lifetime``.

    Uses the draws ``draw, draw + 1, draw + 2`` of the node's stream. ``boxes[b]`` holds the lower
    sides, then the upper sides.
    """
    n_dims = boxes.shape[1] // 2
    rate = 0.0
    for d in range(n_dims):
        rate += boxes[b, n_dims + d] - boxes[b, d]
    if rate <= 0.0:
        return np.inf, -1, 0.0
    time = clock - np.log1p(-uniform(key, draw)) / rate
    if time > lifetime or time == np.inf:
        return np.inf, -1, 0.0
    # The dimension whose side covers a uniform point of all sides laid end to end.
    target = uniform(key, draw + 1) * rate
    dim = -1
    for d in range(n_dims):
        side = boxes[b, n_dims + d] - boxes[b, d]
        if side > 0.0:
            dim = d
            if target < side:
                break
            target -= side
    # The interval is half open, so that a tight side is always parted.
    return time, dim, uniform_between(key, draw + 2, boxes[b, dim], boxes[b, n_dims + dim])


@kernel(inline="always")
def _part(columns, dim, loc, order, tree, start, stop, spare):
    """Stable partition in place by ``x[dim] <= loc``.

    Returns where the right part begins, the least and greatest x[dim] of all rows, the greatest
    on the left and the least on the right. If all rows lie on one side their order is unchanged.
    """
    low = high = columns[dim, order[tree, start]]
    for k in range(start + 1, stop):
        v = columns[dim, order[tree, k]]
        low = v if v < low else low  # numba compiles a function for each type that min meets
        high = v if v > high else high
    middle, max_left, min_right = np.int64(start), low, high
    if low <= loc and loc < high:
        for k in range(start, stop):
            i = order[tree, k]
            # Both are written and one of them kept: a branch would be mispredicted half the time.
            order[tree, middle] = i
            spare[k - middle] = i
            middle += columns[dim, i] <= loc
        for k in range(start, middle):
            v = columns[dim, order[tree, k]]
            max_left = v if v > max_left else max_left
        for k in range(middle, stop):
            i = spare[k - middle]
            order[tree, k] = i
            v = columns[dim, i]
            min_right = v if v < min_right else min_right
    return middle, low, high, max_left, min_right


@kernel(inline="always")
def _copy_entry(source, i, target, k):
    """Copy entry ``i`` of clocks to entry ``k`` of others."""
    target.node[k], target.key[k] = source.node[i], source.key[i]
    target.draw[k], target.clock[k] = source.draw[i], source.clock[i]
    for d in range(source.box.shape[1]):
        target.box[k, d] = source.box[i, d]


@kernel
def grow(columns, trees, lifetime):
    """Let the clocks of all leaves on the stack of ``trees`` run on to ``lifetime``.

    ``columns`` is float64 (D, N), the rows transposed; ``trees`` is a ``GrowingTrees``, changed in
    place. Returns True when the stack is empty, and False when one of the tables is full: give it
    more room and call again. Leaves whose rows are all equal have no clock and are dropped. Growing
    to λ₁ and on to λ₂ gives the same trees, bit for bit, as growing to λ₂.
    """
    order, links, cut, spare = trees.order, trees.links, trees.cut, trees.spare
    stack, rest, size = trees.stack, trees.rest, trees.size
    box, n_dims = stack.box, columns.shape[0]
    while size[STACKED] > 0:
        top, left = size[STACKED] - 1, size[NODES]
        full = left + 2 > links.shape[0] or top + 2 > stack.node.size
        if full or size[RESTING] >= rest.node.size:
            return False
        node, draw, key, clock = stack.node[top], stack.draw[top], stack.key[top], stack.clock[top]
        tree, start, stop = links[node, TREE], links[node, START], links[node, STOP]
        dim, middle, max_left, min_right = -1, np.int64(start), 0.0, 0.0
        while dim < 0 and stop - start > 1:
            time, d, loc = ring(key, draw, clock, box, top, lifetime)
            if d < 0:
                break
            draw += 3
            clock = time
            middle, box[top, d], box[top, n_dims + d], max_left, min_right = _part(
                columns, d, loc, order, tree, start, stop, spare
            )
            if (start < middle) & (middle < stop):
                dim = d
                cut[node, LOC], cut[node, TIME] = loc, clock
        stack.draw[top], stack.clock[top] = draw, clock
        if dim >= 0:
            links[node, LEFT], links[node, RIGHT], links[node, DIM] = left, left + 1, dim
            _copy_entry(stack, top, stack, top + 1)
            box[top, dim], box[top + 1, n_dims + dim] = min_right, max_left
            stack.key[top], stack.key[top + 1] = right_key(key), left_key(key)
            for k in range(2):  # the left child is on top of the right one, and grows on first
                child = left + 1 - k
                links[child, TREE], links[child, PARENT] = tree, node
                links[child, LEFT] = links[child, RIGHT] = links[child, DIM] = -1
                links[child, START] = start if k else middle
                links[child, STOP] = middle if k else stop
                cut[child, LOC] = cut[child, TIME] = np.inf
                stack.node[top + k], stack.draw[top + k] = child, 0
            size[NODES] += 2
            size[STACKED] += 1
            continue
        size[STACKED] -= 1
        has_clock = False
        if stop - start > 1:
            for d in range(n_dims):
                has_clock |= box[top, n_dims + d] > box[top, d]
        if has_clock:
            _copy_entry(stack, top, rest, size[RESTING])
            size[RESTING] += 1
    return True


@kernel
def freeze(X, order, links, cut, lifetime, nodes, offset, leaf, stack):
    """Write a block's trees, stopped at ``lifetime``, in preorder; tight boxes bottom up.

    ``X`` (N, D) are the rows; ``order``, ``links`` and ``cut`` are those of ``GrowingTrees``.
    ``nodes`` is a ``NodeTable`` whose arrays are slices of the final table, as long as
    ``Block.count_nodes`` says; ``root`` and ``tree`` are not touched. ``offset`` is the place of
    the slices in the table and is added to node numbers. ``leaf`` int32 (N, T) receives the leaf
    of each row. ``stack`` int32 (n_nodes + 1, 2) is working memory.
    """
    n_trees, n_dims = order.shape[0], X.shape[1]
    parent, lower, upper = nodes.parent, nodes.lower, nodes.upper
    at = 0
    for tree in range(n_trees):
        first = at
        stack[0, 0], stack[0, 1] = tree, -1  # node in the block, its parent in the output
        top = 0
        while top >= 0:
            node, above = stack[top, 0], stack[top, 1]
            top -= 1
            here = at
            at += 1
            parent[here] = above + offset if above >= 0 else -1
            nodes.left[here] = nodes.right[here] = nodes.dim[here] = -1
            nodes.loc[here] = nodes.time[here] = np.inf
            start, stop = links[node, START], links[node, STOP]
            nodes.count[here] = stop - start
            if above >= 0:
                if here == above + 1:
                    nodes.left[above] = here + offset
                else:
                    nodes.right[above] = here + offset
            if cut[node, TIME] <= lifetime and cut[node, TIME] < np.inf:
                nodes.dim[here] = links[node, DIM]
                nodes.loc[here], nodes.time[here] = cut[node, LOC], cut[node, TIME]
                stack[top + 1, 0], stack[top + 1, 1] = links[node, RIGHT], here
                stack[top + 2, 0], stack[top + 2, 1] = links[node, LEFT], here
                top += 2
            else:
                i = order[tree, start]
                for d in range(n_dims):
                    lower[here, d] = upper[here, d] = X[i, d]
                for k in range(start, stop):
                    i = order[tree, k]
                    leaf[i, tree] = here + offset
                    for d in range(n_dims):
                        x = X[i, d]
                        lower[here, d] = x if x < lower[here, d] else lower[here, d]
                        upper[here, d] = x if x > upper[here, d] else upper[here, d]
        for here in range(at - 1, first - 1, -1):  # children come after their parent
            if nodes.dim[here] >= 0:
                left, right = nodes.left[here] - offset, nodes.right[here] - offset
                for d in range(n_dims):
                    low, high = lower[left, d], upper[left, d]
                    lower[here, d] = low if low < lower[right, d] else lower[right, d]
                    upper[here, d] = high if high > upper[right, d] else upper[right, d]


@kernel
def link_nodes(dim, parent, left, right, waiting):
    """Write the parent, left and right node of each node, int32 (n,), -1 where there is none.

    A node comes before all nodes on its left, and these before those on its right. ``dim`` is
    below 0 for a leaf. ``waiting`` int32 (n,) is working memory: nodes whose right one is to come.
    """
    parent[:], left[:], right[:], n_waiting = -1, -1, -1, 0
    for node in range(dim.size - 1):
        if dim[node] >= 0:
            waiting[n_waiting] = node
            n_waiting += 1
            left[node], parent[node + 1] = node + 1, node
        elif n_waiting > 0:  # else the next node is a root
            n_waiting -= 1
            above = waiting[n_waiting]
            right[above], parent[node + 1] = node + 1, above


@kernel
def join_rows(X, leaf, lower, upper, count):
    """Write the boxes ``lower`` and ``upper`` (n, D) of leaves and the numbers of their rows.

    ``leaf`` int32 (N, M) are the leaves of the rows ``X`` (N, D). Other nodes have no rows.
    """
    lower[:], upper[:], count[:] = np.inf, -np.inf, 0
    for m in range(leaf.shape[1]):
        for i in range(X.shape[0]):
            here = leaf[i, m]
            count[here] += 1
            for d in range(X.shape[1]):
                lower[here, d] = min(lower[here, d], X[i, d])
                upper[here, d] = max(upper[here, d], X[i, d])


@kernel
def join_boxes(X, leaf, parent, lower, upper, count):
    """Write the boxes ``lower`` and ``upper`` (n, D) of nodes and the numbers of their rows.

    ``leaf`` int32 (N, M) are the leaves of the rows ``X`` (N, D). Every node comes after its
    ``parent``, and every leaf has rows.
    """
    n_dims = X.shape[1]
    join_rows(X, leaf, lower, upper, count)
    for here in range(parent.size - 1, -1, -1):
        above = parent[here]
        if above >= 0:
            count[above] += count[here]
            for d in range(n_dims):
                lower[above, d] = min(lower[above, d], lower[here, d])
                upper[above, d] = max(upper[above, d], upper[here, d])


@kernel
def join_leaves(root, left, right, tree, lower, upper, count, order):
    """Write the ``tree`` of each node, and box and number of rows of those that are cut.

    ``lower`` and ``upper`` (n, D) hold the boxes of the leaves, ``count`` (n,) their rows. No node
    may be below two others. ``order`` int32 (n,) is working memory.
    """
    n_dims, end = lower.shape[1], 0
    for m in range(root.size):
        first = here = end
        order[end] = root[m]
        end += 1
        while here < end:
            node = order[here]
            tree[node] = m
            here += 1
            if left[node] >= 0:
                order[end], order[end + 1] = left[node], right[node]
                end += 2
        for place in range(end - 1, first - 1, -1):
            node = order[place]
            one, other = left[node], right[node]
            if one >= 0:
                count[node] = count[one] + count[other]
                for d in range(n_dims):
                    lower[node, d] = min(lower[one, d], lower[other, d])
                    upper[node, d] = max(upper[one, d], upper[other, d])
