"""The sparse matrix Φ of rows, at one lifetime or at several."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray


def cell_features(column: IntArray, log_stay: FloatArray | None, n_cells: int) -> sparse.csr_matrix:
    """Φ from the cells of rows (N, M) and the logarithms of √M times their values."""
    n_rows, n_trees = column.shape
    if n_rows * n_trees > np.iinfo(np.int32).max:
        raise ValueError(
            f"{n_rows} rows × {n_trees} trees are more non-zeros than int32 indices can count. "
            "Transform in batches of rows."
        )
    if log_stay is None:
        data = np.full(column.size, n_trees**-0.5)
    else:
        data = np.exp(log_stay, out=log_stay).ravel()
        data *= n_trees**-0.5
    indptr = np.arange(0, column.size + 1, n_trees, dtype=np.int32)
    Phi = sparse.csr_matrix((data, column.ravel(), indptr), shape=(n_rows, n_cells))
    if log_stay is not None and not data.all():
        Phi.eliminate_zeros()
    return Phi


def features_through(
    trees: Trees, X: FloatArray, lifetimes: FloatArray, n_jobs: int | None = None
) -> Iterator[sparse.csr_matrix]:
    """Yield Φ of valid rows at each of ascending lifetimes, from one walk down the trees."""
    node, log_stay = trees.walk_through(X, lifetimes, n_jobs)
    for k, lifetime in enumerate(lifetimes):
        cells = trees.cells(float(lifetime))
        column, stay = cells.column[node], np.ascontiguousarray(log_stay[:, :, k])
        yield cell_features(column, stay, cells.total)
