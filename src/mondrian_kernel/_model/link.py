r"""From scores of a regression of ±1 to log-odds of classes, calibrated on rows held out.

A score S of a class lies about where its probability does, :math:`q = (1 + S) / 2`, but may leave
[0, 1]. The log-odds are :math:`a \ln q + b` with a factor a for all classes and a shift b for each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from mondrian_kernel._settings import LINK_FLOOR, LINK_PRIOR
from mondrian_kernel._typing import FloatArray


def log_shares(S: FloatArray) -> FloatArray:
    """Return ln q of each class, (n, n_classes), from scores (n, K); K is 1 for two classes."""
    q = 0.5 + 0.5 * (np.hstack([-S, S]) if S.shape[1] == 1 else S)
    out: FloatArray = np.log(np.maximum(q, LINK_FLOOR))
    return out


def log_odds(S: FloatArray, link: FloatArray) -> FloatArray:
    """Return log-odds of the classes; of two classes, of the second against the first, (n, 1)."""
    Z: FloatArray = link[0] * log_shares(S) + link[1:]
    return Z[:, 1:] - Z[:, :1] if Z.shape[1] == 2 else Z


def fit_link(
    S: FloatArray, labels: NDArray[np.intp], weight: FloatArray, n_classes: int
) -> FloatArray:
    """Return the factor and the shifts, (n_classes + 1,), with the least log loss on rows held out.

    A weak prior keeps the factor near 1 and the shifts near 0 where there are few rows.
    """
    start = np.concatenate([[1.0], np.zeros(n_classes)])
    if labels.size == 0:
        return start
    F, rows, s = log_shares(S), np.arange(labels.size), weight / weight.mean()
    one_hot = np.eye(n_classes)[labels]

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        Z = theta[0] * F + theta[1:]
        rest = s[:, None] * (softmax(Z, axis=1) - one_hot)
        away = theta - start
        value = -float(s @ log_softmax(Z, axis=1)[rows, labels]) + 0.5 * LINK_PRIOR * away @ away
        gradient = np.concatenate([[np.sum(rest * F)], rest.sum(axis=0)]) + LINK_PRIOR * away
        return value, gradient

    found: FloatArray = minimize(loss, start, jac=True, method="L-BFGS-B").x
    return found
