"""Sums over pairs of rows of what they differ by, dim by dim."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def weighted_differences(X, B):
    """Sum :math:`B_{ij} |x_{id} - x_{jd}|` over all pairs of rows, for each dim: (D,).

    ``B`` (N, N) is symmetric.
    """
    n_rows, n_dims = X.shape
    total = np.zeros(n_dims)
    for i in range(n_rows):
        for j in range(i):
            for d in range(n_dims):
                total[d] += B[i, j] * abs(X[i, d] - X[j, d])
    return 2.0 * total
