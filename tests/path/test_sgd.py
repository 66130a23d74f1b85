"""Averaged SGD against a literal dense version and against the minimum it should reach."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from linear.sparse_problem import LOSSES, features, minimise, targets
from mondrian_kernel._kernels.descent import sgd_pass
from mondrian_kernel._linear.losses import slope, smoothness
from mondrian_kernel._path.sgd_path import descend
from mondrian_kernel._settings import SGD_POWER
from oracles import objective

CODES = {"squared": 0, "log_loss": 1, "softmax": 2, "hinge": 3}
PROBLEMS = [
    ("squared", 2),
    ("squared", 3),
    ("log_loss", 2),
    ("log_loss", 3),
    ("hinge", 2),
    ("hinge", 3),
]


def literal_sgd(Phi, Y, loss, orders, step, power, decay, degree):
    """Every step on all weights, every iterate kept: last and averaged weights and intercepts."""
    W, b = np.zeros((Phi.shape[1], Y.shape[1])), np.zeros(Y.shape[1])
    Ws, bs = [], []
    for t, i in enumerate(np.concatenate(orders)):
        eta = step * (1 + decay * step * t) ** -power
        G = slope(loss, Y[[i]], Phi[[i]] @ W + b)[0]
        W = (W - eta * np.outer(Phi[i], G)) / (1 + eta * decay)
        b = b - eta * G
        Ws.append(W)
        bs.append(b)
    weights = np.arange(1.0, len(Ws) + 1) ** degree
    return W, b, np.average(Ws, axis=0, weights=weights), np.average(bs, axis=0, weights=weights)


@pytest.mark.parametrize("decay", [0.003, 1.5], ids=["slow decay", "decay that folds"])
@pytest.mark.parametrize(("loss", "n_classes"), PROBLEMS)
def test_lazy_steps_are_the_dense_steps(loss, n_classes, decay):
    cells, n_cells, Phi = features()
    _, Y = targets(Phi, loss, n_classes)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(Y)) for _ in range(3)]
    U, V = np.zeros((n_cells, Y.shape[1])), np.zeros((n_cells, Y.shape[1]))
    b, b_sum = np.zeros(Y.shape[1]), np.zeros(Y.shape[1])
    clock = np.array([0.0, 1.0, 0.0, 0.0])
    code = CODES["softmax" if loss == "log_loss" and n_classes > 2 else loss]
    step, power, degree = 0.2, 0.6, 1.5
    for order in orders:
        schedule = step, power, decay, degree
        sgd_pass(cells, Y, order, code, schedule, (U, V, b, b_sum, clock))
    W, b_last, W_mean, b_mean = literal_sgd(Phi, Y, loss, orders, step, power, decay, degree)
    assert_allclose(clock[1] * U, W, atol=1e-12)
    assert_allclose(b, b_last, atol=1e-12)
    assert_allclose((clock[2] * U + V) / clock[3], W_mean, atol=1e-12)
    assert_allclose(b_sum / clock[3], b_mean, atol=1e-12)
    assert clock[1] >= 1e-4


def test_a_step_touches_only_the_cells_of_its_row():
    cells, n_cells, Phi = features()
    _, Y = targets(Phi, "squared", 2)
    U, V = np.full((n_cells, 1), 7.0), np.full((n_cells, 1), 5.0)
    clock = np.array([3.0, 0.5, 0.25, 6.0])
    zero = np.zeros(1)
    schedule, state = (0.1, 0.75, 0.01, 1.0), (U, V, zero.copy(), zero.copy(), clock)
    sgd_pass(cells, Y, np.array([8]), 0, schedule, state)
    others = np.setdiff1d(np.arange(n_cells), cells[8])
    assert_array_equal(U[others], 7.0)
    assert_array_equal(V[others], 5.0)
    assert (U[cells[8]] != 7.0).all()


def run(cells, n_cells, Y, loss, alpha, passes, seed=0):
    """Averages of some passes from 0."""
    start = np.zeros((n_cells, Y.shape[1])), np.zeros(Y.shape[1])
    return descend(cells, Y, *start, loss, alpha, passes, np.random.default_rng(seed))


@pytest.mark.parametrize(("loss", "n_classes"), PROBLEMS)
def test_average_approaches_the_minimum(loss, n_classes):
    """600 passes over 60 rows leave less than 1 % (the kinked hinge: 2 %) of the objective."""
    cells, n_cells, Phi = features()
    _, Y = targets(Phi, loss, n_classes)
    W, b = run(cells, n_cells, Y, loss, 0.5, 600)
    best = minimise(cells, n_cells, Y, loss, 0.5).objective
    reached = objective(loss, Y, Phi @ W + b, W, 0.5)
    assert best * (1 - 1e-6) <= reached <= best * (1.02 if loss == "hinge" else 1.01)


@pytest.mark.parametrize("loss", LOSSES)
def test_is_the_literal_average_and_leaves_the_start_alone(loss):
    cells, n_cells, Phi = features()
    _, Y = targets(Phi, loss, 2)
    W, b = np.zeros((n_cells, 1)), np.zeros(1)
    found = descend(cells, Y, W, b, loss, 0.1, 2, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(Y)) for _ in range(2)]
    step, power = 0.5 / smoothness(loss, 1), SGD_POWER[loss]
    *_, W_mean, b_mean = literal_sgd(Phi, Y, loss, orders, step, power, 0.2 / len(Y), 1.0)
    assert_allclose(found[0], W_mean, atol=1e-12)
    assert_allclose(found[1], b_mean, atol=1e-12)
    assert not W.any()
    assert not b.any()


def test_splitting_later_equals_weights_split_from_the_start():
    """Until a split is used, children of one cell and the cell itself learn the same scores."""
    cells, n_cells, Phi = features()
    _, Y = targets(Phi, "log_loss", 2)
    twin = (2 * cells).astype(np.int32)  # every row in the first child: the same features
    W, b = run(cells, n_cells, Y, "log_loss", 0.1, 1)
    how = "log_loss", 0.1, 1
    one, b_one = descend(cells, Y, W, b, *how, np.random.default_rng(1))
    two, b_two = descend(twin, Y, W.repeat(2, axis=0), b, *how, np.random.default_rng(1))
    assert_array_equal(one, two[::2])
    assert_array_equal(b_one, b_two)


def test_same_seed_same_weights():
    cells, n_cells, Phi = features()
    _, Y = targets(Phi, "hinge", 3)
    runs = [run(cells, n_cells, Y, "hinge", 0.1, 3, seed)[0] for seed in (0, 0, 1)]
    assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_a_heavy_penalty_does_not_diverge():
    cells, n_cells, Phi = features()
    _, Y = targets(Phi, "squared", 2)
    W, b = run(cells, n_cells, Y, "squared", 1e5, 5)
    assert np.abs(Phi @ W + b).max() < 2.0
