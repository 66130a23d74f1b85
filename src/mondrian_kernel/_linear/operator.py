r"""The rows of a linear problem as an operator: products with their features, never formed.

A solver knows the rows only by :class:`Operator`. The cells of trees implement it as
:class:`CellOperator`, which has a kernel for each of several lifetimes, and in
:mod:`mondrian_kernel._linear.levels` as one kernel that is a sum over lifetimes.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.runs import LANES, Runs
from mondrian_kernel._trees.levels import cell_features
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray, IntArray


def gather_cells(cells: IntArray, W: FloatArray) -> FloatArray:
    """Return Φ W for W (C, k) and rows in ``cells`` (N, M); an operator is faster for many."""
    return np.asarray(cell_features(cells, None, W.shape[0]) @ W)


def scatter_cells(cells: IntArray, V: FloatArray, n_cells: int) -> FloatArray:
    """Return Φᵀ V (C, k) for V (N, k) and rows in ``cells`` (N, M)."""
    return np.asarray(cell_features(cells, None, n_cells).T @ V)


def panels(n: int, height: int) -> list[slice]:
    """Split n columns of a height into panels that fit into memory."""
    step = max(1, settings.PANEL_NUMBERS // height)
    return [slice(begin, begin + step) for begin in range(0, n, step)]


class Products(Protocol):
    """What Lanczos and conjugate gradients need: products K V, and a bound on K's eigenvalues."""

    @property
    def total_weight(self) -> float: ...

    def gram(self, V: FloatArray) -> FloatArray: ...


