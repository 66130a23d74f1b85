"""One ridge fit at one alpha: weights, intercept, dual coefficients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from mondrian_kernel._linear.dense import cholesky, dense_features
from mondrian_kernel._linear.design import Design
from mondrian_kernel._linear.preconditioned import preconditioned_dual
from mondrian_kernel._typing import FloatArray

DENSE_SIZE = 2000


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

    For a design of one level; Y (N, T). Cholesky of size min(C, N) while that is small,
    conjugate gradients beyond.
    """
    target, mean = centred_targets(design, Y)
    small = min(design.n_rows, int(design.n_cells[0])) <= DENSE_SIZE
    dual = (_dense_dual if small else preconditioned_dual)(design, target, alpha)
    return Fit(*weights(design, dual, mean), dual)


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


def _dense_dual(design: Design, target: FloatArray, alpha: float) -> FloatArray:
    factor = cholesky(design, alpha), True
    if factor[0].shape[0] == design.n_rows:
        dual: FloatArray = linalg.cho_solve(factor, target)
        return dual
    Phi = dense_features(design)
    primal: FloatArray = (target - Phi @ linalg.cho_solve(factor, Phi.T @ target)) / alpha
    return primal
