r"""How far off predictions are: a local scale of the errors, and their quantiles.

The errors :math:`e_i` are those of rows that were held out. Their scale is s(x) of
:mod:`mondrian_kernel._model.error_scale`. The quantiles are those of :math:`e_i / s(x_i)`, with s
learnt from other rows. They change with the prediction, and each end of an interval has its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.levels import LevelOperator
from mondrian_kernel._model.error_scale import (
    fit_error_scale,
    hats,
    interpolated,
    knots_of,
    ranks_of,
)
from mondrian_kernel._model.folds import Folds
from mondrian_kernel._trees.checks import check_numbers
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._typing import FloatArray, RowArray


@dataclass(frozen=True, eq=False)
class Spread:
    r"""Local scale s(x) of the errors, and errors in units of it.

    .. math:: \ln s(x) = h(f(x)) + \sum_d h_d(x_d) + g(x)

    Attributes
    ----------
    cell_weights : ndarray of shape (F, K)
        Weights of the cells in g.
    knots, log_scale : ndarrays of shape (m, K)
        Predictions in ascending order, and h at these. Between them h is linear.
    column_knots : ndarray of shape (q, D)
        Values of each column, as the trees see it, in ascending order.
    column_logs : ndarray of shape (q, D, K)
        The functions h_d at these; linear between them. No column has one where D is 0.
    errors, predictions : ndarrays of shape (n, K)
        Errors :math:`(y_i - f(x_i)) / s(x_i)` of rows held out, and their predictions.
    weight : ndarray of shape (n,)
        Weights of these rows.
    known : float
        Share of the widest cells from which on a row counts as one like the fitted rows.
    far : ndarray of shape (K,)
        Standard deviation of y about its mean. Where the trees know nothing of a row this is added.
    lowest, highest : ndarrays of shape (K,)
        Ends of the range of y, infinite where the data show none.
    """

    cell_weights: FloatArray
    knots: FloatArray
    log_scale: FloatArray
    column_knots: FloatArray
    column_logs: FloatArray
    errors: FloatArray
    predictions: FloatArray
    weight: FloatArray
    known: float
    far: FloatArray
    lowest: FloatArray
    highest: FloatArray

    @classmethod
    def normal(cls, errors: FloatArray, weight: FloatArray) -> Spread:
        """Return a spread whose scale is a standard deviation, of errors (n, K) in units of it."""
        K = errors.shape[1]
        one, none, free = np.zeros((1, K)), np.empty((0, K)), np.full(K, np.inf)
        scale = none, one, one, np.empty((1, 0)), np.empty((1, 0, K))
        return cls(*scale, errors, np.zeros_like(errors), weight, 1.0, one[0], -free, free)

    def scale(
        self, g: FloatArray, mass: FloatArray, predictions: FloatArray, rows: FloatArray
    ) -> FloatArray:
        r"""Return :math:`\sqrt{s(x)^2 + u(x) \, \mathrm{far}^2}`, (n, K).

        ``g`` (n, K) is the sum over the cells. ``mass`` (n,) is the share m of the widest cells in
        which a row lies with certainty, 1 for fitted rows and 0 far away. The unknown share is
        :math:`u = 1 - m / \mathrm{known}`, and 0 where m is larger than ``known``. ``rows`` (n, D)
        are as the trees see them.
        """
        logs = g + interpolated(predictions, self.knots, self.log_scale)
        for d, knots in enumerate(self.column_knots.T):
            for k, values in enumerate(self.column_logs[:, d].T):
                logs[:, k] += np.interp(rows[:, d], knots, values)
        local = np.exp(np.clip(logs, -700.0, 700.0))
        unknown = np.clip(1.0 - mass / self.known, 0.0, 1.0)[:, None]
        out: FloatArray = np.hypot(local, np.sqrt(unknown) * self.far)
        return out

    @property
    def unit_deviation(self) -> FloatArray:
        """Standard deviation of the errors in units of the scale, (K,)."""
        out: FloatArray = np.sqrt(np.average(self.errors**2, axis=0, weights=self.weight))
        return out

    def quantiles(self, shares: FloatArray, predictions: FloatArray) -> FloatArray:
        """Quantiles of the errors of rows with such predictions (n, K), in units of the scale.

        Returns (Q, n, K). There are up to ten knots among the predictions of the rows held out.
        At a knot the quantile is that of rows with predictions nearby. Between knots it is linear
        in the rank of the prediction: where predictions crowd at two values, those between the two
        are still told apart. So quantiles never cross. Below one half they are rounded down and
        above it up, with one more row than there are, as in conformal prediction.
        """
        out = np.empty((shares.size, *predictions.shape))
        n_rows = self.weight.sum() ** 2 / (self.weight @ self.weight)
        n_knots = int(np.clip(n_rows // settings.QUANTILE_KNOTS_ROWS, 1, settings.QUANTILE_KNOTS))
        for k, (errors, own) in enumerate(zip(self.errors.T, self.predictions.T, strict=True)):
            ranks = ranks_of(own, self.weight)
            knots = np.interp(knots_of(own, self.weight, n_knots), *ranks)
            found = np.empty((shares.size, knots.size))
            for j, near in enumerate(hats(np.interp(own, *ranks), knots).T):
                some = np.flatnonzero(near)
                weight = near[some] * self.weight[some]
                found[:, j] = [_quantile(errors[some], weight, float(share)) for share in shares]
            new = np.interp(predictions[:, k], *ranks)
            for values, at_knots in zip(out, found, strict=True):
                values[:, k] = np.interp(new, knots, at_knots)
        return out

    def continued(
        self,
        errors: FloatArray,
        predictions: FloatArray,
        n_cells: NDArray[np.int64],
        n_more: NDArray[np.int64],
    ) -> Spread:
        """Return the spread after new rows, with new cells, and errors that follow a change.

        Parameters
        ----------
        errors, predictions : ndarrays of shape (n, K)
            Errors of the new rows in units of the scale, in the order in which they came, and
            predictions of these rows.
        n_cells, n_more : ndarrays of shape (L,)
            Numbers of cells at each level before, and of those that were added. The local scale is
            not learnt any more: the new ones have no weight.
        """
        parts = np.split(self.cell_weights, np.cumsum(n_cells)[:-1])
        padded = [np.pad(part, ((0, n), (0, 0))) for part, n in zip(parts, n_more, strict=True)]
        errors, weight = faded(self.errors, self.weight, errors)
        return replace(
            self,
            cell_weights=np.concatenate(padded),
            errors=errors,
            predictions=faded(self.predictions, self.weight, predictions)[0],
            weight=weight,
        )

    def check(self, n_features: int, n_columns: int, n_outputs: int) -> None:
        """Raise ValueError unless the arrays fit together."""
        n, m, one = self.weight.size, len(self.knots), (n_outputs,)
        columns = self.column_knots.shape
        check_numbers(
            self,
            cell_weights=(n_features, n_outputs),
            knots=(m, n_outputs),
            log_scale=(m, n_outputs),
            column_knots=columns[:2],
            column_logs=(*columns, n_outputs),
            errors=(n, n_outputs),
            predictions=(n, n_outputs),
            weight=(n,),
            far=one,
        )
        for end in (self.lowest, self.highest):
            if end.shape != one or end.dtype != np.float64 or np.isnan(end).any():
                raise ValueError("The range of y is not a number for each output.")
        if n == 0 or not (self.weight > 0).all() or (self.far < 0).any():
            raise ValueError("The spread has no rows, or a negative weight.")
        if columns[1] not in (0, n_columns) or 0 in (m, columns[0]) or not 0 < self.known <= 1:
            raise ValueError("The spread has no knots, or those of other columns.")
        if any((np.diff(knots, axis=0) < 0).any() for knots in (self.knots, self.column_knots)):
            raise ValueError("The knots of the spread do not ascend.")


def _quantile(errors: FloatArray, weight: FloatArray, share: float) -> float:
    if share < 0.5:
        return -float(upper_quantile(-errors[:, None], weight, 1.0 - share)[0])
    return float(upper_quantile(errors[:, None], weight, share)[0])


def faded(old: FloatArray, weight: FloatArray, new: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Join errors of rows held out and of new rows; return those that still count, and weights.

    Errors of rows held out count as much as those of a long stream do, and then fade.
    """
    keep, n = 0.5 ** (1.0 / settings.ERROR_HALF_LIFE), new.shape[0]
    weight = weight * (keep**n * min(1.0, 1.0 / ((1.0 - keep) * weight.sum())))
    weight = np.concatenate([weight, keep ** np.arange(n - 1, -1, -1)])
    late = weight > keep**settings.RECENT_ROWS * weight.max()
    return np.concatenate([old, new])[late], weight[late]


