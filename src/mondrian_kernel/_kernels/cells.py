"""Entries of kernel matrices from the cells of rows, and centring."""

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
