"""Leave-one-out errors of one ridge fit, in units of their own standard deviation."""

from __future__ import annotations

import numpy as np

from mondrian_kernel.partition.trees import FloatArray
from mondrian_kernel.ridge.design import Design
from mondrian_kernel.ridge.lanczos import Probes
from mondrian_kernel.ridge.solve import solve
from mondrian_kernel.ridge.variance import PredictiveVariance, sparse_features

_PROBE_TOL = 1e-2


def standard_loo_errors(
    design: Design, Y: FloatArray, alpha: float, variance: PredictiveVariance
) -> FloatArray:
    r"""Errors :math:`|y_i - \hat y_{-i}(x_i)|` over :math:`\sqrt{v_{-i}(x_i) + \alpha}`, (N, T).

    With G the inverse of the kernel matrix plus αI, less the intercept's share, this is
    :math:`|(G y)_i| / \sqrt{G_{ii}}`. The diagonal is exact where a dense factor exists and
    estimated with random vectors beyond.
    """
    dual = solve(design, Y, alpha).dual
    if variance.is_dense:
        own = variance(sparse_features(design, weighted=False)) * design.sample_weight
        diagonal = (1.0 - np.minimum(own / alpha, 1.0)) / alpha
    else:
        probes = Probes(design, np.array([alpha]), _PROBE_TOL, np.random.default_rng([0, 1]))
        diagonal = probes.diagonal(0)[:, 0]
        if design.centre:
            diagonal = diagonal - design.mean_direction**2 / alpha
    floor = 1.0 / (design.total_weight + alpha)
    errors: FloatArray = np.abs(dual) / np.sqrt(np.maximum(diagonal, floor))[:, None]
    return errors
