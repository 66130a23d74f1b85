"""Products with sparse indicator features, several trees walked through at once.

Rows that share their cells in several trees go through all of these as one. Trees are joined into
runs: within a run the *entries* of tree ``m`` are the distinct ways in which rows choose their
cells in the trees of the run up to ``m``. An entry is the pair of an entry of the tree before,
``before[e]`` (-1 in the first tree of a run), and of a cell of its own tree, ``cell[e]``; entries
come in order, so that a sum over the trees of a run is one pass over them. A row knows one entry
of each run, of its last tree. Cells are numbered tree by tree, those without a row left out.

Runs are taken a *block* at a time: as many as stay in the cache, side by side, so that an addition
need not wait for another where rows next to each other share an entry. Within a block entries and
cells are counted from its first.

Eight vectors of a product lie side by side, one cache line a row. Products take the runs as a
``table`` with the fields of :class:`mondrian_kernel._linear.runs.RunTable`.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.lanes import add_row, add_rows, add_to_rows, set_sum

LANES = (0,) * 8


@kernel
def join(cells, n_cells, limit, joint, first, before, cell, original):
    """Join trees into runs while these have at most ``limit`` entries in their last tree.

    Parameters: cells int32 (N, M); joint int32 (M, N), whose row ``r`` is set to the entries of
    the rows in run ``r``; first int64 (M + 1,), set to the first entry of each run; before, cell
    int32 (N (M + 1),); original int32 (n_cells,), set to the number that each cell has in
    ``cells``. Returns the numbers of runs and of cells, the latter -1 where two trees share a cell.
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
                return runs, -1
        original[seen : seen + n_own].sort()
        for k in range(n_own):
            own[original[seen + k]] = k
        fits = m > 0 and width * n_own <= 64 * n_rows
        if fits:
            if table.size < width * n_own:
                table = np.full(2 * width * n_own, -1, np.int32)
            n_new = 0
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
            first[runs] = size
            start, width = size, n_own
            runs += 1
        size += width
        seen += n_own
    first[runs] = size
    return runs, seen


@kernel
def _down(table, b, V, sums, T):
    """Set T to the sums of V over the rows of each cell of block ``b``; ``sums`` is room."""
    lo, hi, width = table.first[b], table.first[b + 1], table.edges[b + 1] - table.edges[b]
    rows = table.edges[b] * V.shape[0]
    sums[: hi - lo] = 0.0
    T[:] = 0.0
    for i in range(V.shape[0]):
        begin = rows + i * width
        add_to_rows(sums, table.joint, begin, begin + width, V, i, LANES)
    for e in range(hi - lo - 1, -1, -1):
        own, before = np.intp(table.cell[lo + e]), np.intp(table.before[lo + e])
        add_row(T, own, sums, e, LANES)
        if before >= 0:
            add_row(sums, before, sums, e, LANES)


@kernel
def _up(table, b, T, sums, out):
    """Add to ``out`` the sums of T over the cells of each row in block ``b``; ``sums`` is room."""
    lo, hi, width = table.first[b], table.first[b + 1], table.edges[b + 1] - table.edges[b]
    rows = table.edges[b] * out.shape[0]
    for e in range(hi - lo):
        own, before = np.intp(table.cell[lo + e]), np.intp(table.before[lo + e])
        if before >= 0:
            set_sum(sums, e, sums, before, T, own, LANES)
        else:
            sums[e] = T[own]
    for i in range(out.shape[0]):
        begin = rows + i * width
        add_rows(out, i, sums, table.joint, begin, begin + width, LANES)


@kernel
def scatter(table, begin, end, V, sums, W):
    """Set W (C, 8) to the sums of V (N, 8) over the rows of each cell: ``Φᵀ V``.

    Of blocks ``begin:end`` and their cells only; ``sums`` (·, 8) is room for the entries of one.
    """
    for b in range(begin, end):
        _down(table, b, V, sums, W[table.first_cell[b] : table.first_cell[b + 1]])


@kernel
def gather(table, begin, end, W, sums, out):
    """Add to ``out`` (N, 8) the sums of W (C, 8) over the cells of each row: ``Φ W``."""
    for b in range(begin, end):
        _up(table, b, W[table.first_cell[b] : table.first_cell[b + 1]], sums, out)


@kernel
def gram(table, begin, end, same, V, sums, T, out):
    """Add to ``out`` (N, 8) the products ``Φ S Sᵀ Φᵀ V``.

    S joins cells, those of each column in its own way: bit k of ``same`` (C,) uint8 is set where,
    in column k, a cell is in one group with the cell before it; it may be empty. Down and up again
    a block at a time, so that what lies between stays in the cache: ``sums`` and ``T`` (·, 8) are
    room for its entries and cells.
    """
    for b in range(begin, end):
        own = T[: table.first_cell[b + 1] - table.first_cell[b]]
        _down(table, b, V, sums, own)
        if same.size > 0:
            _join_cells(same[table.first_cell[b] : table.first_cell[b + 1]], own)
        _up(table, b, own, sums, out)


@kernel
def _join_cells(same, T):
    """Replace every row of ``T`` by the sum over its group, in each column in its own way."""
    for c in range(1, same.size):
        bits = same[c]
        for k in range(len(LANES)):
            T[c, k] += (bits >> k & 1) * T[c - 1, k]
    for c in range(same.size - 1, 0, -1):
        bits = same[c]
        for k in range(len(LANES)):  # branches would be mispredicted
            T[c - 1, k] = (bits >> k & 1) * T[c, k] + (~bits >> k & 1) * T[c - 1, k]
