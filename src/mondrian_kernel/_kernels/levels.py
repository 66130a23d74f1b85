"""Products with the features of rows at several lifetimes of the same trees.

The cells of a level are numbered from left to right, tree by tree, and a coarser cell is a union
of finer ones. A product sums rows into the finest cells, these into coarser ones, and adds the
weighted sums up on the way back. It visits every row twice and every cell of every level twice.

``cells`` uint16 or int32 (M, N)
    Finest cell of each row, counted from the first cell of its tree.
``first`` int64 (L, M + 1)
    First cell of each tree at each level.
``offset`` int64 (L + 1,)
    First cell of each level, when the levels are laid out one after another.
``above`` int32 (F,)
    For each cell of each level the cell of the level before it that holds it, by its number there.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.lanes import add_row, scale_and_add


@kernel
def gram(cells, first, offset, above, start, weight, begin, end, V, sums, out, lanes):
    """Add Σ_l weight[l, j] Φ_l Φ_lᵀ v_j to column j of ``out``, for V (N, k), trees ``begin:end``.

    A row has the value 1 in each of its cells. ``weight`` (L, k), V and ``out`` are of one type,
    and ``lanes`` is a tuple of k numbers: the compiled code depends on its length. ``sums`` (C, k)
    is working memory for the cells of any one tree and one more. There those of level l begin at
    ``start[l]``, int64 (L + 1, M).
    """
    n_levels = weight.shape[0]
    last = n_levels - 1
    for m in range(begin, end):
        zero, fine = start[n_levels, m], start[last, m]
        for c in range(zero + 1):
            for j in range(len(lanes)):
                sums[c, j] = 0.0
        for i in range(V.shape[0]):
            add_row(sums, fine + np.intp(cells[m, i]), V, i, lanes)
        for level in range(last, 0, -1):
            here = offset[level] + first[level, m] - start[level, m]
            there = start[level - 1, m] - first[level - 1, m]
            for c in range(start[level, m], start[level + 1, m]):
                add_row(sums, there + np.intp(above[here + c]), sums, c, lanes)
        for c in range(start[1, m]):
            scale_and_add(sums, c, weight, 0, zero, lanes)
        for level in range(1, n_levels):
            here = offset[level] + first[level, m] - start[level, m]
            there = start[level - 1, m] - first[level - 1, m]
            for c in range(start[level, m], start[level + 1, m]):
                scale_and_add(sums, c, weight, level, there + np.intp(above[here + c]), lanes)
        for i in range(V.shape[0]):
            add_row(out, i, sums, fine + np.intp(cells[m, i]), lanes)
