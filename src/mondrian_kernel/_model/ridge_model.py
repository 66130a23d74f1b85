"""Ridge regression as a fitted record, and its error bars."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy import sparse

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.cholesky import centred_targets, evidences, signal_variance
from mondrian_kernel._linear.levels import LevelOperator, cells_above, is_in_order
from mondrian_kernel._linear.operator import CellOperator, Operator, SparseOperator
from mondrian_kernel._linear.ridge import PredictiveVariance, log_det, solve, standard_loo_errors
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.fitted import FittedModel, TrainingRows
from mondrian_kernel._model.folds import draw_folds
from mondrian_kernel._model.levels_fit import fit_folds
from mondrian_kernel._model.spread import Spread, fit_spread
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray, RowArray


def fitted_operator(
    trees: Trees,
    levels: Levels,
    rows: TrainingRows,
    n_jobs: int | None,
    *,
    points: RowArray | None = None,
    centre: bool = True,
    weighted: bool = True,
) -> Operator:
    """Return the operator of fitted rows; ``points`` are the scaled rows, where they are known."""
    weight = rows.weight if weighted else np.ones(rows.weight.size)
    if levels.n_levels > 1 and is_in_order(cells_above(trees, levels)):
        return LevelOperator(trees, rows.leaf, levels, weight, points, centre=centre, n_jobs=n_jobs)
    if levels.n_levels > 1:
        return SparseOperator(levels.features(rows.leaf, None), weight, centre, n_jobs)
    cells = levels.column[0][rows.leaf]
    return CellOperator(
        cells, levels.n_features, sample_weight=weight, centre=centre, n_jobs=n_jobs
    )


def unfitted_ridge(
    trees: Trees,
    levels: Levels,
    leaf: IntArray,
    X: FloatArray,
    Y: FloatArray,
    weight: FloatArray | None,
    alpha: float,
    *,
    columns: Columns,
    seed: int,
) -> FittedModel:
    """Return the record of a regression whose weights are still to be fitted."""
    n_rows, n_outputs = Y.shape
    rows = TrainingRows(leaf, Y, np.ones(n_rows) if weight is None else weight, X)
    none, blank = np.empty((0, n_outputs)), np.zeros(n_outputs)
    return FittedModel(trees, levels, none, blank, columns, float(alpha), seed, blank, rows)


def fit_ridge(model: FittedModel, n_jobs: int | None) -> FittedModel:
    """Return the record with the weights, intercept and signal variance of ridge regression.

    Trees, levels, rows and alpha of the record are given; the rest of it stays. The spread is that
    of rows held out.
    """
    assert model.rows is not None
    operator = fitted_operator(model.trees, model.levels, model.rows, n_jobs, points=model.rows.X)
    fit = solve(operator, model.rows.Y, model.alpha)
    target, _ = centred_targets(operator, model.rows.Y)
    signal = signal_variance(operator, target, fit.dual)
    model = replace(model, cell_weights=fit.coef, intercept=fit.intercept, signal=signal)
    return replace(model, spread=_spread(model, n_jobs))


def _spread(model: FittedModel, n_jobs: int | None) -> Spread:
    """Return the spread of errors of rows held out."""
    rows, levels, before = model.rows, model.levels, model.spread
    assert rows is not None
    folds = draw_folds(rows.weight.size, model.seed)
    operator = LevelOperator(
        model.trees, rows.leaf, levels, rows.weight, centre=False, n_jobs=n_jobs
    )
    mean = np.average(rows.Y, axis=0, weights=rows.weight)
    centred = rows.Y - mean
    unit = np.abs(centred).max(axis=0)  # single precision has no room for large numbers
    unit = np.where(unit > 0, unit, 1.0)
    by_fold = np.repeat((centred / unit)[:, None], folds.n_folds, axis=1)
    found = fit_folds(operator, by_fold, folds, levels.weights[:, None] / model.alpha)
    predictions, Y = mean + unit * found[:, :, 0], rows.Y
    if model.trend is not None and rows.X is not None:  # the rows hold what the trend left of y
        trend = model.trend(rows.X)
        predictions, Y = predictions + trend[folds.held_out], Y + trend
        if rows.held_out is not None:
            Y[folds.held_out] = rows.held_out + trend[folds.held_out]
    noise = model.signal * model.alpha
    spread = fit_spread(operator, levels, folds, predictions, Y, noise, rows.X, model.seed)
    if before is not None:  # the targets are rounded where a trend was taken off and added
        spread = replace(spread, far=before.far, lowest=before.lowest, highest=before.highest)
    return spread


def log_marginal_likelihood(model: FittedModel, n_jobs: int | None) -> float:
    """Log-likelihood of y, with the signal variance at its likeliest; NaN without the rows."""
    if model.rows is None:
        return float("nan")
    operator = fitted_operator(model.trees, model.levels, model.rows, n_jobs)
    n = operator.total_weight - operator.centre
    profiled, _ = evidences(
        n * model.signal[:, None],
        np.array([log_det(operator, model.alpha)]),
        np.array([model.alpha]),
        operator,
    )
    return float(profiled[0])


class Variance(Protocol):
    """Variance of f at new rows with features Φ, in units of the signal variance."""

    def __call__(self, Phi_new: sparse.csr_matrix, /) -> FloatArray:
        """Variance at each row, (n,)."""

    def covariance(self, Phi_new: sparse.csr_matrix, /) -> FloatArray:
        """Joint covariance, (n, n)."""


@dataclass(frozen=True, eq=False)
class ErrorBars:
    """Variance of f at new rows, and the errors of rows that were left out, in its units.

    Attributes
    ----------
    variance : callable
        Variance in units of the signal variance.
    errors : ndarray of shape (n, K)
        Absolute errors of rows over their own standard deviation.
    weight : ndarray of shape (n,)
        Weights of these rows.
    """

    variance: Variance
    errors: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, model: FittedModel, n_jobs: int | None) -> ErrorBars:
        """Compute the error bars of a fit, in O(min(N, F)³)."""
        assert model.rows is not None
        rows, alpha = model.rows, model.alpha
        operator = fitted_operator(model.trees, model.levels, rows, n_jobs)
        if operator.size > settings.VARIANCE_DENSE_SIZE:
            raise ValueError(
                f"The joint posterior of {operator.n_rows} rows needs a matrix of "
                f"{operator.size} × {operator.size} numbers, more than "
                f"{settings.VARIANCE_DENSE_SIZE} × {settings.VARIANCE_DENSE_SIZE}. Fit fewer rows, "
                "or use return_std or predict_interval."
            )
        exact = PredictiveVariance(operator, alpha)
        return cls(exact, standard_loo_errors(operator, rows.Y, alpha, exact), rows.weight)

    def std(self, Phi: sparse.csr_matrix, model: FittedModel) -> FloatArray:
        """Return the standard deviation of a new y at rows with features Φ, (n, K)."""
        variance = self.variance(Phi) + model.alpha
        std: FloatArray = np.sqrt(variance[:, None] * model.signal)
        return std

    def spread(self, signal: FloatArray) -> Spread:
        """Return errors of both signs in units of the standard deviation, as a spread."""
        unit, weight = self.errors / np.sqrt(np.where(signal > 0, signal, 1.0)), self.weight
        if unit.shape[0] == 0:
            unit, weight = np.ones((1, signal.size)), np.ones(1)
        return Spread.normal(np.concatenate([unit, -unit]), np.concatenate([weight, weight]))
