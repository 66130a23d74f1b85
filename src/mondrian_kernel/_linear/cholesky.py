"""Ridge by dense factors of size min(C, N), exactly; and the scores that every solver shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from threadpoolctl import threadpool_limits

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.operator import Operator
from mondrian_kernel._typing import FloatArray

LOG_2PI = float(np.log(2 * np.pi))


class Scores(NamedTuple):
    r"""Scores of ridge fits by the names they have in a path, each of shape (n_alphas,).

    With K the (centred) kernel matrix, :math:`G = (K + \alpha I)^{-1}` and :math:`a = G y`:
    ``train_error`` is the mean of :math:`(\alpha a_i)^2`; ``loo_error`` the mean squared
    leave-one-out residual, :math:`a_i / G_{ii}`; ``log_marginal_likelihood_paper`` is
    :math:`\ln N(y; 0, K + \alpha I)`; ``log_marginal_likelihood`` the maximum over s of
    :math:`\ln N(y; 0, s (K + \alpha I))`. The fields that end in ``_std`` are standard errors where
    the diagonal and the determinant of G were estimated, else 0.
    """

    train_error: FloatArray
    loo_error: FloatArray
    loo_error_std: FloatArray
    log_marginal_likelihood: FloatArray
    log_marginal_likelihood_paper: FloatArray
    log_marginal_likelihood_std: FloatArray


def centred_targets(operator: Operator, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return S^½ (Y - mean), and the mean (T,); it is 0 where there is no intercept."""
    mean = np.zeros(Y.shape[1])
    if operator.centre:
        mean = np.average(Y, axis=0, weights=operator.sample_weight)
    return (Y - mean) * operator.root_weight[:, None], mean


