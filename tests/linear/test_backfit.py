"""Backfitting finds the minimum of ridge regression, from every order and share of the work."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.backfit import Backfit
from mondrian_kernel._linear.conjugate_gradients import conjugate_gradients
from mondrian_kernel._linear.levels import LevelOperator
from mondrian_kernel._trees.levels import Levels, grow_trees

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(300, 2))
Y = np.stack([np.sin(6 * X[:, 0]), X[:, 1] > 0.5, X[:, 0] * X[:, 1]], axis=1)
Y += 0.1 * RNG.normal(size=Y.shape)
WEIGHT = RNG.uniform(0.5, 2.0, size=Y.shape)
WEIGHT[:60, 1] = 0.0
V = 0.1 * np.exp(RNG.normal(size=(3, 3)))


def operator(n_trees=12, n_jobs=1):
    trees, leaf = grow_trees(X, 9.0, n_trees, 0, None, 1)
    levels = Levels.of(trees, np.array([1.0, 3.0, 9.0]), np.ones(3))
    return LevelOperator(trees, leaf, levels, np.ones(300), X, centre=False, n_jobs=n_jobs)


def values(made):
    """Cells of the rows, (N, F), one for the cells of a row: Φ without weights."""
    return np.sqrt(made.n_trees) * made.features(np.arange(300)).toarray()


def objective(Phi, sums, y, s, tau):
    """Σ s (y - f)² + Σ u² / τ, literally, with u = τ · sums."""
    rest = y - Phi @ (tau * sums)
    return s @ rest**2 + tau @ sums**2


def test_one_tree_is_fitted_exactly_by_one_sweep():
    """All levels of a tree at once: three nested problems of one tree are one block."""
    made = operator(n_trees=1)
    Phi, sizes = values(made), np.diff(made._levels.offset)
    fit = Backfit(made, Y, WEIGHT, V)
    fit.step()
    for j in range(3):
        A = Phi.T @ (WEIGHT[:, j, None] * Phi) + np.diag(1 / np.repeat(V[:, j], sizes))
        u = np.linalg.solve(A, Phi.T @ (WEIGHT[:, j] * Y[:, j]))
        assert_allclose(fit.sums[:, j] * np.repeat(V[:, j], sizes), u, atol=1e-5)
        assert_allclose(fit.predictions[:, j], Phi @ u, atol=1e-5)


def test_every_step_lowers_the_objective():
    """And the last is the minimum, where the sums are those of what is left of the targets."""
    made = operator()
    Phi, sizes, fit = values(made), np.diff(made._levels.offset), Backfit(made, Y, WEIGHT, V)
    tau = np.repeat(V / made.n_trees, sizes, axis=0)
    before = [np.inf] * 3
    for _ in range(12):
        fit.step()
        now = [objective(Phi, fit.sums[:, j], Y[:, j], WEIGHT[:, j], tau[:, j]) for j in range(3)]
        assert np.all(np.array(now) <= np.array(before) * (1 + 1e-6))
        before = now
        assert_allclose(fit.predictions, Phi @ (tau * fit.sums), atol=1e-4)
    for _ in range(300):
        fit.step()
    assert_allclose(fit.sums, Phi.T @ (WEIGHT * (Y - fit.predictions)), atol=1e-3)


def test_errors_of_rows_held_out_settle_in_few_sweeps():
    """Five sweeps are enough, and five steps of conjugate gradients are not."""
    draw = np.random.default_rng(0)
    rows = draw.uniform(size=(3000, 8))
    trees, leaf = grow_trees(rows, 2.7, 40, 0, None, 1)
    levels = Levels.of(trees, np.array([0.3, 0.9, 2.7]), np.ones(3))
    made = LevelOperator(trees, leaf, levels, np.ones(3000), rows, centre=False)
    y = np.sign(np.sin(20 * rows[:, :1])) + draw.normal(size=(3000, 1))
    v, weight = np.ones((3, 1)), np.ones((3000, 1))
    weight[:600] = 0

    def error(predictions):
        return np.sqrt(np.mean((predictions - y)[:600] ** 2))

    def after(n_steps):
        dual, _ = conjugate_gradients(
            lambda P: weight * made.products(weight * P, v) + P,
            weight * y,
            lambda now: False,
            max_steps=n_steps,
        )
        return error(made.products(weight * dual, v))

    exact, fit = after(100), Backfit(made, y, weight, v)
    for _ in range(5):
        fit.step()
    assert abs(error(fit.predictions) / exact - 1) < 0.01
    assert after(5) / exact - 1 > 0.03


def test_change_is_that_of_rows_held_out():
    made, fit = operator(), Backfit(operator(), Y, WEIGHT, V)
    before = fit.predictions.copy()
    change = fit.step()
    out = WEIGHT[:, 1] == 0
    now = fit.predictions
    expected = np.linalg.norm((now - before)[out, 1]) / np.linalg.norm((now - Y)[out, 1])
    assert_allclose(change, expected, rtol=1e-5)
    fit = Backfit(made, Y[:, :1], WEIGHT[:, :1], V[:, :1])  # no row is held out
    change, now = fit.step(), fit.predictions[:, 0]
    assert_allclose(change, np.linalg.norm(now) / np.linalg.norm(now - Y[:, 0]), rtol=1e-5)


def test_some_of_the_trees():
    few, all_of_them = operator(n_trees=12).with_trees(5), operator(n_trees=5)
    fits = [Backfit(made, Y, WEIGHT, V) for made in (few, all_of_them)]
    for _ in range(3):
        assert_allclose(fits[0].step(), fits[1].step(), rtol=1e-4)
    assert_allclose(fits[0].predictions, fits[1].predictions, atol=1e-5)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_rows_in_shares(n_jobs, monkeypatch):
    """Shares of the rows change rounding alone, and threads change nothing."""
    one = Backfit(operator(), Y, WEIGHT, V)
    monkeypatch.setattr(settings, "SHARED_ROWS", 100)
    monkeypatch.setattr(settings, "THREAD_WORK", 0)
    shared, threads = (Backfit(operator(n_jobs=n), Y, WEIGHT, V) for n in (1, n_jobs))
    for _ in range(3):
        one.step()
        assert shared.step() == threads.step()
    assert_array_equal(shared.sums, threads.sums)
    assert_allclose(shared.predictions, one.predictions, atol=1e-5)


def test_targets_that_need_no_cells():
    """Zero targets, and levels of no weight, stay at zero."""
    fit = Backfit(operator(), 0 * Y, WEIGHT, V)
    assert fit.step() == 0
    assert np.all(fit.sums == 0)
    fit = Backfit(operator(), Y, WEIGHT, np.array([[0.0], [1.0], [0.0]]) * V)
    fit.step()
    first = operator()._levels.offset
    assert np.all(fit.sums[: first[1]] == 0)
    assert np.all(fit.sums[first[2] :] == 0)
    assert np.any(fit.sums != 0)
