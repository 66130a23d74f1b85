r"""The rows of a linear problem as an operator: products with their features, never formed.

A solver knows the rows only by :class:`Operator`. The cells of trees implement it in
:mod:`mondrian_kernel._linear.cell_operator` at one lifetime and in
:mod:`mondrian_kernel._linear.levels` at several.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mondrian_kernel._settings import KERNEL_ROWS, PANEL_NUMBERS
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray, IntArray


def gather_cells(cells: IntArray, W: FloatArray, n_jobs: int | None = None) -> FloatArray:
    """Return Φ W for W (C, k) and rows in ``cells`` (N, M); an operator is faster for many."""
    from mondrian_kernel._kernels.descent import gather

    cells, W = np.ascontiguousarray(cells, dtype=np.int32), np.ascontiguousarray(W)
    F = np.empty((cells.shape[0], W.shape[1]))
    in_threads(lambda begin, end: gather(cells, W, begin, end, F), F.shape[0], n_jobs)
    return F


def scatter_cells(cells: IntArray, V: FloatArray, n_cells: int) -> FloatArray:
    """Return Φᵀ V (C, k) for V (N, k) and rows in ``cells`` (N, M)."""
    from mondrian_kernel._kernels.descent import scatter

    W = np.zeros((n_cells, V.shape[1]))
    scatter(np.ascontiguousarray(cells, dtype=np.int32), np.ascontiguousarray(V), W)
    return W


class Products(Protocol):
    """What Lanczos and conjugate gradients need: products with K, and a bound on it."""

    @property
    def total_weight(self) -> float:
        """Bound on the eigenvalues of K: the sum of the sample weights."""

    def gram(self, V: FloatArray) -> FloatArray:
        """Return K V."""


class Operator(Products, Protocol):
    r"""Features Φ of N rows with weights s, at L nested levels of coarseness.

    .. math::
        K = H S^{1/2} \Phi \Phi^\top S^{1/2} H, \qquad H = I - u u^\top, \quad u \propto \sqrt s

    H centres, for an intercept that is not penalised; without ``centre`` it is I. Level l joins
    features into fewer ones, :math:`\Phi_l = \Phi S_l`; the last level is the finest and is meant
    wherever no level is named. An implementation must provide the attributes, ``n_cells``,
    ``gather``, ``scatter``, ``gram``, ``features`` and ``take``. The rest follows from these, for
    one level, and may be overridden by something faster.

    Attributes
    ----------
    sample_weight : ndarray of shape (N,)
        Positive weights s.
    centre : bool
        Whether there is an intercept.
    n_jobs : int or None
        Threads; no result depends on it.
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
        step = max(1, PANEL_NUMBERS // int(self.n_cells[-1]))
        parts = [
            self.gather(Phi_new[begin : begin + step].T.toarray())
            for begin in range(0, Phi_new.shape[0], step)
        ]
        K = np.concatenate(parts, axis=1)
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


def add_symmetric(K: FloatArray, u: FloatArray, v: FloatArray) -> None:
    """Add ``u vᵀ + v uᵀ`` to K, a few rows at a time: K may fill the memory."""
    for begin in range(0, K.shape[0], KERNEL_ROWS):
        rows = slice(begin, begin + KERNEL_ROWS)
        K[rows] += np.outer(u[rows], v) + np.outer(v[rows], u)


class SparseOperator(Operator):
    """Features given as a sparse matrix Φ (N, C)."""

    def __init__(
        self, Phi: sparse.csr_matrix, sample_weight: FloatArray, centre: bool, n_jobs: int | None
    ) -> None:
        self._Phi, self.sample_weight, self.centre, self.n_jobs = Phi, sample_weight, centre, n_jobs

    @property
    def n_cells(self) -> NDArray[np.int64]:
        """Number of features, (1,)."""
        return np.array([self._Phi.shape[1]])

    def gather(self, W: FloatArray) -> FloatArray:
        """Return Φ W for W (C, k), without sample weights."""
        return np.asarray(self._Phi @ W)

    def scatter(self, V: FloatArray) -> FloatArray:
        """Return Φᵀ V for V (N, k), without sample weights."""
        return np.asarray(self._Phi.T @ V)

    def gram(self, V: FloatArray) -> FloatArray:
        """Return K V."""
        root = self.root_weight[:, None]
        return self.centred(root * self.gather(self.scatter(root * self.centred(V.copy()))))

    def features(self, some: NDArray[np.intp]) -> sparse.csr_matrix:
        """Φ of some rows, without sample weights."""
        return self._Phi[some]

    def take(self, some: NDArray[np.intp]) -> SparseOperator:
        """Return the operator of some of the rows."""
        return SparseOperator(self._Phi[some], self.sample_weight[some], self.centre, self.n_jobs)
