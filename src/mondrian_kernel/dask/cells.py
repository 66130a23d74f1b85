r"""Cells of rows in blocks, and what a linear model needs of them: sums, and products.

With ψ = φ - mean φ and y centred, ridge needs :math:`A = \sum_i s_i \psi_i \psi_i^\top`,
:math:`b = \sum_i s_i \psi_i y_i` and :math:`\sum_i s_i y_i^2`. Cells at smaller lifetimes are
unions of cells at the last one, so all sums over rows are taken there and joined afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.cholesky import evidences, lower_factor
from mondrian_kernel._linear.lanczos import krylov
from mondrian_kernel._linear.levels import cell_nodes
from mondrian_kernel._linear.operator import Products, gather_cells, scatter_cells
from mondrian_kernel._linear.ridge import CellVariance
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.dask.blocks import Blocks, Rows
from mondrian_kernel.dask.cluster import add, delayed_call, free_bytes, persist, send, slabs, total

Encode = Callable[[NDArray[Any], FloatArray], tuple[FloatArray, FloatArray]]


class Part(NamedTuple):
    """Some rows of a block: cells (n, M), increasing along a row; targets (n, T); weights (n,)."""

    cells: IntArray
    Y: FloatArray
    weight: FloatArray


class CellBlocks:
    """Cells at the last of some lifetimes, targets and weights of the rows of all blocks.

    A block goes through some rows at a time, as cells take more memory than the rows they are of.
    ``encode`` goes to the workers and makes targets (n, T) and weights of a block of y and of
    weights. ``keep`` says whether the cells stay in the memory of the workers, M bytes a row where
    no tree has more than 256 cells; else the rows go down the trees again whenever the cells are
    asked for. "auto": where there is room for them. ``node`` (C,) is the node of each cell.
    """

    def __init__(
        self, blocks: Blocks, trees: Trees, levels: Levels, encode: Encode, *, keep: bool | str
    ) -> None:
        column, self.cells_per_tree = levels.column[-1], levels.per_tree[-1]
        self.n_cells, self.n_trees = int(self.cells_per_tree.sum()), trees.n_trees
        self.node = cell_nodes(trees, column)
        steps = trees.steps(float(levels.lifetimes[-1]))
        self._blocks, self._finder = blocks, send(_Finder(trees.root, steps, column, encode))
        dtype = np.min_scalar_type(int(self.cells_per_tree.max()) - 1)
        if keep == "auto":
            # Half of the free memory stays free.
            keep = 2 * blocks.n_rows * self.n_trees * dtype.itemsize <= free_bytes()
        first = (np.cumsum(self.cells_per_tree) - self.cells_per_tree).astype(np.int32)
        self._kept = persist(self._map(_keep, first, dtype)) if keep else None

    def sum(self, function: Callable[..., tuple[Any, ...]], *message: Any) -> tuple[Any, ...]:
        """Add up over the rows ``function(part, *message)``, a tuple."""
        if self._kept is None:
            parts = self._map(_sum_found, function, *message)
        else:
            parts = delayed_call(self._kept, _sum_kept, function, *message)
        out: tuple[Any, ...] = total(parts, add)
        return out

    def _map(self, function: Callable[..., Any], *message: Any) -> list[Any]:
        return self._blocks.map(function, *message, each=[self._finder] * self._blocks.n_blocks)


class _Finder(NamedTuple):
    """What a block needs to find the cells of its rows and to encode their targets."""

    root: IntArray
    steps: NDArray[np.void]
    column: IntArray
    encode: Encode

    def parts(self, rows: Rows) -> Iterator[Part]:
        """Yield the rows of a block with their cells, some at a time."""
        from mondrian_kernel._kernels.walk import descend

        assert rows.Y is not None
        at = np.empty(settings.WALK_LANES, np.uint64)
        for s in slabs(rows.X.shape[0], self.root.size):
            node = np.empty((self.root.size, s.stop - s.start), np.uint32)
            for root, own in zip(self.root, node, strict=True):
                descend(rows.X[s], root, self.steps, own, at)
            cells = np.ascontiguousarray(self.column[node].T)
            yield Part(cells, *self.encode(rows.Y[s], rows.weight[s]))


class _Kept(NamedTuple):
    """Rows of a block: cells (n, M), counted within a tree from the ``first`` (M,) on."""

    cells: NDArray[np.unsignedinteger]
    first: IntArray
    Y: FloatArray
    weight: FloatArray


def _sum_found(
    rows: Rows, finder: _Finder, function: Callable[..., tuple[Any, ...]], *message: Any
) -> tuple[Any, ...]:
    return reduce(add, (function(part, *message) for part in finder.parts(rows)))


def _keep(rows: Rows, finder: _Finder, first: IntArray, dtype: Any) -> _Kept:
    cells = np.concatenate([(part.cells - first).astype(dtype) for part in finder.parts(rows)])
    assert rows.Y is not None
    return _Kept(cells, first, *finder.encode(rows.Y, rows.weight))


def _sum_kept(
    kept: _Kept, function: Callable[..., tuple[Any, ...]], *message: Any
) -> tuple[Any, ...]:
    parts = (
        Part(kept.first + kept.cells[s].astype(np.int32), kept.Y[s], kept.weight[s])
        for s in slabs(*kept.cells.shape)
    )
    return reduce(add, (function(part, *message) for part in parts))


def join_matrix(levels: Levels, node: NDArray[np.int64]) -> sparse.csr_matrix:
    """Return J (F, C) with φ = J φ' for features φ' in the cells of these nodes.

    The features of level l are sums over the cells in them, times the root of its weight.
    """
    group = levels.column[:, node] + levels.offset[:-1, None]
    roots = np.repeat(np.sqrt(levels.weights), node.size)
    cells = np.tile(np.arange(node.size), levels.n_levels)
    return sparse.csr_matrix((roots, (group.ravel(), cells)), (levels.n_features, node.size))


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over rows: ``b`` (C, T), ``square`` (T,), centred; Σ s φ in ``phi``; ``A`` (C, C).

    ``mean`` (T,) is that of y, ``total_weight`` Σ s over the ``n_rows``. ``A`` is empty where only
    products with it are wanted. The intercept is never penalised.
    """

    b: FloatArray
    square: FloatArray
    phi: FloatArray
    mean: FloatArray
    total_weight: float
    n_rows: int
    A: FloatArray
    centre = True

    def joined(self, J: sparse.csr_matrix) -> Sums:
        """Return the sums of the features Jφ."""
        A = np.asarray(J @ np.asarray(J @ self.A).T) if self.A.size else self.A
        return replace(self, b=J @ self.b, phi=J @ self.phi, A=A)

    def factor(self, alpha: float) -> FloatArray:
        """Lower Cholesky factor of A + αI."""
        A = self.A.copy()
        A.flat[:: A.shape[0] + 1] += alpha
        return lower_factor(A, alpha)

    def variance(self, alpha: float) -> CellVariance:
        """Variance of f at new rows."""
        mean = self.phi / self.total_weight
        return CellVariance(self.factor(alpha), mean, alpha, self.total_weight)

    def solve(self, alpha: float) -> FloatArray:
        """Weights (C, T)."""
        w: FloatArray = linalg.cho_solve((self.factor(alpha), True), self.b)
        return w

    def intercept(self, W: FloatArray) -> FloatArray:
        """Return the intercepts (T,) of weights (C, T), or (T, A) of weights (C, T, A)."""
        part: FloatArray = np.tensordot(self.phi / self.total_weight, W, axes=1)
        return (self.mean - part.T).T

    def signal_variance(self, W: FloatArray, alpha: float) -> FloatArray:
        """Variance σ² under which the targets are likeliest, ``yᵀ(K + αI)⁻¹y / n``, (T,)."""
        quadratic = np.maximum(self.square - (self.b * W).sum(axis=0), 0.0) / alpha
        n = self.total_weight - 1.0
        return quadratic / n if n > 0 else np.zeros_like(quadratic)

    def train_error(self, W: FloatArray, alphas: FloatArray) -> FloatArray:
        """Mean squared error of fitted rows (A,), for the weights (C, T, A) of every alpha."""
        explained = np.einsum("ct,cta->ta", self.b, W) + alphas * (W**2).sum(axis=0)
        error: FloatArray = (self.square[:, None] - explained).mean(axis=0) / self.total_weight
        return error

    def solutions(self, alphas: FloatArray) -> tuple[FloatArray, tuple[FloatArray, FloatArray]]:
        """Weights (C, T, A) and both log-likelihoods (A,) for every alpha, exactly."""
        values, V = linalg.eigh(self.A)
        values = np.maximum(values, 0.0)[:, None]
        c = V.T @ self.b
        shrink = 1.0 / (values + alphas)
        W = np.einsum("ce,et,ea->cta", V, c, shrink, optimize=True)
        log_det = np.log(values + alphas).sum(axis=0)
        log_det += (self.n_rows - values.size) * np.log(alphas)
        quadratic = (self.square[:, None] - np.einsum("et,ea->ta", c * c, shrink)) / alphas
        return W, evidences(quadratic, log_det, alphas, self)


