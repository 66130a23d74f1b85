"""Exact ridge updates: after any stream, what a fit of all rows on the same trees gives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mondrian_kernel import MondrianKernelRegressor
from mondrian_kernel._linear.cell_operator import CellOperator
from mondrian_kernel._linear.cholesky import dense_scores
from mondrian_kernel._linear.ridge import solve, standard_loo_errors
from mondrian_kernel._linear.scores import centred_targets, signal_variance
from mondrian_kernel._linear.variance import PredictiveVariance
from mondrian_kernel._online import exact
from mondrian_kernel._online.exact import ExactRidge
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
            ridge = ExactRidge(*new, alpha)
        else:
            ridge.append(*new)
        ridge.fit()
        at += size
    return ridge, online.column[0][ridge.leaf], int(online.n_cells[0])


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
    assert_allclose(fit.evidence, scores.evidence[0], rtol=1e-8)


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
        calls.append(self._n)
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


@pytest.mark.parametrize("begin", ["fit", "nothing"])
@pytest.mark.parametrize("sizes", [[60], [1] * 60])
def test_regressor_has_the_error_bars_of_a_fit_on_its_trees(begin, sizes):
    model = MondrianKernelRegressor(2.0, 0.1, 30, random_state=0, scale=[1.0, 1.0, 2.0])
    learn = model.fit if begin == "fit" else model.partial_fit
    learn(X[:100], Y[:100], WEIGHT[:100])
    at = 100
    for size in sizes:
        model.partial_fit(X[at : at + size], Y[at : at + size], WEIGHT[at : at + size])
        at += size
    cells = model.features_.apply(X / model.scale_)
    design = CellOperator(cells, model.features_.n_cells_, sample_weight=WEIGHT)
    variance = PredictiveVariance(design, 0.1)
    Phi = model.features_.transform(RNG.uniform(-0.5, 1.5, size=(20, 3)) / model.scale_)
    bars, errors, _ = model._error_bars()
    assert_allclose(bars(Phi), variance(Phi), rtol=1e-8)
    assert_allclose(errors, standard_loo_errors(design, Y, 0.1, variance), rtol=1e-8)
    assert_allclose(model.coef_, solve(design, Y, 0.1).coef, atol=1e-8)
    target, _ = centred_targets(design, Y)
    ((scores, _),) = dense_scores(design, target, np.array([0.1]))
    assert_allclose(model.log_marginal_likelihood_, scores.evidence[0], rtol=1e-8)
    # The cells that the extension named are those that rows walk to.
    np.testing.assert_array_equal(design.rows.cells, model.features_.levels_.column[0][model._leaf])


def test_scale_is_that_of_the_rows_at_powers_of_four():
    model = MondrianKernelRegressor(1.0, 0.1, 10, random_state=0)
    whole = MondrianKernelRegressor(1.0, 0.1, 10, random_state=0).partial_fit(X, Y[:, 0])
    for i in range(160):
        model.partial_fit(X[i : i + 1], Y[i : i + 1, 0])
        n = 4 ** int(np.log2(i + 1) / 2)
        assert_allclose(model.scale_, X[:n].std(axis=0) if n > 1 else 1.0, rtol=1e-8)
    assert_allclose(model.coef_, whole.coef_, atol=1e-8)
    assert_allclose(model.predict(X), whole.predict(X))


def test_warm_up_ends(monkeypatch):
    from mondrian_kernel._online import regression

    monkeypatch.setattr(regression, "WARM_UP", 64)
    model = MondrianKernelRegressor(1.0, 0.1, 5, random_state=0).partial_fit(X[:60], Y[:60, 0])
    assert model._kept.shape == (60, 3)
    model.partial_fit(X[60:100], Y[60:100, 0])
    assert_allclose(model.scale_, X[:64].std(axis=0), rtol=1e-8)
    assert model._kept is None
    model.partial_fit(X[100:], Y[100:, 0])
    assert_allclose(model.scale_, X[:64].std(axis=0), rtol=1e-8)


def test_forgets_rows_when_they_are_too_many(monkeypatch):
    from mondrian_kernel._online import regression

    monkeypatch.setattr(regression, "EXACT_SIZE", 100)
    model = MondrianKernelRegressor(2.0, 0.1, 30, random_state=0).fit(X[:90], Y[:90])
    model.partial_fit(X[90:100], Y[90:100])
    before, signal = model.predict(X[:100]), model.signal_variance_
    with pytest.warns(UserWarning, match="taken once and forgotten"):
        model.partial_fit(X[100:101], Y[100:101])
    assert model._leaf is None
    # One row of a hundred moves predictions of others little, and the scale of error bars hardly.
    assert np.abs(model.predict(X[:100]) - before).max() < 0.1
    assert_allclose(model.signal_variance_, signal, rtol=0.05)
    _, std = model.predict(X, return_std=True)
    _, cov = model.predict(X, return_cov=True)
    assert_allclose(np.sqrt(np.diagonal(cov).T), std)
    interval = model.predict_interval(X, coverage=0.6827)  # one standard deviation, still normal
    assert_allclose((interval[:, 1] - interval[:, 0]) / 2, std, rtol=0.1)
    model.partial_fit(X[101:], Y[101:])  # without a warning
    with pytest.warns(UserWarning, match="taken once and forgotten"):
        first = MondrianKernelRegressor(2.0, 0.1, 30, random_state=0).partial_fit(X, Y)
    assert first.lifetime_ == 2.0
    assert first._leaf is None
    with pytest.raises(ValueError, match="rows were forgotten"):
        model.at(1.0)


def test_exact_size_is_what_the_documentation_says():
    assert f"more than {exact.EXACT_SIZE}" in MondrianKernelRegressor.partial_fit.__doc__
