"""Products with sparse indicator features, several trees walked through at once.

Rows that share their cells in several trees go through all of these as one. Trees are joined into
runs: within a run the *entries* of tree ``m`` are the distinct ways in which rows choose their
cells in the trees of the run up to ``m``. An entry is the pair of an entry of the tree before,
``before[e]`` (-1 in the first tree of a run), and of a cell of its own tree, ``cell[e]``; entries
come in order, so that a sum over the trees of a run is one pass over them. A row knows one entry
of each run, of its last tree. Cells are numbered tree by tree, those without a row left out.

Runs are taken a *block* at a time: as many as stay in the cache, side by side, so that an addition
need not wait for another where rows next to each other share an entry. Within a block entries and
cells are counted from its first, and the entries of a row are neighbours in ``joint``.

Eight vectors of a product lie side by side, one cache line a row. Products take the runs as a
``table`` with the fields of :class:`mondrian_kernel._trees.runs.RunTable`.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.lanes import (
    LANES,
    add_rows,
    add_to_rows,
    add_where,
    copy_where,
    set_sum,
)


@kernel
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


@kernel
def lay_out(joint, edges, first, first_cell, before, cell, out):
    """Count entries and cells from the first of their block, in place, and set ``out`` (R · N,).

    The entries of a row in runs ``edges[b]:edges[b + 1]``, block b, become neighbours.
    """
    n_rows = joint.shape[1]
    for b in range(edges.size - 1):
        begin, end = edges[b], edges[b + 1]
        lo = first[begin]
        q = begin * n_rows
        for i in range(n_rows):
            for r in range(begin, end):
                out[q] = joint[r, i] - lo
                q += 1
        for e in range(lo, first[end]):
            before[e] = max(before[e] - lo, -1)
            cell[e] -= first_cell[begin]


@kernel
def enter(V, begin, scale, panel):
    """Set ``panel`` (N, w) to columns of V from ``begin`` on, scaled, and zeros after the last."""
    n_rows, width = panel.shape
    k = min(width, V.shape[1] - begin)
    for i in range(n_rows):
        for j in range(k):
            panel[i, j] = scale[i] * V[i, begin + j]
        for j in range(k, width):
            panel[i, j] = 0.0


@kernel
def add_up(parts, n_rows):
    """Add to the first ``n_rows`` of ``parts`` (P · N, 8) those that follow, N by N, in order."""
    for i in range(n_rows):
        for other in range(i + n_rows, parts.shape[0], n_rows):
            set_sum(parts, i, parts, i, parts, other)


@kernel
def leave(panel, begin, scale, out):
    """Set columns of ``out`` from ``begin`` on to those of ``panel`` (N, w), scaled."""
    k = min(panel.shape[1], out.shape[1] - begin)
    for i in range(panel.shape[0]):
        for j in range(k):
            out[i, begin + j] = scale[i] * panel[i, j]


@kernel
def _down(joint, before, cell, V, sums, T):
    """Add to T the sums of V over the rows of each cell of a block; ``sums`` is room."""
    n_rows = V.shape[0]
    width = joint.size // n_rows
    sums[: cell.size] = 0.0
    for i in range(n_rows):
        add_to_rows(sums, joint, i * width, (i + 1) * width, V, i)
    for e in range(cell.size - 1, -1, -1):
        set_sum(T, cell[e], T, cell[e], sums, e)
        if before[e] >= 0:
            set_sum(sums, before[e], sums, before[e], sums, e)


@kernel
def _up(joint, before, cell, T, sums, out):
    """Add to ``out`` the sums of T over the cells of each row in a block; ``sums`` is room."""
    n_rows = out.shape[0]
    width = joint.size // n_rows
    for e in range(cell.size):
        if before[e] >= 0:
            set_sum(sums, e, sums, before[e], T, cell[e])
        else:
            for k in range(LANES):
                sums[e, k] = T[cell[e], k]
    for i in range(n_rows):
        add_rows(out, i, sums, joint, i * width, (i + 1) * width)


@kernel
def _join_cells(same, T):
    """Replace every row of ``T`` by the sum over its group, each lane in its own way.

    A bit of ``same`` (C,) is set where a cell is in one group with the cell before.
    """
    for c in range(1, same.size):
        add_where(T, c, c - 1, same[c])
    for c in range(same.size - 1, 0, -1):
        copy_where(T, c - 1, c, same[c])


@kernel
def _block(table, n_rows, b):
    """Return the entries of the rows of a block, the parts of its entries, and its cells."""
    lo, hi = table.first[b], table.first[b + 1]
    rows = table.joint[table.edges[b] * n_rows : table.edges[b + 1] * n_rows]
    cells = table.first_cell[b], table.first_cell[b + 1]
    return rows, table.before[lo:hi], table.cell[lo:hi], cells[0], cells[1]


@kernel
def scatter(table, begin, end, V, sums, W):
    """Set W (C, 8) to the sums of V (N, 8) over the rows of each cell: ``Φᵀ V``.

    Of blocks ``begin:end`` and their cells only; ``sums`` (·, 8) is room for the entries of one.
    """
    for b in range(begin, end):
        rows, of, own, c_lo, c_hi = _block(table, V.shape[0], b)
        W[c_lo:c_hi] = 0.0
        _down(rows, of, own, V, sums, W[c_lo:c_hi])


@kernel
def gather(table, begin, end, W, sums, out):
    """Add to ``out`` (N, 8) the sums of W (C, 8) over the cells of each row: ``Φ W``."""
    for b in range(begin, end):
        rows, of, own, c_lo, c_hi = _block(table, out.shape[0], b)
        _up(rows, of, own, W[c_lo:c_hi], sums, out)


@kernel
def gram(table, begin, end, same, V, sums, T, out):
    """Add to ``out`` (N, 8) the products ``Φ S Sᵀ Φᵀ V``.

    S joins cells as ``same`` (C,) says, or not at all where that is empty. Down and up again a
    block at a time, so that what lies between stays in the cache: ``sums`` and ``T`` (·, 8) are
    room for its entries and cells.
    """
    for b in range(begin, end):
        rows, of, own, c_lo, c_hi = _block(table, V.shape[0], b)
        some = T[: c_hi - c_lo]
        some[:] = 0.0
        _down(rows, of, own, V, sums, some)
        if same.size > 0:
            _join_cells(same[c_lo:c_hi], some)
        _up(rows, of, own, some, sums, out)


@kernel
def _unsigned(index):
    """Return an index as unsigned, which saves the test whether it counts from the end."""
    return np.uint32(index)


@kernel
def gram_of_one(table, begin, end, v, sums, T, out):
    """Add to ``out`` (N,) the product ``Φ Φᵀ v`` over blocks ``begin:end``, for one vector.

    ``sums`` and ``T`` (·,) are room for the entries and cells of a block.
    """
    n_rows = v.size
    for b in range(begin, end):
        rows, of, own, c_lo, c_hi = _block(table, n_rows, b)
        width = rows.size // n_rows
        sums[: own.size] = 0.0
        T[: c_hi - c_lo] = 0.0
        for i in range(n_rows):
            for q in range(i * width, (i + 1) * width):
                sums[_unsigned(rows[q])] += v[i]
        for e in range(own.size - 1, -1, -1):
            T[_unsigned(own[e])] += sums[e]
            if of[e] >= 0:
                sums[_unsigned(of[e])] += sums[e]
        for e in range(own.size):
            sums[e] = T[_unsigned(own[e])]
            if of[e] >= 0:
                sums[e] += sums[_unsigned(of[e])]
        for i in range(n_rows):
            total = 0.0
            for q in range(i * width, (i + 1) * width):
                total += sums[_unsigned(rows[q])]
            out[i] += total
