r"""What rows held out say of a fit: its errors, and which columns matter.

The importance of a column is how much the error on rows held out grows when it is shuffled:

.. math:: I_j = \frac1n \sum_i \ell(y_i, f_{-i}(x_i^{(j)})) - \ell(y_i, f_{-i}(x_i))

with :math:`f_{-i}` a fit without row i, and :math:`x_i^{(j)}` row i with column j of another row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.losses import probabilities
from mondrian_kernel._model.kernel_fit import KernelFit
from mondrian_kernel._model.link import log_odds
from mondrian_kernel._model.spread import Spread
from mondrian_kernel._typing import FloatArray


def importances(
    fit: KernelFit,
    rows: FloatArray,
    loss: Callable[[FloatArray, NDArray[np.intp]], FloatArray],
    group: NDArray[np.intp],
    n_jobs: int | None,
) -> FloatArray:
    """Return the importance of each input column, and its deviation over shuffles, (2, G).

    Every shuffle is of other rows, so that the deviation shows the chance of rows as well.

    Parameters
    ----------
    fit : KernelFit
        A fit, with the models that parts of the rows were held out from.
    rows : ndarray of shape (N, D)
        Rows of the fit, as they came.
    loss : callable
        Returns the losses (n,) of scores (n, K) of some rows, by the numbers (n,) of these rows.
    group : ndarray of shape (D,)
        Number of the input column of each column.
    n_jobs : int or None
        Threads.

    Returns
    -------
    found : ndarray of shape (2, G)
        Means and deviations; (2, 0) if no row was held out.
    """
    n_columns = int(group.max()) + 1
    if fit.folds.n_folds == 0:
        return np.empty((2, 0))
    rng = np.random.default_rng([fit.model.seed, 10])
    n = int(np.clip(settings.IMPORTANCE_PREDICTIONS // n_columns, *settings.IMPORTANCE_ROWS))
    some = rng.permutation(fit.rows)[:n]
    n_shuffles = min(settings.IMPORTANCE_SHUFFLES, some.size // 2)
    part = np.arange(some.size) % n_shuffles
    other = np.empty_like(some)
    for shuffle in range(n_shuffles):
        other[part == shuffle] = rng.permutation(some[part == shuffle])
    growth = np.empty((n_columns, some.size))
    for fold in range(fit.folds.n_folds):
        own = np.flatnonzero(fit.folds.of_row[some] == fold)
        if own.size:
            at, donor = some[own], other[own]
            versions = np.repeat(rows[at][None], n_columns + 1, axis=0)
            for d, j in enumerate(group):
                versions[1 + j, :, d] = rows[donor, d]
            scores = fit.without(fold).scores(versions.reshape(-1, rows.shape[1]), n_jobs)
            each = loss(scores, np.tile(at, n_columns + 1)).reshape(n_columns + 1, -1)
            growth[:, own] = each[1:] - each[0]
    s = fit.operator.sample_weight[some]
    means = [
        np.average(growth[:, part == shuffle], axis=1, weights=s[part == shuffle])
        for shuffle in range(n_shuffles)
    ]
    return np.stack([np.mean(means, axis=0), np.std(means, axis=0)])


def findings_of_numbers(
    fit: KernelFit,
    spread: Spread,
    rows: FloatArray,
    Y: FloatArray,
    group: NDArray[np.intp],
    n_jobs: int | None,
) -> dict[str, Any]:
    """Return importances and measures of a regression, by name; nothing if no row was held out.

    The loss is the squared error over the variance of y, averaged over outputs, so that an
    importance is a difference of R².
    """
    if fit.rows.size == 0:
        return {}
    variance = Y.var(axis=0)
    variance = np.where(variance > 0, variance, 1.0)

    def loss(S: FloatArray, at: NDArray[np.intp]) -> FloatArray:
        each: FloatArray = ((S - Y[at]) ** 2 / variance).mean(axis=1)
        return each

    s = fit.operator.sample_weight[fit.rows]
    square = np.average((fit.predictions - Y[fit.rows]) ** 2, axis=0, weights=s)
    return {
        "importances": importances(fit, rows, loss, group, n_jobs),
        "measures": {
            "root mean squared error": float(np.sqrt(square.mean())),
            "R²": float(1.0 - np.average(loss(fit.predictions, fit.rows), weights=s)),
            f"share in {100 * settings.MEASURED_COVERAGE:.0f} % intervals": _coverage(spread),
        },
    }


def findings_of_classes(
    fit: KernelFit,
    rows: FloatArray,
    labels: NDArray[np.intp],
    group: NDArray[np.intp],
    n_jobs: int | None,
) -> dict[str, Any]:
    """Return importances and measures of a classification, by name, as of a regression.

    The loss is the logarithmic one.
    """
    link = fit.model.link
    if fit.rows.size == 0 or link is None:
        return {}

    def loss(S: FloatArray, at: NDArray[np.intp]) -> FloatArray:
        P = probabilities(log_odds(S, link))[np.arange(at.size), labels[at]]
        each: FloatArray = -np.log(np.maximum(P, np.finfo(float).tiny))
        return each

    s = fit.operator.sample_weight[fit.rows]
    F = log_odds(fit.predictions, link)
    best = (F[:, 0] > 0).astype(int) if F.shape[1] == 1 else F.argmax(axis=1)
    return {
        "importances": importances(fit, rows, loss, group, n_jobs),
        "measures": {
            "log loss": float(np.average(loss(fit.predictions, fit.rows), weights=s)),
            "share of wrong classes": float(np.average(best != labels[fit.rows], weights=s)),
        },
    }


def _coverage(spread: Spread) -> float:
    """Return the share of rows held out inside intervals that the other half of them makes."""
    tail = 0.5 * (1.0 - settings.MEASURED_COVERAGE)
    half, inside = np.arange(spread.weight.size) % 2 == 0, np.empty(spread.errors.shape)
    for own in (half, ~half):
        parts = {name: getattr(spread, name)[~own] for name in ("errors", "predictions", "weight")}
        shares = np.array([tail, 1.0 - tail])
        low, high = replace(spread, **parts).quantiles(shares, spread.predictions[own])
        inside[own] = (low <= spread.errors[own]) & (spread.errors[own] <= high)
    return float(np.average(inside.mean(axis=1), weights=spread.weight))
