"""The one-pass learner: Kalman's filter with the covariances left out."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from tests.online.committees import Cells
from tests.online.committees import learn as learn_cells

from mondrian_kernel import _settings as settings
from mondrian_kernel._kernels.tables import GROWTH, KNOWN, N_ROWS
from mondrian_kernel._linear.losses import encode, slope
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._online.committee import Committee
from mondrian_kernel._online.learners import Filter, Means, rows_per_cell
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._settings import FLAT_VARIANCE
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


def one(rule, half_life=np.inf, value=(0.5**0.5,)):
    """One learner, by default on two trees."""
    return Committee.blank(rule, [half_life], 1, np.array(value))


UNCUT = np.empty((3, 0), np.int32)
NODES = np.arange(9, dtype=np.int32)[None]  # whose cells are they themselves


def learn(learner, cells, n_cells, Y, s, origin=UNCUT):
    """Train one learner on rows whose nodes are their cells; return what it said."""
    column = np.arange(n_cells, dtype=np.int32)[None]
    return learn_cells(learner, Cells(cells, column, np.array([n_cells]), origin), Y, s)


def learn_row_by_row(learner, cells, n_cells, Y, s):
    """Return the scores (n, K) of rows before each was learnt, and the variances (n,)."""
    parts = [
        learn(learner, cells[i : i + 1], n_cells, Y[i : i + 1], s[i : i + 1]) for i in range(len(Y))
    ]
    scores = np.concatenate([part.scores[0] for part in parts]) + learner.offset
    return scores, np.concatenate([part.variance[0] for part in parts])


def variances(learner, n):
    return np.minimum(learner.table[:n, -1] * learner.state[0, GROWTH], 1.0)


def intercept(learner):
    return (learner.offset + learner.intercepts)[0]


def literal(cells, Y, s, loss, alpha, values=None, keep=1.0):
    """The same, by the formula, with full vectors; the hinge by search along the line.

    The intercept has a prior of variance 1 about 0, about the first target with the squared loss.
    Variances are divided by ``keep`` before each row, up to the prior's.
    """
    C, K = int(cells.max()) + 1, Y.shape[1]
    b = Y[0].copy() if loss == "squared" else np.zeros(K)
    W, V = np.zeros((C, K)), np.full(C, 0.5 / alpha)
    v_b, scores, known = 1.0, [], []
    for c, y, w in zip(cells, Y, s, strict=True):
        phi = np.zeros(C)
        phi[c] = len(c) ** -0.5 if values is None else values
        f = (b + phi @ W)[None]
        scores.append(f[0])
        # In units of σ² the prior variances are P, the noise is α: σ² = 2 α times the filter's.
        known.append(2 * alpha * (phi**2 @ V + v_b) + alpha)
        V, v_b = np.minimum(V / keep, 0.5 / alpha), min(v_b / keep, FLAT_VARIANCE)
        v = phi**2 @ V + v_b
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
    return W, b, V * 2 * alpha, np.array(scores), np.array(known)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(("alpha", "half_life"), [(0.1, np.inf), (2.0, np.inf), (0.1, 5.0)])
def test_is_the_formula(name, alpha, half_life):
    loss, Y = "log_loss" if name == "softmax" else name, TARGETS[name]
    learner = one(Filter(Y.shape[1], loss, alpha), half_life)
    learner.state[:, KNOWN] = 1.0
    scores, variance = learn_row_by_row(learner, CELLS, 9, Y, WEIGHT)
    expected = literal(CELLS, Y, WEIGHT, loss, alpha, keep=0.5 ** (1 / half_life))
    tol = 1e-3 if name == "hinge" else 1e-7
    W = learner.table[:9, :-1]
    found = W, intercept(learner), variances(learner, 9), scores, variance
    for got, wanted in zip(found, expected, strict=True):
        assert_allclose(got, wanted, atol=tol)


@pytest.mark.parametrize("kind", ["filter", "means"])
def test_other_units_change_nothing(kind, monkeypatch):
    """Where the weight of the last row has become large, tables are put into other units."""

    def blank():
        return one(Means(2, 0.5, True) if kind == "means" else Filter(2, "squared", 0.1), 3.0)

    Y, plain, often = TARGETS["squared"], blank(), blank()
    expected = learn_row_by_row(plain, CELLS, 9, Y, WEIGHT)
    monkeypatch.setattr(settings, "LARGEST_GROWTH", 10.0)
    found = learn_row_by_row(often, CELLS, 9, Y, WEIGHT)
    assert plain.state[0, GROWTH] > 500 > 13 > often.state[0, GROWTH]
    for got, wanted in zip(found, expected, strict=True):
        assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", ["filter", "means"])
def test_a_batch_in_other_units_is_taken_back(kind, monkeypatch):
    rule = Means(2, 0.5, True) if kind == "means" else Filter(2, "squared", 0.1)
    Y, learner, plain = TARGETS["squared"], one(rule, 3.0), one(rule, 3.0)
    for some in (learner, plain):
        learn(some, CELLS[:10], 9, Y[:10], WEIGHT[:10])
    monkeypatch.setattr(settings, "LARGEST_GROWTH", 2.0)
    growth = learner.state[0, GROWTH]
    learn(learner, CELLS[10:19], 9, Y[10:19], WEIGHT[10:19])
    learner.rollback(CELLS[10:19], NODES)
    assert learner.state[0, GROWTH] < 2.0 < growth
    assert_array_equal(learner.cell_weights(np.array([9])), plain.cell_weights(np.array([9])))
    assert_array_equal(learner.intercept, plain.intercept)
    for some in (learner, plain):
        learn(some, CELLS[10:], 9, Y[10:], WEIGHT[10:])
    assert_array_equal(learner.cell_weights(np.array([9])), plain.cell_weights(np.array([9])))


def test_means_forget_as_if_rows_had_less_weight():
    Y = TARGETS["squared"]
    forgetful, weighted = one(Means(2, 0.5, True), 4.0), one(Means(2, 0.5, True))
    learn(forgetful, CELLS, 9, Y, WEIGHT)
    learn(weighted, CELLS, 9, Y, WEIGHT * 0.5 ** (np.arange(29, -1, -1) / 4.0))
    n_cells = np.array([9])
    assert_allclose(forgetful.cell_weights(n_cells), weighted.cell_weights(n_cells))


def test_is_exact_ridge_where_weights_do_not_interact():
    """One tree: the cells are apart, and but for the intercept the filter is Kalman's."""
    cells = CELLS[:, :1]
    y = TARGETS["squared"]
    learner = one(Filter(2, "squared", 0.3), value=[1.0])
    learner.state[:, KNOWN] = 1e-30  # the intercept stays at the first target
    learn(learner, cells, 4, y, WEIGHT)
    Phi = np.eye(4)[cells[:, 0]]
    A = Phi.T @ (WEIGHT[:, None] * Phi) + 0.3 * np.eye(4)
    assert_allclose(
        learner.table[:4, :-1], np.linalg.solve(A, Phi.T @ (WEIGHT[:, None] * (y - y[0])))
    )
    assert_allclose(learner.table[:4, -1], 0.3 * np.diagonal(np.linalg.inv(A)))
    judged = learn(learner, cells[:1], 4, y[:1], np.ones(1))
    assert_allclose(judged.variance, 0.3 + 0.3 * np.linalg.inv(A)[cells[0], cells[0]][None])


