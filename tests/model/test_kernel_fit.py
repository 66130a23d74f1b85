"""The metric of the trees, beside that of the trend."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel._model.columns import Columns, Metric
from mondrian_kernel._model.folds import Folds, draw_folds
from mondrian_kernel._model.kernel_fit import (
    choose_metric,
    fit_kernel,
    plan_sizes,
    seen_by_trees,
    trend_metrics,
)
from mondrian_kernel._model.levels_fit import held_out_errors
from mondrian_kernel._model.trend_fit import fit_trend
from mondrian_kernel._path.driver import Stages

rng = np.random.default_rng(0)
X = rng.uniform(size=(1500, 4))
ONES = np.ones(1500)
WIDTHS = np.array([0.5, 2.0, 8.0]), np.full(3, 1 / 3)
FIRST_COUNTS = Metric(Columns.scaled(np.ones(4), np.array([2.8, 0.4, 0.4, 0.4])), *WIDTHS)
ALIKE = Metric(Columns.scaled(np.ones(4)), *WIDTHS)
STAGES = Stages(0, 1)


def power_of(found):
    """The power that the relevances of FIRST_COUNTS were raised to: (2.8 / 0.4) ** power."""
    relevance = found.columns.relevance
    return np.log(relevance[0] / relevance[1]) / np.log(7.0)


@pytest.mark.parametrize(
    ("y", "low", "high"),
    [(np.floor(12 * X[:, 0]) % 2, 1.5, 2.6), (np.floor(3 * X).sum(axis=1) % 2, 0.3, 0.75)],
    ids=["one column", "all columns"],
)
def test_trees_take_the_power_that_their_targets_want(y, low, high):
    folds = draw_folds(1500, 0)
    by_fold = np.repeat((y - y.mean())[:, None, None], folds.n_folds, axis=1)

    def losses(operator, some):
        return held_out_errors(operator, by_fold[some], folds.take(some))

    found = choose_metric(X, ONES, folds, FIRST_COUNTS, losses, 0, 1)
    assert low < power_of(found) < high


def test_nothing_is_compared_without_relevances_or_rows_held_out():
    folds, none = draw_folds(1500, 0), Folds(np.full(1500, -1), 0)
    for metric, own in [(ALIKE, folds), (FIRST_COUNTS, none)]:
        assert choose_metric(X, ONES, own, metric, None, 0, 1) is metric
        first, factors = trend_metrics(metric, own)
        assert first is metric
        assert_array_equal(factors, [np.ones(4)])


def test_a_trend_is_the_same_function_of_rows_in_another_metric():
    y = np.sin(3 * X[:, :1]) + X[:, 1:2]
    alike, factors = trend_metrics(FIRST_COUNTS, draw_folds(1500, 0))
    T = alike.columns(X)
    trends, _ = fit_trend(T, y, ONES, draw_folds(1500, 0), alike, factors, 0, STAGES)
    metric = FIRST_COUNTS.raised(2.5)
    for before, after in zip(trends, seen_by_trees(trends, alike, metric), strict=True):
        # Kernels have single precision, in which rows in other units are rounded otherwise.
        assert_allclose(after(metric.columns(X)), before(T), atol=1e-5 * np.abs(before.coef).sum())


def test_predictions_of_fitted_rows_go_through_both_metrics():
    y = np.sin(3 * X[:, :1]) + (np.floor(12 * X[:, 0]) % 2)[:, None]
    options = {"n_estimators": 20, "max_cells": None, "n_jobs": 1, "stages": STAGES}
    fit = fit_kernel(X, y, None, 0, FIRST_COUNTS, **options)
    rows = fit.model.rows
    on_cells = fit.model.levels.features(rows.leaf, None) @ fit.model.cell_weights
    expected = y - rows.Y + on_cells  # the trend of each row, and the sum over its cells
    assert_allclose(fit.model.scores(X, 1), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("n_rows", "n_trees"),
    [(1000, 100), (4000, 160), (5000, 200), (2_000_000, 200), (10_000_000, 40)],
)
def test_sizes_of_a_fit(n_rows, n_trees, monkeypatch):
    """A quarter as many cells as rows, unless their boxes take more than 1.2 GB."""
    monkeypatch.setattr("mondrian_kernel._trees.checks.machine_memory", lambda: 1e12)
    found, cells = plan_sizes((n_rows, 10), "auto", None)
    assert found == n_trees
    assert cells == min(n_rows / 4, 1.2e9 / (2 * n_trees * (8 * 10 + 44)))
    assert plan_sizes((n_rows, 10), 50, 5000) == (50, 100)
