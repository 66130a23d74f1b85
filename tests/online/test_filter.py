"""The one-pass learner: Kalman's filter with the covariances left out."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mondrian_kernel._kernels.rungs import update_errors
from mondrian_kernel._linear.losses import encode, slope, value
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._online.group import LearnerGroup, as_table, by_level
from mondrian_kernel._online.learners import Filter, Means, rows_per_cell
from mondrian_kernel._settings import RECENT_ROWS
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._trees.online import OnlineTrees

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
    """Train one learner on rows whose nodes are their cells; return its group and the losses."""
    group = LearnerGroup([learner], np.array([cells.shape[1] ** -0.5]))
    column = np.arange(n_cells, dtype=np.int32)[None]
    return group, group.learn(cells, column, [n_cells], origin, Y, s)[0]


def literal(cells, Y, s, loss, alpha, values=None):
    """The same, by the formula, with full vectors; the hinge by search along the line.

    The intercept has a prior of variance 1 about 0, about the first target with the squared loss.
    """
    C, K = int(cells.max()) + 1, Y.shape[1]
    b = Y[0].copy() if loss == "squared" else np.zeros(K)
    W, V = np.zeros((C, K)), np.full(C, 0.5 / alpha)
    v_b, losses, errors = 1.0, [], []
    for c, y, w in zip(cells, Y, s, strict=True):
        phi = np.zeros(C)
        phi[c] = len(c) ** -0.5 if values is None else values
        f = (b + phi @ W)[None]
        v = phi**2 @ V + v_b
        losses.append(value(loss, y[None], f)[0])
        # In units of σ² the prior variances are P, the noise is α: σ² = 2 α times the filter's.
        errors.append(np.abs(y - f[0]) / np.sqrt(2 * alpha * v + alpha))
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
    return W, b, V * 2 * alpha, np.array(losses), np.array(errors)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("alpha", [0.1, 2.0])
def test_is_the_formula(name, alpha):
    loss, Y = "log_loss" if name == "softmax" else name, TARGETS[name]
    learner = Filter(Y.shape[1], loss, alpha)
    learner.b_variance[0] = 1.0
    _, losses = learn(learner, CELLS, 9, Y, WEIGHT)
    W, b, P, expected, errors = literal(CELLS, Y, WEIGHT, loss, alpha)
    tol = 1e-3 if name == "hinge" else 1e-7
    if loss == "squared":
        assert_allclose(learner.standard_errors(), errors[1:], rtol=1e-7)
    assert_allclose(learner.W[:9], W, atol=tol)
    assert_allclose(learner.intercept, b, atol=tol)
    assert_allclose(learner.P[:9], P, atol=tol)
    assert_allclose(losses, expected, atol=20 * tol)


def test_is_exact_ridge_where_weights_do_not_interact():
    """One tree: the cells are apart, and but for the intercept the filter is Kalman's."""
    cells = CELLS[:, :1]
    y = TARGETS["squared"]
    learner = Filter(2, "squared", 0.3)
    learner.b_variance[0] = 1e-30  # the intercept stays what it was set to, the first target
    learn(learner, cells, 4, y, WEIGHT)
    Phi = np.eye(4)[cells[:, 0]]
    A = Phi.T @ (WEIGHT[:, None] * Phi) + 0.3 * np.eye(4)
    assert_allclose(learner.W[:4], np.linalg.solve(A, Phi.T @ (WEIGHT[:, None] * (y - y[0]))))
    assert_allclose(learner.P[:4], 0.3 * np.diagonal(np.linalg.inv(A)))
    new = sparse.csr_matrix([[1.0, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 0, 0]])
    known = 0.3 * np.diagonal(new @ np.linalg.inv(A) @ new.T)
    variance = learner.variance(new, np.array([4]))
    assert_allclose(variance, np.add(known, [0, 0.75, 1]))
    assert_allclose(np.diagonal(learner.covariance(new, np.array([4]))), variance)


