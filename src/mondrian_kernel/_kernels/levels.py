"""Products and backfitting with the cells of the same trees at several lifetimes.

The cells of a level are numbered from left to right, tree by tree, and a coarser cell is a union
of finer ones. A product sums rows into the finest cells, these into coarser ones, and adds the
weighted sums up on the way back. It visits every row twice and every cell of every level twice. A
sweep of backfitting does so too: each tree in turn is fitted to what the others have left of the
targets.

The cells of one tree at all levels, C at most, have places in working memory, level after level.

``cells`` uint16 or int32 (M, N)
    Finest cell of each row, counted from the first cell of its tree.
``above`` int32 (F,)
    For each cell of each level the place of the cell of the level before it that holds it; behind
    the last place of the tree for cells of the first level.
``start`` int64 (L + 1, M)
    Place of the first cell of each level of a tree; last, the number of all its cells.
``number`` int64 (L, M)
    Number of a cell, of all cells of all levels, less its place.

All other numbers are of one type. ``lanes`` is a tuple of k numbers: the compiled code depends on
its length.

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
    scale_and_add,
    set_shrink,
    take_step,
)
from mondrian_kernel._settings import MOMENT_ROWS


@kernel
def gram(cells, above, start, number, weight, begin, end, V, sums, out, lanes):
    """Add Σ_l weight[l, j] Φ_l Φ_lᵀ v_j to column j of ``out``, for V (N, k), trees ``begin:end``.

    A row has the value 1 in each of its cells. ``weight`` is (L, k), and ``sums`` (C + 1, k) is
    working memory.
    """
    n_levels = weight.shape[0]
    for m in range(begin, end):
        fine = start[n_levels - 1, m]
        for c in range(start[n_levels, m] + 1):
            for j in range(len(lanes)):
                sums[c, j] = 0.0
        for i in range(V.shape[0]):
            add_row(sums, fine + np.intp(cells[m, i]), V, i, lanes)
        for level in range(n_levels - 1, 0, -1):
            for c in range(start[level, m], start[level + 1, m]):
                add_row(sums, np.intp(above[number[level, m] + c]), sums, c, lanes)
        for level in range(n_levels):
            for c in range(start[level, m], start[level + 1, m]):
                scale_and_add(sums, c, weight, level, np.intp(above[number[level, m] + c]), lanes)
        for i in range(V.shape[0]):
            add_row(out, i, sums, fine + np.intp(cells[m, i]), lanes)


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
def fit_tree(above, start, number, m, scale, inverse, shrink, sums, parts, room, lanes):
    """Fit tree m to the sums in ``parts``; ``room`` becomes the change of its predictions.

    Changes ``sums``, and empties ``parts``. All levels of the tree are fitted at once: sums go up
    to the widest cells without what the narrower ones explain, and values come down.
    """
    n_levels = scale.shape[0]
    take_parts(start, m, parts, room, lanes)
    for level in range(n_levels - 1, 0, -1):
        for c in range(start[level, m], start[level + 1, m]):
            a = number[level, m] + c
            pass_up(room, np.intp(above[a]), c, shrink, sums, a, lanes)
    for level in range(n_levels):
        for c in range(start[level, m], start[level + 1, m]):
            a = number[level, m] + c
            change_cell(room, c, np.intp(above[a]), shrink, sums, a, scale, inverse, level, lanes)


@kernel
def sweep(cells, above, start, number, order, values, room, weight, excess, parts, lanes):
    """Fit the trees of ``order`` one after the other, which begins and ends with -1.

    ``values`` are the arrays of cells that :func:`fit_tree` takes. ``parts`` has one share.
    """
    scale, inverse, shrink, sums = values
    for k in range(order.size - 1):
        left, m = order[k], order[k + 1]
        visit_rows(cells, start, left, m, room, weight, excess, 0, weight.shape[0], parts[0], lanes)
        if m >= 0:
            fit_tree(above, start, number, m, scale, inverse, shrink, sums, parts, room, lanes)


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
def count_rows(cells, above, start, number, weight, scale, shrink, parts, room, one, lanes):
    """Set ``shrink`` by the weights of the rows of each cell; ``parts`` has one share.

    ``one`` (1, k) holds ones.
    """
    n_levels, part = scale.shape[0], parts[0]
    for m in range(cells.shape[0]):
        for i in range(weight.shape[0]):
            add_row(part, np.intp(cells[m, i]), weight, i, lanes)
        take_parts(start, m, parts, room, lanes)
        for level in range(n_levels - 1, -1, -1):
            for c in range(start[level, m], start[level + 1, m]):
                a = number[level, m] + c
                set_shrink(shrink, a, one, scale, level, room, c, lanes)
                if level > 0:
                    add_product(room, np.intp(above[a]), room, c, shrink, a, lanes)


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
