"""Losses against finite differences and their definitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from linear.sparse_problem import LOSSES
from mondrian_kernel._linear import losses

SMOOTH = ("squared", "log_loss")


def scores_and_targets(loss, n_classes, n_rows=12):
    rng = np.random.default_rng(n_classes)
    Y = losses.encode(rng.integers(n_classes, size=n_rows), n_classes, loss)
    return rng.normal(size=Y.shape) * 2.0, Y


def difference(f, F, h=1e-6):
    """Central differences of f(F), row by row, in each column of F."""
    columns = []
    for k in range(F.shape[1]):
        step = np.zeros_like(F)
        step[:, k] = h
        columns.append((f(F + step) - f(F - step)) / (2 * h))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("loss", LOSSES)
def test_slope_is_the_derivative(loss, n_classes):
    F, Y = scores_and_targets(loss, n_classes)
    expected = difference(lambda F: losses.value(loss, Y, F), F)
    assert_allclose(losses.slope(loss, Y, F), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("loss", SMOOTH)
def test_hessian_is_the_derivative_of_the_slope(loss, n_classes):
    F, Y = scores_and_targets(loss, n_classes)
    H = difference(lambda F: losses.slope(loss, Y, F), F)
    U = np.random.default_rng(0).normal(size=F.shape)
    assert_allclose(losses.hessian(loss, F)(U), np.einsum("ijk,ik->ij", H, U), atol=1e-7)
    assert np.linalg.eigvalsh(H).max() <= losses.smoothness(loss, F.shape[1]) + 1e-8


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("loss", SMOOTH)
def test_hessian_in_the_intercept_sums_over_rows(loss, n_classes):
    F, _ = scores_and_targets(loss, n_classes)
    s = np.arange(1.0, 13.0)[:, None]
    product = losses.hessian(loss, F)
    columns = [(s * product(np.broadcast_to(e, F.shape))).sum(axis=0) for e in np.eye(F.shape[1])]
    assert_allclose(losses.intercept_hessian(loss, F, s), np.array(columns), atol=1e-12)


def test_values_by_definition():
    F, Y = scores_and_targets("log_loss", 3)
    labels = Y.argmax(axis=1)
    expected = logsumexp(F, axis=1) - F[np.arange(len(F)), labels]
    assert_allclose(losses.value("log_loss", Y, F), expected)
    Y = 2 * Y - 1
    assert_allclose(losses.value("hinge", Y, F), np.clip(1 - Y * F, 0, None).sum(axis=1))
    assert_allclose(losses.value("squared", Y, F), ((F - Y) ** 2).sum(axis=1))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_extreme_scores_stay_finite(n_classes):
    _, Y = scores_and_targets("log_loss", n_classes)
    F = 1e4 * Y[::-1]
    for array in (losses.value("log_loss", Y, F), losses.slope("log_loss", Y, F)):
        assert np.isfinite(array).all()
    P = losses.probabilities(F)
    assert_allclose(P.sum(axis=1), 1.0)


def test_probabilities_of_one_column_are_those_of_two():
    F = np.linspace(-3, 3, 7)[:, None]
    two = losses.probabilities(np.hstack([np.zeros_like(F), F]))
    assert_allclose(losses.probabilities(F), two)


def test_encode():
    labels = np.array([0, 1, 1])
    for loss in LOSSES:
        assert_array_equal(losses.encode(labels, 2, loss), [[-1], [1], [1]])
    assert_array_equal(losses.encode(labels, 3, "log_loss"), [[1, 0, 0], [0, 1, 0], [0, 1, 0]])
    assert_array_equal(losses.encode(labels[:1], 3, "squared"), [[1, -1, -1]])


def test_unknown_loss_and_missing_hessian():
    with pytest.raises(ValueError, match="'absolute' is not one of 'squared'"):
        losses.check_loss("absolute")
    with pytest.raises(ValueError, match="no second derivative"):
        losses.hessian("hinge", np.ones((1, 1)))


def test_conversions():
    # alpha‖w‖² + Σ loss, divided by N, is Pegasos' λ/2 ‖w‖² + mean; times C, liblinear's.
    assert losses.penalty_per_row(0.3, 20) / 2 == pytest.approx(0.3 / 20)
    assert losses.dual_bound(0.3) * 0.3 == pytest.approx(0.5)
