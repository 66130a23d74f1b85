"""What the ridge solvers do with the cells of rows, beside products."""

import numpy as np
from numba import njit


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
def centre(u, V):
    """Take the direction u (N,) of length 1 out of the columns of V (N, k), in place."""
    n_rows, k = V.shape
    part = np.zeros(k)
    for i in range(n_rows):
        for j in range(k):
            part[j] += u[i] * V[i, j]
    for i in range(n_rows):
        for j in range(k):
            V[i, j] -= u[i] * part[j]


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
