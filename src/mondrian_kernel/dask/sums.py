r"""Ridge from sums over rows: those at Λ hold every smaller lifetime.

With ψ = φ - mean φ and y centred, ridge needs :math:`A = \sum_i s_i \psi_i \psi_i^\top`,
:math:`b = \sum_i s_i \psi_i y_i` and :math:`\sum_i s_i y_i^2`. Cells at λ are unions of cells at
Λ, whose rows and columns of A are added up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from mondrian_kernel._linear.scores import evidences
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.dask.cells import CellBlocks, Part

_PANEL = 2**21  # numbers that a block answers with at once, 16 MB


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over rows: ``A`` (C, C), ``b`` (C, T) and ``square`` (T,), centred; Σ s φ in ``phi``.

    ``mean`` (T,) is that of y, ``total_weight`` Σ s over the ``n_rows``. The intercept is never
    penalised.
    """

    A: FloatArray
    b: FloatArray
    square: FloatArray
    phi: FloatArray
    mean: FloatArray
    total_weight: float
    n_rows: int

    def coarsened(self, groups: IntArray) -> Sums:
        """Return the sums for coarser cells, ``groups`` (C,) telling in which one each lies."""
        begin = np.flatnonzero(np.diff(groups, prepend=-1))  # their cells are neighbours
        rows, b, phi = (np.add.reduceat(a, begin, axis=0) for a in (self.A, self.b, self.phi))
        return replace(self, A=np.add.reduceat(rows, begin, axis=1), b=b, phi=phi)

    def factor(self, alpha: float) -> FloatArray:
        """Lower Cholesky factor of A + αI."""
        A = self.A.copy()
        A.flat[:: A.shape[0] + 1] += alpha
        L: FloatArray = linalg.cholesky(A, lower=True, overwrite_a=True)
        return L

    def solve(self, alpha: float) -> FloatArray:
        """Weights (C, T)."""
        w: FloatArray = linalg.cho_solve((self.factor(alpha), True), self.b)
        return w

    def scores(self, alphas: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Weights (C, T, A), training errors and both log-likelihoods (A,), for every alpha."""
        values, V = linalg.eigh(self.A)
        values = np.maximum(values, 0.0)[:, None]
        c = V.T @ self.b
        shrink = 1.0 / (values + alphas)
        coef = np.einsum("ce,et,ea->cta", V, c, shrink, optimize=True)
        taken = np.einsum("et,ea->ta", c * c, shrink)
        train = self.square[:, None] - np.einsum(
            "et,ea->ta", c * c, (values + 2.0 * alphas) * shrink**2
        )
        log_det = np.log(values + alphas).sum(axis=0)
        log_det += (self.n_rows - values.size) * np.log(alphas)
        quadratic = (self.square[:, None] - taken) / alphas
        likelihoods = evidences(
            quadratic,
            log_det,
            alphas,
            n_rows=self.n_rows,
            total_weight=self.total_weight,
            centre=True,
        )
        return coef, train.mean(axis=0) / self.total_weight, *likelihoods


class Totals(NamedTuple):
    """What every fit needs beside A: see :class:`Sums`."""

    b: FloatArray
    square: FloatArray
    phi: FloatArray
    mean: FloatArray
    total_weight: float
    n_rows: int

    def centred(self) -> Totals:
        """Take the mean off the targets, of which ``mean`` is the sum so far."""
        mean = self.mean / self.total_weight
        b, square = self.b - np.outer(self.phi, mean), self.square - self.mean * mean
        return self._replace(b=b, square=square, mean=mean)


def sum_totals(blocks: CellBlocks) -> Totals:
    """Add up over the rows what needs no square matrix."""
    return Totals(*blocks.sum(_totals, blocks.n_cells)).centred()


def sum_rows(blocks: CellBlocks) -> Sums:
    """Add up everything over the rows: a pass, and one for every panel of the matrix.

    A panel holds the cells of some trees against all before them, and is what a block answers with.
    """
    totals = sum_totals(blocks)
    A = np.zeros((blocks.n_cells, blocks.n_cells))
    edge = np.concatenate([[0], np.cumsum(blocks.cells_per_tree)])
    begin = 0
    while begin < blocks.n_trees:
        sizes = (edge[begin + 1 :] - edge[begin]) * edge[begin + 1 :]
        end = begin + max(1, int(np.searchsorted(sizes, _PANEL, side="right")))
        (A[edge[begin] : edge[end], : edge[end]],) = blocks.sum(
            _pairs, begin, end, int(edge[begin]), int(edge[end])
        )
        begin = end
    A /= blocks.n_trees
    A += np.tril(A, -1).T
    A -= np.outer(totals.phi, totals.phi / totals.total_weight)
    return Sums(A, *totals)


def _totals(part: Part, n_cells: int) -> tuple[Any, ...]:
    s, Y = part.weight[:, None], part.Y
    sums = part.features.scatter(np.hstack([s * Y, s]), n_cells)
    square, y = (s * Y**2).sum(axis=0), (s * Y).sum(axis=0)
    return sums[:, :-1], square, sums[:, -1], y, float(s.sum()), s.size


def _pairs(part: Part, begin: int, end: int, first: int, last: int) -> tuple[FloatArray]:
    from mondrian_kernel._kernels.rounds import add_pairs

    pairs = np.zeros((last - first, last))
    add_pairs(part.cells, part.weight, begin, end, first, pairs)
    return (pairs,)