@pytest.mark.parametrize("name", TARGETS)
def test_does_not_depend_on_batches(name):
    loss, Y = "log_loss" if name == "softmax" else name, TARGETS[name]
    whole, pieces = one(Filter(Y.shape[1], loss, 0.1)), one(Filter(Y.shape[1], loss, 0.1))
    learn(whole, CELLS[:10], 9, Y[:10], WEIGHT[:10])
    judged = learn(whole, CELLS[10:], 9, Y[10:], WEIGHT[10:])
    learn_row_by_row(pieces, CELLS[:10], 9, Y[:10], WEIGHT[:10])
    # What is said of a batch is what is said before any of it is learnt.
    alone = [
        learn(copy.deepcopy(pieces), CELLS[[i]], 9, Y[[i]], WEIGHT[[i]]) for i in range(10, 30)
    ]
    assert_array_equal(np.concatenate([one.scores for one in alone], axis=1), judged.scores)
    assert_array_equal(np.concatenate([one.variance for one in alone], axis=1), judged.variance)
    learn_row_by_row(pieces, CELLS[10:], 9, Y[10:], WEIGHT[10:])
    assert_same(whole, pieces)


def cells_of(learners, j=0):
    """The table of a learner, level after level, without the room for more."""
    L = learners.value.size
    parts = zip(learners.begin[j * L :], learners.n_table[j * L : (j + 1) * L], strict=False)
    return np.concatenate([learners.table[begin : begin + n] for begin, n in parts])


def state(learners, j=0):
    """The numbers of a learner, without the room for more."""
    L = learners.value.size
    n = learners.n_table[j * L : (j + 1) * L].copy()
    return {"table": cells_of(learners, j), "state": learners.state[j].copy(), "n_table": n}


def assert_same(a, b, j=0, i=0):
    """Learner j of a committee, or its state, is learner i of another."""
    expected = b if isinstance(b, dict) else state(b, i)
    for name, values in state(a, j).items():
        assert_array_equal(values, expected[name], err_msg=name)


