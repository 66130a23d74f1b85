r"""The scale of errors, by the prediction, by each column, and on the cells of the trees.

.. math:: \ln s(x) = h(f(x)) + \sum_d h_d(x_d) + g(x), \qquad
    \min \sum_i \lvert e_i \rvert / s_i + \ln s_i + \text{penalties}

The sum to be minimised is the negative log-likelihood of errors with a Laplace distribution. The
functions h and h_d are piecewise linear. Columns have functions of their own since the noise may
depend on a column that the mean does not depend on, and by which the trees hardly cut.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.conjugate_gradients import conjugate_gradients
from mondrian_kernel._linear.levels import LevelOperator
from mondrian_kernel._model.folds import Folds
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._typing import FloatArray


class ErrorScale(NamedTuple):
    """Parts of ln s, named as in :class:`Spread`.

    ``logs`` (n, K) is ln s at rows held out, learnt from other rows.
    """

    cell_weights: FloatArray
    knots: FloatArray
    log_scale: FloatArray
    column_knots: FloatArray
    column_logs: FloatArray
    logs: FloatArray


def knots_of(values: FloatArray, weight: FloatArray, n_knots: int) -> FloatArray:
    """Return quantiles of values in the middle of as many equal shares, ascending.

    Quantiles that are equal are returned once.
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    wanted = below[-1] * (np.arange(n_knots) + 0.5) / n_knots
    return np.unique(values[order[np.minimum(np.searchsorted(below, wanted), order.size - 1)]])