class Operator(Products, Protocol):
    r"""Features Φ of N rows with weights s, at L nested levels of coarseness.

    .. math::
        K = H S^{1/2} \Phi \Phi^\top S^{1/2} H, \qquad H = I - u u^\top, \quad u \propto \sqrt s

    H centres, for an intercept that is not penalised; without ``centre`` it is I. Level l joins
    features into fewer ones, :math:`\Phi_l = \Phi S_l`; the last level is the finest and is meant
    wherever no level is named. An implementation must provide the attributes, ``n_cells``,
    ``gather``, ``scatter``, ``gram``, ``features`` and ``take``. The rest follows from these, for
    one level, and may be overridden by something faster. No result depends on ``n_jobs``.
    """

    sample_weight: FloatArray
    centre: bool
    n_jobs: int | None

    @property
    def n_cells(self) -> NDArray[np.int64]:
        """Number of features at each level, (L,)."""

    def gather(self, W: FloatArray) -> FloatArray:
        """Return Φ W for W (C, k), without sample weights."""

    def scatter(self, V: FloatArray) -> FloatArray:
        """Return Φᵀ V for V (N, k), without sample weights."""

    def gram(self, V: FloatArray) -> FloatArray:
        """Return K_l V_l of all levels; columns l·k to l·k + k - 1 of V belong to level l."""

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return int(self.sample_weight.size)

    @property
    def n_levels(self) -> int:
        """Number of levels L."""
        return int(self.n_cells.size)

    @property
    def size(self) -> int:
        """Order of the smaller dense matrix of the finest level: min(C, N)."""
        return min(self.n_rows, int(self.n_cells[-1]))

    @cached_property
    def root_weight(self) -> FloatArray:
        """Square roots of the sample weights."""
        root: FloatArray = np.sqrt(self.sample_weight)
        return root

    @cached_property
    def total_weight(self) -> float:
        """Sum of the sample weights."""
        return float(self.sample_weight.sum())

    @cached_property
    def mean_direction(self) -> FloatArray:
        """The unit vector u."""
        u: FloatArray = self.root_weight / np.sqrt(self.total_weight)
        return u

    def centred(self, V: FloatArray) -> FloatArray:
        """Apply H to the columns of V, in place."""
        from mondrian_kernel._kernels.dense import centre

        if self.centre:
            centre(self.mean_direction, V)
        return V

    def _kernel_of(self, cells: IntArray, share: FloatArray) -> FloatArray:
        """Return K (N, N) of cells (N, L M), by what a shared cell of each of L levels counts."""
        from mondrian_kernel._kernels.dense import matches

        n, work = self.n_rows, self.n_rows * cells.size / 16
        each = np.ascontiguousarray(cells).reshape(n, share.size, -1)
        K = np.empty((n, n))
        in_threads(lambda a, b: matches(each, share, a, b, K), n, self.n_jobs, work=work)
        K *= self.root_weight
        K *= self.root_weight[:, None]
        if self.centre:  # in place, as K may fill the memory
            u = self.mean_direction
            Ku = K @ u
            v = (0.5 * (u @ Ku)) * u - Ku
            for begin in range(0, K.shape[0], settings.KERNEL_ROWS):
                rows = slice(begin, begin + settings.KERNEL_ROWS)
                K[rows] += np.outer(u[rows], v) + np.outer(v[rows], u)
        return K

    def level(self, index: int) -> Operator:
        """Return one level alone."""
        return self

    def up_to(self, index: int) -> Operator:
        """Return the levels up to one, which becomes the finest."""
        return self

    def coarsen(self, W: FloatArray, level: int) -> FloatArray:
        """Sum rows of W (C, k) over the features that a level joins, (C_l, k)."""
        return W

    def refine(self, W: FloatArray, level: int) -> FloatArray:
        """Give features the rows of W (C_l, k) of the coarser ones they lie in, (C, k)."""
        return W

    def take(self, some: NDArray[np.intp]) -> Operator:
        """Return the operator of some of the rows, at the finest level."""

    def features(self, some: NDArray[np.intp]) -> sparse.csr_matrix:
        """Φ of some rows, without sample weights."""

    def kernel_with(self, Phi_new: sparse.csr_matrix) -> FloatArray:
        """Return S^½ Φ Φ_newᵀ (N, n), not centred, for features (n, C) of other rows."""
        some = panels(Phi_new.shape[0], int(self.n_cells[-1]))
        K = np.concatenate([self.gather(Phi_new[s].T.toarray()) for s in some], axis=1)
        K *= self.root_weight[:, None]
        return K

    def kernel_columns(self, some: NDArray[np.intp]) -> FloatArray:
        """Columns of S^½ Φ Φᵀ S^½, not centred, (N, len(some))."""
        K = self.kernel_with(self.features(some))
        K *= self.root_weight[some]
        return K

    def kernel_matrix(self) -> FloatArray:
        """Return K (N, N)."""
        Phi = self.dense_features()
        K: FloatArray = Phi @ Phi.T
        return K

    def dense_features(self) -> FloatArray:
        """Return H S^½ Φ (N, C)."""
        Phi = self.features(np.arange(self.n_rows)).toarray()
        Phi *= self.root_weight[:, None]
        return self.centred(Phi)

    def coef(self, dual: FloatArray) -> FloatArray:
        """Weights Φᵀ S^½ H a (C, k) of dual coefficients a (N, k)."""
        return self.scatter(self.root_weight[:, None] * self.centred(dual.copy()))


class SparseOperator(Operator):
    """Features given as a sparse matrix Φ (N, C)."""

    def __init__(
        self, Phi: sparse.csr_matrix, sample_weight: FloatArray, centre: bool, n_jobs: int | None
    ) -> None:
        self._Phi, self.sample_weight, self.centre, self.n_jobs = Phi, sample_weight, centre, n_jobs

    @property
    def n_cells(self) -> NDArray[np.int64]:
        return np.array([self._Phi.shape[1]])

    def gather(self, W: FloatArray) -> FloatArray:
        return np.asarray(self._Phi @ W)

    def scatter(self, V: FloatArray) -> FloatArray:
        return np.asarray(self._Phi.T @ V)

    def gram(self, V: FloatArray) -> FloatArray:
        root = self.root_weight[:, None]
        return self.centred(root * self.gather(self.scatter(root * self.centred(V.copy()))))

    def features(self, some: NDArray[np.intp]) -> sparse.csr_matrix:
        return self._Phi[some]

    def take(self, some: NDArray[np.intp]) -> SparseOperator:
        return SparseOperator(self._Phi[some], self.sample_weight[some], self.centre, self.n_jobs)