def sum_totals(cells: CellBlocks) -> Sums:
    """Add up over the rows what needs no square matrix."""
    b, square, phi, y, total_weight, n_rows = cells.sum(_totals, cells.n_cells)
    mean = y / total_weight
    b, square = b - np.outer(phi, mean), square - y * mean
    return Sums(b, square, phi, mean, total_weight, n_rows, np.empty((0, 0)))


def sum_rows(cells: CellBlocks, panel: int = settings.SUM_PANEL_NUMBERS) -> Sums:
    """Add up everything over the rows: a pass, and one for every panel of the matrix.

    A panel holds the cells of some trees against all before them, and is what a block answers with.
    """
    sums = sum_totals(cells)
    A = np.zeros((cells.n_cells, cells.n_cells))
    edge = np.concatenate([[0], np.cumsum(cells.cells_per_tree)])
    begin = 0
    while begin < cells.n_trees:
        sizes = (edge[begin + 1 :] - edge[begin]) * edge[begin + 1 :]
        end = begin + max(1, int(np.searchsorted(sizes, panel, side="right")))
        (A[edge[begin] : edge[end], : edge[end]],) = cells.sum(
            _pairs, begin, end, int(edge[begin]), int(edge[end])
        )
        begin = end
    A /= cells.n_trees
    A += np.tril(A, -1).T
    A -= np.outer(sums.phi, sums.phi / sums.total_weight)
    return replace(sums, A=A)