def upper_quantile(errors: FloatArray, weight: FloatArray, share: float) -> FloatArray:
    """Smallest error with ``share`` of n + 1 rows at or below it; a row of weight s counts as s.

    Where weights are shares, n is not their sum but the number of rows that they are worth.
    Where n rows are too few for the share, the largest error is enlarged in the ratio of the
    normal quantiles, instead of an infinite one.
    """
    order = np.argsort(errors, axis=0)
    below = np.cumsum(weight[order], axis=0)
    total = float(weight.sum())
    n = max(total, total**2 / float(weight @ weight))
    wanted = share * (n + 1.0) * (total / n)
    index = np.minimum((below < wanted * (1 - 1e-12)).sum(axis=0), errors.shape[0] - 1)
    at = np.take_along_axis(order, index[None], axis=0)
    out: FloatArray = np.take_along_axis(errors, at, axis=0)[0]
    reachable = n / (n + 1.0)
    if share > reachable:
        factor = ndtri(share) / ndtri(max(reachable, 0.75))
        out = np.where(out > 0, factor * out, out)
    return out


def unknown_spread(n_features: int, Y: FloatArray) -> Spread:
    """Return the spread where no row could be held out: normal errors as large as y itself.

    One row says nothing of the errors; its size stands for them.
    """
    n_outputs = Y.shape[1]
    size = Y.std(axis=0)
    size = np.where(size > 0, size, np.abs(Y).max(axis=0))
    size = np.where(size > 0, size, 1.0)
    errors = np.repeat(ndtri((np.arange(20) + 0.5) / 20)[:, None], n_outputs, axis=1)
    known = Spread.normal(errors, np.ones(20))
    none = np.zeros((n_features, n_outputs))
    return replace(known, cell_weights=none, log_scale=np.log(size)[None], far=size)


