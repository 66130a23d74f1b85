"""Dense kernel matrices: entries from the cells of rows, centring, triangular solves."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel


@kernel
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


@kernel
def matches_with(cells, others, begin, end, out):
    """Count the trees in which rows share a cell with others: rows ``begin:end`` of ``out``."""
    n_trees = cells.shape[1]
    for block in range(0, others.shape[0], 32):
        for i in range(begin, end):
            for j in range(block, min(block + 32, others.shape[0])):
                n = np.int32(0)
                for m in range(n_trees):
                    n += np.int32(1) if cells[i, m] == others[j, m] else np.int32(0)
                out[i, j] = n


# The sum may be taken in any order, so that it vectorises; it is the same for the same two rows.
@kernel(fastmath={"reassoc", "nsz"})
def values_where_matched(cells, others, values, begin, end, out):
    """Sum ``values`` (n, M) of others over the trees in which a row shares their cell.

    ``cells`` (N, M) and ``others`` (n, M) are int32; rows ``begin:end`` of ``out`` (N, n) are set.
    """
    n_trees = cells.shape[1]
    for block in range(0, others.shape[0], 32):
        for i in range(begin, end):
            for j in range(block, min(block + 32, others.shape[0])):
                total = 0.0
                for m in range(n_trees):
                    total += values[j, m] if cells[i, m] == others[j, m] else 0.0
                out[i, j] = total


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
