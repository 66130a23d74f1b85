r"""How far off predictions are: a local scale of the errors, and their quantiles.

The errors :math:`e_i` are those of rows that were held out. Their size is learnt on the same trees,
:math:`\ln s(x) = \mathrm{E} \ln |e|`, and the quantiles are those of :math:`e_i / s(x_i)`, with s
learnt from other rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from mondrian_kernel._linear.levels import LevelOperator
from mondrian_kernel._model.folds import Folds
from mondrian_kernel._model.levels_fit import fit_folds, solve_levels
from mondrian_kernel._settings import (
    ERROR_HALF_LIFE,
    LEVEL_TREES,
    RANGE_ROWS,
    RANGE_SHARE,
    RECENT_ROWS,
    SPREAD_FLOOR,
    SPREAD_FOLDS,
    SPREAD_WEIGHTS,
)
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._typing import FloatArray


@dataclass(frozen=True, eq=False)
class Spread:
    r"""Local scale :math:`s(x) = e^{g(x)}` of the errors, and errors in units of it.

    Attributes
    ----------
    cell_weights : ndarray of shape (F, K)
        Weights of the cells in g.
    intercept : ndarray of shape (K,)
        Intercept of g.
    errors : ndarray of shape (n, K)
        Errors :math:`(y_i - f(x_i)) / s(x_i)` of rows held out.
    weight : ndarray of shape (n,)
        Weights of these rows.
    far : ndarray of shape (K,)
        Standard deviation of y about its mean. Where the trees know nothing of a row this is added.
    lowest, highest : ndarrays of shape (K,)
        Ends of the range of y, infinite where the data show none.
    """

    cell_weights: FloatArray
    intercept: FloatArray
    errors: FloatArray
    weight: FloatArray
    far: FloatArray
    lowest: FloatArray
    highest: FloatArray

    @classmethod
    def normal(cls, n_outputs: int) -> Spread:
        """Return a spread whose scale is a standard deviation."""
        one, free = np.ones((1, n_outputs)), np.full(n_outputs, np.inf)
        none = np.empty((0, n_outputs))
        return cls(none, one[0], np.vstack([one, -one]), np.ones(2), one[0], -free, free)

    def scale(self, log_scale: FloatArray, mass: FloatArray) -> FloatArray:
        r"""Return :math:`\sqrt{s(x)^2 + (1 - m(x)) \mathrm{far}^2}`, (n, K).

        ``log_scale`` (n, K) is g without its intercept; ``mass`` (n,) is the share m of the widest
        cells in which a row lies with certainty, 1 for fitted rows and 0 far away.
        """
        local = np.exp(np.clip(log_scale + self.intercept, -700.0, 700.0))
        unknown = np.clip(1.0 - mass, 0.0, 1.0)[:, None]
        out: FloatArray = np.hypot(local, np.sqrt(unknown) * self.far)
        return out

    @property
    def unit_deviation(self) -> FloatArray:
        """Standard deviation of the errors in units of the scale, (K,)."""
        out: FloatArray = np.sqrt(np.average(self.errors**2, axis=0, weights=self.weight))
        return out

    def quantiles(self, shares: FloatArray) -> FloatArray:
        """Quantiles of the errors in units of the scale, (Q, K).

        Below one half they are rounded down and above it up, with one more row than there are, as
        in conformal prediction.
        """
        return np.stack([self._quantile(float(share)) for share in shares])

    def _quantile(self, share: float) -> FloatArray:
        if share < 0.5:
            return -upper_quantile(-self.errors, self.weight, 1.0 - share)
        return upper_quantile(self.errors, self.weight, share)

    def continued(
        self, errors: FloatArray, n_cells: NDArray[np.int64], n_more: NDArray[np.int64]
    ) -> Spread:
        """Return the spread after new rows, with new cells, and errors that follow a change.

        Parameters
        ----------
        errors : ndarray of shape (n, K)
            Errors of the new rows in units of the scale, in the order in which they came.
        n_cells, n_more : ndarrays of shape (L,)
            Numbers of cells at each level before, and of those that were added. The local scale is
            not learnt any more: the new ones have no weight.
        """
        parts = np.split(self.cell_weights, np.cumsum(n_cells)[:-1])
        padded = [np.pad(part, ((0, n), (0, 0))) for part, n in zip(parts, n_more, strict=True)]
        errors, weight = faded(self.errors, self.weight, errors)
        return replace(self, cell_weights=np.concatenate(padded), errors=errors, weight=weight)

    def check(self, n_features: int, n_outputs: int) -> None:
        """Raise ValueError unless the arrays fit together."""
        n, one = self.weight.size, (n_outputs,)
        wanted = {
            "cell_weights": (n_features, n_outputs),
            "intercept": one,
            "errors": (n, n_outputs),
            "weight": (n,),
            "far": one,
        }
        for name, shape in wanted.items():
            values = getattr(self, name)
            if values.shape != shape or values.dtype != np.float64 or not np.isfinite(values).all():
                raise ValueError(f"{name} of the spread has another shape or type, or is infinite.")
        for end in (self.lowest, self.highest):
            if end.shape != one or end.dtype != np.float64 or np.isnan(end).any():
                raise ValueError("The range of y is not a number for each output.")
        if n == 0 or not (self.weight > 0).all() or (self.far < 0).any():
            raise ValueError("The spread has no rows, or a negative weight.")


def faded(old: FloatArray, weight: FloatArray, new: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Join errors of rows held out and of new rows; return those that still count, and weights.

    Errors of rows held out count as much as those of a long stream do, and then fade.
    """
    keep, n = 0.5 ** (1.0 / ERROR_HALF_LIFE), new.shape[0]
    weight = weight * (keep**n * min(1.0, 1.0 / ((1.0 - keep) * weight.sum())))
    weight = np.concatenate([weight, keep ** np.arange(n - 1, -1, -1)])
    late = weight > keep**RECENT_ROWS * weight.max()
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
        factor = norm.ppf(share) / norm.ppf(max(reachable, 0.75))
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
    errors = np.repeat(norm.ppf((np.arange(20) + 0.5) / 20)[:, None], n_outputs, axis=1)
    free = np.full(n_outputs, np.inf)
    none = np.zeros((n_features, n_outputs))
    return Spread(none, np.log(size), errors, np.ones(20), size, -free, free)


