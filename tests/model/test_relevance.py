"""How much each column counts, learnt from the data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import (
    MondrianForestClassifier,
    MondrianForestRegressor,
    MondrianKernelClassifier,
    MondrianKernelRegressor,
)
from mondrian_kernel._model.relevance import LeaveOneOut, is_learnt, learn_relevance

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1]], axis=1) + 0.1 * rng.normal(size=(60, 2))
WEIGHT = rng.uniform(0.5, 2.0, size=60)
THETA = np.array([-1.0, -0.5, -2.0, -1.5, np.log(0.05)])


def left_out_errors(X, Y, weight, theta):
    """Leave each row out and predict it, literally."""
    lam, alpha = np.exp(theta[:-1]), np.exp(theta[-1])
    Y = Y - np.average(Y, axis=0, weights=weight)
    K = np.exp(-np.abs(X[:, None] - X).dot(lam))
    errors = np.empty_like(Y)
    for i in range(len(X)):
        rest = np.delete(np.arange(len(X)), i)
        noisy = K[np.ix_(rest, rest)] + np.diag(alpha / weight[rest])
        errors[i] = Y[i] - K[i, rest] @ np.linalg.solve(noisy, Y[rest])
    return errors


def test_the_value_is_that_of_leaving_out_every_row():
    relative = THETA[:-1] - THETA[:-1].mean()
    centred = Y - np.average(Y, axis=0, weights=WEIGHT)
    squares = [WEIGHT[:, None] * e**2 for e in (left_out_errors(X, Y, WEIGHT, THETA), centred)]
    loss = squares[0].sum() / squares[1].sum()
    expected = 0.5 * WEIGHT.sum() * np.log(loss) + 0.5 * np.sum(relative**2) / 0.35**2
    # Errors of a millionth of the variance count for nothing.
    assert_allclose(LeaveOneOut(X, Y, WEIGHT)(THETA)[0], expected, rtol=1e-3)


def test_the_gradient_is_that_of_differences():
    error, step = LeaveOneOut(X, Y, WEIGHT), 1e-5
    slopes = [
        (error(THETA + step * e)[0] - error(THETA - step * e)[0]) / (2 * step) for e in np.eye(5)
    ]
    assert_allclose(error(THETA)[1], slopes, rtol=1e-6)


def rows_of_two_dims(n, n_dims=8, seed=0):
    """Rows of which only the first two dims say something of y, the first one more."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, n_dims))
    return X, np.sin(5 * X[:, 0]) + 0.7 * np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=n)


def test_finds_the_dims_that_count():
    X, y = rows_of_two_dims(500)
    r = learn_relevance(X / X.std(axis=0), y[:, None], None, 0)
    assert r[0] > 1.3 * r[1] > 2 * r[2:].max()
    assert_allclose(r.mean(), 1.0, atol=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_noise_says_nothing_of_the_dims(seed):
    """Then the prior keeps them together: two of its deviations to either side, e^{4τ}."""
    rng = np.random.default_rng(seed)
    r = learn_relevance(rng.normal(size=(300, 6)), rng.normal(size=(300, 1)), None, 0)
    assert r.max() / r.min() < np.exp(4 * 0.35)


def test_other_columns_other_units_other_seeds():
    X, y = rows_of_two_dims(300)
    r = learn_relevance(X, y[:, None], None, 0)
    order = np.array([3, 0, 7, 1, 2, 6, 5, 4])
    assert_allclose(learn_relevance(X[:, order], y[:, None], None, 0), r[order], atol=0.011)
    assert_allclose(learn_relevance(X, 1e6 * y[:, None] - 3e7, None, 0), r, atol=0.011)
    # All rows are looked at: in which order does not matter.
    assert_allclose(learn_relevance(X, y[:, None], None, 5), r, atol=0.05)


def test_weights_are_repeated_rows():
    X, y = rows_of_two_dims(200)
    weight = np.random.default_rng(1).integers(1, 4, size=200)
    repeated = learn_relevance(np.repeat(X, weight, axis=0), np.repeat(y, weight)[:, None], None, 0)
    assert_array_equal(learn_relevance(X, y[:, None], weight.astype(float), 0), repeated)
    assert not np.array_equal(learn_relevance(X, y[:, None], None, 0), repeated)


def test_large_weights_and_rows_that_nearly_agree():
    X, y = rows_of_two_dims(100)
    close = np.concatenate([X, X + 1e-12])
    r = learn_relevance(close, np.tile(y, 2)[:, None], np.full(200, 1e9), 0)
    assert np.isfinite(r).all()
    assert (r > 0).all()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_rows(n):
    r = learn_relevance(X[:n], Y[:n], None, 0)
    assert np.isfinite(r).all()
    assert (r > 0).all()


def test_nothing_to_learn():
    assert_array_equal(learn_relevance(X, np.ones((60, 1)), None, 0), np.ones(4))
    assert_array_equal(learn_relevance(X[:, :1], Y, None, 0), [1.0])
    assert_array_equal(learn_relevance(np.ones((60, 4)), Y, None, 0), np.ones(4))


def test_a_class_of_one_row():
    """Not one of the few rows on which the search begins."""
    y = np.zeros((600, 1))
    y[0] = 1.0
    r = learn_relevance(np.random.default_rng(0).normal(size=(600, 2)), y, None, 0)
    assert np.isfinite(r).all()


def test_a_constant_column_changes_nothing():
    with_constant = learn_relevance(np.insert(X, 1, 3.0, axis=1), Y, None, 0)
    order = np.argsort(learn_relevance(X, Y, None, 0))
    assert_array_equal(np.argsort(np.delete(with_constant, 1)), order)


@pytest.mark.parametrize(
    ("relevance", "lifetime", "scale", "learnt"),
    [
        ("auto", "auto", "std", True),
        ("auto", "average", "std", True),
        ("auto", 1.0, "std", False),
        ("auto", "auto", None, False),
        ("auto", "auto", [1.0, 2.0], False),
        ("learn", 1.0, [1.0, 2.0], True),
        ("equal", "auto", "std", False),
    ],
)
def test_when_it_is_learnt(relevance, lifetime, scale, learnt):
    assert is_learnt(relevance, lifetime, scale) == learnt


MODELS = [
    MondrianKernelRegressor, MondrianKernelClassifier, MondrianForestRegressor,
    MondrianForestClassifier,
]  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
def test_models_divide_by_scale_over_relevance(kind):
    X, y = rows_of_two_dims(400)
    X = X * np.array([1.0, 100.0] + [1.0] * 6)
    y = y > 0 if "Classifier" in kind.__name__ else y
    model = kind(n_estimators=50, random_state=0).fit(X, y)
    assert_allclose(model.scale_, X.std(axis=0) / model.relevance_, rtol=1e-8)
    assert model.relevance_[:2].min() > model.relevance_[2:].max()
    alike = kind(n_estimators=50, relevance="equal", random_state=0).fit(X, y)
    assert_array_equal(alike.relevance_, np.ones(8))
    with pytest.raises(ValueError, match="relevance"):
        kind(relevance="some").fit(X, y)


def test_it_predicts_better_where_dims_say_nothing():
    X, y = rows_of_two_dims(600)
    new, wanted = rows_of_two_dims(500, seed=1)
    errors = [
        np.mean((model.fit(X, y).predict(new) - wanted) ** 2)
        for model in (
            MondrianKernelRegressor(n_estimators=300, random_state=0),
            MondrianKernelRegressor(n_estimators=300, relevance="equal", random_state=0),
        )
    ]
    assert errors[0] < 0.6 * errors[1]
