"""Kernels of ridge regression after every cut: counts of shared rows, and small factors.

``nested`` is a :class:`mondrian_kernel._linear.cut_factor.Nested`.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel


@kernel
def nest(cells, splits, owner, start, stop, order):
    """Sort the rows of each partition so that every cell, at every cut, is a run of them.

    ``cells`` int32 (N, M) final cells, ``splits`` int32 (J,). Written: ``owner`` int32 (M+J,) the
    partition of each cell; ``start``, ``stop`` int32 (M+J,) the run of each cell when it is made;
    ``order`` int32 (M, N) the rows. A cell that hands rows over keeps the front of its run.
    """
    n_rows, n_partitions = cells.shape
    n_cells = n_partitions + splits.size
    own = np.zeros(n_cells, np.int32)
    for i in range(n_rows):
        for m in range(n_partitions):
            own[cells[i, m]] += 1
    size = own.copy()
    child, sibling = np.full(n_cells, -1, np.int32), np.full(n_cells, -1, np.int32)
    for c in range(n_cells):
        if c < n_partitions:
            owner[c] = c
        else:
            above = splits[c - n_partitions]
            owner[c] = owner[above]
            sibling[c] = child[above]  # the latest child comes first
            child[above] = c
    for c in range(n_cells - 1, n_partitions - 1, -1):
        size[splits[c - n_partitions]] += size[c]
    for c in range(n_cells):  # a cell is placed before its children
        if c < n_partitions:
            start[c] = 0
        stop[c] = start[c] + size[c]
        at = start[c] + own[c]
        below = child[c]
        while below >= 0:
            start[below] = at
            at += size[below]
            below = sibling[below]
    cursor = start.copy()
    for i in range(n_rows):
        for m in range(n_partitions):
            c = cells[i, m]
            order[m, cursor[c]] = i
            cursor[c] += 1


@kernel
def count_shared(nested, first, counts):
    """Count, for each cell made by cuts ``first``, ``first + 1``, ..., its rows in each final cell.

    ``counts`` int32 (k, M+J) is overwritten. The run of a cell is its run when it is made.
    """
    cells, order = nested.cells, nested.order
    n_partitions = cells.shape[1]
    counts[:] = 0
    for j in range(counts.shape[0]):
        made = n_partitions + first + j
        m = nested.owner[made]
        for p in range(nested.start[made], nested.stop[made]):
            i = order[m, p]
            for q in range(n_partitions):
                counts[j, cells[i, q]] += 1


@kernel
def fold(counts, splits, n_partitions, first, shared, gram):
    """Undo cuts in ``counts`` from the last back to ``first``, noting the numbers on the way.

    ``counts`` int32 (k, M+J) then counts rows per cell before cut ``first`` in its leading
    columns. ``shared`` int32 (k, k) receives the rows that the new cells i and j share when made;
    row M+first+j of ``gram`` receives the counts among the cells right after cut first+j.
    """
    n_before, k = n_partitions + first, counts.shape[0]
    for j in range(k):
        for c in range(counts.shape[1] - 1, n_before - 1, -1):
            if c == n_before + j:
                for s in range(c + 1):
                    gram[c, s] = counts[j, s]
            if c < n_before + k:
                shared[c - n_before, j] = counts[j, c]
            counts[j, splits[c - n_partitions]] += counts[j, c]


@kernel
def split_gram(gram, splits, n_partitions, first, k):
    """Carry the lower triangle of ``gram``, rows shared by two cells, over k cuts.

    Rows M+first, ... of ``gram`` hold what :func:`fold` noted; the cells that hand over lose it.
    """
    for j in range(first, first + k):
        c, made = splits[j], n_partitions + j
        for s in range(c):
            gram[c, s] -= gram[made, s]
        gram[c, c] -= gram[made, made]
        for s in range(c + 1, made):
            gram[s, c] -= gram[made, s]


@kernel
def split_agreement(K, nested, first, k):
    """Carry the lower triangle of ``K``, partitions that two rows agree in, over k cuts."""
    splits, start, stop, order = nested.splits, nested.start, nested.stop, nested.order
    n_partitions = order.shape[0]
    for j in range(first, first + k):
        c, made = splits[j], n_partitions + j
        m = nested.owner[made]
        for p in range(start[made], stop[made]):
            i = order[m, p]
            for q in range(start[c], start[made]):
                other = order[m, q]
                if other < i:
                    K[i, other] -= 1
                else:
                    K[other, i] -= 1


@kernel
def compose(old, new, source, out):
    """Rows of ``out`` (2k, w): the cell that each of k cuts splits, as it then is, and the new one.

    ``new`` (k, w) belongs to the new cells when made. ``source`` int32 (k, 2) tells what the split
    cell is: row i of ``old`` (0, i), the cell made by cut i (1, i), or what cut i left (2, i).
    """
    for j in range(source.shape[0]):
        kind, i = source[j, 0], source[j, 1]
        for q in range(out.shape[1]):
            if kind == 0:
                out[2 * j, q] = old[i, q]
            elif kind == 1:
                out[2 * j, q] = out[2 * i + 1, q]
            else:
                out[2 * j, q] = out[2 * i, q] - out[2 * i + 1, q]
            out[2 * j + 1, q] = new[j, q]


@kernel
def ldl_panel(H, begin, end, d):
    """Columns ``begin`` to ``end`` of H = L diag(d) Lᵀ, unit lower L over H, without pivoting."""
    w = np.empty(end - begin)
    for i in range(begin, H.shape[0]):
        for j in range(begin, min(i, end)):
            s = H[i, j]
            for q in range(begin, j):
                s -= w[q - begin] * H[j, q]
            w[j - begin] = s
            H[i, j] = s / d[j]
        if i < end:
            s = H[i, i]
            for q in range(begin, i):
                s -= w[q - begin] * H[i, q]
            d[i] = s


@kernel
def sum_runs(nested, first, x, out):
    """Sum ``x`` over the rows of each cell made by cuts ``first``, ...: ``out`` float64 (k,)."""
    n_partitions = nested.cells.shape[1]
    for j in range(out.size):
        made = n_partitions + first + j
        m = nested.owner[made]
        s = 0.0
        for p in range(nested.start[made], nested.stop[made]):
            s += x[nested.order[m, p]]
        out[j] = s


@kernel
def sweep_rows(R, y, step, bend, residual, slack, sums):
    """Carry residuals and 1 - leverages of the rows through the cuts, and sum after each.

    ``R`` float64 (N, 2k); per column, ``residual -= step R`` and ``slack -= bend R²`` in place.
    ``sums`` float64 (k, 3) receives Σ r², Σ (r / slack)² and Σ (y - r) r after each cut.
    """
    sums[:] = 0.0
    for i in range(y.size):
        r, t = residual[i], slack[i]
        for j in range(sums.shape[0]):
            a, b = R[i, 2 * j], R[i, 2 * j + 1]
            r -= step[2 * j] * a + step[2 * j + 1] * b
            t -= bend[2 * j] * a * a + bend[2 * j + 1] * b * b
            e = r / t
            sums[j, 0] += r * r
            sums[j, 1] += e * e
            sums[j, 2] += (y[i] - r) * r
        residual[i], slack[i] = r, t


@kernel
def sweep_new(R, step, level, P):
    """Write the values ``P`` (V, k) of new rows after each cut; ``level`` (V,) runs on."""
    for v in range(level.size):
        p = level[v]
        for j in range(P.shape[1]):
            p += step[2 * j] * R[v, 2 * j] + step[2 * j + 1] * R[v, 2 * j + 1]
            P[v, j] = p
        level[v] = p


@kernel
def fade(Y, step, times, fading, weight, P):
    """Take from ``P`` what new rows lose where their feature has faded below 1.

    Entry e of ``fading`` is one row and one of its features, whose value is exp(level - slope
    (t - start)) of the last piece with start <= t among pieces ``ptr[e]`` to ``ptr[e+1]``, and 1
    before them. ``weight`` float64 (n_entries,), the weight of the feature, runs on with the cuts.
    """
    row, cell, ptr, start, level, slope = fading
    for e in range(row.size):
        v, c = row[e], cell[e]
        w = weight[e]
        piece, end = ptr[e], ptr[e + 1]
        loss, known = 0.0, -1
        for j in range(times.size):
            w += step[2 * j] * Y[c, 2 * j] + step[2 * j + 1] * Y[c, 2 * j + 1]
            t = times[j]
            while piece + 1 < end and start[piece + 1] <= t:
                piece += 1
            if start[piece] <= t:
                if slope[piece] > 0.0 or known != piece:
                    loss = 1.0 - np.exp(level[piece] - slope[piece] * (t - start[piece]))
                    known = piece
                P[v, j] -= loss * w
        weight[e] = w
