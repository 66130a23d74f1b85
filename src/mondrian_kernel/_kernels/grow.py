"""Grow Mondrian trees on rows, forward in time, with lazy clocks.

A node inherits its parent's box, which may be larger than the bounding box of its own rows. Its
clock rings at the rate of that box; only then is the tight range of the one ringing dimension
read, in O(n). A location outside that range is a cut that misses all rows: the dimension is
tightened and the clock runs on. By lack of memory this is thinning, so the law is exact.

State of a block of T trees, all arrays:

``order`` int32 (T, N)
    Row indices of each tree; every node owns the slice ``[start, stop)`` of its tree's order.
``links`` int32 (capacity, 7), ``cut`` float64 (capacity, 2)
    The node table, columns named by the constants below. ``cut[:, TIME]`` is inf for a leaf.
``open_*``
    The leaves whose clocks still run: node, key, number of draws used, time on the clock, and the
    inherited box (lower then upper side). Growing to λ₁ and on to λ₂ gives the same trees, bit
    for bit, as growing to λ₂.
"""

import numpy as np
from numba import njit

from mondrian_kernel._kernels.streams import left_key, right_key, root_key, uniform

TREE, PARENT, LEFT, RIGHT, DIM, START, STOP = range(7)
LOC, TIME = range(2)


@njit(cache=True, nogil=True)
def plant(seed, first_tree, n_trees, n_rows, box):
    """State of ``n_trees`` trees at time 0: one root each, on the box (lower then upper)."""
    order = np.empty((n_trees, n_rows), np.int32)
    links = np.full((n_trees, 7), -1, np.int32)
    cut = np.full((n_trees, 2), np.inf)
    key = np.empty(n_trees, np.uint64)
    boxes = np.empty((n_trees, box.size))
    for m in range(n_trees):
        order[m] = np.arange(n_rows)
        links[m, TREE] = m
        links[m, START] = 0
        links[m, STOP] = n_rows
        key[m] = root_key(seed, first_tree + m)
        boxes[m] = box
    node = np.arange(n_trees).astype(np.int32)
    return order, links, cut, node, key, np.zeros(n_trees, np.int32), np.zeros(n_trees), boxes


@njit(cache=True, nogil=True)
def _enlarged(a, capacity):
    b = np.empty((capacity,) + a.shape[1:], a.dtype)  # noqa: RUF005 (numba)
    b[: a.shape[0]] = a
    return b


@njit(cache=True, nogil=True)
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
    low, high = boxes[b, dim], boxes[b, n_dims + dim]
    loc = low + uniform(key, draw + 2) * (high - low)
    if loc >= high:  # rounding; the interval is half open, so that a tight side is always parted
        loc = max(low, np.nextafter(high, low))
    return time, dim, loc


@njit(cache=True, nogil=True)
def _part(columns, dim, loc, order, tree, start, stop, spare, ends):
    """Stable partition in place by ``x[dim] <= loc``; return where the right part begins.

    ``ends`` receives the least and greatest x[dim] of all rows, the greatest on the left and the
    least on the right. If all rows lie on one side their order is unchanged.
    """
    middle = start
    n_right = 0
    low = min_right = np.inf
    high = max_left = -np.inf
    for k in range(start, stop):
        i = order[tree, k]
        v = columns[dim, i]
        is_left = v <= loc
        # Both are written and one of them kept: a branch would be mispredicted every other time.
        order[tree, middle] = i
        spare[n_right] = i
        middle += is_left
        n_right += not is_left
        low = min(low, v)
        high = max(high, v)
        max_left = max(max_left, v if is_left else -np.inf)
        min_right = min(min_right, np.inf if is_left else v)
    for k in range(n_right):
        order[tree, middle + k] = spare[k]
    ends[0], ends[1], ends[2], ends[3] = low, high, max_left, min_right
    return middle