@pytest.mark.parametrize("name", TARGETS)
def test_does_not_depend_on_batches(name):
    loss, Y = "log_loss" if name == "softmax" else name, TARGETS[name]
    whole, pieces = Filter(Y.shape[1], loss, 0.1), Filter(Y.shape[1], loss, 0.1)
    _, losses = learn(whole, CELLS, 9, Y, WEIGHT)
    parts = [
        learn(pieces, CELLS[i : i + 1], 9, Y[i : i + 1], WEIGHT[i : i + 1])[1] for i in range(30)
    ]
    assert_array_equal(np.concatenate(parts), losses)
    for field in ("b", "b_variance", "offset", "recent", "n_rows"):
        assert_array_equal(getattr(whole, field), getattr(pieces, field))
    assert_array_equal(whole.W[:9], pieces.W[:9])
    assert_array_equal(whole.P[:9], pieces.P[:9])


def state(learner):
    arrays = {name: getattr(learner, name)[: learner.n_table].copy() for name in ("W", "P")}
    small = {name: getattr(learner, name).copy() for name in learner.small}
    return arrays | small | {"n_table": learner.n_table, "errors": learner.standard_errors()}


# With one tree of the two a batch has fewer insertions than there are cells: another way to keep.
@pytest.mark.parametrize(("n", "n_trees"), [(20, 2), (5, 1)])
def test_rollback_takes_back_a_batch_with_its_new_and_cut_cells(n, n_trees):
    learner, Y, cells = Filter(2, "squared", 0.1), TARGETS["squared"], CELLS[:, :n_trees]
    learn(learner, cells[:10] % 6, 6, Y[:10], np.ones(10))
    before = state(learner)
    origin = (np.array([2, 6], np.int32),)
    group, _ = learn(learner, cells[10 : 10 + n], 9, Y[10 : 10 + n], np.ones(n), origin)
    after = state(learner)
    assert after["n_table"] == 9
    group.rollback()
    for name, values in state(learner).items():
        assert_array_equal(values, before[name], err_msg=name)
    group.rollback()  # nothing left to undo
    learn(learner, cells[10 : 10 + n], 9, Y[10 : 10 + n], np.ones(n), origin)
    for name, values in state(learner).items():
        assert_array_equal(values, after[name], err_msg=name)


@pytest.mark.parametrize("kind", ["filter", "means"])
def test_all_rungs_learn_as_each_alone(kind):
    """And are rolled back together, also when another group has taken them over."""
    new = Means(2, 0.5, True) if kind == "means" else Filter(2, "squared", 0.1)
    Y, rungs = TARGETS["squared"], [new.fresh() for _ in range(3)]
    column = np.arange(9, dtype=np.int32) // np.array([[4], [2], [1]], np.int32)
    n_cells = (column.max(axis=1) + 1).tolist()
    value = np.array([0.5**0.5])
    group = LearnerGroup(rungs, value)
    group.learn(CELLS[:20], column, n_cells, (), Y[:20], WEIGHT[:20])
    before = [copy.deepcopy(learner) for learner in rungs]
    group.commit()
    losses = group.learn(CELLS[20:], column, n_cells, (), Y[20:], WEIGHT[20:])
    for r, learner in enumerate(rungs):
        alone = new.fresh()
        once = LearnerGroup([alone], value).learn(
            CELLS, column[r : r + 1], n_cells[r:], (), Y, WEIGHT
        )
        assert_array_equal(losses[r], once[0, 20:])
        for name in (*alone.tables, *alone.small, *alone.rings, "n_table"):
            assert_array_equal(getattr(learner, name), getattr(alone, name), err_msg=name)
    LearnerGroup(rungs, value)
    group.rollback()
    for learner, old in zip(rungs, before, strict=True):
        for name in (*learner.tables, *learner.small, "n_table"):
            assert_array_equal(getattr(learner, name), getattr(old, name), err_msg=name)


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
    learn(learner, cells[1:3], 1, y[1:3], np.ones(2))  # the first row only sets the intercept
    assert_allclose(learner.signal(), (learner.recent[1:3] ** 2).mean(axis=0))
    learn(learner, cells[3:], 1, y[3:], np.ones(2997))
    errors = learner.standard_errors()
    assert errors.shape == (RECENT_ROWS, 1)
    assert_allclose(learner.signal(), (errors**2).mean(axis=0))
    # A constant and noise of variance 1 = σ² α.
    assert_allclose(learner.signal(), 10.0, rtol=0.1)


