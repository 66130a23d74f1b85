"""One ridge fit on the cells of rows in blocks, and its error bars where a matrix is small."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.cells import CellBlocks
from mondrian_kernel.dask.products import Levels
from mondrian_kernel.dask.sums import Sums, Totals, sum_totals

# Cells up to which a square matrix of sums is made, of at most 512 MB.
DENSE_CELLS = 8000
_TOL = 1e-10
_BLOCK = 2**23  # numbers held at once for a block of new rows, 64 MB


class Solution(NamedTuple):
    """Weights (C, T), intercept (T,), and yᵀ(K + αI)⁻¹y (T,) of the centred targets."""

    coef: FloatArray
    intercept: FloatArray
    quadratic: FloatArray
    total_weight: float


def is_dense(solver: str, n_cells: int) -> bool:
    """Whether a solver by name makes the square matrix of so many cells."""
    return solver == "dense" or (solver == "auto" and n_cells <= DENSE_CELLS)


def solve_sums(sums: Sums, alpha: float) -> Solution:
    """Ridge from the square matrix of sums."""
    return _solution(sums.solve(alpha), sums, alpha)


def solve_products(blocks: CellBlocks, alpha: float) -> Solution:
    """Ridge by Lanczos, a pass over the rows for every step."""
    totals = sum_totals(blocks)
    fine = np.arange(blocks.n_cells, dtype=np.int32)[:, None]
    W = Levels(blocks, totals, fine).solve(np.array([alpha]), _TOL)[:, 0, :, 0]
    return _solution(W, totals, alpha)


def _solution(W: FloatArray, sums: Sums | Totals, alpha: float) -> Solution:
    quadratic = np.maximum(sums.square - (sums.b * W).sum(axis=0), 0.0) / alpha
    intercept = sums.mean - sums.phi @ W / sums.total_weight
    return Solution(W, intercept, quadratic, sums.total_weight)


class Variance:
    r"""Variance of f at new rows in units of σ², from sums; pickles.

    The formula is that of :class:`mondrian_kernel._linear.variance.PredictiveVariance`,
    :math:`1 - \phi^\top\phi + \alpha \psi^\top (A + \alpha I)^{-1} \psi + \alpha / S`.
    """

    def __init__(self, sums: Sums, alpha: float) -> None:
        self._L, self._mean = sums.factor(alpha), sums.phi / sums.total_weight
        self._alpha, self._total = alpha, sums.total_weight

    def __call__(self, Phi: sparse.csr_matrix) -> FloatArray:
        """Variance at rows with features ``Phi`` (n, C), of shape (n,)."""
        step = max(1, _BLOCK // self._mean.size)
        parts = [self._some(Phi[k : k + step]) for k in range(0, Phi.shape[0], step)]
        return np.concatenate(parts)

    def _some(self, Phi: sparse.csr_matrix) -> FloatArray:
        squares = np.asarray(Phi.multiply(Phi).sum(axis=1)).ravel()
        Psi = Phi.toarray() - self._mean
        Z = linalg.solve_triangular(self._L, Psi.T, lower=True, check_finite=False)
        known: FloatArray = np.einsum("ij,ij->j", Z, Z)
        return np.maximum(1.0 - squares, 0.0) + self._alpha * (known + 1.0 / self._total)
