"""Ridge regression kept exact while rows and cells are appended."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.cholesky import LOG_2PI, lower_factor
from mondrian_kernel._model.fitted import TrainingRows
from mondrian_kernel._trees.levels import sparse_rows
from mondrian_kernel._typing import FloatArray, IntArray


class ExactFit(NamedTuple):
    """Weights (C, T), intercepts and signal variances (T,), and the log marginal likelihood."""

    coef: FloatArray
    intercept: FloatArray
    signal: FloatArray
    evidence: float


class ExactRidge:
    r"""Minimiser of :math:`\sum_i s_i (y_i - b - w^\top\phi_i)^2 + \alpha\|w\|^2`: mutable.

    If there are fewer rows N than cells C, it keeps the Cholesky factor of :math:`K + \alpha
    S^{-1}`, with K the kernel matrix. New cells do not change K, and a new row is a new row of the
    factor, O(N²). Otherwise it keeps the inverse of :math:`A = \Phi^\top S \Phi + \alpha I`. A
    new cell is a row of zeros with 1/α on the diagonal, and k rows are an update of rank k, O(C²) a
    row. Rounding errors add up in the inverse. So the weights are refined by one step; and if the
    slope of the objective is then more than 1e-12 of that at zero weights, the inverse is computed
    anew from the rows.

    Rows have the leaves ``leaf`` (N, M), the numbers ``cells`` (N, L·M) of their cells, level after
    level and different at different levels, targets ``Y`` (N, T) and positive weights (N,). They
    have the feature ``value`` (L,) in their cells of each level.
    """

    def __init__(
        self,
        leaf: IntArray,
        cells: IntArray,
        Y: FloatArray,
        weight: FloatArray,
        n_cells: int,
        value: FloatArray,
        alpha: float,
    ) -> None:
        self._alpha, self._value = alpha, value
        self.n_rows, self._n_cells = int(leaf.shape[0]), n_cells
        self._rows: tuple[NDArray[Any], ...] = (leaf, cells, Y, weight)
        self._is_factored = False

    @property
    def rows(self) -> TrainingRows:
        """Leaves, targets and weights of the rows: views."""
        leaf, _, Y, weight = (part[: self.n_rows] for part in self._rows)
        return TrainingRows(leaf, Y, weight)

    def append(
        self, leaf: IntArray, cells: IntArray, Y: FloatArray, weight: FloatArray, n_cells: int
    ) -> None:
        """Append rows; there are ``n_cells`` cells now. If it fails, call :meth:`rollback`."""
        n, more = self.n_rows, (leaf, cells, Y, weight)
        n_all = n + len(leaf)
        self._rows = tuple(_with_room(part, n_all) for part in self._rows)
        for part, new in zip(self._rows, more, strict=True):
            part[n:n_all] = new
        self.n_rows, self._n_cells = n_all, n_cells
        if not self._is_factored:
            return
        size, other = (n_all, n_cells) if self._is_dual else (n_cells, n_all)
        if size > settings.EXACT_CHANGE * other:
            self._is_factored = False
        elif self._is_dual:
            self._append_dual(n)
        else:
            self._append_primal(n)

    def rollback(self, n_rows: int, n_cells: int) -> None:
        """Go back to the first rows and cells; the next fit factors them anew."""
        self.n_rows, self._n_cells, self._is_factored = n_rows, n_cells, False

    def fit(self) -> ExactFit:
        """Weights, intercept and likelihood for the rows so far."""
        if not self._is_factored:
            self._factor()
        fit, drift = self._fit()
        if drift > settings.EXACT_DRIFT:
            self._factor()
            fit, _ = self._fit()
        return fit

    def _fit(self) -> tuple[ExactFit, float]:
        """Return the fit, and the slope of the objective at it over that at zero weights."""
        n, rows, alpha = self.n_rows, self.rows, self._alpha
        Phi, s, total = self._Phi(), rows.weight, float(rows.weight.sum())
        if self._is_dual:
            from mondrian_kernel._kernels.dense import solve_upper

            Z, one = self._Z[:n, :-1].T, self._Z[:n, -1]
            b = Z @ one / (one @ one)
            dual = np.ascontiguousarray(Z - np.outer(b, one))
            solve_upper(self._L, n, dual)
            dual = dual.T
            b += self._offset
            coef, drift = Phi.T @ dual, 0.0
            flat = float(one @ one) / total
            log_det = 2.0 * np.log(np.diagonal(self._L)[:n]).sum() + np.log(s).sum()
        else:
            coef, b, dual, known, drift = self._solve_primal(Phi)
            flat = known / total / alpha
            log_det = self._log_det + (n - self._n_cells) * np.log(alpha)
        quadratic = np.maximum(np.einsum("nt,nt->t", rows.Y - b, dual), 0.0)
        degrees = total - 1.0
        signal = quadratic / degrees if degrees > 0 else np.zeros_like(quadratic)
        # Without the direction of the mean; a row of weight s counts as s rows.
        log_det += np.log(flat) + (degrees + 1.0 - n) * np.log(alpha)
        variance = np.maximum(signal, np.finfo(float).tiny)
        evidence = -0.5 * (degrees * (np.log(variance) + LOG_2PI + 1.0) + log_det).sum()
        return ExactFit(coef, b, signal, float(evidence)), drift

    def _solve_primal(
        self, Phi: sparse.csr_matrix
    ) -> tuple[FloatArray, FloatArray, FloatArray, float, float]:
        """Return weights, intercept, dual coefficients, 1ᵀ(K/α + S⁻¹)⁻¹1, and the slope."""
        Y, s, C = self.rows.Y, self.rows.weight, self._n_cells
        R = self._R[:C, :C]
        u = Phi.T @ s
        Ru = R @ u
        known = float(s.sum() - u @ Ru)
        w, b, size = np.zeros((C, Y.shape[1])), np.zeros(Y.shape[1]), 0.0
        for _ in range(2):
            rest = s[:, None] * (Y - b - Phi @ w)
            slope = Phi.T @ rest - self._alpha * w
            size = max(size, float(np.abs(slope).max()))
            Rslope = R @ slope
            step = (rest.sum(axis=0) - u @ Rslope) / known
            w += Rslope - np.outer(Ru, step)
            b += step
        rest = s[:, None] * (Y - b - Phi @ w)
        drift = float(np.abs(Phi.T @ rest - self._alpha * w).max()) / max(size, 1e-300)
        return w, b, rest / self._alpha, known, drift

    def _Phi(self, begin: int = 0) -> sparse.csr_matrix:
        cells = self._rows[1][begin : self.n_rows]
        value = np.repeat(self._value, cells.shape[1] // self._value.size)
        return sparse_rows(cells, np.tile(value, len(cells)), self._n_cells)

    def _factor(self) -> None:
        """Factor from the rows, in the smaller form."""
        C, rows = self._n_cells, self.rows
        self._is_factored, self._is_dual = False, self.n_rows <= C
        if self._is_dual:
            self._offset: FloatArray = rows.Y.mean(axis=0)  # against cancellation
            self._L, self._Z = np.zeros((0, 0)), np.zeros((0, rows.Y.shape[1] + 1))
            self._append_dual(0)
        else:
            Phi = self._Phi()
            A = (Phi.T @ Phi.multiply(rows.weight[:, None])).toarray()
            A.flat[:: C + 1] += self._alpha
            L = lower_factor(A, self._alpha)
            self._log_det = 2.0 * float(np.log(np.diagonal(L)).sum())
            R, _ = linalg.lapack.dpotri(L, lower=1)
            self._R, self._n_inverse = np.tril(R) + np.tril(R, -1).T, C
        self._is_factored = True

    def _append_dual(self, n: int) -> None:
        from mondrian_kernel._kernels.dense import kernel_between, solve_lower

        end, k, cells, rows = self.n_rows, self.n_rows - n, self._rows[1][: self.n_rows], self.rows
        self._L, self._Z = _with_room(self._L, end, end), _with_room(self._Z, end)
        K = np.empty((k, end))
        kernel_between(cells[n:], cells, self._value**2, K)
        cross = K[:, :n].copy()
        solve_lower(self._L, n, cross)
        rest = K[:, n:] - cross @ cross.T
        rest.flat[:: k + 1] += self._alpha / rows.weight[n:]
        corner = lower_factor(rest, self._alpha)
        self._L[n:end, :n], self._L[n:end, n:end] = cross, corner
        right = np.hstack([rows.Y[n:] - self._offset, np.ones((k, 1))]) - cross @ self._Z[:n]
        self._Z[n:end] = linalg.solve_triangular(corner, right, lower=True)

    def _append_primal(self, n: int) -> None:
        C, old = self._n_cells, self._n_inverse
        Phi, s = self._Phi(n), self.rows.weight[n:]
        self._R, self._n_inverse = _with_room(self._R, C, C), C
        fresh = np.arange(old, C)
        self._R[fresh, fresh] = 1.0 / self._alpha
        R = self._R[:C, :C]
        RPhi = (Phi @ R).T
        inner = Phi @ RPhi
        inner.flat[:: s.size + 1] += 1.0 / s
        L = lower_factor(inner, self._alpha)
        V = linalg.solve_triangular(L, RPhi.T, lower=True)
        R -= V.T @ V
        self._log_det += (C - old) * np.log(self._alpha)
        self._log_det += 2.0 * float(np.log(np.diagonal(L)).sum()) + float(np.log(s).sum())


def _with_room(a: NDArray[Any], *shape: int) -> NDArray[Any]:
    """Return an array with room for ``shape`` in its first axes; it grows by doubling."""
    if shape[0] <= a.shape[0]:
        return a
    axes = [(0, max(n, 2 * old) - old) for n, old in zip(shape, a.shape, strict=False)]
    return np.pad(a, axes + [(0, 0)] * (a.ndim - len(axes)))