def weights(
    operator: Operator, dual: FloatArray, mean: FloatArray, level: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Weights (C_l, k) and intercepts (k,) of dual coefficients (N, k), at a level.

    ``mean`` (k,) was taken off the targets. The weight of a coarser cell is the sum over the
    finest cells in it.
    """
    coef = operator.coarsen(operator.coef(dual), level)
    if not operator.centre:
        return coef, mean
    sums = operator.coarsen(operator.scatter(operator.sample_weight[:, None]), level)[:, 0]
    return coef, mean - sums @ coef / operator.total_weight


def signal_variance(operator: Operator, target: FloatArray, dual: FloatArray) -> FloatArray:
    """Variance σ² under which the targets are likeliest, ``yᵀ(K + αI)⁻¹y / n``, of shape (T,).

    Targets (N, T) scaled and centred, dual coefficients (N, T). n is the sum of the sample weights,
    less one for an intercept.
    """
    n = operator.total_weight - operator.centre
    quadratic: FloatArray = np.einsum("nt,nt->t", target, dual)
    return np.maximum(quadratic, 0.0) / n if n > 0 else np.zeros_like(quadratic)


def evidences(
    quadratic: FloatArray, log_det: FloatArray, alphas: FloatArray, rows: Any
) -> tuple[FloatArray, FloatArray]:
    """Log marginal likelihoods (A,) from ``yᵀGy`` (T, A) and ``ln det(K + αI)`` (A,).

    First with the signal variance at its best, then with variance 1. Of the ``rows`` it needs
    ``n_rows``, ``total_weight`` and ``centre``; a row of weight s stands for s rows. With an
    intercept the likelihood is the restricted one: the direction of the mean is left out (a flat
    prior on the intercept).
    """
    n = rows.total_weight - rows.centre
    log_det = log_det + (n - rows.n_rows) * np.log(alphas)
    paper = -0.5 * (quadratic + log_det + n * LOG_2PI)
    # One row and an intercept leave nothing to profile.
    variance = np.maximum(quadratic / (n if n > 0 else np.inf), np.finfo(float).tiny)
    profiled = -0.5 * (n * np.log(variance) + log_det + n * (LOG_2PI + 1))
    return profiled.sum(axis=0), paper.sum(axis=0)


class Inverse(NamedTuple):
    """Of G = (K + αI)⁻¹ at each alpha the diagonal (N, A), and ``ln det(K + αI)`` (A,).

    Where they are estimated, ``log_det_std`` (A,) is a standard error, and ``without`` are
    diagonals without one random vector each.
    """

    diagonal: FloatArray
    log_det: FloatArray
    log_det_std: FloatArray | float = 0.0
    without: tuple[FloatArray, ...] = ()


def ridge_scores(
    operator: Operator, Y: FloatArray, dual: FloatArray, alphas: FloatArray, inverse: Inverse | None
) -> Scores:
    """Scores from targets (N, T) and dual coefficients (N, T, A); NaN what needs the inverse.

    A row counts as often as its weight says; leaving it out leaves out all its copies.
    """
    n_outputs = Y.shape[1]

    def mean_square(residual: FloatArray) -> FloatArray:
        squares = np.einsum("nta,nta->a", residual, residual)
        return np.asarray(squares / (operator.total_weight * n_outputs))

    def loo_error(diagonal: FloatArray) -> FloatArray:
        rest = diagonal * alphas - operator.centre * operator.mean_direction[:, None] ** 2
        return mean_square(dual * alphas / np.maximum(rest, np.finfo(float).eps)[:, None, :])

    train, zero = mean_square(dual * alphas), np.zeros_like(alphas)
    if inverse is None:
        return Scores(train, *[zero + np.nan] * 5)
    diagonal, log_det, log_det_std, without = inverse
    loo_std = zero
    if without:  # the jackknife's
        others = np.array([loo_error(other) for other in without])
        loo_std = np.sqrt(len(without) - 1.0) * others.std(axis=0)
    both = evidences(np.einsum("nt,nta->ta", Y, dual), log_det, alphas, operator)
    std = zero + 0.5 * n_outputs * log_det_std
    return Scores(train, loo_error(diagonal), loo_std, *both, std)


def lower_factor(A: FloatArray, alpha: float) -> FloatArray:
    """Return L with LLᵀ = A, a matrix to which the penalty ``alpha`` was added; A is changed."""
    try:
        L: FloatArray = linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        raise ValueError(
            f"alpha={alpha:g} is too small for these rows: rounding errors make their kernel "
            "matrix indefinite. Raise alpha, or divide sample_weight by its mean."
        ) from None
    return L


class Factor:
    """Cholesky factor of the smaller of ΦᵀΦ + αI and ΦΦᵀ + αI, features weighted and centred.

    ``primal`` tells whether it is the former. ``L`` is the lower factor.
    """

    def __init__(self, operator: Operator, alpha: float, gram: FloatArray | None = None) -> None:
        self._operator, self._alpha = operator, alpha
        self.primal = _is_primal(operator)
        A = _smaller_gram(operator) if gram is None else gram.copy()
        A.flat[:: A.shape[0] + 1] += alpha
        self.L = lower_factor(A, alpha)

    def solve(self, V: FloatArray) -> FloatArray:
        """Return (K + αI)⁻¹ V for V (N, k)."""
        if not self.primal:
            dual: FloatArray = linalg.cho_solve((self.L, True), V)
            return dual
        Phi = self._operator.dense_features()
        rest: FloatArray = V - Phi @ linalg.cho_solve((self.L, True), Phi.T @ V)
        return rest / self._alpha

    def log_det(self) -> float:
        """Return ln det(K + αI)."""
        rest = (self._operator.n_rows - self.L.shape[0]) * np.log(self._alpha)
        return float(2.0 * np.log(np.diag(self.L)).sum() + rest)

    def inverse_diagonal(self) -> FloatArray:
        """Return the diagonal of (K + αI)⁻¹, (N,)."""
        if self.primal:
            Phi = self._operator.dense_features()
            return (1.0 - self.squares(Phi.T)) / self._alpha
        inverse, _ = linalg.lapack.dpotri(self.L, lower=1)
        return np.diag(inverse).copy()

    def squares(self, V: FloatArray) -> FloatArray:
        """Squared norms of the columns of L⁻¹V."""
        Z = linalg.solve_triangular(self.L, V, lower=True, check_finite=False)
        squares: FloatArray = np.einsum("ij,ij->j", Z, Z)
        return squares


def _is_primal(operator: Operator) -> bool:
    return bool(operator.n_cells[-1] < operator.n_rows)


def _smaller_gram(operator: Operator) -> FloatArray:
    """Return ΦᵀΦ or K, whichever is smaller."""
    if not _is_primal(operator):
        return operator.kernel_matrix()
    Phi = operator.dense_features()
    A: FloatArray = Phi.T @ Phi
    return A


def dense_cost(n_rows: int, n_cells: int) -> float:
    """Floating-point operations of a level and its scores, roughly."""
    return min(25.0 * n_rows**3, 25.0 * n_cells**3 + 4.0 * n_rows * n_cells**2)


def spectra(operator: Operator) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Values and U of K = U diag(values) Uᵀ at each level, from the smaller of K and ΦᵀΦ.

    ΦᵀΦ is computed once, for the finest level where it is the smaller one. Its rows and columns are
    summed for the coarser levels.
    """
    few = np.flatnonzero(operator.n_cells < operator.n_rows)
    if few.size:
        fine = operator.up_to(int(few[-1]))
        A = _smaller_gram(fine)
    for level in range(operator.n_levels):
        if level not in few:
            values, U = _eigh(operator.level(level).kernel_matrix())
            yield np.maximum(values, 0.0), U
            continue
        joined = fine.coarsen(fine.coarsen(A, level).T, level)
        values, V = _eigh(joined)
        keep = values > operator.total_weight * np.finfo(float).eps * values.size
        values = values[keep]
        U = fine.gather(fine.refine(V[:, keep] / np.sqrt(values), level))
        U *= operator.root_weight[:, None]
        yield values, fine.centred(U)


def _few_threads(size: int) -> Any:
    """Let a small matrix have one thread: more would only wait for each other."""
    return threadpool_limits(1 if size <= settings.ONE_THREAD_SIZE else None, user_api="blas")


def _eigh(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    with _few_threads(A.shape[0]):
        try:
            values, V = linalg.eigh(A, driver="evd")
        except linalg.LinAlgError:  # the fastest driver, which may fail
            values, V = linalg.eigh(A, driver="ev")
    return values, V


def dense_scores(
    operator: Operator, Y: FloatArray, alphas: FloatArray
) -> list[tuple[Scores, FloatArray]]:
    """Scores and dual coefficients (N, T, A) of every level, for every alpha, exactly.

    Y (N, T) is scaled and centred. One eigendecomposition serves many alphas; a few are faster by
    a Cholesky factor each.
    """
    if alphas.size <= settings.FEW_ALPHAS and operator.n_rows <= operator.n_cells[0]:
        solved = (by_cholesky(operator.level(k), Y, alphas) for k in range(operator.n_levels))
    else:
        solved = (_by_spectrum(values, U, Y, alphas) for values, U in spectra(operator))
    return [(ridge_scores(operator, Y, dual, alphas, of_G), dual) for dual, of_G in solved]


Solved = tuple[FloatArray, Inverse]
"""Of one level ``G Y`` (N, T, A), and G."""


def _by_spectrum(values: FloatArray, U: FloatArray, Y: FloatArray, alphas: FloatArray) -> Solved:
    n_rest = U.shape[0] - values.size
    shrink = 1.0 / (values[:, None] + alphas) - 1.0 / alphas  # on the span of U; 1/α elsewhere
    UY = U.T @ Y
    dual = np.einsum("nr,rt,ra->nta", U, UY, shrink, optimize=True) + Y[:, :, None] / alphas
    diagonal = (U * U) @ shrink + 1.0 / alphas
    log_det = np.log(values[:, None] + alphas).sum(axis=0) + n_rest * np.log(alphas)
    return dual, Inverse(diagonal, log_det)


def by_cholesky(operator: Operator, Y: FloatArray, alphas: FloatArray) -> Solved:
    """Solve for one alpha after the other."""
    gram, parts = _smaller_gram(operator), []
    with _few_threads(gram.shape[0]):
        for alpha in alphas.tolist():
            factor = Factor(operator, alpha, gram)
            parts.append((factor.solve(Y), factor.inverse_diagonal(), factor.log_det()))
    dual, diagonal, log_det = zip(*parts, strict=True)
    return np.stack(dual, axis=2), Inverse(np.stack(diagonal, axis=1), np.array(log_det))
