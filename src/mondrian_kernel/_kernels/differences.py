"""Distances between pairs of rows in single precision, and sums over them by column."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel


@kernel(fastmath=True)
def city_block(A, B, out):
    """Write the L1 distances between rows of A (n, D) and B (m, D) to ``out`` (n, m), float32."""
    n_columns = A.shape[1]
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            total = np.float32(0.0)
            for d in range(n_columns):
                total += abs(A[i, d] - B[j, d])
            out[i, j] = total


@kernel(fastmath=True)
def squared_distances(A, B, out):
    """Write the squared distances between rows of A (n, D) and B (m, D) to ``out`` (n, m)."""
    n_columns = A.shape[1]
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            total = np.float32(0.0)
            for d in range(n_columns):
                total += (A[i, d] - B[j, d]) * (A[i, d] - B[j, d])
            out[i, j] = total


@kernel(fastmath=True)
def weighted_differences(A, B, P, out):
    """Add Σ_ij P_ij |A_di - B_dj| to ``out`` (D,) for A (D, n), B (D, m), P (n, m), float32."""
    for i in range(A.shape[1]):
        for d in range(A.shape[0]):
            own = A[d, i]
            total = np.float32(0.0)
            for j in range(B.shape[1]):
                total += P[i, j] * abs(own - B[d, j])
            out[d] += total
