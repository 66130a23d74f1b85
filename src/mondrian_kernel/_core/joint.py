"""Products with sparse indicator features, several trees walked through at once.

Rows that share their cells in several trees go through all of these as one. Trees are joined into
runs: within a run the *entries* of tree ``m`` are the distinct ways in which rows choose their
cells in the trees of the run up to ``m``. An entry is the pair of an entry of the tree before,
``before[e]`` (-1 in the first tree of a run), and of a cell of its own tree, ``cell[e]``; entries
come in order, so that a sum over the trees of a run is one pass over them. A row knows one entry
of each run, of its last tree. Cells are numbered tree by tree, those without a row left out.

Eight vectors of a product lie side by side, one cache line a row.
"""

import numpy as np
from numba import njit

from mondrian_kernel._core.cells import coarsen
from mondrian_kernel._core.lanes import LANES, set_sum


@njit(cache=True, nogil=True)
def join(cells, n_cells, limit, joint, first, first_cell, before, cell, original):
    """Join trees into runs while these have at most ``limit`` entries in their last tree.

    Parameters: cells int32 (N, M); joint int32 (M, N), whose row ``r`` is set to the entries of
    the rows in run ``r``; first, first_cell int64 (M + 1,), set to the first entry and the first
    cell of each run; before, cell int32 (size,); original int32 (n_cells,), set to the number that
    each cell has in ``cells``. Returns the numbers of runs and of entries, the latter -1 where
    ``size`` was too small and -2 where two trees share a cell.
    """
    n_rows, n_trees = cells.shape
    own = np.full(n_cells, -1, np.int32)  # number of a cell within its tree
    tree = np.empty(n_cells, np.int32)
    seen = 0  # cells of the trees before
    chosen = np.empty(n_rows, np.int32)
    table = np.full(1, -1, np.int32)
    runs, size, start, width = 0, 0, 0, 0
    for m in range(n_trees):
        n_own = 0
        for i in range(n_rows):
            c = cells[i, m]
            if own[c] < 0:
                own[c], tree[c] = 0, m
                original[seen + n_own] = c
                n_own += 1
            elif tree[c] != m:
                return runs, -2
        original[seen : seen + n_own].sort()
        for k in range(n_own):
            own[original[seen + k]] = k
        if size + n_rows > before.size:
            return runs, -1
        fits = False
        if m > 0 and width * n_own <= 64 * n_rows:
            if table.size < width * n_own:
                table = np.full(2 * width * n_own, -1, np.int32)
            n_new = 0
            fits = True
            for i in range(n_rows):
                key = (joint[runs - 1, i] - start) * n_own + own[cells[i, m]]
                e = table[key]
                if e < 0:
                    if n_new == limit:
                        fits = False
                        break
                    e = size + n_new
                    table[key] = e
                    before[e] = joint[runs - 1, i]
                    cell[e] = seen + own[cells[i, m]]
                    n_new += 1
                chosen[i] = e
            for e in range(size, size + n_new):
                table[(before[e] - start) * n_own + cell[e] - seen] = -1
        if fits:
            joint[runs - 1] = chosen
            start, width = size, n_new
        else:
            for k in range(n_own):
                before[size + k] = -1
                cell[size + k] = seen + k
            for i in range(n_rows):
                joint[runs, i] = size + own[cells[i, m]]
            first[runs], first_cell[runs] = size, seen
            start, width = size, n_own
            runs += 1
        size += width
        seen += n_own
    first[runs], first_cell[runs] = size, seen
    return runs, size


@njit(cache=True, nogil=True)
def _down(joint, before, cell, V, begin, end, lo, hi, c_lo, sums, T):
    """Set T to the sums of V over the rows of each cell of runs ``begin:end``.

    Of entries ``lo:hi`` and cells from ``c_lo`` on, which come first in ``sums`` and ``T``. Rows
    next to each other often share an entry: with several runs side by side one addition need not
    wait for another.
    """
    sums[: hi - lo] = 0.0
    for i in range(V.shape[0]):
        for r in range(begin, end):
            e = joint[r, i] - lo
            set_sum(sums, e, sums, e, V, i)
    for e in range(hi - 1, lo - 1, -1):
        c, p = cell[e] - c_lo, before[e] - lo
        set_sum(T, c, T, c, sums, e - lo)
        if before[e] >= 0:
            set_sum(sums, p, sums, p, sums, e - lo)


