"""Weights of several widths: the gradient, and what is chosen."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from mondrian_kernel._model import widths
from mondrian_kernel._model.widths import HeldOutError, learn_widths

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 2))
Y = np.stack([np.sin(3 * X[:, 0]), X[:, 1] ** 2], axis=1) + 0.1 * RNG.normal(size=(150, 2))
S = RNG.uniform(0.5, 2.0, 150)


def error(lifetimes=(0.2, 0.8, 3.0)):
    fit, out = slice(0, 100), slice(100, 150)
    return HeldOutError(
        X[fit],
        Y[fit],
        S[fit],
        X[out],
        Y[out],
        S[out],
        lifetimes=np.array(lifetimes),
        n_trees=20,
        seed=1,
        n_jobs=None,
    )


def test_value_is_the_error_of_a_literal_fit(monkeypatch):
    """Predict the rows held out by ridge on the features of the mixture, written out."""
    from sklearn.linear_model import Ridge

    from mondrian_kernel import MondrianFeatures

    monkeypatch.setattr(widths, "WIDTH_GRADIENT_TOL", 1e-10)
    made, v = error(), np.array([3.0, 1.0, 0.5])
    from mondrian_kernel._trees.levels import Levels, grow_trees

    trees, _ = grow_trees(X[:100], 3.0, 20, 1, None, None)
    features = MondrianFeatures.from_trees(trees, Levels.of(trees, made.lifetimes, v / v.sum()))
    ridge = Ridge(1.0 / v.sum(), solver="cholesky")
    ridge.fit(features.transform(X[:100]).toarray(), Y[:100], S[:100])
    residual = ridge.predict(features.transform(X[100:]).toarray()) - Y[100:]
    s = S[100:, None] / S[100:].sum()
    mean = np.average(Y[:100], axis=0, weights=S[:100])
    ratio = np.sum(s * residual**2) / np.sum(s * (Y[100:] - mean) ** 2)
    assert made(np.log(v))[0] == pytest.approx(0.5 * 50 * np.log(ratio), rel=1e-3)


def test_gradient(monkeypatch):
    monkeypatch.setattr(widths, "WIDTH_GRADIENT_TOL", 1e-13)
    monkeypatch.setattr(widths, "WIDTH_GRADIENT_STEPS", 400)
    made = error()
    for point in ([1.0, 0.0, -1.0], [-2.0, 3.0, 0.5]):
        gradient = made(np.array(point))[1]
        off = check_grad(lambda t: made(t)[0], lambda t: made(t)[1], np.array(point), epsilon=1e-4)
        assert off < 1e-4 * np.abs(gradient).max()


def test_a_smooth_function_keeps_one_width_and_a_rough_one_takes_more():
    """Noise-free detail on top of a trend is worth a mixture; a mixture never does worse here."""
    rng = np.random.default_rng(3)
    rows = rng.uniform(size=(1500, 2))
    rough = np.sin(2 * rows[:, 0]) + 0.5 * np.sign(np.sin(40 * rows[:, 1]))
    options = {"alpha": 0.1, "n_trees": 100, "seed": 0, "n_jobs": None}
    mixed = learn_widths(rows, rough[:, None], None, lifetime=4.0, **options)
    assert mixed.lifetimes.size > 1
    assert mixed.weights.sum() == pytest.approx(1.0)
    constant = learn_widths(rows, np.zeros((1500, 1)), None, lifetime=4.0, **options)
    assert constant.lifetimes.tolist() == [4.0]
    assert constant.alpha == 0.1


def test_few_rows_keep_one_width():
    found = learn_widths(
        X[:5], Y[:5], None, lifetime=1.0, alpha=0.1, n_trees=None, seed=0, n_jobs=None
    )
    assert found.lifetimes.tolist() == [1.0]
