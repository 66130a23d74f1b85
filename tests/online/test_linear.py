"""Linear learners of a stream: ridge regression that follows, and what the stream makes of it."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import MondrianKernelClassifier, MondrianKernelRegressor
from mondrian_kernel import _settings as settings
from mondrian_kernel._kernels import linear as kernels
from mondrian_kernel._kernels.tables import SQUARED
from mondrian_kernel._online.linear import Linear
from mondrian_kernel.forest import MondrianForestRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3)) * [1.0, 20.0, 0.1] + [5.0, -100.0, 0.0]
Y = X @ RNG.normal(size=(3, 2)) + RNG.normal(size=(200, 2))
WEIGHT = RNG.uniform(0.5, 2.0, 200)


def learn_rows(linear, X, Y, weight, keep, alpha, scores):
    rows = X, linear.ends, linear.factor, Y, weight
    kernels.learn(*rows, SQUARED, keep, 0.5 / alpha, linear.coef, linear.P, scores)


def learnt(keep, alpha=0.1):
    """Linear learners after all rows, and the scores of the last ones before."""
    linear = Linear.blank(3, len(keep), 2, alpha).centred(X)
    for rows in (slice(0, 1), slice(1, 150), slice(150, 200)):
        scores = np.empty((len(keep), len(Y[rows]), 2))
        learn_rows(linear, X[rows], Y[rows], WEIGHT[rows], np.array(keep), alpha, scores)
    return linear, scores


def test_it_is_ridge_regression_on_standardised_columns():
    linear, scores = learnt([1.0])
    Z = np.column_stack([np.ones(200), (X - X.mean(axis=0)) / X.std(axis=0)])
    for n in (150, 200):
        A = Z[:n].T @ (WEIGHT[:n, None] * Z[:n]) + 0.1 * np.eye(4)
        coef = np.linalg.solve(A, Z[:n].T @ (WEIGHT[:n, None] * Y[:n]))
        found = scores[0] if n == 150 else linear.coef[0]
        assert_allclose(found, Z[150:] @ coef if n == 150 else coef, atol=1e-9)
    assert_allclose(2.0 * linear.P[0], np.linalg.inv(A), atol=1e-12)
    linear.check()


def test_it_forgets_as_if_rows_had_less_weight():
    """But for the prior, which stays."""
    keep = 0.5 ** (1 / 20)
    linear, _ = learnt([1.0, keep], alpha=1e-9)
    Z = np.column_stack([np.ones(200), (X - X.mean(axis=0)) / X.std(axis=0)])
    s = WEIGHT * keep ** np.arange(199, -1, -1)
    coef = np.linalg.solve(Z.T @ (s[:, None] * Z), Z.T @ (s[:, None] * Y))
    assert_allclose(linear.coef[1], coef, atol=1e-6)
    # Where nothing comes, the variances go back to the prior's and no further.
    blank = replace(linear, factor=np.zeros(3))
    none = np.zeros((20_000, 3)), np.zeros((20_000, 2)), np.full(20_000, 1e-12)
    scores = np.empty((2, 20_000, 2))
    learn_rows(blank, *none, np.array([1.0, keep]), 0.1, scores)
    assert np.trace(blank.P[1]) == pytest.approx(4 * 5.0)


def test_rows_far_away_are_cut_off_and_constant_columns_left_out():
    rows = np.column_stack([RNG.normal(size=50), np.full(50, 1e12), np.full(50, 1e300)])
    linear = Linear.blank(3, 1, 1, 0.1).centred(rows)
    linear = replace(linear, coef=np.ones((1, 4, 1)))
    assert_array_equal(linear.factor[1:], 0.0)
    scores = np.zeros((2, 1))
    far = np.array([[1e9, 1e12, 0.0], [-1e9, 0.0, 0.0]])
    kernels.add_scores(far, linear.ends, linear.factor, np.array([2.0]), linear.coef, scores)
    assert_allclose(scores[:, 0], [2 * settings.LINEAR_END, -2 * settings.LINEAR_END])
    assert_allclose(
        linear.trend(np.array([2.0]))(rows[:5]),
        2 * (linear.factor * (rows - rows.mean(axis=0)))[:5, :1],
    )
    wider = linear.with_columns(2, 0.1)
    wider.check()
    more = np.zeros((2, 1))
    far = RNG.normal(size=(2, 5)) * [0, 0, 0, 1, 1] + [1e9, 1e12, 0, 0, 0]
    kernels.add_scores(far, wider.ends, wider.factor, np.array([2.0]), wider.coef, more)
    assert_allclose(more[:, 0], 2 * settings.LINEAR_END)


def test_a_further_class_is_as_rare_as_it_was():
    linear = replace(Linear.blank(2, 1, 1, 0.1), coef=RNG.normal(size=(1, 3, 1)))
    wider = linear.with_class(98.0)
    assert_allclose(wider.coef[0, :, 1] - wider.coef[0, :, 0], linear.coef[0, :, 0])
    odds = np.exp(wider.coef[0, 0])
    assert odds[2] / odds[:2].sum() == pytest.approx(1 / 99)
    assert (wider.with_class(98.0).coef[0, 1:, 2:] == 0).all()


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_a_stream_follows_a_line_through_many_columns(kind, monkeypatch):
    """Ten columns: trees alone err twice as much. Predictions are those of the record."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 10))
    f = X @ rng.normal(size=10)
    y = f + 0.1 * rng.normal(size=1500) if kind == "regressor" else (f > 0).astype(int)
    errors = []
    for most in (0, 10):
        monkeypatch.setattr(settings, "LINEAR_COLUMNS", most)
        model = MondrianKernelRegressor(n_estimators=10, relevance="equal", random_state=0)
        told = {}
        if kind == "classifier":
            model = MondrianKernelClassifier(n_estimators=10, relevance="equal", random_state=0)
            told = {"classes": [0, 1]}
        for begin in range(0, 1000, 100):
            model.partial_fit(X[begin : begin + 100], y[begin : begin + 100], **told)
        errors.append(np.mean(np.abs(model.predict(X[1000:]) - y[1000:])))
    assert errors[1] < 0.5 * errors[0]
    model.check()
    assert_allclose(model.model_.scores(X, None), model._stream.scores(X, None), atol=1e-9)


def test_given_widths_and_forests_have_no_lines():
    X = RNG.normal(size=(50, 3))
    for model in (
        MondrianKernelRegressor(0.5, 0.1, 5, forgetting=100.0, random_state=0),
        MondrianForestRegressor(n_estimators=5, random_state=0),
    ):
        assert model.partial_fit(X, X[:, 0])._stream.learners.linear is None
