"""Carry rows through cuts: products with 0-1 features, residuals, leverages, predictions."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel


@kernel
def spread(tree, Y, stage, R):
    """Write R = Φ Y for 0-1 features Φ, each row as its parent's plus the cells they differ in.

    ``Y`` float64 (C, w). Of ``tree``, ``visit`` int32 (n,) holds the rows, parents first;
    ``parent`` int32 (n,) is -1 at the root; entries ``ptr[i]`` to ``ptr[i+1]`` of ``plus`` and
    ``minus`` are the final cells of the row and of its parent where they differ (``minus`` unread
    at the root). ``stage`` int32 maps final cells to the present ones. ``R`` float64 (n, w) is
    overwritten.
    """
    visit, parent, ptr, plus, minus = tree
    width = Y.shape[1]
    for v in range(visit.size):
        i = visit[v]
        above = parent[i]
        for q in range(width):
            R[i, q] = R[above, q] if above >= 0 else 0.0
        for e in range(ptr[i], ptr[i + 1]):
            a = stage[plus[e]]
            if above < 0:
                for q in range(width):
                    R[i, q] += Y[a, q]
            else:
                b = stage[minus[e]]
                if a != b:
                    for q in range(width):
                        R[i, q] += Y[a, q] - Y[b, q]


@kernel
def collect(cells, stage, x, out):
    """Write out = Φᵀ x for the 0-1 features of the rows, ``out`` float64 (C,)."""
    out[:] = 0.0
    for i in range(cells.shape[0]):
        for m in range(cells.shape[1]):
            out[stage[cells[i, m]]] += x[i]


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

    ``R`` float64 (>=N, 2k); per column, ``residual -= step R`` and ``slack -= bend R²`` in place.
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
def sweep_new(R, offset, step, level, P):
    """Write the values ``P`` (V, k) of rows ``offset``, ... after each cut; ``level`` runs on."""
    for v in range(level.size):
        p = level[v]
        for j in range(P.shape[1]):
            p += step[2 * j] * R[offset + v, 2 * j] + step[2 * j + 1] * R[offset + v, 2 * j + 1]
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
