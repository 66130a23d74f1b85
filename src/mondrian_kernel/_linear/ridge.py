"""Ridge regression at one alpha: weights, variance of predictions, leave-one-out errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.cholesky import Factor, centred_targets, weights
from mondrian_kernel._linear.conjugate_gradients import gradient_dual
from mondrian_kernel._linear.lanczos import Probes, krylov
from mondrian_kernel._linear.operator import Operator, panels
from mondrian_kernel._typing import FloatArray


class CellVariance:
    """The variance of :class:`PredictiveVariance` from the lower factor ``L`` of A; pickles.

    ``mean`` (C,) is that of the rows' φ. ``total_weight`` is infinite without an intercept.
    """

    def __init__(self, L: FloatArray, mean: FloatArray, alpha: float, total_weight: float) -> None:
        self._L, self._mean, self._alpha, self._total = L, mean, alpha, total_weight

    def __call__(self, Phi_new: sparse.csr_matrix) -> FloatArray:
        """Variance of each row of ``Phi_new`` (n, C), of shape (n,)."""
        known = np.empty(Phi_new.shape[0])
        for s in panels(known.size, self._mean.size):
            Z = self._whitened(Phi_new[s])
            known[s] = np.einsum("ij,ij->j", Z, Z)
        missing = np.maximum(1.0 - _squares(Phi_new), 0.0)
        variance: FloatArray = missing + self._alpha * (known + 1.0 / self._total)
        return variance

    def covariance(self, Phi_new: sparse.csr_matrix) -> FloatArray:
        """Joint covariance of f at the rows of ``Phi_new`` (n, C), of shape (n, n)."""
        Z = self._whitened(Phi_new)
        cov: FloatArray = self._alpha * (Z.T @ Z + 1.0 / self._total)
        cov.flat[:: cov.shape[0] + 1] += np.maximum(1.0 - _squares(Phi_new), 0.0)
        return cov

    def _whitened(self, Phi: sparse.csr_matrix) -> FloatArray:
        Psi = Phi.toarray() - self._mean
        Z: FloatArray = linalg.solve_triangular(self._L, Psi.T, lower=True, check_finite=False)
        return Z


def _squares(Phi: sparse.csr_matrix) -> FloatArray:
    """φᵀφ of each row."""
    return np.asarray(Phi.multiply(Phi).sum(axis=1)).ravel()


class PredictiveVariance:
    r"""Variance of f(x) = b + wᵀφ at new rows after ridge regression, in units of σ².

    Ridge is the posterior mean with weights of variance σ² and noise of variance σ²α. Its variance,
    in a form that is never negative, is

    .. math::
        v(x) = 1 - \phi^\top \phi + \alpha\, \psi^\top A^{-1} \psi + \alpha / S,
        \qquad \psi = \phi - \bar\phi, \quad A = \Phi^\top H \Phi + \alpha I

    with S the sum of the sample weights and :math:`\bar\phi` the weighted mean of the rows' φ. An
    intercept that is not penalised has a flat prior: H then centres the rows, and α/S is what
    remains unknown of their mean. Without one, H = I, ψ = φ and the last term is absent. The
    shortfall of φᵀφ from 1 = k(x, x) is the share of cells with no training data. The variance of a
    new y is σ² (v + α); for σ² see :func:`signal_variance`.

    The Cholesky factor of size min(C, N) is made once and serves all calls. Above ``dense_size``
    there is none and each call runs Lanczos, for blocks of new rows at once; the values are then
    too large by a factor of at most 1 + 1e-6.
    """

    def __init__(
        self, operator: Operator, alpha: float, *, dense_size: int = settings.VARIANCE_DENSE_SIZE
    ) -> None:
        self._operator, self._alpha = operator, alpha
        self._mean: FloatArray = np.zeros(int(operator.n_cells[-1]))
        if operator.centre:
            sums = operator.scatter(operator.sample_weight[:, None])[:, 0]
            self._mean = sums / operator.total_weight
        self.factor = Factor(operator, alpha) if operator.size <= dense_size else None
        self._cells: CellVariance | None = None
        total = operator.total_weight if operator.centre else np.inf
        self._of_mean = alpha / total
        if self.factor is not None and self.factor.primal:
            self._cells = CellVariance(self.factor.L, self._mean, alpha, total)

    def __call__(self, Phi_new: sparse.csr_matrix) -> FloatArray:
        """Variance of each row of ``Phi_new`` (n, C), of shape (n,)."""
        if self._cells is not None:
            return self._cells(Phi_new)
        squares = _squares(Phi_new)
        centred = squares - 2.0 * (Phi_new @ self._mean) + self._mean @ self._mean
        # No eigenvalue of ΦᵀHΦ exceeds S. This bounds the variance below, whatever the rounding.
        share = self._alpha / (self._operator.total_weight + self._alpha)
        least = share * np.maximum(centred, 0.0)
        for s in panels(squares.size, self._operator.n_rows):
            cross = self._cross(Phi_new[s])
            if self.factor is not None:
                centred[s] -= self.factor.squares(cross)
            else:
                centred[s] -= np.einsum("nk,nk->k", cross, self._solved(cross))
        missing = np.maximum(1.0 - squares, 0.0) + self._of_mean
        result: FloatArray = missing + np.maximum(centred, least)
        return result

    def covariance(self, Phi_new: sparse.csr_matrix) -> FloatArray:
        """Joint covariance of f at the rows of ``Phi_new`` (n, C), of shape (n, n).

        The shortfall of φᵀφ from 1 is independent between rows.
        """
        if self._cells is not None:
            return self._cells.covariance(Phi_new)
        cross, along = self._cross(Phi_new), Phi_new @ self._mean
        cov: FloatArray = (Phi_new @ Phi_new.T).toarray() - cross.T @ self._solved(cross)
        cov += self._mean @ self._mean - along - along[:, None]
        cov = 0.5 * (cov + cov.T) + self._of_mean
        cov.flat[:: cov.shape[0] + 1] += np.maximum(1.0 - _squares(Phi_new), 0.0)
        return cov

    def _cross(self, Phi_new: sparse.csr_matrix) -> FloatArray:
        """Columns k = HΦψ of all new rows, (N, n)."""
        operator = self._operator
        of_mean = operator.root_weight[:, None] * operator.gather(self._mean[:, None])
        return operator.centred(operator.kernel_with(Phi_new) - of_mean)

    def _solved(self, cross: FloatArray) -> FloatArray:
        """(K + αI)⁻¹ applied to columns."""
        if self.factor is not None:
            return self.factor.solve(cross)
        how = np.array([self._alpha]), settings.VARIANCE_TOL
        parts = [cross[:, b : b + 8] for b in range(0, cross.shape[1], 8)]
        return np.concatenate([krylov(self._operator, V, *how).solution[:, :, 0] for V in parts]).T


class Fit(NamedTuple):
    """Weights (C, T), intercept (T,) and dual coefficients a = G y (N, T), of scaled rows."""

    coef: FloatArray
    intercept: FloatArray
    dual: FloatArray


def solve(
    operator: Operator,
    Y: FloatArray,
    alpha: float,
    *,
    dense_size: int = settings.FIT_DENSE_SIZE,
    tol: float = settings.GRADIENT_TOL,
) -> Fit:
    r"""Minimise :math:`\sum_i s_i (y_i - b - w^\top \phi_i)^2 + \alpha \lVert w \rVert^2`.

    By a Cholesky factor of size min(C, N) up to ``dense_size``, beyond it by conjugate gradients to
    a relative residual of ``tol``.
    """
    target, mean = centred_targets(operator, Y)
    if operator.size <= dense_size:
        dual = Factor(operator, alpha).solve(target)
    else:
        dual = gradient_dual(operator, target, alpha, tol)
    return Fit(*weights(operator, dual, mean), dual)


def log_det(
    operator: Operator, alpha: float, *, dense_size: int = settings.LOG_DET_DENSE_SIZE
) -> float:
    """``ln det(K + αI)`` at one level; by random vectors where min(C, N) exceeds ``dense_size``."""
    if operator.size <= dense_size:
        return Factor(operator, alpha).log_det()
    how = settings.ONE_FIT_PROBE_TOL, np.random.default_rng(0), settings.FIT_PROBES
    probes = Probes(operator, np.array([alpha]), *how)
    return float(probes.log_det(0)[0][0])


def standard_loo_errors(
    operator: Operator, Y: FloatArray, alpha: float, variance: PredictiveVariance
) -> FloatArray:
    r"""Errors :math:`|y_i - \hat y_{-i}(x_i)|` over :math:`\sqrt{v_{-i}(x_i) + \alpha}`, (N, T).

    With G the inverse of the kernel matrix plus αI, less the intercept's share, this is
    :math:`|(G y)_i| / \sqrt{G_{ii} + (s_i - 1)\, \alpha G_{ii}^2}`; a row of weight s is left out
    with all its copies. The factor of ``variance`` is used.
    """
    factor = variance.factor
    assert factor is not None
    dual = factor.solve(centred_targets(operator, Y)[0])
    diagonal = factor.inverse_diagonal()
    if operator.centre:
        diagonal = diagonal - operator.mean_direction**2 / alpha
    diagonal = np.maximum(diagonal, 1.0 / (operator.total_weight + alpha))
    square = diagonal * (1.0 + alpha * (operator.sample_weight - 1.0) * diagonal)
    errors: FloatArray = np.abs(dual) / np.sqrt(square)[:, None]
    return errors
