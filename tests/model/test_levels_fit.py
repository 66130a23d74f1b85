"""Ridge fits on cells at several lifetimes, many at once, against dense linear algebra."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.levels import LevelOperator
from mondrian_kernel._model.folds import Folds, draw_folds
from mondrian_kernel._model.levels_fit import (
    fit_folds,
    held_out_errors,
    lowest_weights,
    solve_levels,
)
from mondrian_kernel._settings import LEVEL_NOISE, LEVEL_SLOPES
from mondrian_kernel._trees.levels import Levels, grow_trees

rng = np.random.default_rng(0)
X = rng.uniform(size=(120, 2))
Y = np.stack([np.sin(6 * X[:, 0]), X[:, 1]], axis=1) + 0.1 * rng.normal(size=(120, 2))
WEIGHT = rng.integers(1, 4, size=120) * 1.0
LIFETIMES = np.array([1.0, 3.0, 9.0])


def operator(weight=WEIGHT, n_trees=20):
    trees, leaf = grow_trees(X, 9.0, n_trees, 0, None, 1)
    levels = Levels.of(trees, LIFETIMES, np.ones(3))
    return LevelOperator(trees, leaf, levels, weight, X, centre=False), levels, leaf


def dense_kernel(levels, leaf, v):
    """Σ v_l (share of trees in which two rows share a cell), literally."""
    K = np.zeros((120, 120))
    for column, w in zip(levels.column, v, strict=True):
        cells = column[leaf]
        K += w * np.mean(cells[:, None] == cells[None], axis=2)
    return K


def test_products_of_each_column_with_its_own_weights():
    made, levels, leaf = operator()
    V, v = rng.normal(size=(120, 4)), rng.uniform(size=(3, 4))
    expected = [dense_kernel(levels, leaf, v[:, j]) @ V[:, j] for j in range(4)]
    assert_allclose(made.products(V, v), np.stack(expected, axis=1), atol=1e-12)
    # Sums of at most 120 numbers in single precision.
    single = made.products(V.astype(np.float32), v)
    assert single.dtype == np.float32
    assert_allclose(single, np.stack(expected, axis=1), atol=120 * 1e-7 * np.abs(V).max() * 3)


def test_some_of_the_trees():
    made, levels, leaf = operator()
    cells = levels.column[2][leaf[:, :7]]
    K = np.mean(cells[:, None] == cells[None], axis=2)
    V, v = rng.normal(size=(120, 1)), np.array([[0.0], [0.0], [1.0]])
    assert_allclose(made.with_trees(7).products(V, v), K @ V, atol=1e-12)


def test_predictions_of_rows_held_out(monkeypatch):
    """Each part is predicted by a ridge fit to the other rows, with its own targets."""
    monkeypatch.setattr(settings, "LEVEL_TOL", 1e-9)
    monkeypatch.setattr(settings, "LEVEL_SWEEPS", 500)
    made, levels, leaf = operator()
    folds, weights = draw_folds(120, 0), np.exp(rng.normal(size=(3, 2)))
    by_fold = Y[:, None] + 0.1 * rng.normal(size=(1, folds.n_folds, 1))
    found = fit_folds(made, by_fold, folds, weights)
    for j in range(2):
        K = dense_kernel(levels, leaf, weights[:, j])
        for fold in range(folds.n_folds):
            own, rest = folds.of_row == fold, folds.of_row != fold
            A = K[np.ix_(rest, rest)] + np.diag(1 / WEIGHT[rest])
            expected = K[np.ix_(own, rest)] @ np.linalg.solve(A, by_fold[rest, fold])
            assert_allclose(found[folds.of_row[folds.held_out] == fold, :, j], expected, atol=1e-3)


def test_solutions_without_rows_held_out(monkeypatch):
    monkeypatch.setattr(settings, "LEVEL_TOL", 1e-9)
    monkeypatch.setattr(settings, "LEVEL_SWEEPS", 500)
    made, levels, leaf = operator()
    v = np.array([0.5, 1.0, 2.0])
    weight = np.repeat(WEIGHT[:, None], 2, axis=1)
    fits = solve_levels(made, Y, weight, np.repeat(v[:, None], 2, axis=1))
    K = dense_kernel(levels, leaf, v)
    dual = np.linalg.solve(K + np.diag(1 / WEIGHT), Y)
    assert_allclose(fits.predictions, K @ dual, atol=1e-3)
    for column, (begin, end) in zip(levels.column, pairwise(levels.offset), strict=True):
        sums = np.zeros((end - begin, 2))
        np.add.at(sums, column[leaf], dual[:, None])
        assert_allclose(fits.sums[begin:end], sums, atol=2e-2)


def test_more_columns_than_are_solved_at_once(monkeypatch):
    monkeypatch.setattr(settings, "LEVEL_TOL", 1e-9)
    monkeypatch.setattr(settings, "LEVEL_SWEEPS", 500)
    made, *_ = operator()
    y, v = np.tile(Y, 5), np.exp(rng.normal(size=(3, 10)))
    weight = rng.uniform(0.5, 2.0, size=(120, 10))
    together = solve_levels(made, y, weight, v)
    for j in range(10):
        alone = solve_levels(made, y[:, [j]], weight[:, [j]], v[:, [j]])
        assert_allclose(together.predictions[:, [j]], alone.predictions, atol=1e-4)


def test_progress_ends_at_one():
    made, *_ = operator()
    shares = []
    solve_levels(made, np.tile(Y, 5), np.ones((120, 10)), np.ones((3, 10)), shares.append)
    assert min(shares) >= 0
    assert shares[-1] == 1.0


def test_noise_is_recovered():
    """Targets drawn from the model have the error of their true weights, within a tenth."""
    made, levels, leaf = operator(np.ones(120), n_trees=40)
    K = dense_kernel(levels, leaf, np.exp([-2.0, -0.5, 1.0]))
    errors = []
    for seed in range(20):
        draw = np.random.default_rng(seed)
        y = np.linalg.cholesky(K + 1e-9 * np.eye(120)) @ draw.normal(size=120) + draw.normal(
            size=120
        )
        folds = Folds(np.arange(120) % 5, 5)
        by_fold = np.repeat(y[:, None, None], 5, axis=1)
        v = lowest_weights(held_out_errors(made, by_fold, folds), 3, 5)
        both = np.stack([v, np.exp([-2.0, -0.5, 1.0])], axis=1)
        rest = fit_folds(made, by_fold, folds, both)[:, 0] - y[folds.held_out, None]
        errors.append(np.mean(rest**2, axis=0))
    chosen, true = np.mean(errors, axis=0)
    assert chosen < 1.1 * true


@pytest.mark.parametrize("best", [LEVEL_NOISE[0] - 9, *LEVEL_NOISE[1:-1], 0.3, LEVEL_NOISE[-1] + 9])
def test_weights_grow_until_the_loss_does(best):
    """On a parabola the lowest point is found, and nothing beyond the first rise is tried."""
    tried = []

    def losses(weights):
        noise = np.log(weights[-1])
        slope = np.log(weights[1] / weights[0])
        tried.append(float(noise[0]))
        return np.exp((noise - best) ** 2 + (slope - LEVEL_SLOPES[1]) ** 2)

    v = lowest_weights(losses, 3, n_folds=1)
    nearest = int(np.argmin(np.abs(np.array(LEVEL_NOISE) - best)))
    assert_allclose(tried, LEVEL_NOISE[: nearest + 2])
    assert_allclose(np.log(v[-1]), np.clip(best, LEVEL_NOISE[0], LEVEL_NOISE[-1]))
    assert_allclose(np.diff(np.log(v)), LEVEL_SLOPES[1])
