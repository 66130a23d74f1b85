"""Sweeps over the trees: each in turn is fitted to what the others have left of the targets.

Tables are those of ``levels.py``, and C is the number of cells of the largest tree. All numbers are
of one type. ``lanes`` is a tuple of k numbers: the compiled code depends on its length.

``weight``, ``excess`` (N, k)
    Sample weights s, and the predictions of all trees minus the targets, e.
``scale``, ``inverse`` (L, k)
    Variances τ of the values of cells of each level, and 1 / τ, or 0 where τ is 0.
``shrink``, ``sums`` (F, k)
    For each cell 1 / (1 + τ n), n its rows as the levels below leave them; and its value over τ.
``parts`` (shares, C, k)
    Sums over the finest cells of a tree of some of the rows; 0 between two sweeps.
``room`` (C + 1, k)
    Sums over the cells of a tree, then the change of its predictions; the last row is 0.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.lanes import (
    add_moments,
    add_product,
    add_row,
    change_cell,
    pass_up,
    set_shrink,
    take_step,
)
from mondrian_kernel._settings import MOMENT_ROWS


@kernel(inline="always")
def visit_rows(cells, start, left, entered, room, weight, excess, begin, end, part, lanes):
    """Add the change of tree ``left`` to rows ``begin:end``, and sum them for tree ``entered``.

    Changes ``excess`` and ``part`` (C, k). A tree -1 is none.
    """
    if left >= 0:
        fine = start[start.shape[0] - 2, left]
    if left < 0:
        for i in range(begin, end):
            add_product(part, np.intp(cells[entered, i]), weight, i, excess, i, lanes)
    elif entered < 0:
        for i in range(begin, end):
            add_row(excess, i, room, fine + np.intp(cells[left, i]), lanes)
    else:
        for i in range(begin, end):
            add_row(excess, i, room, fine + np.intp(cells[left, i]), lanes)
            add_product(part, np.intp(cells[entered, i]), weight, i, excess, i, lanes)


@kernel(inline="always")
def fit_tree(first, offset, above, start, m, scale, inverse, shrink, sums, parts, room, lanes):
    """Fit tree m to the sums in ``parts``; ``room`` becomes the change of its predictions.

    Changes ``sums``, and empties ``parts``. All levels of the tree are fitted at once: sums go up
    to the widest cells without what the narrower ones explain, and values come down.
    """
    n_levels = scale.shape[0]
    take_parts(start, m, parts, room, lanes)
    for level in range(n_levels - 1, 0, -1):
        here = offset[level] + first[level, m] - start[level, m]
        there = start[level - 1, m] - first[level - 1, m]
        for c in range(start[level, m], start[level + 1, m]):
            pass_up(room, there + np.intp(above[here + c]), c, shrink, sums, here + c, lanes)
    zero = start[n_levels, m]
    for level in range(n_levels):
        here = offset[level] + first[level, m] - start[level, m]
        for c in range(start[level, m], start[level + 1, m]):
            parent = zero
            if level > 0:
                parent = start[level - 1, m] - first[level - 1, m] + np.intp(above[here + c])
            change_cell(room, c, parent, shrink, sums, here + c, scale, inverse, level, lanes)


@kernel
def sweep(cells, first, offset, above, start, order, values, room, weight, excess, parts, lanes):
    """Fit the trees of ``order`` one after the other, which begins and ends with -1.

    ``values`` are the arrays of cells that :func:`fit_tree` takes. ``parts`` has one share.
    """
    scale, inverse, shrink, sums = values
    for k in range(order.size - 1):
        left, m = order[k], order[k + 1]
        visit_rows(cells, start, left, m, room, weight, excess, 0, weight.shape[0], parts[0], lanes)
        if m >= 0:
            fit_tree(
                first, offset, above, start, m, scale, inverse, shrink, sums, parts, room, lanes
            )


@kernel
def take_parts(start, m, parts, room, lanes):
    """Set ``room`` to the sums over the finest cells of tree m and 0 elsewhere; empty ``parts``."""
    last, zero = start.shape[0] - 2, start[start.shape[0] - 1, m]
    fine = start[last, m]
    for c in range(zero + 1):
        for j in range(len(lanes)):
            room[c, j] = 0.0
    for part in parts:
        for c in range(zero - fine):
            add_row(room, fine + c, part, c, lanes)
            for j in range(len(lanes)):
                part[c, j] = 0.0


@kernel
def count_rows(cells, first, offset, above, start, weight, scale, shrink, parts, room, one, lanes):
    """Set ``shrink`` by the weights of the rows of each cell; ``parts`` has one share.

    ``one`` (1, k) holds ones.
    """
    n_levels, part = scale.shape[0], parts[0]
    for m in range(cells.shape[0]):
        for i in range(weight.shape[0]):
            add_row(part, np.intp(cells[m, i]), weight, i, lanes)
        take_parts(start, m, parts, room, lanes)
        for level in range(n_levels - 1, -1, -1):
            here = offset[level] + first[level, m] - start[level, m]
            for c in range(start[level, m], start[level + 1, m]):
                set_shrink(shrink, here + c, one, scale, level, room, c, lanes)
                if level > 0:
                    p = start[level - 1, m] - first[level - 1, m] + np.intp(above[here + c])
                    add_product(room, p, room, c, shrink, here + c, lanes)


@kernel
def moments(before, after, step, weight, own, edges, sums, out, lanes):
    """Add Σ w zz, Σ w zp, Σ w pp, Σ w ze, Σ w pe and Σ w ee of each column to ``out`` (6, k).

    e is ``before``, z = ``after`` - e, p is ``step``, all (n, k). Rows ``edges[q, 0]:edges[q, 1]``
    have the weights w of row q, unless each row has its ``own``. ``out`` is in double precision;
    ``sums`` (6, k), of the type of the others, is working memory.
    """
    for part in range(edges.shape[0]):
        for begin in range(edges[part, 0], edges[part, 1], MOMENT_ROWS):
            for q in range(6):
                for j in range(len(lanes)):
                    sums[q, j] = 0.0
            end = begin + MOMENT_ROWS
            for i in range(begin, end if end < edges[part, 1] else edges[part, 1]):
                add_moments(sums, before, after, step, i, weight, i if own else part, lanes)
            for q in range(6):
                for j in range(len(lanes)):
                    out[q, j] += sums[q, j]


@kernel
def take_steps(before, after, step, edges, factors, lanes):
    """Set step p to a z + b p, and ``before`` and ``after`` to ``before`` + p.

    ``factors`` (2, k) are a and b, and the others are those of :func:`moments`.
    """
    for part in range(edges.shape[0]):
        for i in range(edges[part, 0], edges[part, 1]):
            take_step(before, after, step, i, factors, lanes)