# --- running errors ------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[40], [1] * 40, [3, 20, 17]], ids=len)
def test_running_error_is_the_mean_and_then_forgets(sizes):
    losses = np.random.default_rng(3).exponential(size=(2, 40))
    error, at = np.zeros(2), 0
    for size in sizes:
        update_errors(losses[:, at : at + size], at, 16, error)
        at += size
        if at <= 16:
            assert_allclose(error, losses[:, :at].mean(axis=1))
    weights = np.concatenate([np.full(16, 1 / 16), np.zeros(24)])
    for i in range(16, 40):
        weights *= 15 / 16
        weights[i] = 1 / 16
    assert_allclose(weights.sum(), 1.0)
    assert_allclose(error, losses @ weights)


# --- several levels ------------------------------------------------------------------------------

# The nodes 0 to 3 are of the first tree, the others of the second. No cell has nodes of both.
COLUMN = np.stack([np.arange(9) // 4, np.arange(9) // 2, np.arange(9)]).astype(np.int32)
N_CELLS = COLUMN.max(axis=1) + 1
VALUE = np.sqrt(np.array([0.2, 0.3, 0.5]) / 2)


@pytest.mark.parametrize("name", TARGETS)
def test_levels_are_the_formula_with_the_features_of_all_levels(name):
    loss, Y = "log_loss" if name == "softmax" else name, TARGETS[name]
    learner = Filter(Y.shape[1], loss, 0.1)
    learner.b_variance[0] = 1.0
    group = LearnerGroup([learner], VALUE)
    for i in range(0, 30, 5):
        part = slice(i, i + 5)
        group.learn(CELLS[part], COLUMN, N_CELLS.tolist(), (), Y[part], WEIGHT[part])
    begin = np.cumsum([0, *N_CELLS[:-1]])
    cells = (COLUMN[:, CELLS] + begin[:, None, None]).transpose(1, 0, 2).reshape(30, 6)
    W, b, P, _, _ = literal(cells, Y, WEIGHT, loss, 0.1, np.repeat(VALUE, 2))
    tol = 1e-3 if name == "hinge" else 1e-7
    assert_allclose(learner.cell_weights(N_CELLS, VALUE), W, atol=tol)
    assert_allclose(by_level(learner.P, N_CELLS), P, atol=tol)
    assert_allclose(learner.intercept, b, atol=tol)


@pytest.mark.parametrize("n", [20, 2])  # more table rows than a batch may change, or fewer
@pytest.mark.parametrize("kind", ["filter", "means"])
def test_levels_are_rolled_back(kind, n):
    learner = Means(2, 0.5, True) if kind == "means" else Filter(2, "squared", 0.1)
    Y, group = TARGETS["squared"], LearnerGroup([learner], VALUE)
    group.learn(CELLS[:5] % 6, COLUMN, [2, 3, 6], (), Y[:5], WEIGHT[:5])
    before = copy.deepcopy(learner)
    group.commit()
    group.learn(CELLS[5 : 5 + n], COLUMN, N_CELLS.tolist(), (), Y[5 : 5 + n], WEIGHT[:n])
    group.rollback()
    assert learner.n_table == before.n_table == 18
    for name in (*learner.tables, *learner.small):
        values = getattr(learner, name)
        assert_array_equal(values[: len(getattr(before, name))], getattr(before, name))
    for name, fresh in learner.tables.items():
        assert (getattr(learner, name)[18:] == fresh).all()


def test_tables_in_order_of_levels():
    values = RNG.normal(size=(N_CELLS.sum(), 2))
    table = as_table(values, N_CELLS, -1.0)
    assert table.shape == (27, 2)
    assert_array_equal(table[5 * 3 + 2], values[N_CELLS[:2].sum() + 5])
    assert_array_equal(by_level(table, N_CELLS), values)
    assert (table == -1.0).all(axis=1).sum() == 27 - N_CELLS.sum()
    one = by_level(values, N_CELLS[2:])
    assert np.shares_memory(one, values)


# --- after a fit ---------------------------------------------------------------------------------


def fitted(n_outputs=2, alpha=0.1):
    """A model with arbitrary weights on trees with three levels, below their lifetime."""
    online = OnlineTrees.empty(2, 4, 3.0, 0)
    online.extend(RNG.uniform(size=(40, 2)))
    trees = online.snapshot()
    levels = Levels.of(trees, np.array([0.5, 1.0, 2.0]), np.array([0.2, 0.3, 0.5]))
    W = RNG.normal(size=(levels.n_features, n_outputs))
    b, columns = RNG.normal(size=n_outputs), Columns.scaled(np.ones(2))
    return FittedModel(trees, levels, W, b, columns, alpha, 5, np.full(n_outputs, 2.0))


def test_rows_of_each_cell_are_counted():
    model = fitted()
    counts = rows_per_cell(model.trees, model.levels)
    for begin, end in zip(model.levels.offset, model.levels.offset[1:], strict=False):
        assert counts[begin:end].sum() == 40 * 4
    assert (counts > 0).all()


@pytest.mark.parametrize("loss", ["squared", "log_loss", "hinge"])
def test_filter_continues_a_fit(loss):
    model = fitted(1)
    counts = rows_per_cell(model.trees, model.levels)
    learner = Filter.after(model, loss)
    n_cells, value = np.diff(model.levels.offset), model.levels.values
    assert learner.n_table == 3 * n_cells.max()
    assert_array_equal(learner.cell_weights(n_cells, value), model.cell_weights)
    assert_array_equal(learner.intercept, model.intercept)
    if loss == "squared":
        P = by_level(learner.P, n_cells)
        assert_allclose(P, 0.1 / (counts * np.repeat(value**2, n_cells) + 0.1))
        # Errors of the variance of the fit, until rows have their own.
        assert_allclose((learner.recent**2).mean(), 2.0, rtol=0.01)
        assert_allclose(learner.b_variance, 1 / (2 * 40))
        assert learner.n_rows[0] == 40


@pytest.mark.parametrize("centre", [False, True])
def test_means_continue_a_fit(centre):
    """Sums and weights are those of one learner that takes all rows."""
    leaf, Y, n_cells = CELLS, TARGETS["squared"], N_CELLS
    whole, half = Means(2, 0.5, centre), Means(2, 0.5, centre)
    LearnerGroup([whole], VALUE).learn(leaf, COLUMN, n_cells.tolist(), (), Y, WEIGHT)
    LearnerGroup([half], VALUE).learn(leaf[:15], COLUMN, n_cells.tolist(), (), Y[:15], WEIGHT[:15])
    # Features of all rows, level after level.
    begin = np.cumsum([0, *n_cells[:-1]])
    cells = (COLUMN[:, leaf] + begin[:, None, None]).transpose(1, 0, 2).reshape(30, 6)
    Phi = sparse.csr_matrix(
        (np.tile(np.repeat(VALUE, 2), 30), cells.ravel(), np.arange(0, 181, 6)),
        shape=(30, n_cells.sum()),
    )
    per_tree = np.array([[1, 2], [2, 3], [4, 5]])
    levels = Levels(np.arange(3.0), VALUE**2 * 2, COLUMN, per_tree)
    sums = (Phi.toarray() > 0).T @ (WEIGHT[:, None] * np.hstack([Y, np.ones((30, 2))]))
    assert_allclose(whole.cell_sums(n_cells), sums)
    W, b = whole.cell_weights(n_cells, VALUE), whole.intercept
    assert_allclose(b, WEIGHT @ Y / WEIGHT.sum() if centre else 0.0)
    in_table = COLUMN[:, leaf].transpose(1, 0, 2).reshape(30, 6) * 3 + np.repeat(np.arange(3), 2)
    assert_allclose(whole.scores(in_table, np.ones((30, 6)), VALUE), b + Phi @ W)
    model = replace(
        fitted(),
        levels=levels,
        alpha=0.5,
        cell_weights=half.cell_weights(n_cells, VALUE),
        intercept=half.intercept,
        sums=half.cell_sums(n_cells),
    )
    after = Means.after(model, centre)
    LearnerGroup([after], VALUE).learn(leaf[15:], COLUMN, n_cells.tolist(), (), Y[15:], WEIGHT[15:])
    assert_allclose(after.cell_weights(n_cells, VALUE), W, atol=1e-15)
    assert_allclose(after.intercept, b)