@njit(cache=True, nogil=True)
def _up(joint, before, cell, T, begin, end, lo, hi, c_lo, sums, out):
    """Add to ``out`` the sums of T over the cells of each row; the rest as in ``_down``."""
    for e in range(lo, hi):
        c = cell[e] - c_lo
        if before[e] >= 0:
            set_sum(sums, e - lo, sums, before[e] - lo, T, c)
        else:
            for k in range(LANES):
                sums[e - lo, k] = T[c, k]
    for i in range(out.shape[0]):
        for r in range(begin, end):
            set_sum(out, i, out, i, sums, joint[r, i] - lo)


@njit(cache=True, nogil=True)
def scatter(joint, first, first_cell, before, cell, edges, V, sums, W):
    """Set W (C, 8) to the sums of V (N, 8) over the rows of each cell: ``Φᵀ V``.

    Runs are taken from each of ``edges`` (int64) to the next; ``sums`` is room for the entries of
    as many. Only the cells of these runs are set.
    """
    for k in range(edges.size - 1):
        begin, end = edges[k], edges[k + 1]
        c_lo, c_hi = first_cell[begin], first_cell[end]
        W[c_lo:c_hi] = 0.0
        _down(
            joint, before, cell, V, begin, end, first[begin], first[end], c_lo, sums, W[c_lo:c_hi]
        )


@njit(cache=True, nogil=True)
def gather(joint, first, first_cell, before, cell, edges, W, sums, out):
    """Add to ``out`` (N, 8) the sums of W (C, 8) over the cells of each row: ``Φ W``."""
    for k in range(edges.size - 1):
        begin, end = edges[k], edges[k + 1]
        c_lo, c_hi = first_cell[begin], first_cell[end]
        _up(
            joint, before, cell, W[c_lo:c_hi], begin, end, first[begin], first[end], c_lo, sums, out
        )


@njit(cache=True, nogil=True)
def gram(joint, first, first_cell, before, cell, edges, groups, level, V, sums, T, out):
    """Add to ``out`` (N, 8) the products ``Φ S Sᵀ Φᵀ V``, S as in ``coarsen`` or 1 for no groups.

    Down and up again a few runs at a time, so that what lies between stays in the cache: ``sums``
    and ``T`` (·, 8) are room for their entries and cells.
    """
    for k in range(edges.size - 1):
        begin, end = edges[k], edges[k + 1]
        lo, hi = first[begin], first[end]
        c_lo, c_hi = first_cell[begin], first_cell[end]
        some = T[: c_hi - c_lo]
        some[:] = 0.0
        _down(joint, before, cell, V, begin, end, lo, hi, c_lo, sums, some)
        if groups.shape[1] > 0:
            coarsen(groups[c_lo:c_hi], level, some)
        _up(joint, before, cell, some, begin, end, lo, hi, c_lo, sums, out)


@njit(cache=True, nogil=True)
def gram_of_one(joint, first, first_cell, before, cell, begin, end, v, sums, T, out):
    """Add to ``out`` (N,) the product ``Φ Φᵀ v`` over runs ``begin:end``, for one vector.

    ``sums`` and ``T`` (·,) are room for the entries and cells of a run.
    """
    for r in range(begin, end):
        lo, hi, c_lo, c_hi = first[r], first[r + 1], first_cell[r], first_cell[r + 1]
        sums[: hi - lo] = 0.0
        T[: c_hi - c_lo] = 0.0
        for i in range(v.size):
            sums[joint[r, i] - lo] += v[i]
        for e in range(hi - 1, lo - 1, -1):
            T[cell[e] - c_lo] += sums[e - lo]
            if before[e] >= 0:
                sums[before[e] - lo] += sums[e - lo]
        for e in range(lo, hi):
            sums[e - lo] = T[cell[e] - c_lo]
            if before[e] >= 0:
                sums[e - lo] += sums[before[e] - lo]
        for i in range(v.size):
            out[i] += sums[joint[r, i] - lo]