class CellOperator(Operator):
    r"""Features of rows in the cells of M trees: one non-zero a tree, of the value 1/√M.

    ``cells`` (N, M) is the cell of each row in each tree at the finest level, of ``n_cells`` over
    all trees; no two trees share one. Column l of ``groups`` (C, L), of at most eight, is the cell
    of level l in which a finest cell lies, ascending, so that the finest cells in a coarser one are
    neighbours; None for one level. The sample weights are 1 where None.
    """

    def __init__(
        self,
        cells: IntArray,
        n_cells: int,
        *,
        groups: IntArray | None = None,
        sample_weight: FloatArray | None = None,
        centre: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.cells = np.ascontiguousarray(cells, dtype=np.int32)
        if cells.size and not 0 <= cells.min() <= cells.max() < n_cells:
            raise ValueError(f"cells has columns outside [0, {n_cells}).")
        each = np.arange(n_cells, dtype=np.int32)[:, None]
        self._groups: IntArray = each if groups is None else groups
        if np.any(self._groups[1:] < self._groups[:-1]) or self._groups.shape[1] > LANES:
            raise ValueError("groups must ascend from cell to cell, in at most eight levels.")
        self.centre, self.n_jobs, self._value = centre, n_jobs, float(cells.shape[1] ** -0.5)
        self.sample_weight = np.ones(cells.shape[0]) if sample_weight is None else sample_weight

    @property
    def n_cells(self) -> NDArray[np.int64]:
        n: NDArray[np.int64] = self._groups[-1].astype(np.int64) + 1
        return n

    def gather(self, W: FloatArray) -> FloatArray:
        return self._value * self._runs.gather(W, self.n_jobs)

    def scatter(self, V: FloatArray) -> FloatArray:
        return self._value * self._runs.scatter(V, self.n_jobs)

    def gram(self, V: FloatArray) -> FloatArray:
        V, scale = np.array(V, dtype=float), self._value * self.root_weight[:, None]
        self.centred(V)
        V *= scale
        groups = () if self.n_levels == 1 else (self.n_levels, self._same)
        out = self._runs.gram(V, self.n_jobs, *groups)
        out *= scale
        return self.centred(out)

    def level(self, index: int) -> CellOperator:
        return self._with(self._groups[:, index][self.cells], int(self.n_cells[index]))

    def up_to(self, index: int) -> CellOperator:
        finest = self._groups[:, index]
        groups = self._groups[np.flatnonzero(np.diff(finest, prepend=-1)), : index + 1]
        return self._with(finest[self.cells], int(self.n_cells[index]), groups=groups)

    def take(self, some: NDArray[np.intp]) -> CellOperator:
        n_cells, weight = int(self.n_cells[-1]), self.sample_weight[some]
        return self._with(self.cells[some], n_cells, sample_weight=weight)

    def _with(self, cells: IntArray, n_cells: int, **changes: Any) -> CellOperator:
        changes = {"sample_weight": self.sample_weight, **changes}
        return CellOperator(cells, n_cells, centre=self.centre, n_jobs=self.n_jobs, **changes)

    def coarsen(self, W: FloatArray, level: int) -> FloatArray:
        starts = np.flatnonzero(np.diff(self._groups[:, level], prepend=-1))
        return np.add.reduceat(W, starts, axis=0)

    def refine(self, W: FloatArray, level: int) -> FloatArray:
        return W[self._groups[:, level]]

    def features(self, some: NDArray[np.intp]) -> sparse.csr_matrix:
        return cell_features(self.cells[some], None, int(self.n_cells[-1]))

    def kernel_matrix(self) -> FloatArray:
        return self._kernel_of(self.cells, np.array([self._value**2]))

    @cached_property
    def _runs(self) -> Runs:
        return Runs(self.cells, int(self.n_cells[-1]))

    @cached_property
    def _same(self) -> NDArray[np.uint8]:
        """Levels at which a cell is in one group with the cell before it, as bits, (C,)."""
        joined = np.diff(self._groups[self._runs.original], axis=0, prepend=-1) == 0
        return np.packbits(joined, axis=1, bitorder="little")[:, 0]