def ranks_of(values: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values in ascending order, and their ranks from 0 to 1.

    The rank of a value is the share of the weight below it, and half of that at it.
    """
    distinct, place = np.unique(values, return_inverse=True)
    each = np.bincount(place, weight)
    return distinct, (np.cumsum(each) - 0.5 * each) / each.sum()


def hats(values: FloatArray, knots: FloatArray) -> FloatArray:
    """Return the functions that are 1 at one knot, 0 at the others and linear between, (n, m)."""
    return np.stack([np.interp(values, knots, own) for own in np.eye(knots.size)], axis=1)


def interpolated(points: FloatArray, knots: FloatArray, values: FloatArray) -> FloatArray:
    """Return piecewise linear functions of the columns of points (n, K), given at knots (m, K)."""
    each = zip(points.T, knots.T, values.T, strict=True)
    return np.stack([np.interp(*own) for own in each], axis=1)


def fit_error_scale(
    operator: LevelOperator,
    levels: Levels,
    errors: FloatArray,
    predictions: FloatArray,
    points: FloatArray,
    seed: int,
) -> ErrorScale:
    """Learn the scale of errors.

    Parameters
    ----------
    operator : LevelOperator
        Cells of the n rows held out.
    levels : Levels
        Levels of the model.
    errors, predictions : ndarrays of shape (n, K)
        Errors and predictions of these rows.
    points : ndarray of shape (n, D)
        These rows as the trees see them, or (n, 0) if they are not known.
    seed : int
        Seed of the parts of the rows from which the scale is learnt in turn.
    """
    (n, K), D, weight = errors.shape, points.shape[1], operator.sample_weight
    if n * D * settings.SPREAD_COLUMN_KNOTS > settings.SPREAD_NUMBERS:
        D = 0
    places = [knots_of(points[:, d], weight, settings.SPREAD_COLUMN_KNOTS) for d in range(D)]
    n_knots = max((own.size for own in places), default=1)
    column_knots = np.empty((n_knots, D))
    for d, own in enumerate(places):
        column_knots[:, d] = _padded(own, n_knots)
    parts = [hats(points[:, d], own) for d, own in enumerate(places)]
    B = np.hstack([np.empty((n, 0)), *parts])
    centre = np.average(B, axis=0, weights=weight)
    ends = np.cumsum([own.size for own in places])[:-1]
    m = int(np.clip(n // settings.SPREAD_KNOTS_ROWS, 1, settings.SPREAD_KNOTS))
    cells, all_logs = np.empty((levels.n_features, K)), np.empty((n, K))
    knots, log_scale, column_logs = np.empty((m, K)), np.empty((m, K)), np.empty((n_knots, D, K))
    for k, (own, error) in enumerate(zip(predictions.T, errors.T, strict=True)):
        knots[:, k], logs, h = _sizes_by_prediction(own, error, weight, m)
        fit = _Sizes(operator, levels, np.abs(error) / np.exp(h), B - centre, seed)
        cells[:, k], all_logs[:, k] = fit.cell_weights, h + fit.logs
        log_scale[:, k] = logs + fit.level - centre @ fit.coef
        for d, part in enumerate(np.split(fit.coef, ends)[:D]):
            column_logs[:, d, k] = _padded(part, n_knots)
    return ErrorScale(cells, knots, log_scale, column_knots, column_logs, all_logs)


def _padded(values: FloatArray, n: int) -> FloatArray:
    """Return values, the last of them again until there are n."""
    return np.pad(values, (0, n - values.size), "edge")


def _sizes_by_prediction(
    predictions: FloatArray, errors: FloatArray, weight: FloatArray, n_knots: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return knots (m,), logarithms of the mean size of errors there, and those at rows (n,)."""
    floor = settings.SPREAD_FLOOR * np.sqrt(np.average(errors**2, weights=weight))
    knots = knots_of(predictions, weight, n_knots)
    near = hats(predictions, knots) * weight[:, None]
    mean = near.T @ np.abs(errors) / near.sum(axis=0)
    logs = np.log(np.maximum(mean, max(float(floor), np.finfo(float).tiny)))
    return _padded(knots, n_knots), _padded(logs, n_knots), np.interp(predictions, knots, logs)


class _Sizes:
    """The logarithm of sizes (n,), learnt on cells and on features B (n, p) of the columns.

    Attributes
    ----------
    cell_weights, coef : ndarrays of shape (F,) and (p,)
        Weights of the cells and of the features.
    level : float
        A constant.
    logs : ndarray of shape (n,)
        What the fit without the part of the rows with row i says of row i, constant included.
    """

    def __init__(
        self, operator: LevelOperator, levels: Levels, size: FloatArray, B: FloatArray, seed: int
    ) -> None:
        self.B, L = B.astype(np.float32), levels.n_levels
        some = settings.SPREAD_COLUMN_WEIGHTS if B.shape[1] else (0.0,)
        pairs = np.array([(a / L, b) for a in settings.SPREAD_WEIGHTS for b in some])
        weights = pairs.T[[0] * L + [1]]  # of each level, and of the features: (L + 1, J)
        n_folds, J = min(settings.SPREAD_FOLDS, size.size), len(pairs)
        order = np.random.default_rng([seed, 5]).permutation(size.size)
        folds = Folds(order % n_folds, n_folds)
        few = operator.with_trees(settings.LEVEL_TREES)
        root = operator.root_weight[:, None] * np.hstack([folds.fitted(), np.ones((size.size, 1))])
        size = size[:, None]
        start = np.zeros((size.size, n_folds * J))
        _, level, g = self._step(
            few, size, np.repeat(root[:, :-1], J, axis=1), np.tile(weights, n_folds), start
        )
        logs = folds.take_held_out((level + g).reshape(-1, n_folds, J))
        lost = operator.sample_weight @ (size * np.exp(-logs) + logs)
        v = weights[:, [int(np.argmin(lost))]]
        each, g = np.tile(v, n_folds + 1), np.zeros_like(root)
        for _ in range(settings.SPREAD_STEPS):  # without each part of the rows, and with all rows
            _, level, g = self._step(few, size, root, each, g)
        self.logs = folds.take_held_out(level + g)
        dual, level, _ = self._step(operator, size, root[:, -1:], v, g[:, -1:])
        sums = operator.with_weights(np.ones(L)).scatter(dual)[:, 0]
        self.cell_weights = np.repeat(v[:-1, 0] / np.sqrt(levels.weights), np.diff(levels.offset))
        self.cell_weights *= sums
        self.coef = v[-1, 0] * (B.T @ dual[:, 0])
        self.level = float(level[0])

    def _step(
        self,
        operator: LevelOperator,
        size: FloatArray,
        root: FloatArray,
        weights: FloatArray,
        g: FloatArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        r"""Take a step from g (n, j) towards the least :math:`\sum_i a_i e^{-c-g_i} + g_i`.

        It is ridge regression with the targets :math:`g_i + a_i e^{-c-g_i} - 1` (Fisher scoring;
        the information is 1 at every row). Returns coefficients of the rows (n, j), c (j,) and g,
        for sizes a (n, 1), and roots of sample weights and kernel weights in j columns.
        """
        share = root**2 / (root**2).sum(axis=0)
        ratio = size * np.exp(-g - _level(size, g, share))
        target = g + np.minimum(ratio - 1.0, settings.SPREAD_LARGEST)
        dual = self._solve(operator, target, root, weights)
        g = self._product(operator, dual, weights).astype(np.float64)
        return dual.astype(np.float64), _level(size, g, share), g

    def _product(self, operator: LevelOperator, V: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the product of V (n, j) with the kernels of cells and features."""
        out: FloatArray = operator.products(V, weights[:-1])
        if self.B.shape[1]:
            out += weights[-1].astype(np.float32) * (self.B @ (self.B.T @ V))
        return out

    def _solve(
        self, operator: LevelOperator, target: FloatArray, root: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """Return coefficients of the rows in ridge regressions, in single precision."""
        half: FloatArray = root.astype(np.float32)
        right = half * target.astype(np.float32)
        enough = settings.SPREAD_TOL * np.linalg.norm(right, axis=0)
        dual, _ = conjugate_gradients(
            lambda P: half * self._product(operator, half * P, weights) + P,
            right,
            lambda now: bool(np.all(np.linalg.norm(now.residual, axis=0) <= enough)),
            max_steps=settings.SPREAD_GRADIENT_STEPS,
        )
        dual *= half
        return dual


def _level(size: FloatArray, g: FloatArray, share: FloatArray) -> FloatArray:
    """Return the constant c at which the mean of sizes over their scale is 1; 0 if all are 0."""
    mean = np.einsum("nj,nj->j", share, size * np.exp(-g))
    out: FloatArray = np.log(np.where(mean > 0, mean, 1.0))
    return out
