"""One ridge fit at one alpha: weights, intercept, and what the error bars need."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from mondrian_kernel.partition.trees import FloatArray
from mondrian_kernel.ridge.dense import dense_features, kernel_matrix
from mondrian_kernel.ridge.design import Design
from mondrian_kernel.ridge.lanczos import krylov

DENSE_SIZE = 8000
_TOL, _PROBE_TOL = 1e-6, 1e-2
_LANES = 8


class Fit(NamedTuple):
    """Weights (C, T), intercept (T,) and dual coefficients a = G y (N, T), of scaled rows.

    ``log_det`` is ln det(K + αI), exact where the solver is.
    """

    coef: FloatArray
    intercept: FloatArray
    dual: FloatArray
    log_det: float


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
    small = min(design.n_rows, int(design.n_cells[0])) <= DENSE_SIZE
    dual, log_det = (_dense_dual if small else _krylov_dual)(design, target, alpha)
    return Fit(*weights(design, dual, mean), dual, log_det)


def weights(
    design: Design, dual: FloatArray, mean: FloatArray, level: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Weights and intercepts of dual coefficients (N, k) to targets with these means, at a level.

    The weight of a coarser cell is the sum over the finest ones in it.
    """
    groups, n_cells = design.groups[:, level], int(design.n_cells[level])
    one = np.ones(groups.size)
    join = sparse.csr_matrix((one, (groups, np.arange(groups.size))), (n_cells, groups.size))
    coef: FloatArray = np.asarray(join @ design.coef(dual))
    if not design.centre:
        return coef, mean
    sums = np.asarray(join @ design.scatter(design.root_weight[:, None])[:, 0])
    return coef, mean - sums @ coef / design.total_weight


def _dense_dual(design: Design, target: FloatArray, alpha: float) -> tuple[FloatArray, float]:
    primal = design.n_cells[0] < design.n_rows
    Phi = dense_features(design) if primal else None
    A = kernel_matrix(design) if Phi is None else Phi.T @ Phi
    A.flat[:: A.shape[0] + 1] += alpha
    factor = linalg.cho_factor(A, lower=True, overwrite_a=True)
    log_det = 2.0 * float(np.log(np.diag(factor[0])).sum())
    if Phi is None:
        return linalg.cho_solve(factor, target), log_det
    dual = (target - Phi @ linalg.cho_solve(factor, Phi.T @ target)) / alpha
    return dual, log_det + (design.n_rows - A.shape[0]) * float(np.log(alpha))


def _krylov_dual(design: Design, target: FloatArray, alpha: float) -> tuple[FloatArray, float]:
    """Random vectors for the determinant fill up the lanes that a product has anyway."""
    n_rows, n_outputs = target.shape
    n_probes = _LANES - n_outputs % _LANES
    probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(n_rows, n_probes))
    starts = np.hstack([target, design.centred(probes)])
    tol = np.repeat([_TOL, _PROBE_TOL], [n_outputs, n_probes])
    shift = np.array([alpha])
    Q = krylov(design, starts, shift, tol)
    dual = np.stack([Q.solve(t, shift)[:, 0] for t in range(n_outputs)], axis=1)
    logs = [Q.log_quadratic(n_outputs + k, shift)[0] for k in range(n_probes)]
    return dual, float(np.mean(logs) + design.centre * np.log(alpha))
