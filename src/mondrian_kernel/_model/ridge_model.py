"""Ridge regression as a fitted record, and its error bars."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy import sparse

from mondrian_kernel._linear.cell_operator import CellOperator
from mondrian_kernel._linear.levels import LevelOperator
from mondrian_kernel._linear.operator import Operator
from mondrian_kernel._linear.ridge import log_det, solve, standard_loo_errors
from mondrian_kernel._linear.scores import centred_targets, evidences, signal_variance
from mondrian_kernel._linear.variance import PredictiveVariance, SampledVariance
from mondrian_kernel._model.fitted import FittedModel, TrainingRows
from mondrian_kernel._settings import VARIANCE_DENSE_SIZE
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray


def fitted_operator(
    trees: Trees,
    levels: Levels,
    rows: TrainingRows,
    n_jobs: int | None,
    *,
    points: FloatArray | None = None,
    centre: bool = True,
    weighted: bool = True,
) -> Operator:
    """Return the operator of fitted rows; ``points`` are the scaled rows, where they are known."""
    weight = rows.weight if weighted else np.ones(rows.weight.size)
    if levels.n_levels > 1:
        return LevelOperator(trees, rows.leaf, levels, weight, points, centre=centre, n_jobs=n_jobs)
    return CellOperator(
        levels.column[0][rows.leaf],
        levels.n_features,
        sample_weight=weight,
        centre=centre,
        n_jobs=n_jobs,
    )


def unfitted_ridge(
    trees: Trees,
    levels: Levels,
    leaf: IntArray,
    Y: FloatArray,
    weight: FloatArray | None,
    alpha: float,
    *,
    scale: FloatArray,
    relevance: FloatArray,
    seed: int,
) -> FittedModel:
    """Return the record of a regression whose weights are still to be fitted."""
    n_rows, n_outputs = Y.shape
    rows = TrainingRows(leaf, Y, np.ones(n_rows) if weight is None else weight)
    none, blank = np.empty((0, n_outputs)), np.zeros(n_outputs)
    return FittedModel(
        trees, levels, none, blank, scale, relevance, float(alpha), seed, blank, rows
    )


def fit_ridge(model: FittedModel, n_jobs: int | None, points: FloatArray | None) -> FittedModel:
    """Return the record with the weights, intercept and signal variance of ridge regression.

    Trees, levels, rows and alpha of the record are given; the rest of it stays.
    """
    assert model.rows is not None
    operator = fitted_operator(model.trees, model.levels, model.rows, n_jobs, points=points)
    fit = solve(operator, model.rows.Y, model.alpha)
    target, _ = centred_targets(operator, model.rows.Y)
    signal = signal_variance(operator, target, fit.dual)
    return replace(model, cell_weights=fit.coef, intercept=fit.intercept, signal=signal)


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
        n_rows=operator.n_rows,
        total_weight=operator.total_weight,
        centre=operator.centre,
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
        """Compute the error bars of a fit: exactly, or from a sample where rows are many."""
        assert model.rows is not None
        rows, alpha = model.rows, model.alpha
        operator = fitted_operator(model.trees, model.levels, rows, n_jobs)
        if operator.size <= VARIANCE_DENSE_SIZE:
            exact = PredictiveVariance(operator, alpha)
            return cls(exact, standard_loo_errors(operator, rows.Y, alpha, exact), rows.weight)
        sampled = SampledVariance(operator, alpha)
        errors = sampled.standard_errors(solve(operator, rows.Y, alpha).dual)
        return cls(sampled, errors, rows.weight[sampled.rows])

    def std(self, Phi: sparse.csr_matrix, model: FittedModel) -> FloatArray:
        """Return the standard deviation of a new y at rows with features Φ, (n, K)."""
        variance = self.variance(Phi) + model.alpha
        std: FloatArray = np.sqrt(variance[:, None] * model.signal)
        return std

    def quantile(self, share: float) -> FloatArray:
        """Quantile of the errors, in units of a standard deviation at signal variance 1, (K,)."""
        return weighted_quantile(self.errors, self.weight, share)


def weighted_quantile(errors: FloatArray, weight: FloatArray, share: float) -> FloatArray:
    """Quantile of each column of ``errors`` (N, K); a row of weight s counts as s rows.

    Between two rows it is the larger one.
    """
    order = np.argsort(errors, axis=0)
    below = np.cumsum(weight[order], axis=0)
    wanted = 1.0 + share * (weight.sum() - 1.0)
    index = np.minimum((below < wanted * (1 - 1e-12)).sum(axis=0), errors.shape[0] - 1)
    at = np.take_along_axis(order, index[None], axis=0)
    quantile: FloatArray = np.take_along_axis(errors, at, axis=0)[0]
    return quantile