def assert_fresh(learners):
    """Room for further cells holds what cells without rows have."""
    for j, n in enumerate(learners.n_table):
        room = learners.table[learners.begin[j] + n : learners.begin[j + 1]]
        assert (room == learners.rule.fresh).all()


@pytest.mark.parametrize(("n", "n_trees"), [(20, 2), (5, 1)])
def test_rollback_takes_back_a_batch_with_its_new_and_cut_cells(n, n_trees):
    Y, cells = TARGETS["squared"], CELLS[:, :n_trees]
    learner = one(Filter(2, "squared", 0.1), value=[n_trees**-0.5])
    learn(learner, cells[:10] % 6, 6, Y[:10], np.ones(10))
    before = state(learner)
    origin = np.array([[2, 6, -1]], np.int32)
    learn(learner, cells[10 : 10 + n], 9, Y[10 : 10 + n], np.ones(n), origin)
    after = state(learner)
    assert after["n_table"] == 9
    learner.rollback(cells[10 : 10 + n], NODES)
    assert_same(learner, before)
    assert_fresh(learner)
    learner.rollback(cells[10 : 10 + n], NODES)  # nothing left to undo
    assert_same(learner, before)
    learn(learner, cells[10 : 10 + n], 9, Y[10 : 10 + n], np.ones(n), origin)
    assert_same(learner, after)


@pytest.mark.parametrize("kind", ["filter", "means"])
def test_all_rungs_learn_as_each_alone(kind):
    """And are rolled back together, also when copies of them have learnt more."""
    rule = Means(2, 0.5, True) if kind == "means" else Filter(2, "squared", 0.1)
    Y, rates, value = TARGETS["squared"], (np.inf, 7.0), np.array([0.5**0.5])
    column = np.arange(9, dtype=np.int32) // np.array([[4], [2], [1]], np.int32)
    n_cells = column.max(axis=1) + 1
    learners = Committee.blank(rule, rates, 3, value)
    learn_cells(learners, Cells(CELLS[:20], column, n_cells, UNCUT), Y[:20], WEIGHT[:20])
    before = [state(learners, j) for j in range(6)]
    learners.commit()
    last = Cells(CELLS[20:], column, n_cells, UNCUT), Y[20:], WEIGHT[20:]
    judged = learn_cells(learners, *last)
    for j in range(6):
        alone, r = one(rule, rates[j % 2]), j // 2
        for part in (slice(20), slice(20, None)):
            cells = Cells(CELLS[part], column[[r]], n_cells[r:], UNCUT)
            said = learn_cells(alone, cells, Y[part], WEIGHT[part])
        assert_array_equal(judged.scores[j], said.scores[0])
        assert_same(learners, alone, j)
    copies = learners.at_rungs(np.array([0, 2, 2]))
    for j, i in enumerate([0, 1, 4, 5, 4, 5]):
        assert_same(copies, learners, j, i)
    learn_cells(copies, Cells(CELLS, column, n_cells, UNCUT), Y, WEIGHT)
    learners.rollback(CELLS[20:], column)
    for j, old in enumerate(before):
        assert_same(learners, old, j)


def test_cut_cells_hand_on_their_numbers():
    learner = one(Filter(2, "squared", 0.1))
    learn(learner, CELLS, 9, TARGETS["squared"], np.ones(30))
    table = state(learner)["table"]
    # Cell 9 is a part of 2, cell 10 of that part; cell 11 is new. No rows: nothing else changes.
    origin = np.array([[2, 9, -1]], np.int32)
    learn(learner, np.empty((0, 2), np.int32), 12, np.empty((0, 2)), np.empty(0), origin)
    fresh = learner.rule.fresh
    assert_array_equal(state(learner)["table"], np.vstack([table, table[[2, 2]], fresh]))


# --- several levels ------------------------------------------------------------------------------