def _totals(part: Part, n_cells: int) -> tuple[Any, ...]:
    s, Y = part.weight[:, None], part.Y
    sums = scatter_cells(part.cells, np.hstack([s * Y, s]), n_cells)
    square, y = (s * Y**2).sum(axis=0), (s * Y).sum(axis=0)
    return sums[:, :-1], square, sums[:, -1], y, float(s.sum()), s.size


def _pairs(part: Part, begin: int, end: int, first: int, last: int) -> tuple[FloatArray]:
    from mondrian_kernel._kernels.rounds import add_pairs

    pairs = np.zeros((last - first, last))
    add_pairs(part.cells, part.weight, begin, end, first, pairs)
    return (pairs,)


class CellProducts(Products):
    r"""Products with :math:`A_l = J_l A J_l^\top` for several J at once, through the blocks.

    One pass over the rows advances the solution of every l and, in the Krylov spaces of
    :func:`krylov`, of every alpha. Vectors of J with F rows are columns of the length of the
    longest, whose entries beyond F are 0.
    """

    def __init__(self, cells: CellBlocks, sums: Sums, joins: list[sparse.csr_matrix]) -> None:
        self._cells, self._joins, self._total_weight = cells, joins, sums.total_weight
        self._length, self._n_outputs = max(J.shape[0] for J in joins), sums.b.shape[1]
        self._starts = self._joined([sums.b] * len(joins))
        self._phi = self._joined([np.repeat(sums.phi[:, None], self._n_outputs, 1)] * len(joins))

    @property
    def total_weight(self) -> float:
        """Bound on the eigenvalues of all A."""
        return self._total_weight

    def _joined(self, fine: list[FloatArray]) -> FloatArray:
        out = [np.zeros((self._length, part.shape[1])) for part in fine]
        for J, part, padded in zip(self._joins, fine, out, strict=True):
            padded[: J.shape[0]] = J @ part
        return np.hstack(out)

    def gram(self, V: FloatArray) -> FloatArray:
        """``A_l V_l`` for all columns, in one pass over the rows."""
        parts = zip(self._joins, np.split(V, len(self._joins), axis=1), strict=True)
        (sums,) = self._cells.sum(_gram, np.hstack([J.T @ part[: J.shape[0]] for J, part in parts]))
        phi, shares = self._phi, (self._phi * V).sum(axis=0) / self.total_weight
        out: FloatArray = self._joined(np.split(sums, len(self._joins), axis=1)) - phi * shares
        return out

    def solve(self, alphas: FloatArray, tol: float) -> list[FloatArray]:
        """Weights (F, T, A) of every J, for every alpha."""
        found = krylov(self, self._starts, alphas, tol)
        found.warn_of_residuals(alphas, tol)
        W = found.solution.transpose(1, 0, 2)
        parts = np.split(W, len(self._joins), axis=1)
        return [part[: J.shape[0]] for J, part in zip(self._joins, parts, strict=True)]


def _gram(part: Part, W: FloatArray) -> tuple[FloatArray]:
    weighted = part.weight[:, None] * gather_cells(part.cells, W)
    return (scatter_cells(part.cells, weighted, W.shape[0]),)
