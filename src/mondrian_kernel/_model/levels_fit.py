r"""The rough part of a model: ridge regression on the cells of trees at several lifetimes.

The kernel is :math:`K = \sum_l v_l K_{\lambda_l}`, with noise of variance 1. The weights are
:math:`v_l = e^{a + b (l - L)}`: a says how much there is to learn beside the noise, and b how fast
wide cells lose weight to narrow ones. For each a, all b are solved at once, since every product
with the trees serves all of them. The pair with the least error on rows held out is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.conjugate_gradients import Progress, conjugate_gradients
from mondrian_kernel._linear.levels import LevelOperator
from mondrian_kernel._model.folds import Folds
from mondrian_kernel._trees.threads import Tell, no_one
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.on_disk import row_blocks


def solve_levels(
    operator: LevelOperator,
    targets: FloatArray,
    root: FloatArray,
    weights: FloatArray,
    max_steps: int = settings.LEVEL_STEPS,
    tell: Tell = no_one,
) -> FloatArray:
    r"""Return coefficients of the rows, of many ridge fits at once.

    Column j of the result is :math:`S_j (K_j + S_j^{-1})^{-1} y_j` with :math:`K_j` the kernel of
    level weights j. Predictions are the products of the result with these kernels.

    Parameters
    ----------
    operator : LevelOperator
        Cells of the rows.
    targets : ndarray of shape (N, k)
        Targets y.
    root : ndarray of shape (N, k)
        Square roots of the sample weights S; 0 for rows that are held out.
    weights : ndarray of shape (L, k)
        Weights v of the levels.
    max_steps : int
        Most steps of conjugate gradients.
    tell : callable
        Told which share of the digits is found.

    Returns
    -------
    dual : ndarray of shape (N, k)
        Coefficients.
    """
    dual = np.empty(targets.shape)
    groups = range(
        0, targets.shape[1], settings.LEVEL_LANES
    )  # a product takes so many columns at once
    for done, begin in enumerate(groups):
        some = slice(begin, begin + settings.LEVEL_LANES)

        def told(share: float, done: int = done) -> None:
            tell((done + share) / len(groups))

        dual[:, some] = _solve_together(
            operator,
            targets[:, some].astype(np.float32),
            root[:, some].astype(np.float32),  # far below the tolerance, and twice as fast
            weights[:, some].astype(np.float32),
            max_steps,
            told,
        )
    return dual


def _solve_together(
    operator: LevelOperator,
    targets: FloatArray,
    root: FloatArray,
    weights: FloatArray,
    max_steps: int,
    tell: Tell,
) -> FloatArray:
    """Return what :func:`solve_levels` does, for columns that all stop when the last is done."""
    B = root * targets
    enough = settings.LEVEL_TOL * np.linalg.norm(B, axis=0)

    def product(P: FloatArray) -> FloatArray:
        out = operator.products(root * P, weights)
        out *= root
        out += P
        return out

    def finished(now: Progress) -> bool:
        left = np.linalg.norm(now.residual, axis=0)
        over = float(np.max(left / np.where(enough > 0, enough, np.inf)))
        tell(1.0 + np.log(max(over, 1.0)) / np.log(settings.LEVEL_TOL))
        return bool(np.all(left <= enough))

    dual, _ = conjugate_gradients(
        product,
        B,
        finished,
        precondition=_without_widest(operator, root, weights[0]),
        max_steps=max_steps,
    )
    dual *= root
    return dual


def _without_widest(
    operator: LevelOperator, root: FloatArray, widest: FloatArray
) -> Callable[[FloatArray], FloatArray]:
    r"""Return products with :math:`(I + v_0 S^{1/2} B B^\top S^{1/2})^{-1}`, for each column.

    The cells of the widest level hold many rows, and so have by far the largest eigenvalues. This
    preconditioner takes them out. An operator that does not know its rows goes without.
    """
    if operator.wide_features is None:
        return np.copy
    B = operator.wide_features
    inverses: list[FloatArray] = []
    for j, v in enumerate(widest):
        if j == 0 or not np.array_equal(root[:, j], root[:, j - 1]):
            gram = np.zeros((B.shape[1], B.shape[1]), np.float32)
            for block in row_blocks(B.shape[0]):
                half = root[block, j, None] * B[block]
                gram += half.T @ half
            values, Q = np.linalg.eigh(gram)
        inverses.append((Q / (np.maximum(values, 0.0) + 1.0 / v)) @ Q.T)
    each = np.stack(inverses)

    def product(R: FloatArray) -> FloatArray:
        inner = B.T @ (root * R)
        out: FloatArray = R - root * (B @ np.einsum("kmn,nk->mk", each, inner))
        return out

    return product


def predictions_of(operator: LevelOperator, dual: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the predictions at all rows that coefficients of :func:`solve_levels` make."""
    found: FloatArray = operator.products(dual.astype(np.float32), weights).astype(np.float64)
    return found


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
    root = operator.root_weight[:, None] * folds.fitted()
    root = np.repeat(root, n_outputs * n_fits, axis=1)
    targets = np.repeat(by_fold.reshape(n_rows, -1), n_fits, axis=1)
    each = np.tile(weights, n_folds * n_outputs)
    dual = solve_levels(operator, targets, root, each, settings.LEVEL_CHOICE_STEPS)
    found = predictions_of(operator, dual, each)
    return folds.take_held_out(found.reshape(n_rows, n_folds, n_outputs, n_fits))


def choose_level_weights(
    operator: LevelOperator, by_fold: FloatArray, folds: Folds, n_levels: int
) -> FloatArray:
    """Return the weights v (L,) of the levels with the least error on rows held out."""
    wanted, s = folds.take_held_out(by_fold)[..., None], operator.sample_weight[folds.held_out]

    def errors(weights: FloatArray) -> FloatArray:
        rest = fit_folds(operator, by_fold, folds, weights) - wanted
        return np.asarray(np.einsum("n,nkj->j", s, rest**2))

    return lowest_weights(errors, n_levels, folds.n_folds)


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
