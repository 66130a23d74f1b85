"""The regressor's exact updates: at any moment a fit of all rows on the same trees."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mondrian_kernel import MondrianKernelRegressor
from mondrian_kernel._linear.cholesky import centred_targets, dense_scores
from mondrian_kernel._linear.operator import CellOperator
from mondrian_kernel._linear.ridge import PredictiveVariance, solve, standard_loo_errors
from mondrian_kernel._settings import EXACT_SIZE

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(160, 3))
Y = np.stack([np.sin(5 * X[:, 0]) + X[:, 1], X[:, 2] ** 2 - 30.0], axis=1)
Y += 0.1 * RNG.normal(size=Y.shape)
WEIGHT = RNG.uniform(0.2, 3.0, size=160)


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
    order = np.arange(160)
    if begin == "fit":  # which keeps its rows sorted
        order[:100] = np.lexsort([*Y[:100].T, *X[:100].T])
    rows, targets, weight = X[order], Y[order], WEIGHT[order]
    cells = model.features_.apply(rows / model.scale_)
    design = CellOperator(cells, model.features_.n_cells_, sample_weight=weight)
    variance = PredictiveVariance(design, 0.1)
    Phi = model.features_.transform(RNG.uniform(-0.5, 1.5, size=(20, 3)) / model.scale_)
    bars = model._error_bars()
    assert_allclose(bars.variance(Phi), variance(Phi), rtol=1e-8)
    assert_allclose(bars.errors, standard_loo_errors(design, targets, 0.1, variance), rtol=1e-8)
    assert_allclose(model.cell_weights_, solve(design, targets, 0.1).coef, atol=1e-8)
    target, _ = centred_targets(design, targets)
    ((scores, _),) = dense_scores(design, target, np.array([0.1]))
    assert_allclose(model.log_marginal_likelihood_, scores.log_marginal_likelihood[0], rtol=1e-8)
    # The cells that the extension named are those that rows walk to.
    leaf = model.model_.rows.leaf
    np.testing.assert_array_equal(design.cells, model.features_.levels_.column[0][leaf])


def test_weights_are_repetitions_in_intervals():
    """The ends are quantiles of the errors of rows left out, each as often as its weight says."""
    weight = np.random.default_rng(1).integers(1, 5, size=100)
    model = MondrianKernelRegressor(2.0, 0.1, 30, random_state=0, scale=[1.0, 1.0, 2.0])
    model.partial_fit(X[:100], Y[:100, 0], weight.astype(float))
    errors = model._error_bars().errors[:, 0] / np.sqrt(model.signal_variance_)
    both = np.sort(np.concatenate([np.repeat(errors, weight), np.repeat(-errors, weight)]))
    new = X[100:]
    mean, cov = model.predict(new, return_cov=True)
    for coverage in (0.5, 0.9):
        rank = int(np.ceil(0.5 * (1 + coverage) * (both.size + 1))) - 1
        high = model.predict_interval(new, coverage)[:, 1]
        assert_allclose(high, mean + both[rank] * np.sqrt(np.diag(cov)))


def test_error_bars_of_several_lifetimes_are_those_of_their_features():
    model = MondrianKernelRegressor(n_estimators=10, random_state=0).fit(X[:100], Y[:100])
    model.partial_fit(X[100:], Y[100:])
    assert model.lifetimes_.size > 1
    new = RNG.uniform(-0.5, 1.5, size=(20, 3))
    rows, Phi = (model.model_.features(part, None).toarray() for part in (X, new))
    mean, alpha = rows.mean(axis=0), model.alpha_
    A = (rows - mean).T @ (rows - mean) + alpha * np.eye(rows.shape[1])
    psi = Phi - mean
    known = alpha * np.sum(psi * np.linalg.solve(A, psi.T).T, axis=1) + alpha / len(X)
    variance = 1.0 - np.sum(Phi**2, axis=1) + known
    cov = model.predict(new, return_cov=True)[1]
    expected = (variance + alpha)[:, None] * model.signal_variance_
    assert_allclose(np.einsum("iik->ik", cov), expected, rtol=1e-6)
    assert (np.diff(model.predict_interval(new), axis=1) > 0).all()


def test_scale_is_that_of_the_rows_at_powers_of_four():
    model = MondrianKernelRegressor(1.0, 0.1, 10, random_state=0)
    whole = MondrianKernelRegressor(1.0, 0.1, 10, random_state=0).partial_fit(X, Y[:, 0])
    for i in range(160):
        model.partial_fit(X[i : i + 1], Y[i : i + 1, 0])
        n = 4 ** int(np.log2(i + 1) / 2)
        assert_allclose(model.scale_, X[:n].std(axis=0) if n > 1 else 1.0, rtol=1e-8)
    assert_allclose(model.cell_weights_, whole.cell_weights_, atol=1e-8)
    assert_allclose(model.predict(X), whole.predict(X))


def test_forgets_rows_when_they_are_too_many(monkeypatch):
    monkeypatch.setattr("mondrian_kernel._settings.EXACT_SIZE", 100)
    model = MondrianKernelRegressor(2.0, 0.1, 30, forgetting=None, random_state=0)
    model.fit(X[:90], Y[:90]).partial_fit(X[90:100], Y[90:100])
    before, signal = model.predict(X[:100]), model.signal_variance_
    _, std = model.predict(X, return_std=True)
    with pytest.warns(UserWarning, match="used once and forgotten"):
        model.partial_fit(X[100:101], Y[100:101])
    assert model.model_.rows is None
    # One row of a hundred moves predictions of others little, and the scale of error bars hardly.
    assert np.abs(model.predict(X[:100]) - before).max() < 0.1
    assert_allclose(model.signal_variance_, signal, rtol=0.05)
    _, after = model.predict(X, return_std=True)
    assert_allclose(np.median(after / std, axis=0), 1.0, atol=0.1)
    model.partial_fit(X[101:], Y[101:])  # without a warning
    with pytest.warns(UserWarning, match="used once and forgotten"):
        first = MondrianKernelRegressor(2.0, 0.1, 30, random_state=0).partial_fit(X, Y)
    assert first.lifetime_ == 2.0
    assert first.model_.rows is None
    with pytest.raises(ValueError, match="rows were forgotten"):
        model.at(1.0)


def test_exact_size_is_what_the_documentation_says():
    assert f"more than {EXACT_SIZE}" in MondrianKernelRegressor.partial_fit.__doc__
