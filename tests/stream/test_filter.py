"""The one-pass learner: Kalman's filter with the covariances left out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mondrian_kernel.gradient.losses import encode, slope, value
from mondrian_kernel.stream.filter import N_RECENT, Filter

NONE = np.empty(0, np.int32)
RNG = np.random.default_rng(0)
CELLS = np.stack([RNG.integers(0, 4, 30), RNG.integers(4, 9, 30)], axis=1).astype(np.int32)
LABELS = RNG.integers(0, 3, 30)
TARGETS = {
    "squared": RNG.normal(size=(30, 2)),
    "log_loss": encode(LABELS % 2, 2, "log_loss"),
    "softmax": encode(LABELS, 3, "log_loss"),
    "hinge": encode(LABELS, 3, "hinge"),
}
WEIGHT = RNG.uniform(0.5, 2.0, 30)


def literal(cells, Y, s, loss, alpha):
    """The same, by the formula, with full vectors; the hinge by search along the line."""
    C, K = int(cells.max()) + 1, Y.shape[1]
    W, b, V = np.zeros((C, K)), np.zeros(K), np.full(C, 0.5 / alpha)
    v_b, losses = 1.0, []
    for c, y, w in zip(cells, Y, s, strict=True):
        phi = np.zeros(C)
        phi[c] = len(c) ** -0.5
        f = (b + phi @ W)[None]
        v = phi**2 @ V + v_b
        losses.append(value(loss, y[None], f)[0])
        if loss == "hinge":
            a = w * np.linspace(0, 1, 200_001)
            missing = (1 - y * f[0])[:, None]
            pull = y * a[np.argmin(w * np.maximum(0, missing - a * v) + v * a**2 / 2, axis=1)]
            h = np.abs(pull).max()
        else:
            p = np.exp(f[0]) / np.exp(f[0]).sum() if K > 1 else 1 / (1 + np.exp(-f[0]))
            h = w * (2.0 if loss == "squared" else (p * (1 - p)).max())
            pull = -w * slope(loss, y[None], f)[0] / (1 + h * v)
        W += np.outer(V * phi, pull)
        b += v_b * pull
        V = V - (V * phi) ** 2 * h / (1 + h * v)
        v_b = v_b - v_b**2 * h / (1 + h * v)
    return W, b, V * 2 * alpha, np.array(losses)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("alpha", [0.1, 2.0])
def test_is_the_formula(name, alpha):
    loss, Y = "log_loss" if name == "softmax" else name, TARGETS[name]
    learner = Filter(Y.shape[1], loss, alpha)
    learner.b_variance[0] = 1.0
    losses = learner.learn(CELLS, 9, NONE, Y, WEIGHT)
    W, b, P, expected = literal(CELLS, Y, WEIGHT, loss, alpha)
    tol = 1e-3 if name == "hinge" else 1e-7
    assert_allclose(learner.W[:9], W, atol=tol)
    assert_allclose(learner.b, b, atol=tol)
    assert_allclose(learner.P[:9], P, atol=tol)
    assert_allclose(losses, expected, atol=20 * tol)


def test_is_exact_ridge_where_weights_do_not_interact():
    """One tree: the cells are apart, and but for the intercept the filter is Kalman's."""
    cells = CELLS[:, :1]
    y = TARGETS["squared"]
    learner = Filter(2, "squared", 0.3)
    learner.b_variance[0] = 1e-30  # an intercept of 0
    learner.learn(cells, 4, NONE, y, WEIGHT)
    Phi = np.eye(4)[cells[:, 0]]
    A = Phi.T @ (WEIGHT[:, None] * Phi) + 0.3 * np.eye(4)
    assert_allclose(learner.W[:4], np.linalg.solve(A, Phi.T @ (WEIGHT[:, None] * y)))
    assert_allclose(learner.P[:4], 0.3 * np.diagonal(np.linalg.inv(A)))
    new = sparse.csr_matrix([[1.0, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 0, 0]])
    known = 0.3 * np.diagonal(new @ np.linalg.inv(A) @ new.T)
    assert_allclose(learner(new), np.add(known, [0, 0.75, 1]))
    assert_allclose(np.diagonal(learner.covariance(new)), learner(new))