@njit(cache=True, nogil=True)
def grow(
    columns, order, links, cut, n_nodes,
    open_node, open_key, open_draw, open_clock, open_box, lifetime,
):  # fmt: skip
    """Let the clocks of all open nodes run on to ``lifetime``.

    ``columns`` is float64 (D, N), the rows transposed. ``order`` is changed in place, and so are
    ``links`` and ``cut`` while they last (they are replaced when full). Returns the new
    ``links, cut, n_nodes, open_node, open_key, open_draw, open_clock, open_box``. Nodes whose
    rows are all equal have no clock and are never open.
    """
    n_dims = columns.shape[0]
    spare, ends = np.empty(order.shape[1], np.int32), np.empty(4)
    middle = 0
    # The nodes at hand: a stack with children on top of what is still to come. Those whose next
    # ring lies beyond the lifetime move to the new list of open nodes.
    s_node, s_key = np.empty(64, np.int32), np.empty(64, np.uint64)
    s_draw, s_clock, s_box = np.empty(64, np.int32), np.empty(64), np.empty((64, 2 * n_dims))
    capacity = max(64, open_node.size)
    o_node, o_key = np.empty(capacity, np.int32), np.empty(capacity, np.uint64)
    o_draw, o_clock = np.empty(capacity, np.int32), np.empty(capacity)
    o_box = np.empty((capacity, 2 * n_dims))
    n_open = 0
    for entry in range(open_node.size):
        s_node[0], s_key[0] = open_node[entry], open_key[entry]
        s_draw[0], s_clock[0], s_box[0] = open_draw[entry], open_clock[entry], open_box[entry]
        top = 0
        while top >= 0:
            node, key, draw, clock = s_node[top], s_key[top], s_draw[top], s_clock[top]
            tree, start, stop = links[node, TREE], links[node, START], links[node, STOP]
            dim = -1
            while stop - start > 1:
                time, d, loc = ring(key, draw, clock, s_box, top, lifetime)
                if d < 0:
                    break
                draw += 3
                clock = time
                middle = _part(columns, d, loc, order, tree, start, stop, spare, ends)
                s_box[top, d], s_box[top, n_dims + d] = ends[0], ends[1]
                if start < middle < stop:
                    dim = d
                    break
            if dim < 0:
                if stop - start > 1 and np.any(s_box[top, n_dims:] > s_box[top, :n_dims]):
                    if n_open == o_node.size:
                        capacity = 2 * n_open
                        o_node, o_key = _enlarged(o_node, capacity), _enlarged(o_key, capacity)
                        o_draw = _enlarged(o_draw, capacity)
                        o_clock, o_box = _enlarged(o_clock, capacity), _enlarged(o_box, capacity)
                    o_node[n_open], o_key[n_open], o_draw[n_open] = node, key, draw
                    o_clock[n_open], o_box[n_open] = clock, s_box[top]
                    n_open += 1
                top -= 1
                continue
            if n_nodes + 2 > links.shape[0]:
                capacity = 2 * links.shape[0] + 2
                links, cut = _enlarged(links, capacity), _enlarged(cut, capacity)
            left, right = n_nodes, n_nodes + 1
            n_nodes += 2
            cut[node, LOC], cut[node, TIME] = loc, clock
            links[node, LEFT], links[node, RIGHT], links[node, DIM] = left, right, dim
            for child in (left, right):
                cut[child] = np.inf
                links[child] = -1
                links[child, TREE], links[child, PARENT] = tree, node
            links[left, START], links[left, STOP] = start, middle
            links[right, START], links[right, STOP] = middle, stop
            if top + 2 > s_node.size:
                capacity = 2 * s_node.size
                s_node, s_key = _enlarged(s_node, capacity), _enlarged(s_key, capacity)
                s_draw, s_clock = _enlarged(s_draw, capacity), _enlarged(s_clock, capacity)
                s_box = _enlarged(s_box, capacity)
            s_box[top + 1] = s_box[top]
            s_node[top], s_key[top], s_draw[top], s_clock[top] = right, right_key(key), 0, clock
            s_box[top, dim] = ends[3]
            top += 1
            s_node[top], s_key[top], s_draw[top], s_clock[top] = left, left_key(key), 0, clock
            s_box[top, n_dims + dim] = ends[2]
    return (
        links, cut, n_nodes, o_node[:n_open].copy(), o_key[:n_open].copy(),
        o_draw[:n_open].copy(), o_clock[:n_open].copy(), o_box[:n_open].copy(),
    )  # fmt: skip
