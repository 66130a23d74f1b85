"""Dense arrays of rows: kernel matrices, distances, centring, triangular solves, Lanczos steps."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel


@kernel
def matches(cells, share, begin, end, out):
    """Write Σ_l share_l · number of trees in which two rows share a cell to ``out`` (N, N).

    ``cells`` int32 (N, L, M) are the cells of the rows at each level. Rows ``begin:end`` of the
    part below the diagonal, and their mirror image. Blocks of rows stay in the cache.
    """
    n_levels, n_trees = cells.shape[1:]
    for block in range(0, end, 32):
        for i in range(max(begin, block), end):
            for j in range(block, min(block + 32, i + 1)):
                total = 0.0
                for l in range(n_levels):
                    n = np.int32(0)
                    for m in range(n_trees):
                        n += np.int32(1) if cells[i, l, m] == cells[j, l, m] else np.int32(0)
                    total += share[l] * n
                out[i, j] = total
                out[j, i] = total


@kernel
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


@kernel
def kernel_between(new, old, share, out):
    """Write the kernel of rows to ``out`` (k, N): Σ_l share_l · number of trees with a shared cell.

    ``new`` (k, L M) and ``old`` (N, L M), int32, are the cells of the rows, level after level;
    ``share`` (L,) is what a tree counts for at each level.
    """
    n_trees = new.shape[1] // share.size
    for i in range(new.shape[0]):
        for j in range(old.shape[0]):
            out[i, j] = 0.0
            for l in range(share.size):
                n = np.int32(0)
                for m in range(l * n_trees, (l + 1) * n_trees):
                    n += np.int32(1) if new[i, m] == old[j, m] else np.int32(0)
                out[i, j] += share[l] * n


@kernel
def solve_lower(L, n, B):
    """Replace the rows of ``B`` (k, n) by those of B L⁻ᵀ, with L in the corner ``L[:n, :n]``.

    Row by row of L, for eight rows of B at a time, so that L is read k/8 times.
    """
    for begin in range(0, B.shape[0], 8):
        end = min(begin + 8, B.shape[0])
        for i in range(n):
            row = L[i, :i]
            for k in range(begin, end):
                B[k, i] = (B[k, i] - np.dot(row, B[k, :i])) / L[i, i]


@kernel
def solve_upper(L, n, B):
    """Replace the rows of ``B`` (k, n) by those of B L⁻¹, with L in the corner ``L[:n, :n]``."""
    for i in range(n - 1, -1, -1):
        for k in range(B.shape[0]):
            b = B[k, i] / L[i, i]
            B[k, i] = b
            for j in range(i):
                B[k, j] -= b * L[i, j]


@kernel
def distances(A, B, squared, out):
    """Write L1 or ``squared`` distances between rows of A (n, D) and columns of B (D, m) to out."""
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            out[i, j] = 0.0
        for d in range(A.shape[1]):
            own = A[i, d]
            if squared:
                for j in range(B.shape[1]):
                    out[i, j] += (own - B[d, j]) * (own - B[d, j])
            else:
                for j in range(B.shape[1]):
                    out[i, j] += abs(own - B[d, j])


@kernel(fastmath=True)
def weighted_powers(E, W, factors, sums, room):
    """Add Σ_ij W_ij E_ij^(4^k) to ``sums[k]``, and multiply W by Σ_k factors[k] E^(4^k).

    ``E`` and ``W`` (n, m) and ``factors`` are float32, ``sums`` is float64. ``room`` (2, m) float32
    is working memory.
    """
    for i in range(E.shape[0]):
        for j in range(E.shape[1]):
            room[0, j], room[1, j] = E[i, j], np.float32(0.0)
        for k in range(factors.size):
            total = np.float32(0.0)
            for j in range(E.shape[1]):
                power = room[0, j]
                total += W[i, j] * power
                room[1, j] += factors[k] * power
                square = power * power
                room[0, j] = square * square
            sums[k] += total
        for j in range(E.shape[1]):
            W[i, j] *= room[1, j]


@kernel(fastmath=True)
def pull_apart(A, B, P, of_A, of_B):
    """Add the slopes of Σ_ij P_ij |A_di - B_dj| in A (D, n) to ``of_A``, those in B to ``of_B``.

    B is (D, m) and P is (n, m); all are float32. ``of_A`` and ``of_B`` may be the same array.
    """
    one, none = np.float32(1.0), np.float32(0.0)
    for i in range(A.shape[1]):
        for d in range(A.shape[0]):
            own, total = A[d, i], none
            for j in range(B.shape[1]):
                sign = (one if own > B[d, j] else none) - (one if own < B[d, j] else none)
                slope = P[i, j] * sign
                total += slope
                of_B[d, j] -= slope
            of_A[d, i] += total


@kernel
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


@kernel
def next_vectors(KV, b, kept):
    """Divide the columns of KV (N, k) by ``b``, or set them to 0 where it is, and copy them.

    ``kept`` (k, N) may be in single precision.
    """
    n_rows, k = KV.shape
    inverse = np.zeros(k)
    for j in range(k):
        if b[j] > 0.0:
            inverse[j] = 1.0 / b[j]
    for i in range(n_rows):
        for j in range(k):
            v = KV[i, j] * inverse[j]
            KV[i, j] = v
            kept[j, i] = v


@kernel
def fade(Y, step, times, fading, weight, P):
    """Take from ``P`` (V, k) what new rows lose after k cuts where their features have faded.

    ``Y`` (C, 2k) and ``step`` (2k,) change the weights of cells at ``times`` (k,); ``fading`` is a
    :class:`mondrian_kernel._trees.trees.Fading`. ``weight`` (n_entries,), that of its cells, runs
    on with the cuts.
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
