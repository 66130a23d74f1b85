r"""How much each column counts, learnt from the data.

A Laplace kernel adds up the columns, :math:`\exp(-\lambda \sum_d r_d |x_d - x'_d|)`. With equal
relevances r, irrelevant columns separate rows as much as useful ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import blas, lapack
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from mondrian_kernel._model.scaling import dim_scale
from mondrian_kernel._path.checks import join_copies
from mondrian_kernel._path.choose import sample_rows
from mondrian_kernel._settings import (
    LEAST_NOISE,
    RELEVANCE_ALPHAS,
    RELEVANCE_DECIMALS,
    RELEVANCE_FLOOR,
    RELEVANCE_LIFETIMES,
    RELEVANCE_PAIRS,
    RELEVANCE_PRIOR,
    RELEVANCE_ROWS,
    RELEVANCE_START_ROWS,
    RELEVANCE_STEPS,
)
from mondrian_kernel._trees.checks import check_ranges
from mondrian_kernel._typing import FloatArray


def is_learnt(relevance: str, lifetime: float | str, scale: Any) -> bool:
    """Whether relevances are to be learnt, by the parameters of a model."""
    if relevance == "auto":
        return isinstance(lifetime, str) and isinstance(scale, str)
    return relevance == "learn"


def scale_and_relevance(
    rows: FloatArray,
    Y: FloatArray,
    weight: FloatArray | None,
    seed: int,
    *,
    scale: Any,
    relevance: str,
    lifetime: float | str,
) -> tuple[FloatArray, FloatArray]:
    """Return scale / relevance of the columns of ``rows``, and their relevance.

    ``scale``, ``relevance`` and ``lifetime`` are parameters of an estimator; the other arguments
    are those of :func:`learn_relevance`, with rows that are not scaled.
    """
    found = dim_scale(scale, rows, weight)
    if not is_learnt(relevance, lifetime, scale):
        return found, np.ones(found.size)
    some = sample_rows(rows.shape[0], seed)
    scaled, weights = rows[some] / found, None if weight is None else weight[some]
    check_ranges(scaled)
    learnt = learn_relevance(scaled, Y[some], weights, seed)
    return found / learnt, learnt


def learn_relevance(
    rows: FloatArray,
    Y: FloatArray,
    weight: FloatArray | None,
    seed: int,
    most_rows: int = RELEVANCE_ROWS,
) -> FloatArray:
    r"""Learn how much each column counts, by the leave-one-out error of the exact Laplace kernel.

    .. math::
        \min_{\lambda r, \alpha} \; \frac N2 \ln \sum_i s_i (a_i / G_{ii})^2
        + \frac1{2 \tau^2} \sum_d \Big(\ln r_d - \overline{\ln r}\Big)^2, \qquad
        G = (K + \alpha S^{-1})^{-1}, \quad a = G y

    The second term is a normal prior with :math:`\tau = 0.35`. It keeps columns together that the
    rows do not tell apart.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Scaled rows, of which a sample is used.
    Y : ndarray of shape (N, T)
        Targets.
    weight : ndarray of shape (N,) or None
        Positive weights s.
    seed : int
        Seed of the sample.
    most_rows : int, default=1000
        Most rows in the sample.

    Returns
    -------
    relevance : ndarray of shape (D,)
        Relevances, 1 on average; in hundredths, so that rounding errors do not show in them.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._model.relevance import learn_relevance
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> r = learn_relevance(X, np.sin(X[:, :1]), None, seed=0)
    >>> int(r.argmax()), bool(r[0] > 2 * r[1:].max())
    (0, True)
    """
    n_columns = rows.shape[1]
    rows, Y, weight = join_copies(rows, Y, weight)
    s = np.ones(rows.shape[0]) if weight is None else weight
    n = min(rows.shape[0], most_rows, int(np.sqrt(RELEVANCE_PAIRS / n_columns)))
    some = np.random.default_rng(seed).permutation(rows.shape[0])[:n]
    error = LeaveOneOut(rows[some], Y[some], s[some])
    if n_columns == 1 or not (error.varies and np.ptp(rows[some], axis=0).any()):
        return np.ones(n_columns)
    few = some[:RELEVANCE_START_ROWS]
    start = LeaveOneOut(rows[few], Y[few], s[few]).best_of_a_few()
    limits = [(start[0] - 8.0, start[0] + 5.0)] * n_columns
    limits.append((start[-1] - 7.0, start[-1] + 7.0))
    best = minimize(
        error,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": RELEVANCE_STEPS, "ftol": 1e-5},
    ).x
    relevance = np.exp(best[:-1] - best[:-1].max())
    least = 10.0**-RELEVANCE_DECIMALS
    rounded = np.round(relevance / relevance.mean(), RELEVANCE_DECIMALS)
    result: FloatArray = np.maximum(rounded, least)
    return result


class LeaveOneOut:
    r"""The objective, a function of :math:`(\ln \lambda r_1, \ldots, \ln \lambda r_D, \ln \alpha)`.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Rows.
    Y : ndarray of shape (N, T)
        Targets.
    weight : ndarray of shape (N,)
        Positive weights.
    """

    def __init__(self, rows: FloatArray, Y: FloatArray, weight: FloatArray) -> None:
        self._rows, self._s = np.ascontiguousarray(rows), weight
        self._Y = Y - np.average(Y, axis=0, weights=weight)
        variance = float(np.average(np.sum(self._Y**2, axis=1), weights=weight))
        self.varies, self._variance = variance > 0, max(variance, np.finfo(float).tiny)

    def best_of_a_few(self) -> FloatArray:
        """Return the best of a few starting points, with all columns alike."""
        weight = self._s.mean()
        spread = np.mean([np.abs(self._rows - row).sum(axis=1).mean() for row in self._rows[:50]])
        points = [
            np.append(np.full(self._rows.shape[1], np.log(c / spread)), np.log(alpha * weight))
            for c in RELEVANCE_LIFETIMES
            for alpha in RELEVANCE_ALPHAS
        ]
        return min(points, key=lambda point: self._value(point)[0])

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and its gradient."""
        from mondrian_kernel._kernels.relevance import weighted_differences

        value, K, G, a, left_out, error = self._value(theta)
        diagonal = np.diag(G)
        # The value changes by Σ u·da + Σ v dG_ii, and G by -G dK G.
        factor = 1.0 / (self._variance * error)
        u = factor * (self._s / diagonal)[:, None] * left_out
        v = factor * self._s * np.sum(left_out**2, axis=1) / diagonal
        B = blas.dsyrk(1.0, G * np.sqrt(v), lower=1)
        B = np.tril(B) + np.tril(B, -1).T
        cross = G @ u @ a.T
        B -= 0.5 * (cross + cross.T)
        gradient = np.empty(theta.size)
        relative = theta[:-1] - theta[:-1].mean()
        slopes = -np.exp(theta[:-1]) * weighted_differences(self._rows, B * K)
        gradient[:-1] = slopes + relative / RELEVANCE_PRIOR**2
        gradient[-1] = np.exp(theta[-1]) * np.sum(np.diag(B) / self._s)
        return value, gradient

    def _value(self, theta: FloatArray) -> tuple[Any, ...]:
        scaled = self._rows * np.exp(theta[:-1])
        K = np.exp(-cdist(scaled, scaled, "cityblock"))
        G = K.copy()
        G.flat[:: G.shape[0] + 1] += np.maximum(np.exp(theta[-1]) / self._s, LEAST_NOISE)
        G, _ = lapack.dpotrf(G, lower=1, overwrite_a=1)
        G, _ = lapack.dpotri(G, lower=1, overwrite_c=1)
        G = np.tril(G) + np.tril(G, -1).T
        a = G @ self._Y
        left_out = a / np.diag(G)[:, None]
        # In units of what the mean of all rows would do.
        total = self._s.sum()
        error = (
            np.sum(self._s * np.sum(left_out**2, axis=1)) / (self._variance * total)
            + RELEVANCE_FLOOR
        )
        relative = theta[:-1] - theta[:-1].mean()
        value = 0.5 * total * np.log(error) + 0.5 * np.sum(relative**2) / RELEVANCE_PRIOR**2
        return value, K, G, a, left_out, error
