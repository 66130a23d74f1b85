"""Leave-one-out errors of one ridge fit, in units of their own standard deviation."""

from __future__ import annotations

import numpy as np

from mondrian_kernel._linear.design import Design
from mondrian_kernel._linear.probes import Probes
from mondrian_kernel._linear.solve import solve
from mondrian_kernel._linear.variance import PredictiveVariance
from mondrian_kernel._typing import FloatArray

_PROBE_TOL = 1e-2


def standard_loo_errors(
    design: Design, Y: FloatArray, alpha: float, variance: PredictiveVariance
) -> FloatArray:
    r"""Errors :math:`|y_i - \hat y_{-i}(x_i)|` over :math:`\sqrt{v_{-i}(x_i) + \alpha}`, (N, T).

    With G the inverse of the kernel matrix plus αI, less the intercept's share, this is
    :math:`|(G y)_i| / \sqrt{G_{ii} + (s_i - 1)\, \alpha G_{ii}^2}`; a row of weight s is left out
    with all its copies. The diagonal is exact where a dense factor exists and estimated with
    random vectors beyond.
    """
    dual = solve(design, Y, alpha).dual
    diagonal = variance.inverse_diagonal()
    if diagonal is None:
        probes = Probes(design, np.array([alpha]), _PROBE_TOL, np.random.default_rng([0, 1]))
        diagonal = probes.diagonal(0)[0][:, 0]
    if design.centre:
        diagonal = diagonal - design.mean_direction**2 / alpha
    floor = 1.0 / (design.total_weight + alpha)
    diagonal = np.maximum(diagonal, floor)
    square = diagonal * (1.0 + alpha * (design.sample_weight - 1.0) * diagonal)
    errors: FloatArray = np.abs(dual) / np.sqrt(square)[:, None]
    return errors
