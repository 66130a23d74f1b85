"""Products with sparse indicator features given by the cells of rows, many vectors at once.

Row ``i`` of Φ has the value ``scale[i]`` in the columns ``cells[i]``. Eight vectors of a product
lie side by side, one cache line a row, so that reading the table of cells is paid for once and
the sums stay in registers.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def gather(cells, scale, W, begin, end, out):
    """Rows ``begin:end`` of ``out = Φ W``; cells int32 (N, M), W (C, 8), out (N, 8)."""
    for i in range(begin, end):
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
        for m in range(cells.shape[1]):
            c = cells[i, m]
            a0 += W[c, 0]
            a1 += W[c, 1]
            a2 += W[c, 2]
            a3 += W[c, 3]
            a4 += W[c, 4]
            a5 += W[c, 5]
            a6 += W[c, 6]
            a7 += W[c, 7]
        s = scale[i]
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = s * a0, s * a1, s * a2, s * a3
        out[i, 4], out[i, 5], out[i, 6], out[i, 7] = s * a4, s * a5, s * a6, s * a7


@njit(cache=True, nogil=True)
def scatter(rows, start, V, begin, end, out):
    """Cells ``begin:end`` of ``out``, the sums of V (N, 8) over the rows of each cell.

    The rows of cell ``c`` are ``rows[start[c] : start[c + 1]]``; out (C, 8).
    """
    for c in range(begin, end):
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
        for k in range(start[c], start[c + 1]):
            i = rows[k]
            a0 += V[i, 0]
            a1 += V[i, 1]
            a2 += V[i, 2]
            a3 += V[i, 3]
            a4 += V[i, 4]
            a5 += V[i, 5]
            a6 += V[i, 6]
            a7 += V[i, 7]
        out[c, 0], out[c, 1], out[c, 2], out[c, 3] = a0, a1, a2, a3
        out[c, 4], out[c, 5], out[c, 6], out[c, 7] = a4, a5, a6, a7


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
def matches(cells, begin, end, out):
    """Count the trees in which two rows share a cell: rows ``begin:end`` of ``out`` (N, N).

    Of these the part below the diagonal and its mirror image. Blocks of rows stay in the cache.
    """
    n_trees = cells.shape[1]
    for block in range(0, end, 32):
        for i in range(max(begin, block), end):
            for j in range(block, min(block + 32, i + 1)):
                n = np.int32(0)
                for m in range(n_trees):
                    n += np.int32(1) if cells[i, m] == cells[j, m] else np.int32(0)
                out[i, j] = n
                out[j, i] = n


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
