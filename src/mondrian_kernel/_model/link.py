r"""Calibrated log-odds of the classes: :math:`a F + b`, on rows that were held out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.losses import encode, slope, value
from mondrian_kernel._model.spread import faded
from mondrian_kernel._typing import FloatArray


def log_odds(F: FloatArray, link: FloatArray) -> FloatArray:
    """Return a F + b for scores F (n, K); ``link`` (K + 1,) is the factor a and the shifts b."""
    out: FloatArray = link[0] * F + link[1:]
    return out


def more_calibration(
    calibration: FloatArray, Y: FloatArray, F: FloatArray, link: FloatArray
) -> FloatArray:
    """Return a calibration, (n, 2), that goes on with scores of new rows before they are learnt."""
    own = np.exp(-np.maximum(value("log_loss", Y, log_odds(F, link)), 0.0))
    return np.column_stack(faded(calibration[:, 0], calibration[:, 1], own))


def fit_link(F: FloatArray, labels: NDArray[np.intp], weight: FloatArray) -> FloatArray:
    """Return the factor and the shifts, (K + 1,), with the least log loss on rows held out.

    A weak prior keeps the factor near 1 and the shifts near 0 where there are few rows.
    """
    from scipy.optimize import minimize

    K = F.shape[1]
    start = np.concatenate([[1.0], np.zeros(K)])
    if labels.size == 0:
        return start
    Y, s = encode(labels, max(K, 2), "log_loss"), weight / weight.mean()

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        Z, away = log_odds(F, theta), theta - start
        rest = s[:, None] * slope("log_loss", Y, Z)
        lost = float(s @ value("log_loss", Y, Z)) + 0.5 * settings.LINK_PRIOR * away @ away
        gradient = (
            np.concatenate([[np.sum(rest * F)], rest.sum(axis=0)]) + settings.LINK_PRIOR * away
        )
        return lost, gradient

    found: FloatArray = minimize(loss, start, jac=True, method="L-BFGS-B").x
    return found