def range_of(Y: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and highest possible y, infinite where the data show no end.

    An end is where at least 1 % of the rows have the very same value, and there are 200 rows
    at least; or 0, where no y is negative (or none is positive).
    """
    low, high = Y.min(axis=0), Y.max(axis=0)
    enough = settings.RANGE_SHARE * weight.sum() if Y.shape[0] >= settings.RANGE_ROWS else np.inf
    at_low, at_high = weight @ (low == Y) >= enough, weight @ (high == Y) >= enough
    lowest = np.where(at_low, low, np.where(low >= 0, 0.0, -np.inf))
    highest = np.where(at_high, high, np.where(high <= 0, 0.0, np.inf))
    return lowest, highest


def fit_spread(
    operator: LevelOperator,
    levels: Levels,
    folds: Folds,
    predictions: FloatArray,
    Y: FloatArray,
    noise: FloatArray,
    points: RowArray | None,
    seed: int,
) -> Spread:
    """Learn the spread from errors of rows held out.

    Parameters
    ----------
    operator : LevelOperator
        Cells of the N rows of the fit.
    levels : Levels
        Levels of the model.
    folds : Folds
        Which of the rows were held out.
    predictions : ndarray of shape (n, K)
        Predictions of the n rows held out.
    Y : ndarray of shape (N, K)
        Targets of all rows.
    noise : ndarray of shape (K,)
        Variance of the noise.
    points : ndarray of shape (N, D) or None
        The rows as the trees see them. Without them, h_d are left out.
    seed : int
        Seed of the parts of the rows from which the scale is learnt in turn.
    """
    out = folds.held_out
    if out.size == 0:
        return unknown_spread(levels.n_features, Y)
    own, weight = operator.take(out), operator.sample_weight
    fitted = float(np.mean(folds.of_row != 0))
    errors = errors_with_all_rows(Y[out] - predictions, own.sample_weight, noise, fitted)
    seen = np.empty((out.size, 0)) if points is None else points[out].astype(np.float64)
    scale = fit_error_scale(own, levels, errors, predictions, seen, seed)
    centre = np.average(Y, axis=0, weights=weight)
    lowest, highest = range_of(Y, weight)
    return Spread(
        scale.cell_weights,
        scale.knots,
        scale.log_scale,
        scale.column_knots,
        scale.column_logs,
        errors / np.exp(scale.logs),
        predictions,
        own.sample_weight.copy(),
        known_share(operator, levels, out),
        np.sqrt(np.average((Y - centre) ** 2, axis=0, weights=weight)),
        lowest,
        highest,
    )


def errors_with_all_rows(
    errors: FloatArray, weight: FloatArray, noise: FloatArray, fitted: float
) -> FloatArray:
    r"""Return errors (n, K) as small as those of a fit to all rows.

    They are those of fits to a share of the rows, ``fitted``. The noise, of variance ``noise``
    (K,), stays as it is. The rest of the error falls with the number of rows N as
    :math:`N^{-0.4}`.
    """
    square = np.average(errors**2, axis=0, weights=weight)
    stays = np.minimum(noise / np.where(square > 0, square, np.inf), 1.0)
    out: FloatArray = errors * np.sqrt(
        stays + (1.0 - stays) * fitted ** (2 * settings.SPREAD_LEARNING)
    )
    return out


def known_share(operator: LevelOperator, levels: Levels, rows: NDArray[np.intp]) -> float:
    """Return the share of the widest cells below which a row counts as far from the others.

    A row that is new among the fitted ones would have a cell of its own in as many trees as one of
    those has. The share of the others is squared, as the mass of new rows is.
    """
    alone, n_trees = operator.with_weights(np.ones(levels.n_levels)), levels.n_trees
    counts = alone.scatter(np.ones((operator.n_rows, 1))) * np.sqrt(n_trees)
    counts[levels.offset[1] :] = 0.0
    shared = alone.take(rows).gather((counts > 1.5).astype(np.float64)) / np.sqrt(n_trees)
    return float(np.clip(np.quantile(shared, settings.SPREAD_UNKNOWN) ** 2, 1e-6, 1.0))
