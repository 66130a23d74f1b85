r"""Ridge for many alphas and many lifetimes at once, without a matrix.

One Krylov space of K serves every shift :math:`K + \alpha I`, so all alphas cost one; and because
coarser cells are unions of finer ones, one pass over the table of cells multiplies the kernel
matrices of *all* lifetimes, each with its own vectors (:meth:`Design.gram`).
"""

from __future__ import annotations

import numpy as np

from mondrian_kernel._linear.design import Design
from mondrian_kernel._linear.krylov import MAX_STEPS, krylov
from mondrian_kernel._linear.probes import EXACT_ROWS, Probes, inverse_of
from mondrian_kernel._linear.scores import Scores, evidences, loo_error, train_error
from mondrian_kernel._typing import FloatArray

# Few random vectors are noisier than what further steps would mend.
_PROBE_TOL = 0.3


def lanczos_cost(design: Design, alphas: FloatArray) -> float:
    """Time of a level without random vectors, roughly, in the units of ``dense_cost``."""
    steps = min(MAX_STEPS, 0.2 * np.sqrt(design.total_weight / alphas.min()))
    return float(6.5 * design.cells.size * steps)


def lanczos_scores(
    design: Design,
    Y: FloatArray,
    alphas: FloatArray,
    tol: float,
    rng: np.random.Generator | None,
) -> list[tuple[Scores, FloatArray]]:
    """Scores and dual coefficients (N, T, A) of every level, for every alpha.

    Y (N, T) is scaled and centred. Training errors and quadratic forms are as exact as ``tol``, and
    so are determinants and diagonals of few rows; of many rows these are estimated with random
    vectors. Without ``rng`` what needs them, half of the time, is left out and NaN.
    """
    n_outputs = Y.shape[1]
    solves = krylov(design, np.tile(Y, design.n_levels), alphas, tol)
    solves.warn_of_residuals(alphas, tol)
    few = design.n_rows <= EXACT_ROWS
    probes = None
    if rng is not None and not few:
        probes = Probes(design, alphas, max(tol, _PROBE_TOL), rng)
    out = []
    for level in range(design.n_levels):
        columns = slice(level * n_outputs, (level + 1) * n_outputs)
        dual = np.ascontiguousarray(solves.solution[columns].transpose(1, 0, 2))
        loo = loo_std = log_det = log_det_std = np.full(alphas.size, np.nan)
        if probes is not None:
            log_det, log_det_std = probes.log_det(level)
            diagonal, without = probes.diagonal(level)
            loo = loo_error(design, dual, diagonal, alphas)
            others = np.array([loo_error(design, dual, other, alphas) for other in without])
            loo_std = np.sqrt(len(others) - 1.0) * others.std(axis=0)  # the jackknife's
        elif rng is not None:
            diagonal, log_det = inverse_of(design.level(level), alphas, tol)
            loo = loo_error(design, dual, diagonal, alphas)
            loo_std = log_det_std = np.zeros(alphas.size)
        quadratic = np.einsum("nt,nta->ta", Y, dual)
        scores = Scores(
            train_error(design, dual, alphas),
            loo,
            loo_std,
            *evidences(design, quadratic, log_det, alphas),
            0.5 * n_outputs * log_det_std,
        )
        out.append((scores, dual))
    return out
