"""Targets, weights and scores of ridge regression: formulas that every solver shares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mondrian_kernel._linear.operator import Operator
from mondrian_kernel._typing import FloatArray

LOG_2PI = float(np.log(2 * np.pi))


class Scores(NamedTuple):
    r"""Scores of ridge fits, each of shape (n_alphas,) or (n_lifetimes, n_alphas).

    With K the (centred) kernel matrix, :math:`G = (K + \alpha I)^{-1}` and :math:`a = G y`:
    ``train_error`` is the mean of :math:`(\alpha a_i)^2`; ``loo_error`` the mean squared
    leave-one-out residual, :math:`a_i / G_{ii}`; ``evidence_paper`` is
    :math:`\ln N(y; 0, K + \alpha I)`; ``evidence`` the maximum over s of
    :math:`\ln N(y; 0, s (K + \alpha I))`. ``loo_std`` and ``evidence_std``, which is for both,
    are standard errors where the diagonal and the determinant of G were estimated, else 0.
    """

    train_error: FloatArray
    loo_error: FloatArray
    loo_std: FloatArray
    evidence: FloatArray
    evidence_paper: FloatArray
    evidence_std: FloatArray


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


def train_error(operator: Operator, dual: FloatArray, alphas: FloatArray) -> FloatArray:
    """Training error (A,) from a (N, T, A); a row counts as often as its weight says."""
    residual = dual * alphas
    error: FloatArray = np.einsum("nta,nta->a", residual, residual)
    error /= operator.total_weight * dual.shape[1]
    return error


def loo_error(
    operator: Operator, dual: FloatArray, inverse_diagonal: FloatArray, alphas: FloatArray
) -> FloatArray:
    """Leave-one-out error (A,) from a (N, T, A) and diag G (N, A).

    A row counts as often as its weight says; leaving it out leaves out all its copies.
    """
    rest = inverse_diagonal * alphas
    if operator.centre:
        rest = rest - operator.mean_direction[:, None] ** 2
    left_out = dual * alphas / np.maximum(rest, np.finfo(float).eps)[:, None, :]
    error: FloatArray = np.einsum("nta,nta->a", left_out, left_out)
    error /= operator.total_weight * dual.shape[1]
    return error


def evidences(
    quadratic: FloatArray,
    log_det: FloatArray,
    alphas: FloatArray,
    *,
    n_rows: int,
    total_weight: float,
    centre: bool,
) -> tuple[FloatArray, FloatArray]:
    """Log marginal likelihoods (A,) from ``yᵀGy`` (T, A) and ``ln det(K + αI)`` (A,).

    First with the signal variance at its best, then with variance 1. A row of weight s stands for s
    rows. With an intercept the likelihood is the restricted one: the direction of the mean is left
    out (a flat prior on the intercept).
    """
    n = total_weight - centre
    log_det = log_det + (n - n_rows) * np.log(alphas)
    paper = -0.5 * (quadratic + log_det + n * LOG_2PI)
    # One row and an intercept leave nothing to profile.
    variance = np.maximum(quadratic / (n if n > 0 else np.inf), np.finfo(float).tiny)
    profiled = -0.5 * (n * np.log(variance) + log_det + n * (LOG_2PI + 1))
    return profiled.sum(axis=0), paper.sum(axis=0)


def exact_scores(
    operator: Operator,
    Y: FloatArray,
    dual: FloatArray,
    diagonal: FloatArray,
    log_det: FloatArray,
    alphas: FloatArray,
) -> Scores:
    """Scores from targets (N, T), dual (N, T, A), diag G (N, A) and ``ln det(K + αI)`` (A,)."""
    exact = np.zeros_like(alphas)
    both = likelihoods(operator, Y, dual, log_det, alphas)
    loo = loo_error(operator, dual, diagonal, alphas)
    return Scores(train_error(operator, dual, alphas), loo, exact, *both, exact)


def likelihoods(
    operator: Operator, Y: FloatArray, dual: FloatArray, log_det: FloatArray, alphas: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """:func:`evidences` of targets (N, T) and dual coefficients (N, T, A)."""
    quadratic = np.einsum("nt,nta->ta", Y, dual)
    return evidences(
        quadratic,
        log_det,
        alphas,
        n_rows=operator.n_rows,
        total_weight=operator.total_weight,
        centre=operator.centre,
    )
