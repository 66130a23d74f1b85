"""The batch minimiser against scikit-learn's solvers of the same objectives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC

from linear.sparse_problem import LOSSES, features, minimise, targets
from mondrian_kernel._linear.losses import dual_bound, slope
from oracles import objective

WEIGHTS = np.random.default_rng(5).integers(0, 4, size=60).astype(float)


def oracle(Phi, labels, Y, loss, alpha, s):
    """Return weights (C, K) and intercept (K,) by scikit-learn."""
    if loss == "squared":
        model = Ridge(alpha=alpha, solver="cholesky").fit(Phi, Y, sample_weight=s)
        return model.coef_.reshape(Y.shape[1], -1).T, np.ravel(model.intercept_)
    if loss == "log_loss":
        model = LogisticRegression(C=dual_bound(alpha), tol=1e-10, max_iter=10_000)
        model.fit(Phi, labels, sample_weight=s)
        return model.coef_.T, model.intercept_
    W, b = [], []
    for y in Y.T:
        model = SVC(kernel="linear", C=dual_bound(alpha), tol=1e-8).fit(Phi, y, sample_weight=s)
        W.append(model.coef_[0])
        b.append(model.intercept_[0])
    return np.array(W).T, np.array(b)


@pytest.mark.parametrize("s", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("alpha", [0.02, 1.0])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_minimum_is_that_of_scikit_learn(loss, n_classes, alpha, s):
    cells, n_cells, Phi = features()
    labels, Y = targets(Phi, loss, n_classes)
    found = minimise(cells, n_cells, Y, loss, alpha, sample_weight=s, tol=1e-9)
    W, b = oracle(Phi, labels, Y, loss, alpha, s)
    best = objective(loss, Y, Phi @ W + b, W, alpha, s)
    actual = objective(loss, Y, Phi @ found.W + found.b, found.W, alpha, s)
    assert actual == pytest.approx(found.objective, rel=1e-12)
    assert actual <= best * (1 + 1e-9)
    assert found.gap <= 1e-9 * actual
    assert actual - found.gap <= best * (1 + 1e-12)  # the bound is a bound
    assert_allclose(Phi @ found.W, Phi @ W, atol=1e-3)
    assert_allclose(found.W, Phi.T @ found.dual, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_integer_weights_repeat_rows(loss, n_classes):
    cells, n_cells, Phi = features()
    _, Y = targets(Phi, loss, n_classes)
    repeated = np.repeat(np.arange(len(cells)), WEIGHTS.astype(int))
    one = minimise(cells, n_cells, Y, loss, 0.1, sample_weight=WEIGHTS, tol=1e-11)
    two = minimise(cells[repeated], n_cells, Y[repeated], loss, 0.1, tol=1e-11)
    assert one.objective == pytest.approx(two.objective, rel=1e-10)
    assert_allclose(one.W, two.W, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", ["squared", "log_loss"])
def test_gradient_vanishes_at_the_minimum(loss, n_classes):
    cells, n_cells, Phi = features()
    _, Y = targets(Phi, loss, n_classes)
    found = minimise(cells, n_cells, Y, loss, 0.1, tol=1e-14)
    R = slope(loss, Y, Phi @ found.W + found.b)
    assert_allclose(Phi.T @ R + 0.2 * found.W, 0.0, atol=1e-5)
    assert_allclose(R.sum(axis=0), 0.0, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_starts_lead_to_the_same_minimum_and_a_good_one_is_kept(loss):
    cells, n_cells, Phi = features()
    _, Y = targets(Phi, loss, 3)
    cold = minimise(cells, n_cells, Y, loss, 0.1, tol=1e-9)
    rng = np.random.default_rng(0)
    far = {"start": (rng.normal(size=Y.shape), rng.normal(size=3))}
    other = minimise(cells, n_cells, Y, loss, 0.1, tol=1e-9, **far)
    assert other.objective == pytest.approx(cold.objective, rel=2e-9)
    again = minimise(cells, n_cells, Y, loss, 0.1, tol=1e-8, start=(cold.dual, cold.b))
    assert again.n_steps == 0
    assert_allclose(again.W, cold.W, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_threads_change_nothing(loss):
    cells, n_cells, Phi = features()
    _, Y = targets(Phi, loss, 3)
    one, three = (minimise(cells, n_cells, Y, loss, 0.1, n_jobs=j) for j in (1, 3))
    assert_array_equal(one.W, three.W)
    assert_array_equal(one.b, three.b)


def test_constant_targets_leave_only_the_intercept():
    cells, n_cells, _ = features()
    Y = np.full((60, 2), [3.0, 0.0])
    found = minimise(cells, n_cells, Y, "squared", 0.1)
    assert_allclose(found.b, [3.0, 0.0], atol=1e-6)
    assert_allclose(found.W, 0.0, atol=1e-6)
    one_class = minimise(cells, n_cells, np.ones((60, 1)), "hinge", 0.1)
    assert one_class.objective == 0.0
