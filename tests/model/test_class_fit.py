"""Log-odds by a trend and trees, against literal formulas and scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.levels import LevelOperator
from mondrian_kernel._linear.losses import encode
from mondrian_kernel._model.class_fit import _Logistic, fit_class_trend, newton_step
from mondrian_kernel._model.columns import Columns, Metric
from mondrian_kernel._model.folds import draw_folds
from mondrian_kernel._model.trend import Trend
from mondrian_kernel._model.trend_fit import landmark_kernel
from mondrian_kernel._path.driver import Stages
from mondrian_kernel._trees.levels import Levels, grow_trees

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 2))
LABELS = np.digitize(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=300), [-0.4, 0.4])
METRIC = Metric(Columns.scaled(np.ones(2)), np.array([0.1, 0.4, 1.6]), np.array([0.5, 0.3, 0.2]))
V = np.array([[0.5, 1.0], [1.0, 1.0], [2.0, 4.0]])


def targets(n_classes):
    return encode(np.minimum(LABELS, n_classes - 1), n_classes, "log_loss")


def kernel(n_outputs):
    coef = np.zeros((40, n_outputs))
    none, free = np.empty(0), np.full(n_outputs, np.inf)
    ends = np.array([[-100.0] * 2, [100.0] * 2])
    return Trend(ends, np.ones(2), X[:40], coef, coef[0], 1.5, none, none, -free, free)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_trend_is_logistic_regression_on_its_features(n_classes, monkeypatch):
    """The penalty of the intercept is next to none, and none in scikit-learn."""
    monkeypatch.setattr(settings, "CLASS_TREND_STEPS", 2000)
    monkeypatch.setattr(settings, "CLASS_TREND_TOL", 1e-13)
    Y, weight = targets(n_classes), rng.integers(1, 3, size=300) * 1.0
    mask = np.arange(300) % 4 > 0
    fit = _Logistic(kernel(Y.shape[1]), X, Y, weight)
    trend = fit.trend(fit(0.05, mask, None))
    B = fit.B[:, :-1].astype(float)
    theirs = LogisticRegression(C=1 / 0.1, tol=1e-10, max_iter=5000)
    theirs.fit(B[mask], np.minimum(LABELS, n_classes - 1)[mask], weight[mask])
    F = trend(X)
    ours = np.hstack([expit(-F), expit(F)]) if n_classes == 2 else softmax(F, axis=1)
    assert_allclose(ours, theirs.predict_proba(B), atol=2e-3)


def test_features_of_landmarks():
    found, L = kernel(1), np.linalg.cholesky(landmark_kernel(kernel(1)))
    B = found.features(X, L)
    assert_allclose(B[:, :-1] @ L.T, found.kernel(X), atol=1e-5)
    assert (B[:, -1] == 1).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_step_of_newton(n_classes, monkeypatch):
    """f = K a with (K + 1/(s w)) a = (y - p) / w on the rows of each fit; w = p(1 - p)."""
    monkeypatch.setattr(settings, "LEVEL_TOL", 1e-9)
    monkeypatch.setattr(settings, "LEVEL_SWEEPS", 500)
    Y, weight = targets(n_classes), rng.integers(1, 3, size=300) * 1.0
    trees, leaf = grow_trees(X, 9.0, 20, 0, None, 1)
    levels = Levels.of(trees, np.array([0.2, 0.6, 1.8]), np.ones(3))
    operator = LevelOperator(trees, leaf, levels, weight, X, centre=False)
    offset = 0.5 * rng.normal(size=(300, 2, Y.shape[1]))
    fitted = np.stack([np.ones(300), np.arange(300) % 5 > 0], axis=1)
    sums, f = newton_step(operator, Y, offset, fitted, V)
    for j in range(V.shape[1]):
        K = np.zeros((300, 300))
        for column, v in zip(levels.column, V[:, j], strict=True):
            cells = column[leaf]
            K += v * np.mean(cells[:, None] == cells[None], axis=2)
        for k in range(2):
            seen = np.flatnonzero(fitted[:, k])
            for c in range(Y.shape[1]):
                F = offset[:, k]
                p = expit(F[:, 0]) if n_classes == 2 else softmax(F, axis=1)[:, c]
                y = (Y[:, 0] + 1) / 2 if n_classes == 2 else Y[:, c]
                w = np.maximum(p * (1 - p), 0.02)
                A = K[np.ix_(seen, seen)] + np.diag(1 / (weight * w)[seen])
                a = np.linalg.solve(A, ((y - p) / w)[seen])
                assert_allclose(f[:, k, c, j], K[:, seen] @ a, atol=3e-3)
                values = sums[:, k, c, j] * np.repeat(V[:, j] / 20, np.diff(levels.offset))
                cells = levels.column[:, leaf] + levels.offset[:-1, None, None]
                assert_allclose(values[cells].sum(axis=(0, 2)), f[:, k, c, j], atol=1e-3)


def test_trend_holds_rows_out():
    """Labels of a fold do not change the fit without it."""
    Y, folds = targets(2), draw_folds(300, 1)
    centred = Y - Y.mean(axis=0)
    args = np.ones(300), folds, METRIC, [np.ones(2)], 1, Stages(0, 1)
    (trend, *_), at_rows = fit_class_trend(X, Y, centred, *args)
    assert at_rows.shape == (300, 6, 1)
    assert_allclose(at_rows[:, 0], trend(X), atol=1e-9)
    fit = _Logistic(trend, X, Y, np.ones(300))
    changed = np.where((folds.of_row == 2)[:, None], -Y, Y)
    other = _Logistic(trend, X, changed, np.ones(300))
    mask = folds.of_row != 2
    assert_allclose(fit(0.1, mask, None), other(0.1, mask, None))


def test_few_rows():
    Y = targets(2)[:3]
    (trend, *_), at_rows = fit_class_trend(
        X[:3], Y, Y - Y.mean(), np.ones(3), draw_folds(3, 0), METRIC, [np.ones(2)], 0, Stages(0, 1)
    )
    assert at_rows.shape == (3, 1, 1)
    assert np.isfinite(trend(X)).all()
