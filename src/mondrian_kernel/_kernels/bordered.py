"""Triangular solves in the corner of a larger array, and the kernel between new and old rows."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel


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