@pytest.mark.parametrize("name", TARGETS)
def test_does_not_depend_on_batches(name):
    loss, Y = "log_loss" if name == "softmax" else name, TARGETS[name]
    whole, pieces = Filter(Y.shape[1], loss, 0.1), Filter(Y.shape[1], loss, 0.1)
    losses = whole.learn(CELLS, 9, NONE, Y, WEIGHT)
    parts = [
        pieces.learn(CELLS[i : i + 1], 9, NONE, Y[i : i + 1], WEIGHT[i : i + 1]) for i in range(30)
    ]
    assert_array_equal(np.concatenate(parts), losses)
    for field in ("b", "b_variance", "recent", "n_rows"):
        assert_array_equal(getattr(whole, field), getattr(pieces, field))
    assert_array_equal(whole.W[:9], pieces.W[:9])
    assert_array_equal(whole.P[:9], pieces.P[:9])


def state(learner):
    arrays = {name: getattr(learner, name)[: learner.n_cells].copy() for name in ("W", "P")}
    small = {name: getattr(learner, name).copy() for name in learner._small}
    return arrays | small | {"n_cells": learner.n_cells}


def test_rollback_takes_back_a_batch_with_its_new_and_cut_cells():
    learner = Filter(2, "squared", 0.1)
    learner.learn(CELLS[:10] % 6, 6, NONE, TARGETS["squared"][:10], np.ones(10))
    learner.commit()
    before = state(learner)
    learner.learn(CELLS[10:], 9, np.array([2, 6], np.int32), TARGETS["squared"][10:], np.ones(20))
    after = state(learner)
    learner.rollback()
    for name, values in state(learner).items():
        assert_array_equal(values, before[name], err_msg=name)
    learner.rollback()  # nothing left to take back
    learner.learn(CELLS[10:], 9, np.array([2, 6], np.int32), TARGETS["squared"][10:], np.ones(20))
    for name, values in state(learner).items():
        assert_array_equal(values, after[name], err_msg=name)


def test_cut_cells_hand_on_their_numbers():
    learner = Filter(2, "squared", 0.1)
    learner.learn(CELLS, 9, NONE, TARGETS["squared"], np.ones(30))
    W, P = learner.W[:9].copy(), learner.P[:9].copy()
    # Cell 9 is a part of 2, cell 10 of that part; cell 11 is new. No rows: nothing else changes.
    learner.learn(np.empty((0, 2), np.int32), 12, np.array([2, 9]), np.empty((0, 2)), np.empty(0))
    assert_array_equal(learner.W[:12], np.vstack([W, W[[2, 2]], np.zeros((1, 2))]))
    assert_array_equal(learner.P[:12], np.concatenate([P, P[[2, 2]], [1.0]]))


def test_errors_of_late_rows_are_kept():
    learner = Filter(1, "squared", 0.1)
    cells = np.zeros((3000, 1), np.int32)
    y = np.random.default_rng(1).normal(size=(3000, 1))
    assert_array_equal(learner.standard_errors(), [[0.0]])
    learner.learn(cells[:1], 1, NONE, y[:1], np.ones(1))
    assert_array_equal(learner.standard_errors(), [[0.0]])
    learner.learn(cells[1:], 1, NONE, y[1:], np.ones(2999))
    errors = learner.standard_errors()
    assert errors.shape == (N_RECENT, 1)
    # A constant and noise of variance 1 = σ² α.
    assert_allclose(learner.signal(), 10.0, rtol=0.1)


@pytest.mark.parametrize("loss", ["squared", "log_loss", "hinge"])
def test_goes_on_from_other_weights(loss):
    coef, counts = RNG.normal(size=(9, 1)), np.arange(9.0)
    learner = Filter.after(coef, np.array([0.5]), counts, 2, loss, 0.1)
    assert learner.n_cells == 9
    assert_array_equal(learner.W, coef)
    assert learner.W is not coef
    assert learner.P[0] == 1.0
    assert (np.diff(learner.P) < 0).all()
    if loss == "squared":
        assert_allclose(learner.P, 0.1 / (counts / 2 + 0.1))
