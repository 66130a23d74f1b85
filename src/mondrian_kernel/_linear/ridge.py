"""One ridge fit at one alpha: weights, log-determinant, leave-one-out errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mondrian_kernel._linear.cholesky import Factor
from mondrian_kernel._linear.conjugate_gradients import gradient_dual
from mondrian_kernel._linear.lanczos import Probes, krylov
from mondrian_kernel._linear.operator import Operator
from mondrian_kernel._linear.scores import centred_targets, weights
from mondrian_kernel._linear.variance import PredictiveVariance
from mondrian_kernel._settings import (
    FIT_DENSE_SIZE,
    FIT_PROBES,
    GRADIENT_TOL,
    LOG_DET_DENSE_SIZE,
    ONE_FIT_PROBE_TOL,
)
from mondrian_kernel._typing import FloatArray


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
    dense_size: int = FIT_DENSE_SIZE,
    tol: float = GRADIENT_TOL,
) -> Fit:
    r"""Minimise :math:`\sum_i s_i (y_i - b - w^\top \phi_i)^2 + \alpha \lVert w \rVert^2`.

    Parameters
    ----------
    operator : Operator
        The rows, at one level.
    Y : ndarray of shape (N, T)
        Targets.
    alpha : float
        Penalty α.
    dense_size : int
        Largest Cholesky factor, of size min(C, N); conjugate gradients beyond.
    tol : float
        Relative residual at which conjugate gradients stop.
    """
    target, mean = centred_targets(operator, Y)
    if operator.size <= dense_size:
        dual = Factor(operator, alpha).solve(target)
    else:
        dual = gradient_dual(operator, target, alpha, tol)
    return Fit(*weights(operator, dual, mean), dual)


def log_det(operator: Operator, alpha: float, *, dense_size: int = LOG_DET_DENSE_SIZE) -> float:
    """``ln det(K + αI)`` at one level; by random vectors where min(C, N) exceeds ``dense_size``."""
    if operator.size <= dense_size:
        return Factor(operator, alpha).log_det()
    rng, shape = np.random.default_rng(0), (operator.n_rows, FIT_PROBES)
    signs: FloatArray = rng.choice([-1.0, 1.0], size=shape)
    shift = np.array([alpha])
    found = krylov(operator, operator.centred(signs), shift, ONE_FIT_PROBE_TOL)
    logs = [found.log_quadratic(k, shift)[0] for k in range(FIT_PROBES)]
    return float(np.mean(logs) + operator.centre * np.log(alpha))


def standard_loo_errors(
    operator: Operator, Y: FloatArray, alpha: float, variance: PredictiveVariance
) -> FloatArray:
    r"""Errors :math:`|y_i - \hat y_{-i}(x_i)|` over :math:`\sqrt{v_{-i}(x_i) + \alpha}`, (N, T).

    With G the inverse of the kernel matrix plus αI, less the intercept's share, this is
    :math:`|(G y)_i| / \sqrt{G_{ii} + (s_i - 1)\, \alpha G_{ii}^2}`; a row of weight s is left out
    with all its copies. The diagonal is exact where a dense factor exists and estimated with
    random vectors beyond.
    """
    dual = solve(operator, Y, alpha).dual
    diagonal = variance.inverse_diagonal()
    if diagonal is None:
        rng = np.random.default_rng([0, 1])
        probes = Probes(operator, np.array([alpha]), ONE_FIT_PROBE_TOL, rng)
        diagonal = probes.diagonal(0)[0][:, 0]
    if operator.centre:
        diagonal = diagonal - operator.mean_direction**2 / alpha
    floor = 1.0 / (operator.total_weight + alpha)
    diagonal = np.maximum(diagonal, floor)
    square = diagonal * (1.0 + alpha * (operator.sample_weight - 1.0) * diagonal)
    errors: FloatArray = np.abs(dual) / np.sqrt(square)[:, None]
    return errors
