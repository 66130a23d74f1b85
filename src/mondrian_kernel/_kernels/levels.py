"""Products with the features of rows at several lifetimes of the same trees.

The cells of a tree at its finest level are numbered from left to right, so that a coarser cell is
a run of finer ones. A product therefore visits every row twice, at the finest level, and every
cell once for each level.

``cells`` uint16 or int32 (M, N)
    Finest cell of each row, counted from the first cell of its tree.
``first`` int64 (M + 1,)
    First finest cell of each tree among those of all trees.
``group`` int32 (L, C)
    Cell at each level that holds a finest cell, numbered over all trees of its level.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _sum_over_levels(group, weight, begin, n_cells, sums, out):
    """Set ``out[c, j]`` to Σ_l weight[l] · (sum of ``sums[:, j]`` over the level's cell of c)."""
    n_levels, width = group.shape[0], sums.shape[1]
    for c in range(n_cells):
        for j in range(width):
            out[c, j] = 0.0
    for level in range(n_levels):
        start = 0
        while start < n_cells:
            stop = start + 1
            while stop < n_cells and group[level, begin + stop] == group[level, begin + start]:
                stop += 1
            for j in range(width):
                total = 0.0
                for c in range(start, stop):
                    total += sums[c, j]
                total *= weight[level]
                for c in range(start, stop):
                    out[c, j] += total
            start = stop


@njit(cache=True, nogil=True)
def gram(cells, first, group, weight, begin, end, V, out):
    """Add Σ_l weight[l] Φ_l Φ_lᵀ V to ``out``, for V (N, k) and trees ``begin:end``.

    A row has the value 1 in each of its cells.
    """
    n_rows, width = V.shape
    most = 0
    for m in range(begin, end):
        most = max(most, first[m + 1] - first[m])
    sums, spread = np.empty((most, width)), np.empty((most, width))
    for m in range(begin, end):
        n_cells = first[m + 1] - first[m]
        for c in range(n_cells):
            for j in range(width):
                sums[c, j] = 0.0
        if width == 1:
            for i in range(n_rows):
                sums[cells[m, i], 0] += V[i, 0]
        else:
            for i in range(n_rows):
                for j in range(width):
                    sums[cells[m, i], j] += V[i, j]
        _sum_over_levels(group, weight, first[m], n_cells, sums, spread)
        if width == 1:
            for i in range(n_rows):
                out[i, 0] += spread[cells[m, i], 0]
        else:
            for i in range(n_rows):
                for j in range(width):
                    out[i, j] += spread[cells[m, i], j]


@njit(cache=True, nogil=True)
def scatter(cells, first, begin, end, V, out):
    """Add the sums of V (N, k) over the rows of each finest cell to ``out`` (C, k)."""
    n_rows, width = V.shape
    for m in range(begin, end):
        for i in range(n_rows):
            c = first[m] + cells[m, i]
            for j in range(width):
                out[c, j] += V[i, j]


@njit(cache=True, nogil=True)
def gather(cells, first, begin, end, W, out):
    """Add the sums of W (C, k) over the finest cells of each row to ``out`` (N, k)."""
    n_rows, width = out.shape
    for m in range(begin, end):
        for i in range(n_rows):
            c = first[m] + cells[m, i]
            for j in range(width):
                out[i, j] += W[c, j]


@njit(cache=True, nogil=True)
def count_matches(codes, weight, begin, end, out):
    """Add Σ_l weight[l] · (trees in which two rows share a cell) to ``out`` (N, N).

    ``codes`` int32 (L, M, N) are the cells of rows at each level. Rows ``begin:end`` of the lower
    triangle, and their mirror image.
    """
    n_levels, n_trees = codes.shape[:2]
    for level in range(n_levels):
        w = weight[level]
        for m in range(n_trees):
            code = codes[level, m]
            for i in range(begin, end):
                own = code[i]
                for j in range(i + 1):
                    out[i, j] += w if code[j] == own else 0.0
    for i in range(begin, end):
        for j in range(i):
            out[j, i] = out[i, j]
