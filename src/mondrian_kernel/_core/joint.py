"""Products with sparse indicator features, several trees walked through at once.

Rows that share their cells in several trees go through all of these as one. Trees are joined into
runs: within a run the *entries* of tree ``m`` are the distinct ways in which rows choose their
cells in the trees of the run up to ``m``. An entry is the pair of an entry of the tree before,
``before[e]`` (-1 in the first tree of a run), and of a cell of its own tree, ``cell[e]``; entries
come in order, so that a sum over the trees of a run is one pass over them. A row knows one entry
of each run, of its last tree.

Eight vectors of a product lie side by side, one cache line a row.
"""

import numpy as np
from numba import njit

from mondrian_kernel._core.lanes import LANES, set_sum

SIDE_BY_SIDE = 8


@njit(cache=True, nogil=True)
def join(cells, n_cells, limit, joint, first, before, cell):
    """Join trees into runs while these have at most ``limit`` entries in their last tree.

    Parameters: cells int32 (N, M); joint int32 (M, N), whose row ``r`` is set to the entries of
    the rows in run ``r``; first int64 (M + 1,), set to the first entry of each run; before, cell
    int32 (size,). Returns the numbers of runs and of entries, the latter -1 where ``size`` was too
    small and -2 where two trees share a cell.
    """
    n_rows, n_trees = cells.shape
    own = np.full(n_cells, -1, np.int32)  # number of a cell within its tree
    tree = np.empty(n_cells, np.int32)
    listed = np.empty(n_rows, np.int32)
    chosen = np.empty(n_rows, np.int32)
    table = np.full(1, -1, np.int32)
    runs, size, start, width = 0, 0, 0, 0
    for m in range(n_trees):
        n_own = 0
        for i in range(n_rows):
            c = cells[i, m]
            if own[c] < 0:
                own[c], tree[c] = n_own, m
                listed[n_own] = c
                n_own += 1
            elif tree[c] != m:
                return runs, -2
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
                    cell[e] = cells[i, m]
                    n_new += 1
                chosen[i] = e
            for e in range(size, size + n_new):
                table[(before[e] - start) * n_own + own[cell[e]]] = -1
        if fits:
            joint[runs - 1] = chosen
            start, width = size, n_new
        else:
            for k in range(n_own):
                before[size + k] = -1
                cell[size + k] = listed[k]
            for i in range(n_rows):
                joint[runs, i] = size + own[cells[i, m]]
            first[runs] = size
            start, width = size, n_own
            runs += 1
        size += width
    first[runs] = size
    return runs, size


@njit(cache=True, nogil=True)
def add_up(first, before, cell, W, begin, end, sums):
    """Set ``sums`` (E, 8) of runs ``begin:end``: of W (C, 8) over the cells of each entry."""
    for e in range(first[begin], first[end]):
        if before[e] >= 0:
            set_sum(sums, e, sums, before[e], W, cell[e])
        else:
            for k in range(LANES):
                sums[e, k] = W[cell[e], k]


@njit(cache=True, nogil=True)
def gather(joint, scale, sums, begin, end, out):
    """Rows ``begin:end`` of ``out`` (N, 8): the sums of a row's entries over all runs, scaled."""
    n_runs = joint.shape[0]
    out[begin:end] = 0.0
    for block in range(0, n_runs, SIDE_BY_SIDE):
        stop = min(block + SIDE_BY_SIDE, n_runs)
        for i in range(begin, end):
            for r in range(block, stop):
                set_sum(out, i, out, i, sums, joint[r, i])
    for i in range(begin, end):
        for k in range(LANES):
            out[i, k] *= scale[i]


@njit(cache=True, nogil=True)
def scatter(joint, first, before, cell, V, begin, end, sums, out):
    """Add to ``out`` (C, 8) the sums of V (N, 8) over the rows of each cell of runs ``begin:end``.

    ``sums`` (E, 8) is room to work in. Rows next to each other often share an entry: several runs
    are gone through side by side, so that one addition need not wait for another.
    """
    sums[first[begin] : first[end]] = 0.0
    for block in range(begin, end, SIDE_BY_SIDE):
        stop = min(block + SIDE_BY_SIDE, end)
        for i in range(V.shape[0]):
            for r in range(block, stop):
                set_sum(sums, joint[r, i], sums, joint[r, i], V, i)
    for e in range(first[end] - 1, first[begin] - 1, -1):
        set_sum(out, cell[e], out, cell[e], sums, e)
        if before[e] >= 0:
            set_sum(sums, before[e], sums, before[e], sums, e)