# The nodes 0 to 3 are of the first tree, the others of the second. No cell has nodes of both.
COLUMN = np.stack([np.arange(9) // 4, np.arange(9) // 2, np.arange(9)]).astype(np.int32)
N_CELLS = COLUMN.max(axis=1) + 1
VALUE = np.sqrt(np.array([0.2, 0.3, 0.5]) / 2)


@pytest.mark.parametrize("name", TARGETS)
def test_levels_are_the_formula_with_the_features_of_all_levels(name):
    loss, Y = "log_loss" if name == "softmax" else name, TARGETS[name]
    learner = one(Filter(Y.shape[1], loss, 0.1), value=VALUE)
    learner.state[:, KNOWN] = 1.0
    for i in range(0, 30, 5):
        part = slice(i, i + 5)
        learn_cells(learner, Cells(CELLS[part], COLUMN, N_CELLS, UNCUT), Y[part], WEIGHT[part])
    begin = np.cumsum([0, *N_CELLS[:-1]])
    cells = (COLUMN[:, CELLS] + begin[:, None, None]).transpose(1, 0, 2).reshape(30, 6)
    W, b, P, _, _ = literal(cells, Y, WEIGHT, loss, 0.1, np.repeat(VALUE, 2))
    tol = 1e-3 if name == "hinge" else 1e-7
    assert_allclose(learner.cell_weights(N_CELLS), W, atol=tol)
    assert_allclose(cells_of(learner)[:, -1], P, atol=tol)
    assert_allclose(intercept(learner), b, atol=tol)


@pytest.mark.parametrize("n", [20, 2])  # more table rows than a batch may change, or fewer
@pytest.mark.parametrize("kind", ["filter", "means"])
def test_levels_are_rolled_back(kind, n):
    rule = Means(2, 0.5, True) if kind == "means" else Filter(2, "squared", 0.1)
    Y, learner = TARGETS["squared"], one(rule, value=VALUE)
    learn_cells(
        learner, Cells(CELLS[:5] % 6, COLUMN, np.array([2, 3, 6]), UNCUT), Y[:5], WEIGHT[:5]
    )
    before = state(learner)
    learner.commit()
    learn_cells(learner, Cells(CELLS[5 : 5 + n], COLUMN, N_CELLS, UNCUT), Y[5 : 5 + n], WEIGHT[:n])
    learner.rollback(CELLS[5 : 5 + n], COLUMN)
    assert_array_equal(learner.n_table, [2, 3, 6])
    assert_same(learner, before)
    assert_fresh(learner)


def test_a_table_has_a_row_for_each_cell_of_each_level():
    """And no more than an eighth beyond after a fit: most cells are of the last level."""
    model = fitted(1)
    n_cells = np.diff(model.levels.offset)
    learners = Committee.after(Filter(1, "squared", model.alpha), [np.inf, 9.0], model)
    assert_array_equal(learners.n_table, np.tile(n_cells, 2))
    assert_array_equal(np.diff(learners.begin), np.tile(n_cells + n_cells // 8, 2))
    assert_array_equal(cells_of(learners, 1), cells_of(learners, 0))
    assert_array_equal(cells_of(learners, 0)[:, :1], model.cell_weights)
    assert_fresh(learners)
    learners.grow(n_cells + n_cells // 8 + np.array([0, 0, 1]))
    assert_array_equal(cells_of(learners, 1)[:, :1], model.cell_weights)
    assert_fresh(learners)


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
    rule = Filter(1, loss, model.alpha)
    learner = Committee.after(rule, [np.inf], model)
    n_cells, value = np.diff(model.levels.offset), model.levels.values
    assert_array_equal(learner.n_table, n_cells)
    assert_array_equal(learner.cell_weights(n_cells), model.cell_weights)
    assert_array_equal(intercept(learner), model.intercept)
    if loss == "squared":
        P = cells_of(learner)[:, -1]
        assert_allclose(P, 0.1 / (counts * np.repeat(value**2, n_cells) + 0.1))
        # Errors of the variance of the fit, until rows have their own.
        assert_allclose((Stream.after(model, rule, [np.inf]).recent ** 2).mean(), 2.0, rtol=0.01)
        assert_allclose(learner.state[:, KNOWN], 1 / (2 * 40))
        assert learner.state[0, N_ROWS] == 40


@pytest.mark.parametrize("centre", [False, True])
def test_means_continue_a_fit(centre):
    """Sums and weights are those of one learner that takes all rows."""
    leaf, Y, n_cells = CELLS, TARGETS["squared"], N_CELLS
    rule = Means(2, 0.5, centre)
    whole, half = one(rule, value=VALUE), one(rule, value=VALUE)
    learn_cells(whole, Cells(leaf, COLUMN, n_cells, UNCUT), Y, WEIGHT)
    learn_cells(half, Cells(leaf[:15], COLUMN, n_cells, UNCUT), Y[:15], WEIGHT[:15])
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
    assert_allclose(cells_of(whole), sums)
    W, b = whole.cell_weights(n_cells), intercept(whole)
    assert_allclose(b, WEIGHT @ Y / WEIGHT.sum() if centre else 0.0)
    said = learn_cells(copy.deepcopy(whole), Cells(leaf, COLUMN, n_cells, UNCUT), Y, WEIGHT)
    assert_allclose(said.scores[0], b + Phi @ W)
    model = replace(
        fitted(),
        levels=levels,
        alpha=0.5,
        cell_weights=half.cell_weights(n_cells),
        intercept=intercept(half),
        sums=cells_of(half),
    )
    after = Committee.after(rule, [np.inf], model)
    learn_cells(after, Cells(leaf[15:], COLUMN, n_cells, UNCUT), Y[15:], WEIGHT[15:])
    assert_allclose(after.cell_weights(n_cells), W, atol=1e-15)
    assert_allclose(intercept(after), b)
