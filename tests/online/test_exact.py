"""Exact ridge updates: after any stream, what a fit of all rows on the same trees gives."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.cholesky import centred_targets, dense_scores, signal_variance
from mondrian_kernel._linear.operator import CellOperator
from mondrian_kernel._linear.ridge import solve
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.fitted import FittedModel, TrainingRows
from mondrian_kernel._online.exact import ExactStream
from mondrian_kernel._online.learners import Filter
from mondrian_kernel._online.ridge import ExactRidge
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._trees.online import OnlineTrees

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(160, 3))
Y = np.stack([np.sin(5 * X[:, 0]) + X[:, 1], X[:, 2] ** 2 - 30.0], axis=1)
Y += 0.1 * RNG.normal(size=Y.shape)
WEIGHT = RNG.uniform(0.2, 3.0, size=160)


def stream(n_trees, lifetime, alpha, sizes, weight):
    """Learn rows in batches of these sizes: the ridge, the cells of all rows, their number."""
    online = OnlineTrees.empty(3, n_trees, lifetime, 1)
    ridge, at = None, 0
    for size in sizes:
        part = slice(at, at + size)
        leaf = online.extend(X[part]).copy()
        new = leaf, online.column[0][leaf], Y[part], weight[part], int(online.n_cells[0])
        if ridge is None:
            ridge = ExactRidge(*new, np.array([n_trees**-0.5]), alpha)
        else:
            ridge.append(*new)
        ridge.fit()
        at += size
    return ridge, online.column[0][ridge.rows.leaf], int(online.n_cells[0])


@pytest.mark.parametrize(
    ("n_trees", "lifetime"), [(40, 2.0), (2, 1.0), (3, 4.0)], ids=["dual", "primal", "both"]
)
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
@pytest.mark.parametrize("sizes", [[160], [1] * 160, [3, 40, 1, 60, 56]], ids=len)
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_a_fit_of_all_rows(n_trees, lifetime, alpha, sizes, weighted):
    weight = WEIGHT if weighted else np.ones(160)
    ridge, cells, n_cells = stream(n_trees, lifetime, alpha, sizes, weight)
    design = CellOperator(cells, n_cells, sample_weight=weight)
    batch = solve(design, Y, alpha)
    target, _ = centred_targets(design, Y)
    ((scores, _),) = dense_scores(design, target, np.array([alpha]))
    fit = ridge.fit()
    assert_allclose(fit.coef, batch.coef, atol=1e-8 * np.abs(batch.coef).max())
    assert_allclose(fit.intercept, batch.intercept, rtol=1e-8)
    assert_allclose(fit.signal, signal_variance(design, target, batch.dual), rtol=1e-8)
    assert_allclose(fit.evidence, scores.log_marginal_likelihood[0], rtol=1e-8)


def test_uses_the_smaller_form():
    assert stream(40, 2.0, 1.0, [80, 80], np.ones(160))[0]._is_dual
    ridge = stream(2, 1.0, 1.0, [5] * 32, np.ones(160))[0]
    assert not ridge._is_dual
    assert ridge._R.shape[0] < 80


@pytest.mark.parametrize("n_trees", [2, 40])
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_rows_are_updates_not_new_factors(n_trees, alpha, monkeypatch):
    factor, calls = ExactRidge._factor, []

    def spy(self):
        calls.append(self.n_rows)
        factor(self)

    monkeypatch.setattr(ExactRidge, "_factor", spy)
    stream(n_trees, 1.0, alpha, [30, *[1] * 40, 90], np.ones(160))
    assert calls[0] == 30
    assert len(calls) <= 2  # once more if the other form has become the smaller one


def test_drift_is_noticed_and_mended():
    ridge, cells, n_cells = stream(2, 1.0, 0.1, [100, 60], np.ones(160))
    assert not ridge._is_dual
    ridge._R *= 1.0 + 1e-6
    batch = solve(CellOperator(cells, n_cells), Y, 0.1)
    assert_allclose(ridge.fit().coef, batch.coef, atol=1e-9)
    assert ridge._fit()[1] < 1e-12


# --- streams -------------------------------------------------------------------------------------

ONE = np.ones(160)


def begin(scale="std", n_trees=10, alpha=0.1, lifetime=1.0):
    return ExactStream.begin(2, 3, n_trees, lifetime, alpha, scale, 1)


def learn(stream, first, last, rows=X, max_cells=None):
    return stream.learn(rows[first:last], Y[first:last], WEIGHT[first:last], max_cells)


def dense_ridge(model, rows, targets, weight):
    """Weights and intercept of ridge regression on the features of a model, densely."""
    Phi = model.features(rows, None).toarray()
    centred = Phi - weight @ Phi / weight.sum()
    b = weight @ targets / weight.sum()
    A = centred.T @ (weight[:, None] * centred) + model.alpha * np.eye(Phi.shape[1])
    W = np.linalg.solve(A, centred.T @ (weight[:, None] * (targets - b)))
    return W, b - weight @ Phi @ W / weight.sum()


def batch_model(n_trees, lifetimes, weights, alpha, n):
    """A fit of the first n rows by dense ridge regression on trees grown in one go."""
    online = OnlineTrees.empty(3, n_trees, 3.0, 1)
    leaf = online.extend(X[:n]).copy()
    trees, columns = online.snapshot(), Columns.scaled(np.ones(3))
    levels = Levels.of(trees, np.array(lifetimes), np.array(weights))
    rows = TrainingRows(leaf, Y[:n], WEIGHT[:n])
    none = np.zeros((levels.n_features, 2))
    empty = FittedModel(trees, levels, none, np.zeros(2), columns, alpha, 7, np.ones(2), rows)
    W, b = dense_ridge(empty, X[:n], Y[:n], WEIGHT[:n])
    return replace(empty, cell_weights=W, intercept=b)


LEVELS = {"one": ([2.0], [1.0]), "three": ([0.5, 1.0, 2.0], [0.2, 0.3, 0.5])}


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("n_trees", [1, 20], ids=["primal", "dual"])
@pytest.mark.parametrize("sizes", [[60], [1] * 60], ids=len)
def test_continues_a_fit_at_all_its_levels(levels, n_trees, sizes):
    model = batch_model(n_trees, *LEVELS[levels], 0.1, 100)
    stream, at = ExactStream.after(model), 100
    before = stream.fitted()
    assert_allclose(before.cell_weights, model.cell_weights, atol=1e-8)
    assert stream.size(5) == min(105, model.levels.n_features)
    for size in sizes:
        stream = learn(stream, at, at + size)
        at += size
    after = stream.fitted()
    after.check()
    assert_allclose(after.levels.weights, model.levels.weights)
    W, b = dense_ridge(after, X, Y, WEIGHT)
    assert_allclose(after.cell_weights, W, atol=1e-8)
    assert_allclose(after.intercept, b, rtol=1e-8)
    assert_array_equal(after.rows.Y, Y)
    assert_array_equal(after.rows.weight, WEIGHT)
    # The leaves that the extension named are those that rows walk to; the model is as it was.
    Phi = after.levels.features(after.rows.leaf, None)
    assert_array_equal(Phi.toarray(), after.features(X, None).toarray())
    assert model.trees.count[model.trees.root[0]] == 100


def test_one_level_of_several_is_the_sum_of_kernels():
    """With equal lifetimes the levels add up to one kernel."""
    model = batch_model(5, [1.0, 1.0 + 1e-12], [0.4, 0.6], 0.1, 100)
    one = batch_model(5, [1.0], [1.0], 0.1, 100)
    two, alone = learn(ExactStream.after(model), 100, 160), learn(ExactStream.after(one), 100, 160)
    new = RNG.uniform(-0.2, 1.2, size=(20, 3))
    assert_allclose(two.fitted().scores(new, None), alone.fitted().scores(new, None), rtol=1e-7)
    assert_allclose(two.evidence, alone.evidence, rtol=1e-9)
    assert_allclose(two.fitted().signal, alone.fitted().signal, rtol=1e-7)


def test_a_level_stream_in_one_pass_continues_too():
    """At all levels: scores are those of the fit, then of more rows; the error falls."""
    model = batch_model(20, *LEVELS["three"], 0.1, 100)
    stream = Stream.after(model, Filter(2, "squared", model.alpha), [np.inf])
    new = RNG.uniform(-0.2, 1.2, size=(20, 3))
    assert_allclose(stream.fitted().scores(new, None), model.scores(new, None), atol=1e-12)
    Phi = stream.fitted().features(new, None)
    variance = stream.scores_and_variance(new, None)[1]
    assert_allclose(np.diagonal(stream.covariance(Phi)) + 0.1, variance)
    before = stream.scores_and_variance(X[100:], None)[1]
    for at in range(100, 160, 7):
        stream = stream.learn(X[at : at + 7], Y[at : at + 7], WEIGHT[at : at + 7], None)
    after = stream.fitted()
    after.check()
    assert after.levels.n_levels == 3
    assert (stream.scores_and_variance(X[100:], None)[1] < before).all()
    old = np.abs(model.scores(X[100:], None) - Y[100:]).mean()
    assert np.abs(after.scores(X[100:], None) - Y[100:]).mean() < 0.9 * old
    errors, weight = stream._errors()
    assert_allclose(after.signal, np.average(errors**2, axis=0, weights=weight))


def test_scale_of_a_stream_is_that_of_the_rows_at_powers_of_four():
    whole, stream = learn(begin(), 0, 160), begin()
    for i in range(160):
        stream = learn(stream, i, i + 1)
        n = 4 ** int(np.log2(i + 1) / 2)
        some = X[:n] - WEIGHT[:n] @ X[:n] / WEIGHT[:n].sum()
        std = np.sqrt(WEIGHT[:n] @ some**2 / WEIGHT[:n].sum())
        assert_allclose(stream.scale, std if n > 1 else 1.0, rtol=1e-8)
    a, b = whole.fitted(), stream.fitted()
    assert_allclose(a.cell_weights, b.cell_weights, atol=1e-8)
    assert_allclose(whole.evidence, stream.evidence)


@pytest.mark.parametrize("n_equal", [1, 3, 100])
def test_leading_equal_rows_do_not_hide_the_scale(n_equal, monkeypatch):
    monkeypatch.setattr(settings, "WARM_UP", 16)
    rows = 100.0 * np.concatenate([np.repeat(X[:1], n_equal, axis=0), X[1:60]])
    n = rows.shape[0]
    whole = begin().learn(rows, Y[:1].repeat(n, axis=0), np.ones(n), None)
    stream = begin()
    for row in rows:
        stream = stream.learn(row[None], Y[:1], np.ones(1), None)
    for one in (whole, stream):
        assert_allclose(one.scale, 100 * X[:16].std(axis=0), rtol=1e-8)
        assert one.kept is None
        assert one.n_rows == n


def test_warm_up_ends_and_then_rows_are_not_kept(monkeypatch):
    monkeypatch.setattr(settings, "WARM_UP", 64)
    stream = learn(begin(), 0, 60)
    assert stream.kept.shape == (60, 3)
    stream = learn(stream, 60, 100)
    scale = stream.scale.copy()
    assert stream.kept is None
    assert_array_equal(learn(stream, 100, 160).scale, scale)


@pytest.mark.parametrize("offset", [0.0, 1e8, 1e12])
@pytest.mark.parametrize("n_trees", [2, 40], ids=["primal", "dual"])
def test_a_large_mean_of_the_targets_costs_nothing(offset, n_trees):
    """Beyond the rounding of the targets themselves."""
    stream, plain = (begin([1.0, 1.0, 1.0], n_trees=n_trees) for _ in range(2))
    targets = (Y + offset) - offset  # as rounded
    for at in range(0, 160, 20):
        part = slice(at, at + 20)
        stream = stream.learn(X[part], targets[part] + offset, ONE[part], None)
        plain = plain.learn(X[part], targets[part], ONE[part], None)
    precision = 4 * np.spacing(offset) + 1e-9
    scores = [one.fitted().scores(X, None) for one in (stream, plain)]
    assert_allclose(scores[0] - offset, scores[1], atol=precision)
    assert_allclose(stream.fitted().signal, plain.fitted().signal, rtol=1e-6 + precision)


def state(stream):
    model = stream.fitted()
    return [model.scores(X, None), model.signal, model.rows.leaf.copy(), stream.scale.copy()]


def assert_same_state(a, b, **tolerance):
    for one, other in zip(a, b, strict=True):
        assert_allclose(one, other, **tolerance)


INTERRUPTED = {
    "trees": (OnlineTrees, "extend"),
    "append": (ExactRidge, "append"),
    "fit": (ExactRidge, "fit"),
}


@pytest.mark.parametrize("where", INTERRUPTED)
@pytest.mark.parametrize("n_before", [60, 70, 100])  # restarts at 64, or goes on
@pytest.mark.parametrize("n_trees", [1, 20], ids=["primal", "dual"])
def test_interrupt_leaves_the_stream_as_it_was(where, n_before, n_trees, monkeypatch):
    stream, plain = (learn(begin(n_trees=n_trees), 0, n_before) for _ in range(2))
    before = state(stream)
    cls, name = INTERRUPTED[where]
    original = getattr(cls, name)

    def interrupted(*args, **kwargs):
        original(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(cls, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        learn(stream, n_before, 120)
    monkeypatch.undo()
    assert_same_state(state(stream), before, rtol=0)
    assert_same_state(
        state(learn(stream, n_before, 160)), state(learn(plain, n_before, 160)), rtol=1e-9
    )


def test_a_batch_can_be_rolled_back():
    model = batch_model(5, *LEVELS["three"], 0.1, 100)
    stream, plain = ExactStream.after(model), ExactStream.after(model)
    before = state(stream)
    assert learn(stream, 100, 130) is stream
    stream.rollback(130)  # the next batch has not begun: there is nothing to undo
    assert stream.n_rows == 130
    stream.rollback(100)
    stream.rollback(100)
    assert_same_state(state(stream), before, rtol=0)
    assert_same_state(state(learn(stream, 120, 160)), state(learn(plain, 120, 160)), rtol=1e-9)


@pytest.mark.parametrize("keep", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
@pytest.mark.parametrize("first", ["begin", "after"])
def test_copies_and_pickles_go_on_as_the_stream_would(keep, first):
    if first == "after":
        stream = learn(ExactStream.after(batch_model(5, *LEVELS["three"], 0.1, 40)), 40, 70)
    else:
        stream = learn(begin(), 0, 50)
    kept = keep(stream)
    assert_same_state(state(kept), state(stream), rtol=1e-12)
    for at in (70, 110):
        stream, kept = learn(stream, at, at + 40), learn(kept, at, at + 40)
        assert_same_state(state(kept), state(stream), rtol=1e-9)
