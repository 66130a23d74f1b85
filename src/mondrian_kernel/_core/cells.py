"""Products with sparse indicator features given by the cells of rows, many vectors at once.

Row ``i`` of Φ has the value ``scale[i]`` in the columns ``cells[i]``. The vectors of a product lie
side by side in the rows of a matrix, so that reading the table of cells is paid for once.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def gather(cells, scale, W, begin, end, out):
    """Rows ``begin:end`` of ``out = Φ W``; cells (N, M), W (C, k), out (N, k)."""
    n_trees, k = cells.shape[1], W.shape[1]
    for i in range(begin, end):
        for j in range(k):
            out[i, j] = 0.0
        for m in range(n_trees):
            c = cells[i, m]
            for j in range(k):
                out[i, j] += W[c, j]
        for j in range(k):
            out[i, j] *= scale[i]


@njit(cache=True, nogil=True)
def scatter(cells_by_tree, scale, V, begin, end, out):
    """Add the part of the trees ``begin:end`` to ``out = Φᵀ V``; cells (M, N), V (N, k)."""
    n_rows, k = V.shape
    for m in range(begin, end):
        for i in range(n_rows):
            c = cells_by_tree[m, i]
            s = scale[i]
            for j in range(k):
                out[c, j] += s * V[i, j]


@njit(cache=True, nogil=True)
def coarsen(groups, T, spare):
    """Replace every entry of ``T`` (C, L·k) by the sum over its group: ``T_l = S_l S_lᵀ T_l``.

    ``groups`` int32 (C, L): the coarser cell at level ``l`` that a cell lies in. Column ``l·k + j``
    of ``T`` belongs to level ``l``. ``spare`` has the shape of ``T``.
    """
    n_cells, n_levels = groups.shape
    k = T.shape[1] // n_levels
    spare[:] = 0.0
    for c in range(n_cells):
        for level in range(n_levels):
            g = groups[c, level]
            for j in range(level * k, level * k + k):
                spare[g, j] += T[c, j]
    for c in range(n_cells):
        for level in range(n_levels):
            g = groups[c, level]
            for j in range(level * k, level * k + k):
                T[c, j] = spare[g, j]


@njit(cache=True, nogil=True)
def matches(cells, other, begin, end, out):
    """Rows ``begin:end`` of the number of trees in which two rows share a cell, float64."""
    n_trees = cells.shape[1]
    for i in range(begin, end):
        for j in range(other.shape[0]):
            n = np.int32(0)
            for m in range(n_trees):
                n += np.int32(cells[i, m] == other[j, m])
            out[i, j] = n


@njit(cache=True, nogil=True)
def lanczos_step(KV, V, V_old, a, b_old):
    """Three-term recurrence in place: ``KV <- KV - b_old V_old - a V`` with ``a = VᵀKV``.

    All are (N, k); the squared norms of the new columns are returned.
    """
    n_rows, k = V.shape
    a[:] = 0.0
    for i in range(n_rows):
        for j in range(k):
            KV[i, j] -= b_old[j] * V_old[i, j]
            a[j] += V[i, j] * KV[i, j]
    norms = np.zeros(k)
    for i in range(n_rows):
        for j in range(k):
            u = KV[i, j] - a[j] * V[i, j]
            KV[i, j] = u
            norms[j] += u * u
    return norms
