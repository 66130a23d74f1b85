r"""Predictive variance of ridge regression, in kernel form and never negative.

Ridge is the posterior mean of :math:`y = b + w^\top\phi(x) + \varepsilon` with weights of
variance σ² and noise of variance σ²α. A new row has features with :math:`\phi^\top\phi \le 1 =
k(x, x)`: what is missing to 1 belongs to cells without rows, of which the data say nothing.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, sparse

from mondrian_kernel._linear.dense import cholesky, dense_features
from mondrian_kernel._linear.design import Design
from mondrian_kernel._linear.krylov import MAX_STEPS, krylov
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray

DENSE_SIZE = 10_000  # 800 MB
_BLOCK = 2**24  # numbers held at once for a block of new rows, 128 MB
_RTOL = 1e-6


class PredictiveVariance:
    r"""Variance of f(x) = b + wᵀφ at new rows after ridge regression, in units of σ².

    .. math::
        v(x) = 1 - \phi^\top \phi + \alpha\, \psi^\top A^{-1} \psi + \alpha / S,
        \qquad \psi = \phi - \bar\phi, \quad A = \Phi^\top H \Phi + \alpha I

    with S the sum of the sample weights and :math:`\bar\phi` the weighted mean of the rows' φ. An
    intercept that is not penalised has a flat prior: H then centres the rows, and α/S is what
    remains unknown of their mean. Without one, H = I, ψ = φ and the last term is absent. The
    variance of a new y is σ² (v + α); for σ² see :func:`signal_variance`.

    The Cholesky factor of size min(C, N) is made once and serves all calls. Above ``DENSE_SIZE``
    there is none and each call runs conjugate gradients, for blocks of new rows at once; the
    values are then too large by a factor of at most 1 + 1e-6.

    Parameters
    ----------
    design : Design
        The fitted rows, at one level.
    alpha : float
        Penalty α.
    """

    def __init__(self, design: Design, alpha: float) -> None:
        self._design, self._alpha = design, alpha
        self._mean: FloatArray = np.zeros(int(design.n_cells[0]))
        if design.centre:
            self._mean = design.scatter(design.root_weight[:, None])[:, 0] / design.total_weight
        n_rows, n_cells = design.n_rows, self._mean.size
        self._primal = n_cells < n_rows
        self._factor: FloatArray | None = None
        if min(n_rows, n_cells) <= DENSE_SIZE:
            self._factor = cholesky(design, alpha)
        if self._factor is None or not self._primal:
            self._cross_mean: FloatArray = design.gather(self._mean[:, None])[:, 0]

    def __call__(self, Phi_new: sparse.csr_matrix) -> FloatArray:
        """Variance of each row of ``Phi_new`` (n, C), of shape (n,)."""
        design, alpha = self._design, self._alpha
        squares = np.asarray(Phi_new.multiply(Phi_new).sum(axis=1)).ravel()
        missing = np.maximum(1.0 - squares, 0.0)
        if design.centre:
            missing += alpha / design.total_weight
        centred = squares - 2.0 * (Phi_new @ self._mean) + self._mean @ self._mean
        # No eigenvalue of ΦᵀHΦ exceeds S, whence a bound below that rounding must not cross.
        least = alpha / (design.total_weight + alpha) * np.maximum(centred, 0.0)

        step = max(1, _BLOCK // self._room(Phi_new))
        variance = np.empty(squares.size)
        for begin in range(0, squares.size, step):
            s = slice(begin, begin + step)
            variance[s] = self._known(Phi_new[s], missing[s], centred[s])
        result: FloatArray = missing + np.maximum(variance, least)
        return result

    def inverse_diagonal(self) -> FloatArray | None:
        """Diagonal of (K + αI)⁻¹ over the fitted rows, (N,); None where there is no factor."""
        if self._factor is None:
            return None
        if self._primal:
            Psi = dense_features(self._design)
            return (1.0 - _squares(self._factor, Psi.T)) / self._alpha
        inverse, _ = linalg.lapack.dpotri(self._factor, lower=1)
        return np.diag(inverse).copy()

    def covariance(self, Phi_new: sparse.csr_matrix) -> FloatArray:
        """Joint covariance of f at the rows of ``Phi_new`` (n, C), of shape (n, n).

        Two new rows share what their features share; what is missing to 1 is each row's own.
        """
        design, alpha = self._design, self._alpha
        squares = np.asarray(Phi_new.multiply(Phi_new).sum(axis=1)).ravel()
        Psi = Phi_new.toarray() - self._mean
        if self._factor is not None and self._primal:
            Z = linalg.solve_triangular(self._factor, Psi.T, lower=True, check_finite=False)
            cov: FloatArray = alpha * (Z.T @ Z)
        else:
            cross = self._cross(Phi_new)
            cov = Psi @ Psi.T - cross.T @ self._solved(cross)
        cov = 0.5 * (cov + cov.T)
        if design.centre:
            cov += alpha / design.total_weight
        cov.flat[:: cov.shape[0] + 1] += np.maximum(1.0 - squares, 0.0)
        return cov

    def _cross(self, Phi_new: sparse.csr_matrix) -> FloatArray:
        """Columns k = HΦψ of all new rows, (N, n)."""
        from mondrian_kernel._kernels.cells import values_where_matched

        design = self._design
        if self._in_each_tree(Phi_new):
            shape = Phi_new.shape[0], design.cells.shape[1]
            others, values = Phi_new.indices.reshape(shape), Phi_new.data.reshape(shape)
            cross = np.empty((design.n_rows, shape[0]))
            in_threads(
                lambda a, b: values_where_matched(design.cells, others, values, a, b, cross),
                design.n_rows, design.n_jobs, work=cross.size * shape[1] / 8,
            )  # fmt: skip
            cross *= design.scale[:, None]
        else:
            cross = design.gather(Phi_new.T.toarray())
        return design.centred(cross - self._cross_mean[:, None])

    def _in_each_tree(self, Phi_new: sparse.csr_matrix) -> bool:
        """Whether every row has a feature in every tree: not so far from the data."""
        return bool(np.all(np.diff(Phi_new.indptr) == self._design.cells.shape[1]))

    def _room(self, Phi_new: sparse.csr_matrix) -> int:
        """Numbers that a new row takes while its variance is computed."""
        if self._factor is not None and self._primal:
            return self._mean.size
        rows = self._design.n_rows
        return rows if self._in_each_tree(Phi_new) else rows + self._mean.size

    def _solved(self, cross: FloatArray) -> FloatArray:
        """(K + αI)⁻¹ applied to columns."""
        if self._factor is not None:
            solved: FloatArray = linalg.cho_solve((self._factor, True), cross)
            return solved
        shift = np.array([self._alpha])
        blocks = [
            krylov(self._design, cross[:, b : b + 8], shift, _RTOL).solution[:, :, 0]
            for b in range(0, cross.shape[1], 8)
        ]
        return np.concatenate(blocks).T

    def _known(
        self, Phi_new: sparse.csr_matrix, missing: FloatArray, centred: FloatArray
    ) -> FloatArray:
        """α ψᵀA⁻¹ψ, which is ψᵀψ - kᵀ(K + αI)⁻¹k with k = HΦψ in the rows' own space."""
        if self._factor is not None and self._primal:
            Psi = Phi_new.toarray() - self._mean
            return self._alpha * _squares(self._factor, Psi.T)
        cross = self._cross(Phi_new)
        if self._factor is not None:
            return centred - _squares(self._factor, cross)
        return _conjugate_gradients(self._design, self._alpha, cross, centred, missing)


