"""One ridge fit at one alpha: weights, intercept, and what the error bars need."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from mondrian_kernel.partition.trees import FloatArray
from mondrian_kernel.ridge.dense import dense_features, kernel_matrix
from mondrian_kernel.ridge.design import Design
from mondrian_kernel.ridge.lanczos import krylov

DENSE_SIZE = 16_000  # 2 GB
_TOL = 1e-10


class Fit(NamedTuple):
    """Weights (C, T), intercept (T,) and dual coefficients a = G y (N, T), of scaled rows."""

    coef: FloatArray
    intercept: FloatArray
    dual: FloatArray


def centred_targets(design: Design, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scaled targets, centred where there is an intercept, and what was taken off."""
    mean = np.zeros(Y.shape[1])
    if design.centre:
        mean = np.average(Y, axis=0, weights=design.sample_weight)
    return (Y - mean) * design.root_weight[:, None], mean


def solve(design: Design, Y: FloatArray, alpha: float) -> Fit:
    r"""Minimise :math:`\sum_i s_i (y_i - b - w^\top \phi_i)^2 + \alpha \lVert w \rVert^2`.

    For a design of one level; Y (N, T). Cholesky of size min(C, N) while that is small, Lanczos
    beyond.
    """
    target, mean = centred_targets(design, Y)
    if min(design.n_rows, int(design.n_cells[0])) <= DENSE_SIZE:
        dual = _dense_dual(design, target, alpha)
    else:
        Q = krylov(design, target, np.array([alpha]), _TOL)
        dual = np.stack([Q.solve(t, np.array([alpha]))[:, 0] for t in range(Y.shape[1])], axis=1)
    return Fit(*weights(design, dual, mean), dual)


def weights(design: Design, dual: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights and intercepts of dual coefficients (N, k) to targets with these means."""
    coef = design.coef(dual)
    if not design.centre:
        return coef, mean
    fitted = design.gather(coef) * design.root_weight[:, None]
    return coef, mean - fitted.sum(axis=0) / design.total_weight


def _dense_dual(design: Design, target: FloatArray, alpha: float) -> FloatArray:
    if design.n_rows <= design.n_cells[0]:
        K = kernel_matrix(design)
        K.flat[:: K.shape[0] + 1] += alpha
        dual: FloatArray = linalg.solve(K, target, assume_a="pos", overwrite_a=True)
        return dual
    Phi = dense_features(design)
    A = Phi.T @ Phi
    A.flat[:: A.shape[0] + 1] += alpha
    w = linalg.solve(A, Phi.T @ target, assume_a="pos", overwrite_a=True)
    return (target - Phi @ w) / alpha
