"""The lifetime paths of classifiers and forests: what is held out, and what the scores are."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import MondrianFeatures
from mondrian_kernel._linear.losses import encode, value
from mondrian_kernel._linear.minimise import minimise
from mondrian_kernel._linear.operator import CellOperator
from mondrian_kernel._path import loss_path as module
from mondrian_kernel._path.checks import join_equal
from mondrian_kernel._path.loss_path import loss_path, split
from mondrian_kernel._path.ridge_path import forest_path, loo_predictions
from mondrian_kernel._trees.growth import Growth

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(150, 2))
LABELS = (X[:, 0] * X[:, 1] > 0) + 2 * (X[:, 0] > 0.7)
WEIGHT = rng.uniform(0.5, 2.0, size=150)


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared"])
def test_losses_are_those_of_fits_from_scratch(loss, monkeypatch):
    exact = partial(module.LossLearner, tol=1e-7, max_iter=200)
    monkeypatch.setattr(module, "LossLearner", exact)
    path = loss_path(
        X, LABELS, 4, loss, n_estimators=12, n_lifetimes=6, alphas=[0.1, 1.0],
        sample_weight=WEIGHT, seed=3,
    )  # fmt: skip
    fitted, held_out = split(LABELS, 4000, np.random.default_rng(3))
    Y = encode(LABELS, 4, loss)
    growth = Growth(X[fitted], 12, 3)
    growth.advance(float(path.lifetimes[-1]))
    trees, leaf = growth.freeze()
    assert np.isfinite(path.validation_loss[-1]).sum() == 2
    for k, lifetime in enumerate(path.lifetimes):
        features = MondrianFeatures.from_trees(trees, lifetime)
        assert path.n_cells[k] == features.n_cells_
        for a, alpha in enumerate(path.alphas):
            if np.isnan(path.validation_loss[k, a]):
                continue
            cells, n_cells = features.levels_.column[0][leaf], features.n_cells_
            rows, s = CellOperator(cells, n_cells, centre=False), WEIGHT[fitted]
            fit = minimise(rows, Y[fitted], loss, alpha, sample_weight=s, tol=1e-7)
            scores = features.transform(X[held_out]) @ fit.W + fit.b
            expected = np.average(value(loss, Y[held_out], scores), weights=WEIGHT[held_out])
            assert_allclose(path.validation_loss[k, a], expected, rtol=5e-3)
            scores = features.transform(X[fitted]) @ fit.W + fit.b
            expected = np.average(value(loss, Y[fitted], scores), weights=WEIGHT[fitted])
            assert_allclose(path.train_loss[k, a], expected, rtol=5e-3, atol=1e-4)


def test_best_is_the_least_held_out_loss():
    path = loss_path(X, LABELS, 4, "log_loss", n_estimators=20)
    k, a = path.best_index
    assert path.score[k, a] == np.nanmin(path.validation_loss)
    assert path.best_lifetime == path.lifetimes[k]
    assert path.best_alpha == path.alphas[a]
    assert (np.diff(path.lifetimes) > 0).all()
    assert path.score[k, a] < 0.5 * np.log(4)


def test_path_stops_when_it_has_passed_its_best():
    noise = np.random.default_rng(1).integers(2, size=150)
    path = loss_path(X, noise, 2, "squared", n_estimators=20, n_lifetimes=40, alphas=[0.01])
    assert path.lifetimes.size < 30
    assert path.best_index[0] < path.lifetimes.size - 3


def test_given_lifetimes_are_looked_at_and_the_alpha_moves_as_far_as_it_helps():
    path = loss_path(X, LABELS, 4, "log_loss", n_estimators=20, lifetimes=[2.0])
    assert_array_equal(path.lifetimes, [2.0])
    seen = np.flatnonzero(np.isfinite(path.score[0]))
    assert_array_equal(seen, np.arange(seen[0], seen[-1] + 1))
    assert seen[0] < path.best_index[1] < seen[-1]


def test_a_smaller_alpha_must_save_more_than_a_little():
    """Of two penalties that do about as well the larger one is kept: its fits are faster."""
    alphas = np.geomspace(0.05, 0.1, 9)
    path = loss_path(X, LABELS, 4, "log_loss", n_estimators=20, lifetimes=[2.0], alphas=alphas)
    losses = path.validation_loss[0]
    assert 0.98 * losses[-1] < losses[-2] < losses[-1]
    assert_array_equal(np.isfinite(losses), np.arange(9) >= 7)


def test_callback_and_threads():
    seen = []
    one = loss_path(
        X, LABELS, 4, "log_loss", n_estimators=9, callback=lambda *args: seen.append(args)
    )
    two = loss_path(X, LABELS, 4, "log_loss", n_estimators=9, n_jobs=2)
    assert_array_equal(one.validation_loss, two.validation_loss)
    assert [done for done, *_ in seen] == list(range(1, one.lifetimes.size + 1))
    assert seen[-1][2]["best"] == np.nanmin(one.score)


def test_split_is_stratified_and_every_class_is_fitted():
    labels = np.repeat([0, 1, 2, 3], [100, 50, 2, 1])
    for seed in range(20):
        fitted, held_out = split(labels, 4000, np.random.default_rng(seed))
        assert_array_equal(np.sort(np.append(fitted, held_out)), np.arange(labels.size))
        assert set(labels[fitted]) == {0, 1, 2, 3}
        counts = np.bincount(labels[held_out], minlength=4)
        assert_allclose(counts[:2], [20, 10], atol=1)
        assert counts[3] == 0


def test_split_bounds_both_parts():
    labels = np.repeat([0, 1, 2], [500, 500, 1])
    fitted, held_out = split(labels, 30, np.random.default_rng(0))
    assert fitted.size == held_out.size == 30
    assert 1000 in fitted
    assert np.intersect1d(fitted, held_out).size == 0


def test_where_nothing_can_be_held_out_the_rows_stand_in():
    fitted, held_out = split(np.arange(3), 10, np.random.default_rng(0))
    assert_array_equal(fitted, [0, 1, 2])
    assert_array_equal(held_out, [0, 1, 2])


def test_equal_rows_of_a_class_are_joined():
    rows = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0], [1.0, 2.0], [1.0, 0.0]])
    first, weight = join_equal(rows, np.array([[0], [0], [1], [0], [0]]), None)
    found = {(*rows[i], w) for i, w in zip(first, weight, strict=True)}
    assert found == {(1.0, 2.0, 2.0), (1.0, 2.0, 1.0), (0.0, 1.0, 1.0), (1.0, 0.0, 1.0)}
    _, weight = join_equal(rows, np.zeros((5, 1)), np.arange(5.0))
    assert weight.sum() == 10.0


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("s", [np.ones(30), WEIGHT[:30]], ids=["plain", "weighted"])
def test_forest_predictions_of_left_out_rows_are_those_of_fits_without_them(fit_intercept, s):
    rows, Y = X[:30], np.column_stack([X[:30, 0], np.sin(5 * X[:30, 1])])
    features = MondrianFeatures(2.0, 7, random_state=0).fit(rows)
    cells, alphas = features.apply(rows), np.array([0.0, 0.3, 2.0])
    found = loo_predictions(cells, features.n_cells_, Y, s, alphas, fit_intercept=fit_intercept)
    for i in range(30):
        rest = np.delete(np.arange(30), i)
        b = np.average(Y[rest], axis=0, weights=s[rest]) if fit_intercept else np.zeros(2)
        for a, alpha in enumerate(alphas):
            trees = []
            for m in range(7):
                mates = rest[cells[rest, m] == cells[i, m]]
                sums = (s[mates, None] * (Y[mates] - b)).sum(axis=0)
                trees.append(sums / (s[mates].sum() + alpha) if mates.size else np.zeros(2))
            assert_allclose(found[a, i], b + np.mean(trees, axis=0), atol=1e-12)


def test_forest_path_scores_left_out_rows():
    Y = np.sin(4 * X[:, :1])
    path = forest_path(X, Y, n_estimators=15, alphas=[0.1, 1.0], sample_weight=WEIGHT, seed=5)
    growth = Growth(X, 15, 5)
    growth.advance(float(path.lifetimes[-1]))
    trees, leaf = growth.freeze()
    for k, lifetime in enumerate(path.lifetimes):
        cells = trees.cells(lifetime)
        left_out = loo_predictions(cells.column[leaf], cells.total, Y, WEIGHT, path.alphas)
        expected = np.average(((left_out - Y) ** 2)[:, :, 0], axis=1, weights=WEIGHT)
        assert_allclose(path.score[k], expected)
    assert path.score[path.best_index] == path.score.min()
    assert path.best_alpha in path.alphas
    assert 0 < path.best_index[0] < path.lifetimes.size - 3