def signal_variance(design: Design, target: FloatArray, dual: FloatArray) -> FloatArray:
    """Variance σ² under which the targets are likeliest, ``yᵀ(K + αI)⁻¹y / n``, of shape (T,).

    Targets (N, T) scaled and centred, dual coefficients (N, T). n is the sum of the sample weights,
    less one for an intercept.
    """
    n = design.total_weight - design.centre
    quadratic: FloatArray = np.einsum("nt,nt->t", target, dual)
    return np.maximum(quadratic, 0.0) / n if n > 0 else np.zeros_like(quadratic)


def _squares(L: FloatArray, V: FloatArray) -> FloatArray:
    """Squared norms of the columns of L⁻¹V."""
    Z = linalg.solve_triangular(L, V, lower=True, check_finite=False)
    squares: FloatArray = np.einsum("ij,ij->j", Z, Z)
    return squares


def _conjugate_gradients(
    design: Design, alpha: float, starts: FloatArray, total: FloatArray, missing: FloatArray
) -> FloatArray:
    r"""``total`` - kᵀ(K + αI)⁻¹k for every column k of ``starts``, from above.

    Each step takes its part off. What is left to take is at most :math:`\lVert r \rVert^2/\alpha`
    with r the residual: the end is where that is small beside the variance itself.
    """
    rest = total.copy()
    R, P = starts.copy(), starts.copy()
    rr = np.einsum("ij,ij->j", R, R)
    for _ in range(MAX_STEPS):
        if np.all(rr / alpha <= _RTOL * (missing + np.maximum(rest, 0.0))):
            break
        KP = design.gram(P) + alpha * P
        curvature = np.einsum("ij,ij->j", P, KP)
        length = rr / np.where(curvature > 0, curvature, np.inf)
        rest -= length * rr
        R -= length * KP
        rr_old, rr = rr, np.einsum("ij,ij->j", R, R)
        P *= rr / np.where(rr_old > 0, rr_old, np.inf)
        P += R
    return rest
