r"""The rough part of a model: ridge regression on the cells of trees at several lifetimes.

The kernel is :math:`K = \sum_l v_l K_{\lambda_l}`, with noise of variance 1. The weights are
:math:`v_l = e^{a + b (l - L)}`: a says how much there is to learn beside the noise, and b how fast
wide cells lose weight to narrow ones. For each a, all b are solved at once, since every sweep over
the trees serves all of them. The pair with the least error on rows held out is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.backfit import Backfit
from mondrian_kernel._linear.levels import LevelOperator
from mondrian_kernel._model.folds import Folds
from mondrian_kernel._trees.threads import Tell, no_one
from mondrian_kernel._typing import FloatArray


class LevelFits(NamedTuple):
    """Many ridge fits: ``predictions`` (N, k) of rows, and ``sums`` (F, k) for the cells.

    A value of a cell is :math:`v_l / M` times its sum, which is that of :math:`s (y - f)` over the
    rows of the cell.
    """

    sums: NDArray[np.float32]
    predictions: FloatArray


def solve_levels(
    operator: LevelOperator,
    targets: FloatArray,
    weight: FloatArray,
    level_weights: FloatArray,
    tell: Tell = no_one,
) -> LevelFits:
    r"""Fit cells to rows by ridge regression, many times at once.

    Predictions of column j are :math:`f_j = K_j (K_j + S_j^{-1})^{-1} y_j` with :math:`K_j` the
    kernel of level weights j. They have settled when a sweep over the trees changes those of the
    rows held out by a small share of their errors.

    Parameters
    ----------
    operator : LevelOperator
        Cells of the rows.
    targets : ndarray of shape (N, k)
        Targets y.
    weight : ndarray of shape (N, k)
        Sample weights S; 0 for rows that are held out.
    level_weights : ndarray of shape (L, k)
        Weights v of the levels.
    tell : callable
        Told which share of the digits is found.

    Returns
    -------
    fits : LevelFits
        Sums of cells and predictions of rows.
    """
    sums = np.empty((operator.n_cells[0], targets.shape[1]), np.float32)
    predictions = np.empty(targets.shape)
    width = settings.BACKFIT_LANES
    groups = range(0, targets.shape[1], width)  # of columns that are solved at once
    for done, begin in enumerate(groups):
        some = slice(begin, begin + width)
        fit = Backfit(operator, targets[:, some], weight[:, some], level_weights[:, some])
        for _ in range(settings.LEVEL_SWEEPS):
            change = max(fit.step(), settings.LEVEL_TOL)
            found = np.log(min(change, 1.0)) / np.log(settings.LEVEL_TOL)
            tell((done + found) / len(groups))
            if change == settings.LEVEL_TOL:
                break
        sums[:, some], predictions[:, some] = fit.sums, fit.predictions
    return LevelFits(sums, predictions)


def fit_folds(
    operator: LevelOperator, by_fold: FloatArray, folds: Folds, weights: FloatArray
) -> FloatArray:
    """Predict every row by fits from which each part of the rows is held out, to choose by.

    Parameters
    ----------
    operator : LevelOperator
        Cells of the rows.
    by_fold : ndarray of shape (N, n_folds, K)
        Targets of each of the fits.
    folds : Folds
        Rows held out.
    weights : ndarray of shape (L, J)
        Weights v of the levels, for J fits.

    Returns
    -------
    found : ndarray of shape (n, K, J)
        Predictions of the n rows held out.
    """
    n_rows, n_folds, n_outputs = by_fold.shape
    n_fits = weights.shape[1]
    fitted = operator.sample_weight[:, None] * folds.fitted()
    fitted = np.repeat(fitted, n_outputs * n_fits, axis=1)
    targets = np.repeat(by_fold.reshape(n_rows, -1), n_fits, axis=1)
    each = np.tile(weights, n_folds * n_outputs)
    found = solve_levels(operator, targets, fitted, each).predictions
    return folds.take_held_out(found.reshape(n_rows, n_folds, n_outputs, n_fits))


def held_out_errors(
    operator: LevelOperator, by_fold: FloatArray, folds: Folds
) -> Callable[[FloatArray], FloatArray]:
    """Return a function from weights (L, J) of the levels to squared errors of rows held out."""
    wanted, s = folds.take_held_out(by_fold)[..., None], operator.sample_weight[folds.held_out]

    def errors(weights: FloatArray) -> FloatArray:
        rest = fit_folds(operator, by_fold, folds, weights) - wanted
        return np.asarray(np.einsum("n,nkj->j", s, rest**2))

    return errors


def lowest_weights(
    losses: Callable[[FloatArray], FloatArray], n_levels: int, n_folds: int
) -> FloatArray:
    """Return the weights v (L,) of the levels with the least loss on rows held out.

    ``losses`` maps weights (L, J) to J losses. Weights grow until the loss does: the less noise
    there is beside them, the longer a fit takes.
    """
    depth = np.arange(n_levels)[:, None] - (n_levels - 1)
    shapes = np.exp(depth * np.array(settings.LEVEL_SLOPES))
    if n_folds == 0:
        return np.asarray(np.exp(settings.LEVEL_NOISE[0]) * shapes[:, 0])
    found = losses_until_lowest(lambda noise: losses(np.exp(noise) * shapes), settings.LEVEL_NOISE)
    at, slope = np.unravel_index(np.argmin(found), found.shape)
    logs = np.log(found[:, slope] + np.finfo(float).tiny)
    noise = settings.LEVEL_NOISE[at] + _shift_to_lowest(
        logs, int(at), np.array(settings.LEVEL_NOISE)
    )
    return np.asarray(np.exp(noise) * shapes[:, slope])


def losses_until_lowest(
    losses: Callable[[float], FloatArray], values: Sequence[float]
) -> FloatArray:
    """Return the losses (J,) at each of the values, up to the first one where they are higher."""
    found = [losses(values[0])]
    for value in values[1:]:
        found.append(losses(value))
        if found[-1].min() > found[-2].min():
            break
    return np.stack(found)


def _shift_to_lowest(logs: FloatArray, at: int, places: FloatArray) -> float:
    """Return how far the lowest point of a parabola through three points lies from the best."""
    if not 0 < at < logs.size - 1:
        return 0.0
    below, here, above = logs[at - 1 : at + 2]
    bend = below - 2.0 * here + above
    step = float(places[at + 1] - places[at])
    return float(np.clip(0.5 * (below - above) / bend, -0.5, 0.5)) * step if bend > 0 else 0.0
