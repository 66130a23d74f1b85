"""The one-pass learner: Kalman's filter with the covariances left out."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mondrian_kernel._linear.losses import encode, slope, value
from mondrian_kernel._online.cell_learner import Lessons
from mondrian_kernel._online.filter import N_RECENT, Filter
from mondrian_kernel._online.means import Means

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


def learn(learner, cells, n_cells, Y, s, origin=()):
    """Teach one learner rows whose nodes are their cells; how to take it back, and the losses."""
    lessons = Lessons([learner])
    column = np.arange(n_cells, dtype=np.int32)[None]
    return lessons, lessons.teach(cells, column, [n_cells], origin, Y, s)[0]


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
    _, losses = learn(learner, CELLS, 9, Y, WEIGHT)
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
    learn(learner, cells, 4, y, WEIGHT)
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
    _, losses = learn(whole, CELLS, 9, Y, WEIGHT)
    parts = [
        learn(pieces, CELLS[i : i + 1], 9, Y[i : i + 1], WEIGHT[i : i + 1])[1] for i in range(30)
    ]
    assert_array_equal(np.concatenate(parts), losses)
    for field in ("b", "b_variance", "recent", "n_rows"):
        assert_array_equal(getattr(whole, field), getattr(pieces, field))
    assert_array_equal(whole.W[:9], pieces.W[:9])
    assert_array_equal(whole.P[:9], pieces.P[:9])


def state(learner):
    arrays = {name: getattr(learner, name)[: learner.n_cells].copy() for name in ("W", "P")}
    small = {name: getattr(learner, name).copy() for name in learner._small}
    return arrays | small | {"n_cells": learner.n_cells, "errors": learner.standard_errors()}


# With one tree of the two a batch has fewer insertions than there are cells: another way to keep.
@pytest.mark.parametrize(("n", "n_trees"), [(20, 2), (5, 1)])
def test_rollback_takes_back_a_batch_with_its_new_and_cut_cells(n, n_trees):
    learner, Y, cells = Filter(2, "squared", 0.1), TARGETS["squared"], CELLS[:, :n_trees]
    learn(learner, cells[:10] % 6, 6, Y[:10], np.ones(10))
    before = state(learner)
    origin = (np.array([2, 6], np.int32),)
    lessons, _ = learn(learner, cells[10 : 10 + n], 9, Y[10 : 10 + n], np.ones(n), origin)
    after = state(learner)
    assert after["n_cells"] == 9
    lessons.rollback()
    for name, values in state(learner).items():
        assert_array_equal(values, before[name], err_msg=name)
    lessons.rollback()  # nothing left to take back
    learn(learner, cells[10 : 10 + n], 9, Y[10 : 10 + n], np.ones(n), origin)
    for name, values in state(learner).items():
        assert_array_equal(values, after[name], err_msg=name)


@pytest.mark.parametrize("kind", ["filter", "means"])
def test_all_rungs_learn_as_each_alone(kind):
    """And are taken back together, also when others have begun to teach them."""
    new = Means(2, 0.5, True) if kind == "means" else Filter(2, "squared", 0.1)
    Y, rungs = TARGETS["squared"], [new.fresh() for _ in range(3)]
    column = np.arange(9, dtype=np.int32) // np.array([[4], [2], [1]], np.int32)
    n_cells = (column.max(axis=1) + 1).tolist()
    lessons = Lessons(rungs)
    lessons.teach(CELLS[:20], column, n_cells, (), Y[:20], WEIGHT[:20])
    before = [copy.deepcopy(learner.__dict__) for learner in rungs]
    lessons.commit()
    losses = lessons.teach(CELLS[20:], column, n_cells, (), Y[20:], WEIGHT[20:])
    for r, learner in enumerate(rungs):
        alone = new.fresh()
        once = Lessons([alone]).teach(CELLS, column[r : r + 1], n_cells[r:], (), Y, WEIGHT)
        assert_array_equal(losses[r], once[0, 20:])
        for name, values in alone.__dict__.items():
            assert_array_equal(getattr(learner, name), values, err_msg=name)
    Lessons(rungs)
    lessons.rollback()
    for learner, state_before in zip(rungs, before, strict=True):
        for name in (*learner._per_cell, *learner._small, "n_cells"):
            assert_array_equal(getattr(learner, name), state_before[name], err_msg=name)


def test_cut_cells_hand_on_their_numbers():
    learner = Filter(2, "squared", 0.1)
    learn(learner, CELLS, 9, TARGETS["squared"], np.ones(30))
    W, P = learner.W[:9].copy(), learner.P[:9].copy()
    # Cell 9 is a part of 2, cell 10 of that part; cell 11 is new. No rows: nothing else changes.
    origin = (np.array([2, 9], np.int32),)
    learn(learner, np.empty((0, 2), np.int32), 12, np.empty((0, 2)), np.empty(0), origin)
    assert_array_equal(learner.W[:12], np.vstack([W, W[[2, 2]], np.zeros((1, 2))]))
    assert_array_equal(learner.P[:12], np.concatenate([P, P[[2, 2]], [1.0]]))


def test_errors_of_late_rows_are_kept():
    learner = Filter(1, "squared", 0.1)
    cells = np.zeros((3000, 1), np.int32)
    y = np.random.default_rng(1).normal(size=(3000, 1))
    assert_array_equal(learner.standard_errors(), [[0.0]])
    learn(learner, cells[:1], 1, y[:1], np.ones(1))
    assert_array_equal(learner.standard_errors(), [[0.0]])
    learn(learner, cells[1:], 1, y[1:], np.ones(2999))
    errors = learner.standard_errors()
    assert errors.shape == (N_RECENT, 1)
    assert_allclose(learner.signal(), (errors**2).mean(axis=0))
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
