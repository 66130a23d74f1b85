r"""Ridge without a matrix: Krylov spaces from products that go through the blocks.

The operator is :math:`A_l = S_l^\top \Phi^\top H \Phi S_l` on the weights of level l, all levels
at once, so that one pass over the rows advances the solution of every lifetime and every alpha.
"""

from __future__ import annotations

import numpy as np

from mondrian_kernel._linear.lanczos import krylov
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.dask.cells import CellBlocks, Part
from mondrian_kernel.dask.sums import Totals


class Levels:
    """Products with A at several levels of coarseness, as :func:`krylov` asks for them.

    Vectors of a level with C_l cells are columns of length C whose entries beyond C_l are 0;
    ``groups`` (C, L) says in which cell of a level a finest cell lies.
    """

    def __init__(self, blocks: CellBlocks, totals: Totals, groups: IntArray) -> None:
        self._blocks, self._groups = blocks, groups
        self.total_weight = totals.total_weight
        n_outputs = totals.b.shape[1]
        self.starts = self._joined(np.tile(totals.b, groups.shape[1]))
        self._phi = self._joined(np.repeat(totals.phi[:, None], groups.shape[1], axis=1))
        self._level = np.repeat(np.arange(groups.shape[1]), n_outputs)

    def _joined(self, fine: FloatArray) -> FloatArray:
        """Sum columns (C, L·k) over the cells of their levels."""
        n_cells, n_levels = self._groups.shape
        k = fine.shape[1] // n_levels
        columns = [
            np.bincount(self._groups[:, j // k], fine[:, j], minlength=n_cells)
            for j in range(fine.shape[1])
        ]
        return np.stack(columns, axis=1)

    def gram(self, V: FloatArray) -> FloatArray:
        """``A_l V_l`` for all columns, in one pass over the rows."""
        fine = np.stack(
            [V[self._groups[:, level], j] for j, level in enumerate(self._level)], axis=1
        )
        (sums,) = self._blocks.sum(_gram, fine)
        phi = self._phi[:, self._level]
        out: FloatArray = self._joined(sums) - phi * ((phi * V).sum(axis=0) / self.total_weight)
        return out

    def solve(self, alphas: FloatArray, tol: float) -> FloatArray:
        """Weights (C, L, T, A) at every level and alpha; those beyond C_l are 0."""
        Q = krylov(self, self.starts, alphas, tol)
        Q.warn_of_residuals(alphas, tol)
        shape = self._groups.shape[0], self._groups.shape[1], -1, alphas.size
        return Q.solution.transpose(1, 0, 2).reshape(shape)


def _gram(part: Part, W: FloatArray) -> tuple[FloatArray]:
    features = part.features
    return (features.scatter(part.weight[:, None] * features.gather(W), W.shape[0]),)
