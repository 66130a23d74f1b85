"""What is known of a ridge fit at each (lifetime, alpha), and how it is put together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mondrian_kernel._linear.design import Design
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


def train_error(design: Design, dual: FloatArray, alphas: FloatArray) -> FloatArray:
    """Training error (A,) from a (N, T, A); a row counts as often as its weight says."""
    residual = dual * alphas
    error: FloatArray = np.einsum("nta,nta->a", residual, residual)
    error /= design.total_weight * dual.shape[1]
    return error


def loo_error(
    design: Design, dual: FloatArray, inverse_diagonal: FloatArray, alphas: FloatArray
) -> FloatArray:
    """Leave-one-out error (A,) from a (N, T, A) and diag G (N, A).

    A row counts as often as its weight says; leaving it out leaves out all its copies.
    """
    rest = inverse_diagonal * alphas
    if design.centre:
        rest = rest - design.mean_direction[:, None] ** 2
    left_out = dual * alphas / np.maximum(rest, np.finfo(float).tiny)[:, None, :]
    error: FloatArray = np.einsum("nta,nta->a", left_out, left_out)
    error /= design.total_weight * dual.shape[1]
    return error


def evidences(
    design: Design, quadratic: FloatArray, log_det: FloatArray, alphas: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log marginal likelihoods from ``yᵀGy`` (T, A) and ``ln det(K + αI)`` (A,) over the N rows.

    A row of weight s stands for s rows. With an intercept the likelihood is the restricted one:
    the direction of the mean is left out (a flat prior on the intercept).
    """
    n = design.total_weight - design.centre
    log_det = log_det + (n - design.n_rows) * np.log(alphas)
    paper = -0.5 * (quadratic + log_det + n * LOG_2PI)
    # One row and an intercept leave nothing to profile.
    variance = np.maximum(quadratic / (n if n > 0 else np.inf), np.finfo(float).tiny)
    profiled = -0.5 * (n * np.log(variance) + log_det + n * (LOG_2PI + 1))
    return profiled.sum(axis=0), paper.sum(axis=0)