def range_of(Y: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and highest possible y, infinite where the data show no end.

    An end is where at least 1 % of the rows have the very same value, and there are 200 rows
    at least; or 0, where no y is negative (or none is positive).
    """
    low, high = Y.min(axis=0), Y.max(axis=0)
    enough = RANGE_SHARE * weight.sum() if Y.shape[0] >= RANGE_ROWS else np.inf
    at_low, at_high = weight @ (low == Y) >= enough, weight @ (high == Y) >= enough
    lowest = np.where(at_low, low, np.where(low >= 0, 0.0, -np.inf))
    highest = np.where(at_high, high, np.where(high <= 0, 0.0, np.inf))
    return lowest, highest


def fit_spread(
    operator: LevelOperator,
    levels: Levels,
    errors: FloatArray,
    Y: FloatArray,
    all_weights: FloatArray,
    seed: int,
) -> Spread:
    """Learn the spread of errors.

    Parameters
    ----------
    operator : LevelOperator
        Cells of the rows held out.
    levels : Levels
        Levels of the model.
    errors : ndarray of shape (n, K)
        Errors of the rows held out.
    Y : ndarray of shape (N, K)
        Targets of all rows, for their range and standard deviation.
    all_weights : ndarray of shape (N,)
        Sample weights of all rows.
    seed : int
        Seed of the parts of the rows from which the scale is learnt in turn.
    """
    weight, n_rows = operator.sample_weight, errors.shape[0]
    typical = np.sqrt(np.average(errors**2, axis=0, weights=weight))
    floor = np.maximum(SPREAD_FLOOR * typical, np.finfo(float).tiny)
    size = np.log(np.maximum(np.abs(errors), floor))
    mean = np.average(size, axis=0, weights=weight)
    rest = size - mean
    weights = np.repeat([SPREAD_WEIGHTS], levels.n_levels, axis=0) / levels.n_levels
    n_folds = min(SPREAD_FOLDS, n_rows)
    order = np.random.default_rng([seed, 5]).permutation(n_rows)
    folds = Folds(order % n_folds, n_folds)
    by_fold = np.repeat(rest[:, None], n_folds, axis=1)
    found = fit_folds(operator.with_trees(LEVEL_TREES), by_fold, folds, weights)
    lost = np.einsum("n,nkj->kj", weight, (found - rest[:, :, None]) ** 2)
    best = np.argmin(lost, axis=1)
    v = weights[:, best]  # (L, K)
    root = np.repeat(operator.root_weight[:, None], rest.shape[1], axis=1)
    dual = solve_levels(operator, rest, root, v)
    sums = operator.with_weights(np.ones(levels.n_levels)).scatter(dual)
    factor = np.repeat(v / np.sqrt(levels.weights)[:, None], np.diff(levels.offset), axis=0)
    scale = np.exp(mean + np.take_along_axis(found, best[None, :, None], axis=2)[:, :, 0])
    centre = np.average(Y, axis=0, weights=all_weights)
    lowest, highest = range_of(Y, all_weights)
    return Spread(
        factor * sums,
        mean,
        errors / scale,
        weight.copy(),
        np.sqrt(np.average((Y - centre) ** 2, axis=0, weights=all_weights)),
        lowest,
        highest,
    )
