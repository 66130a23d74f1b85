"""Minimise the regularised logistic loss of rows in blocks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel._linear.losses import intercept_hessian, slope, smoothness, value
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.cells import CellBlocks, Part
from mondrian_kernel.dask.sums import sum_totals

_LOSS = "log_loss"
_MEMORY = 20  # steps that L-BFGS remembers


def minimise_logistic(
    blocks: CellBlocks, alpha: float, tol: float, max_iter: int = 1000
) -> tuple[FloatArray, FloatArray]:
    r"""Minimise :math:`\sum_i s_i \ell(y_i, b + \phi_i^\top W) + \alpha \lVert W \rVert^2`.

    L-BFGS on weights in units of a bound on their curvature; every step is a pass over the rows.
    It ends when the duality gap, :math:`\lVert \nabla_W \rVert^2 / 4\alpha` and what the intercept
    may gain, is at most ``tol`` times the objective.

    Returns
    -------
    W, b : ndarray of shape (C, K) and (K,)
        Weights and intercept.
    """
    totals = sum_totals(blocks)
    n_outputs = totals.mean.size
    bound = smoothness(_LOSS, n_outputs)
    square = totals.phi / np.sqrt(blocks.n_trees)  # Σ s φ², as φ is 0 or 1/√M
    curvature = np.append(bound * square + 2.0 * alpha, bound * totals.total_weight)
    unit = np.repeat(1.0 / np.sqrt(curvature), n_outputs).reshape(-1, n_outputs)
    gap = np.inf

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        nonlocal gap
        point = x.reshape(unit.shape) * unit
        loss, gradient, H = blocks.sum(_slopes, point)
        J = float(loss + alpha * np.vdot(point[:-1], point[:-1]))
        gradient[:-1] += 2.0 * alpha * point[:-1]
        gain = 0.5 * gradient[-1] @ np.linalg.pinv(H, hermitian=True) @ gradient[-1]
        gap = float(np.vdot(gradient[:-1], gradient[:-1]) / (4.0 * alpha) + gain) / J
        return J, (gradient * unit).ravel()

    def stop(intermediate_result: Any) -> None:
        if gap <= tol:
            raise StopIteration

    options: Any = {
        "maxcor": _MEMORY,
        "maxiter": max_iter,
        "maxfun": 2 * max_iter,
        "ftol": 0,
        "gtol": 0,
    }
    found = minimize(
        objective, np.zeros(unit.size), jac=True, method="L-BFGS-B", callback=stop, options=options
    )
    if gap > tol:
        warnings.warn(
            f"The objective {found.fun:.6g} may be {gap * found.fun:.2g} above the optimum after "
            f"{found.nit} steps. Raise alpha.",
            ConvergenceWarning,
            stacklevel=2,
        )
    point = found.x.reshape(unit.shape) * unit
    return point[:-1], point[-1]


def _slopes(part: Part, point: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Sum of losses, gradient in the weights and the intercept, and the intercept's Hessian."""
    features, s = part.features, part.weight[:, None]
    F = features.gather(point[:-1]) + point[-1]
    R = s * slope(_LOSS, part.Y, F)
    gradient = np.vstack([features.scatter(R, point.shape[0] - 1), R.sum(axis=0)])
    loss = float(part.weight @ value(_LOSS, part.Y, F))
    return loss, gradient, intercept_hessian(_LOSS, F, s)
