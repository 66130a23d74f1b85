"""The regressor: scikit-learn's checks, exact equalities, error bars against brute force."""

import pickle
import re
import tracemalloc
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import mondrian_kernel._model.ridge_model
import mondrian_kernel._path.choose
from mondrian_kernel import MondrianFeatures, MondrianKernelRegressor
from mondrian_kernel import _settings as settings
from mondrian_kernel._model.kernel_fit import fit_bytes
from mondrian_kernel._path.checks import join_copies
from mondrian_kernel._path.result import CRITERIA, LifetimePath
from mondrian_kernel._trees import checks
from mondrian_kernel.datasets import make_skewed

LIFETIME, ALPHA, M = 0.7, 0.3, 15


def problem(n, seed=0, n_dims=3, noise=0.2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, n_dims)) * np.array([1.0, 50.0, 0.01])[:n_dims]
    y = np.sin(5 * X[:, 0]) + X[:, 1] / 50 + noise * rng.normal(size=n)
    return X, y


X, y = problem(50)
NEW = np.vstack([problem(8, 1)[0], [[3.0, -20.0, 0.05], [1e6, 1e6, 1e6]], X[:2]])
Y2 = np.stack([y, 3 * np.cos(4 * X[:, 0]) - 1], axis=1)
WEIGHT = np.random.default_rng(2).integers(1, 4, size=50).astype(float)


def regressor(lifetime=LIFETIME, alpha=ALPHA, n_estimators=M, **options):
    options.setdefault("random_state", 0)
    return MondrianKernelRegressor(lifetime, alpha, n_estimators, **options)


@pytest.fixture(scope="module")
def model():
    return regressor().fit(X, y)


@pytest.fixture(scope="module")
def auto():
    return regressor("path", "auto").fit(X, y)


def brute_force(model, rows, y, new, weight=None):
    """Bayesian linear regression on Φ, row by row, with an unknown constant (ordinary kriging).

    A row of weight s is one whose noise is s times less. New rows have φᵀφ ≤ 1: the rest of their
    prior variance 1 belongs to weights that no row has seen. Returns the mean, the covariance of
    new y in units of σ², and σ² of repeated rows.
    """
    weight = np.ones(len(y)) if weight is None else weight
    Phi = model.features_.transform(rows / model.scale_).toarray()
    phi = model.features_.transform(new / model.scale_).toarray()
    alpha = model.alpha_
    K_inv = np.linalg.inv(Phi @ Phi.T + alpha * np.diag(1 / weight))
    one = np.ones(len(y))
    b = one @ K_inv @ y / (one @ K_inv @ one)
    cross = phi @ Phi.T
    mean = b + cross @ K_inv @ (y - b)
    prior = phi @ phi.T
    prior[np.diag_indices(len(new))] = 1.0
    unexplained = 1.0 - cross @ K_inv @ one
    cov = prior - cross @ K_inv @ cross.T
    cov += np.outer(unexplained, unexplained) / (one @ K_inv @ one)
    return SimpleNamespace(mean=mean, cov=cov + alpha * np.eye(len(new)), b=b, K_inv=K_inv)


def brute_signal(model, rows, y):
    """Likeliest variance of the contrasts of y."""
    Phi = model.features_.transform(rows / model.scale_).toarray()
    contrasts = linalg.null_space(np.ones((1, len(y))))
    K = contrasts.T @ (Phi @ Phi.T + model.alpha_ * np.eye(len(y))) @ contrasts
    z = contrasts.T @ y
    return z @ np.linalg.solve(K, z) / len(z)


# ---- scikit-learn's checks -------------------------------------------------------------------


@parametrize_with_checks([MondrianKernelRegressor(n_estimators=10)])
def test_scikit_learn(estimator, check):
    check(estimator)


def test_scikit_learn_checks_all_run_and_none_is_expected_to_fail():
    results = check_estimator(MondrianKernelRegressor(), on_skip=None, on_fail=None)
    assert len(results) >= 55
    names = {r["check_name"] for r in results}
    assert "check_sample_weight_equivalence_on_dense_data" in names
    failed = [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")]
    assert failed == []
    # Arrays of other libraries are checked only where SciPy is told to take them.
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}


# ---- the same as ... -------------------------------------------------------------------------


@pytest.mark.parametrize("lifetime", [0.0, 0.1, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("alpha", [1e-3, 0.3, 100.0])
@pytest.mark.parametrize("target", [y, Y2], ids=["one", "two"])
def test_equals_a_pipeline_of_scaler_features_and_ridge(lifetime, alpha, target):
    features = MondrianFeatures(lifetime, M, random_state=3)
    pipeline = make_pipeline(
        StandardScaler(), features, Ridge(alpha, solver="sparse_cg", tol=1e-13)
    )
    pipeline.fit(X, target)
    ours = regressor(lifetime, alpha, random_state=3).fit(X, target)
    assert_allclose(ours.predict(NEW), pipeline.predict(NEW), rtol=0, atol=1e-8)
    assert_allclose(ours.cell_weights_.T, pipeline[-1].coef_, rtol=0, atol=1e-8)
    assert_allclose(ours.intercept_, pipeline[-1].intercept_, rtol=0, atol=1e-8)


def test_equals_the_pipeline_with_weights():
    ours = regressor().fit(X, y, WEIGHT)
    scaler = StandardScaler().fit(X, sample_weight=WEIGHT)
    features = MondrianFeatures(LIFETIME, M, random_state=0)
    ridge = Ridge(ALPHA, solver="sparse_cg", tol=1e-13)
    ridge.fit(features.fit_transform(scaler.transform(X)), y, WEIGHT)
    expected = ridge.predict(features.transform(scaler.transform(NEW)))
    assert_allclose(ours.predict(NEW), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("lifetime", [LIFETIME, "path", "auto"])
def test_weights_equal_repeated_rows(lifetime):
    options = {"lifetime": lifetime, "alpha": ALPHA if lifetime == LIFETIME else "auto"}
    order = np.random.default_rng(0).permutation(int(WEIGHT.sum()))
    rows, target = (np.repeat(a, WEIGHT.astype(int), axis=0)[order] for a in (X, y))
    weighted = regressor(**options).fit(X, y, WEIGHT)
    repeated = regressor(**options).fit(rows, target)
    assert_allclose(weighted.lifetime_, repeated.lifetime_)
    assert weighted.alpha_ == repeated.alpha_
    for mine, theirs in zip(
        weighted.predict(NEW, return_std=True), repeated.predict(NEW, return_std=True), strict=True
    ):
        assert_allclose(mine, theirs, rtol=1e-8)
    interval = weighted.predict_interval(NEW)
    assert_allclose(interval, repeated.predict_interval(NEW), rtol=1e-7)


def test_weights_equal_repeated_rows_by_brute_force():
    rows, target = (np.repeat(a, WEIGHT.astype(int), axis=0) for a in (X, y))
    model = regressor().fit(X, y, WEIGHT)
    mean, cov = model.predict(NEW, return_cov=True)
    expected = brute_force(model, rows, target, NEW)
    signal = brute_signal(model, rows, target)
    assert_allclose(model.signal_variance_, signal, rtol=1e-8)
    assert_allclose(mean, expected.mean, rtol=1e-8)
    assert_allclose(cov, signal * expected.cov, atol=1e-8 * signal)


@pytest.mark.parametrize("lifetime", [LIFETIME, "path", "auto"])
def test_weight_zero_drops_rows(lifetime):
    kept = WEIGHT > 1
    weighted = regressor(lifetime, "auto").fit(X, y, np.where(kept, WEIGHT, 0.0))
    dropped = regressor(lifetime, "auto").fit(X[kept], y[kept], WEIGHT[kept])
    assert weighted.lifetime_ == dropped.lifetime_
    assert_array_equal(weighted.predict(NEW, True), dropped.predict(NEW, True))
    ones = regressor(lifetime, "auto").fit(X, y, kept.astype(float))
    plain = regressor(lifetime, "auto").fit(X[kept], y[kept])
    assert_allclose(ones.predict(NEW, True), plain.predict(NEW, True), rtol=1e-8)


@pytest.mark.parametrize("n_rows", [3, 50])
def test_several_outputs_equal_fits_apart(n_rows):
    both = regressor().fit(X[:n_rows], Y2[:n_rows])
    mean, std = both.predict(NEW, return_std=True)
    _, cov = both.predict(NEW, return_cov=True)
    interval = both.predict_interval(NEW)
    assert mean.shape == std.shape == (12, 2)
    assert cov.shape == (12, 12, 2)
    assert interval.shape == (12, 2, 2)
    assert both.cell_weights_.shape == (both.features_.n_cells_, 2)
    for t in range(2):
        one = regressor().fit(X[:n_rows], Y2[:n_rows, t])
        own_mean, own_std = one.predict(NEW, return_std=True)
        assert_allclose(mean[:, t], own_mean, rtol=1e-9)
        # Conjugate gradients for the spread stop when all outputs are solved to 1e-2.
        assert_allclose(std[:, t], own_std, rtol=1e-2)
        assert_allclose(cov[:, :, t], one.predict(NEW, return_cov=True)[1], atol=1e-12)
        assert_allclose(interval[:, :, t], one.predict_interval(NEW), atol=1e-2 * std.max())
        assert_allclose(both.signal_variance_[t], one.signal_variance_, rtol=1e-9)
        assert_allclose(both.noise_variance_[t], one.noise_variance_, rtol=1e-9)


def test_a_column_of_targets_stays_a_column():
    column = regressor().fit(X, y[:, None])
    mean, std = column.predict(NEW, return_std=True)
    assert mean.shape == std.shape == (12, 1)
    assert_array_equal(mean[:, 0], regressor().fit(X, y).predict(NEW))


# ---- scale -----------------------------------------------------------------------------------


def test_scale_is_what_rows_are_divided_by():
    by_hand = regressor(scale=None).fit(X / X.std(axis=0), y)
    assert_array_equal(by_hand.scale_, np.ones(3))
    expected = by_hand.predict(NEW / X.std(axis=0))
    for scale in ("std", X.std(axis=0), list(X.std(axis=0))):
        model = regressor(scale=scale).fit(X, y)
        assert_allclose(model.scale_, X.std(axis=0))
        assert_allclose(model.predict(NEW), expected, rtol=1e-8)


def test_std_makes_units_irrelevant():
    units = np.array([1e-3, 1.0, 4e5])
    model = regressor("path", "auto").fit(X * units, y)
    expected = regressor("path", "auto").fit(X, y)
    assert_allclose(model.predict(NEW * units), expected.predict(NEW), rtol=1e-7)


@pytest.mark.parametrize("constant", [0.0, 7.5, 1e12])
def test_constant_columns_are_harmless(model, constant):
    def wider(rows):
        return np.insert(rows, 1, constant, axis=1)

    assert_allclose(regressor().fit(wider(X), y).predict(wider(NEW)), model.predict(NEW), rtol=1e-8)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ([1.0, 2.0], "one number for each of the 3 columns"),
        (np.ones((3, 1)), "one number for each of the 3 columns"),
        ([1.0, 0.0, 1.0], "positive and finite"),
        ([1.0, -2.0, 1.0], "positive and finite"),
        ([1.0, np.nan, 1.0], "positive and finite"),
        ([1.0, np.inf, 1.0], "positive and finite"),
        ("range", "'scale' parameter"),
        (2.0, "'scale' parameter"),
    ],
)
def test_bad_scale(scale, message):
    with pytest.raises(ValueError, match=message):
        regressor(scale=scale).fit(X, y)


def test_rows_on_the_largest_scales():
    expected = regressor("path", "auto").fit(X, y).predict(X, return_std=True)
    for size in (2.0**-320, 2.0**320):
        found = regressor("path", "auto").fit(X * size, y).predict(X * size, return_std=True)
        assert_allclose(found, expected, rtol=1e-9)
    for size in (1e-200, 1e200):
        with pytest.raises(
            ValueError, match=r"Column 0 of X runs from .*divide by a typical value"
        ):
            regressor("path", "auto").fit(X * size, y)
    with pytest.raises(ValueError, match="overflow"):
        regressor(scale=None).fit(np.array([[-1.5e308], [1.5e308]]), y[:2])


# ---- error bars ------------------------------------------------------------------------------


@pytest.mark.parametrize("lifetime", [0.0, LIFETIME, 20.0])
@pytest.mark.parametrize("alpha", [1e-3, ALPHA, 30.0])
@pytest.mark.parametrize("n_rows", [4, 50])
def test_mean_and_covariance_by_brute_force(lifetime, alpha, n_rows):
    """With more cells than rows, and with fewer."""
    rows, target = X[:n_rows], y[:n_rows]
    model = regressor(lifetime, alpha).fit(rows, target)
    mean = model.predict(NEW)
    same_mean, cov = model.predict(NEW, return_cov=True)
    expected = brute_force(model, rows, target, NEW)
    signal = brute_signal(model, rows, target)
    assert_allclose(model.signal_variance_, signal, rtol=1e-8)
    assert_allclose(model.noise_variance_, signal * alpha, rtol=1e-8)
    assert_allclose(mean, expected.mean, atol=1e-8)
    assert_array_equal(same_mean, mean)
    assert_allclose(cov, signal * expected.cov, atol=1e-8 * signal)
    assert_array_equal(cov, cov.T)
    assert np.linalg.eigvalsh(cov).min() >= 0.99 * model.noise_variance_


def test_joint_std_grows_to_the_prior(model):
    """Up to the intercept, which is known no better than from 50 rows."""
    direction = np.array([1.0, 50.0, -0.01])
    distance = np.array([0.0, 0.6, 1.0, 3.0, 10.0, 1e3, 1e6, 1e12])
    away = X.mean(axis=0) + distance[:, None] * direction
    std = np.sqrt(np.diag(model.predict(away, return_cov=True)[1]))
    prior = np.sqrt(model.signal_variance_ * (1 + ALPHA))
    assert (np.diff(std) > -1e-12).all()
    assert std[0] < 0.95 * prior
    far = X.mean(axis=0) + 1e12 * direction
    constant = brute_force(model, X, y, far[None])
    one = np.ones(50)
    share = 1 / (one @ constant.K_inv @ one)
    assert_allclose(std[-1] ** 2, model.signal_variance_ * (1 + ALPHA + share), rtol=1e-9)
    assert_allclose(std[-1], prior, rtol=0.2)
    assert_allclose(model.predict(far[None]), constant.b, rtol=1e-9)


@pytest.mark.parametrize("alpha", [1e-8, 1e-6, 1e6])
@pytest.mark.parametrize("lifetime", [0.0, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("weight", [None, np.geomspace(1e-3, 1e3, 50)], ids=["plain", "weighted"])
def test_std_is_a_number_and_not_negative(alpha, lifetime, weight):
    rows = np.vstack([X[:25], X[:25]])
    model = regressor(lifetime, alpha).fit(rows, y, weight)
    std = model.predict(np.vstack([NEW, rows]), return_std=True)[1]
    assert np.isfinite(std).all()
    assert (std >= 0).all()
    interval = model.predict_interval(NEW)
    assert np.isfinite(interval).all()
    assert (interval[:, 0] <= interval[:, 1]).all()


def test_std_or_covariance_but_not_both(model):
    with pytest.raises(ValueError, match=r"return_std.*return_cov"):
        model.predict(NEW, return_std=True, return_cov=True)


@pytest.mark.parametrize("weight", [None, WEIGHT[:14], WEIGHT[:14] / 3], ids=["1", "int", "real"])
@pytest.mark.parametrize("lifetime", [0.3, 3.0])
@pytest.mark.parametrize("n_estimators", [1, M])
def test_left_out_errors_by_leaving_rows_out(weight, lifetime, n_estimators):
    """The row goes with all its copies; it is predicted as one new y."""
    rows, target = X[:14], y[:14]
    model = regressor(lifetime, n_estimators=n_estimators).fit(rows, target, weight)
    errors = np.empty((14, 1))
    errors[np.lexsort([target, *rows.T])] = model._error_bars().errors  # rows are kept sorted
    for i in range(14):
        rest = np.arange(14) != i
        some = None if weight is None else weight[rest]
        left = brute_force(model, rows[rest], target[rest], rows[i : i + 1], some)
        expected = abs(target[i] - left.mean[0]) / np.sqrt(left.cov[0, 0])
        assert_allclose(errors[i, 0], expected, rtol=1e-7)


def test_std_far_away_is_that_of_y(model):
    """Far from the data the deviation of y is added to the typical size of an error."""
    spread = model.model_.spread
    mean, far = model.predict(np.full((1, 3), 1e12), return_std=True)
    logs = np.interp(mean, spread.knots[:, 0], spread.log_scale[:, 0])
    typical = np.exp(logs + spread.column_logs[-1].sum())  # columns are beyond their last knots
    assert_allclose(far, np.hypot(typical, y.std()) * spread.unit_deviation)


def test_intervals_grow_with_coverage(model):
    width = [np.diff(model.predict_interval(NEW, c))[:, 0] for c in (0.1, 0.5, 0.9, 0.99)]
    assert (np.diff(width, axis=0) >= 0).all()
    assert (width[0] > 0).all()
    assert_array_equal(model.predict_interval(NEW), model.predict_interval(NEW, coverage=0.9))


@pytest.mark.parametrize("law", ["normal", "laplace", "uniform"])
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_cover(law, coverage):
    """Errors of any law. The quantile of 400 rows and the share of 1500 are both binomial."""
    rng = np.random.default_rng(5)
    rows = rng.uniform(size=(1900, 2))
    target = np.sin(4 * rows[:, 0]) + rows[:, 1] + 0.3 * getattr(rng, law)(-1, 1, size=1900)
    model = regressor(1.0, 1.0, 40).fit(rows[:400], target[:400])
    lower, upper = model.predict_interval(rows[400:], coverage).T
    inside = np.mean((lower <= target[400:]) & (target[400:] <= upper))
    std = np.sqrt(coverage * (1 - coverage) * (1 / 400 + 1 / 1500))
    assert abs(inside - coverage) < 4 * std


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.5, 90, np.nan])
def test_bad_coverage(model, coverage):
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        model.predict_interval(NEW, coverage)


def test_draws_have_the_predictive_law(model):
    n = 20_000
    draws = model.sample_y(NEW, n, random_state=1)
    assert draws.shape == (12, n)
    mean, cov = model.predict(NEW, return_cov=True)
    z = (draws.mean(axis=1) - mean) / np.sqrt(np.diag(cov) / n)
    assert np.abs(z).max() < 4.5
    # An estimated covariance has variance (c_ij² + c_ii c_jj) / n.
    std = np.sqrt((cov**2 + np.outer(np.diag(cov), np.diag(cov))) / n)
    assert (np.abs(np.cov(draws) - cov) / std).max() < 4.5


def test_draws():
    two = regressor().fit(X, Y2)
    assert two.sample_y(NEW, 4).shape == (12, 2, 4)
    assert two.sample_y(NEW).shape == (12, 2, 1)
    one = regressor().fit(X, Y2[:, 0])
    assert one.sample_y(NEW).shape == (12, 1)
    assert_array_equal(one.sample_y(NEW, 3), one.sample_y(NEW, 3))
    assert_array_equal(one.sample_y(NEW, 3, random_state=0), one.sample_y(NEW, 3))
    assert not np.array_equal(one.sample_y(NEW, 3, random_state=1), one.sample_y(NEW, 3))
    # Outputs are drawn independently of one another.
    draws = two.sample_y(NEW[:1], 4000)[0]
    assert abs(np.corrcoef(draws)[0, 1]) < 4.5 / np.sqrt(4000)


# ---- other widths ----------------------------------------------------------------------------


@pytest.mark.parametrize("lifetime", [0.0, 0.1, LIFETIME])
@pytest.mark.parametrize("target", [y, Y2], ids=["one", "two"])
def test_at_equals_a_fit(lifetime, target):
    model = regressor().fit(X, target, WEIGHT)
    before = [model.predict(NEW, return_std=True), model.predict_interval(NEW)]
    other = model.at(lifetime)
    expected = regressor(lifetime).fit(X, target, WEIGHT)
    assert other.lifetime == other.lifetime_ == lifetime
    assert_array_equal(other.predict(NEW, return_std=True), expected.predict(NEW, return_std=True))
    assert_array_equal(other.predict_interval(NEW), expected.predict_interval(NEW))
    assert_array_equal(other.signal_variance_, expected.signal_variance_)
    assert other.get_params() == expected.get_params()
    assert other.features_.trees_ is model.features_.trees_
    assert model.lifetime == model.lifetime_ == LIFETIME
    assert_array_equal(model.predict(NEW, return_std=True), before[0])
    assert_array_equal(model.predict_interval(NEW), before[1])


def test_at_keeps_the_chosen_alpha(auto):
    lifetime = auto.lifetime_ / 2
    other = auto.at(lifetime)
    assert other.alpha_ == auto.alpha_
    expected = regressor(lifetime, auto.alpha_, scale=auto.scale_).fit(X, y)
    assert_array_equal(other.predict(NEW), expected.predict(NEW))
    assert auto.lifetime == "path"


def test_intervals_of_at_cover():
    """Rows held out are judged by a trend that has not seen them, after a refit as well."""
    rows, target, _ = make_skewed(3500, random_state=0)
    auto = MondrianKernelRegressor(random_state=0).fit(rows[:1500], target[:1500])
    n_held_out = auto.model_.rows.held_out.shape[0]
    std = np.sqrt(0.9 * 0.1 * (1 / n_held_out + 1 / 2000))
    for share in (1.0, 0.2):
        other = auto.at(share * auto.model_.trees.lifetime)
        low, high = other.predict_interval(rows[1500:]).T
        assert abs(np.mean((low <= target[1500:]) & (target[1500:] <= high)) - 0.9) < 4 * std
    fitted = auto.model_.rows
    few = replace(fitted, held_out=fitted.held_out[1:])
    with pytest.raises(ValueError, match="rows were held out, not"):
        replace(auto.model_, rows=few).check()


@pytest.mark.parametrize("lifetime", [-0.1, LIFETIME * 1.01, np.nan, np.inf])
def test_at_outside(model, lifetime):
    with pytest.raises(ValueError, match="lies outside"):
        model.at(lifetime)


# ---- choosing --------------------------------------------------------------------------------


def test_chosen_on_the_path(auto):
    assert auto.lifetime_ == auto.path_.best_lifetime
    assert auto.alpha_ == auto.path_.best_alpha
    assert auto.path_.criterion == "loo"
    likelihoods = auto.path_.log_marginal_likelihood  # on the very trees of the model
    assert_allclose(auto.log_marginal_likelihood_, likelihoods[auto.path_.best_index], rtol=1e-9)
    assert auto.at(auto.lifetime_ / 3).log_marginal_likelihood_ != auto.log_marginal_likelihood_
    chosen = regressor(auto.lifetime_, auto.alpha_, scale=auto.scale_).fit(X, y)
    assert_array_equal(auto.predict(NEW, return_std=True), chosen.predict(NEW, return_std=True))


def test_nothing_to_choose(model):
    assert model.path_ is None
    assert (model.lifetime_, model.alpha_) == (LIFETIME, ALPHA)


def test_marginal_likelihood_is_the_normal_density_of_what_an_intercept_leaves(model):
    K = model.features_.kernel(X / model.scale_) + ALPHA * np.eye(len(X))
    contrasts = linalg.null_space(np.ones((1, len(X)))).T
    cov = model.signal_variance_ * contrasts @ K @ contrasts.T
    expected = multivariate_normal(cov=cov).logpdf(contrasts @ y)
    assert_allclose(model.log_marginal_likelihood_, expected, rtol=1e-9)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("target", [y, Y2], ids=["one", "two"])
def test_criteria(criterion, target):
    rows, many = problem(300)
    if target.ndim == 2:
        many = np.stack([many, -many], axis=1)
    model = regressor("path", "auto", 30, criterion=criterion).fit(rows[:200], many[:200])
    assert model.path_.criterion == criterion
    assert model.score(rows[200:], many[200:]) > 0.6


@pytest.mark.parametrize("criterion", CRITERIA)
def test_alpha_alone(criterion):
    model = regressor(LIFETIME, "auto", criterion=criterion).fit(X, y)
    assert model.lifetime_ == LIFETIME
    assert_array_equal(model.path_.lifetimes, [LIFETIME])
    assert model.alpha_ == model.path_.best_alpha
    assert model.path_.alphas.size > 5


@pytest.mark.parametrize("criterion", CRITERIA)
def test_lifetime_alone(criterion):
    model = regressor("path", ALPHA, criterion=criterion).fit(X, y)
    assert model.alpha_ == ALPHA
    assert_array_equal(model.path_.alphas, [ALPHA])
    assert model.lifetime_ == model.path_.best_lifetime
    assert model.path_.lifetimes.size > 5


@pytest.mark.parametrize("solver", ["dense", "lanczos"])
def test_solver(solver):
    model = regressor("path", "auto", solver=solver).fit(X, y)
    assert set(model.path_.solver) == {solver}
    assert model.score(X, y) > 0.6


def left_out_error(features, rows, target, alphas):
    """Mean squared leave-one-out error for each alpha, from the hat matrix."""
    Phi = features.transform(rows)
    centre = np.eye(len(rows)) - 1 / len(rows)
    values, U = np.linalg.eigh(centre @ (Phi @ Phi.T).toarray() @ centre)
    errors = []
    for alpha in alphas:
        hat = (U * (values / (values + alpha))) @ U.T + 1 / len(rows)
        errors.append(np.mean(((target - hat @ target) / (1 - np.diag(hat))) ** 2))
    return np.array(errors)


@pytest.fixture(scope="module")
def large():
    """An easy problem with too many rows for one path, and its errors on a grid by brute force."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(size=(1250, 2))
    target = np.sin(6 * rows[:, 0]) + 0.3 * rng.normal(size=1250)
    features = MondrianFeatures(12.0, 25, random_state=8).fit(rows)
    lifetimes, alphas = np.geomspace(0.1, 12.0, 8), np.logspace(-2, 2, 9)
    errors = [left_out_error(features.at(t), rows, target, alphas) for t in lifetimes]
    return rows, target, lifetimes, np.min(errors, axis=1), features


def test_many_rows_are_looked_at_twice(large):
    rows, target, lifetimes, errors, features = large
    model = regressor("path", "auto", 25, scale=None).fit(rows, target)
    assert model.path_.lifetimes.size == 7
    assert model.path_.model.leaf.shape[0] == 1250
    best = lifetimes[np.argmin(errors)]
    assert lifetimes[0] < best < lifetimes[-1]
    assert 1 / 2.5 < model.lifetime_ / best < 2.5
    chosen = features.at(model.lifetime_)
    assert left_out_error(chosen, rows, target, [model.alpha_])[0] < 1.03 * errors.min()


@pytest.mark.parametrize("off", [1 / 3, 1.0, 5.0])
@pytest.mark.parametrize("alpha_off", [1 / 20, 1.0, 100.0])
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "held out"])
def test_second_look_moves_on_while_its_best_is_at_an_end(monkeypatch, off, alpha_off, exact):
    """Against errors of a known shape, least at (2, 0.1); the first look is off by factors."""
    calls = []

    def path(growth, learner, budget, *, lifetimes=None, **options):
        calls.append(lifetimes)
        Y, alphas = learner.Y, learner.alphas
        assert len(Y) == (60 if lifetimes is None else 100 if exact else 80)
        if lifetimes is None:
            lifetimes, alphas = np.array([2.0 * off]), np.array([0.1 * alpha_off])
        errors = np.abs(np.log(lifetimes / 2.0))[:, None] + np.abs(np.log(alphas / 0.1)) + 0.1
        n_cells = np.ones(lifetimes.size, int)
        return LifetimePath(lifetimes, n_cells, alphas, {"loo_error": errors}, "loo")

    choose = mondrian_kernel._path.choose
    monkeypatch.setattr(choose, "ridge_path", path)
    monkeypatch.setattr(settings, "SAMPLE_ROWS", 60)
    monkeypatch.setattr(settings, "EXACT_ROWS", 100 if exact else 99)
    wanted = choose.Wanted("auto", "auto", 5, 1, 0)
    rows = np.arange(100.0)[:, None]
    lifetime, alpha, _ = choose.choose_width(rows, rows, None, 0, wanted, "loo", "auto")
    window = np.geomspace(*choose.settings.WINDOW)
    half_a_step = np.sqrt(window[1] / window[0]) * (1 + 1e-9)
    assert 1 / half_a_step < lifetime / 2.0 < half_a_step
    assert 1 / 1.8 < alpha / 0.1 < 1.8
    moves = 1 if off == 1.0 else 2
    assert 1 + moves <= len(calls) <= 6


def test_warning_at_an_end_of_the_first_look_is_not_passed_on(monkeypatch):
    monkeypatch.setattr(settings, "SAMPLE_ROWS", 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regressor("path", "auto").fit(X, y)


def test_path_reports_progress(capsys):
    regressor("path", "auto").fit(X, y)
    assert capsys.readouterr().out == ""
    regressor("path", "auto", verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines
    told = r"lifetime path \d+/(20|7): lifetime \S+, lowest mean squared error, leave-one-out: \S+"
    assert all(re.fullmatch(told, line) for line in lines)


# ---- bound on cells --------------------------------------------------------------------------


def test_max_cells():
    with pytest.warns(UserWarning, match="max_cells=60 was reached before lifetime=0.7"):
        model = regressor(max_cells=60).fit(X, y)
    assert model.features_.n_cells_ <= 60
    assert model.cell_weights_.shape == (model.features_.n_cells_,)
    assert model.lifetime_ == model.features_.lifetime_ < LIFETIME
    expected = regressor().fit(X, y).at(model.lifetime_)
    assert_allclose(model.predict(NEW), expected.predict(NEW), rtol=1e-9)
    unbound = regressor(max_cells=10**6).fit(X, y)
    assert unbound.lifetime_ == LIFETIME


def test_max_cells_when_choosing():
    with pytest.warns(UserWarning, match="max_cells=20 was reached"):
        model = regressor("path", "auto", max_cells=20).fit(X, y)
    assert model.features_.n_cells_ <= 20
    assert np.isfinite(model.predict(NEW, return_std=True)).all()


def test_fewer_cells_than_trees():
    with pytest.raises(ValueError, match="max_cells=5 is less than n_estimators=15"):
        regressor(max_cells=5).fit(X, y)


# ---- determinism, copies ---------------------------------------------------------------------


def everything(model):
    mean, std = model.predict(NEW, return_std=True)
    return np.vstack([mean, std, model.predict_interval(NEW).T, model.sample_y(NEW, 2).T])


@pytest.mark.parametrize("options", [{}, {"solver": "lanczos"}, {"criterion": "holdout"}])
def test_same_seed_same_model(options):
    fits = [
        regressor("path", "auto", random_state=seed, n_jobs=n_jobs, **options).fit(X, y)
        for seed, n_jobs in [(1, None), (1, 1), (1, 2), (1, -1), (2, None)]
    ]
    for other in fits[1:4]:
        assert other.lifetime_ == fits[0].lifetime_
        assert other.alpha_ == fits[0].alpha_
        assert_array_equal(everything(other), everything(fits[0]))
    assert not np.array_equal(everything(fits[4]), everything(fits[0]))


def test_random_state_of_any_kind():
    first = regressor(random_state=np.random.RandomState(0)).fit(X, y).predict(NEW)
    assert_array_equal(first, regressor(random_state=0).fit(X, y).predict(NEW))
    state = np.random.RandomState(0)
    again = [regressor(random_state=state).fit(X, y).predict(NEW) for _ in range(2)]
    assert not np.array_equal(*again)
    regressor(random_state=None).fit(X, y)


def test_refit_forgets(auto):
    model = clone(auto).fit(X[:20], y[:20])
    everything(model)
    assert_array_equal(everything(model.fit(X, y)), everything(auto))


def test_batches_equal_the_whole(auto):
    whole = everything(auto)[:4]
    parts = [
        np.vstack([*auto.predict(x[None], return_std=True), auto.predict_interval(x[None]).T])
        for x in NEW
    ]
    assert_allclose(np.hstack(parts), whole, rtol=1e-10)


def test_pickle(auto):
    before = everything(auto)
    stored = pickle.dumps(auto)
    assert_array_equal(everything(pickle.loads(stored)), before)
    assert_array_equal(everything(auto), before)
    # What error bars need is made again, not stored.
    assert pickle.loads(stored)._bars is None


def test_clone():
    model = regressor("path", 0.5, 7, criterion="evidence", scale=[1.0, 2.0, 3.0], max_cells=1000)
    copy = clone(model.fit(X, y))
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "coef_")


@pytest.mark.parametrize("call", ["predict", "predict_interval", "sample_y", "score", "at"])
def test_before_fit(call):
    arguments = {"score": (X, y), "at": (0.5,)}.get(call, (X,))
    with pytest.raises(NotFittedError):
        getattr(regressor(), call)(*arguments)


def test_predict_leaves_the_arrays_alone(auto):
    rows = NEW.copy()
    rows.flags.writeable = False
    everything(auto)
    auto.predict(rows)
    target, weight, seen = y.copy(), WEIGHT.copy(), X.copy()
    regressor().fit(seen, target, weight)
    assert_array_equal(seen, X)
    assert_array_equal(target, y)
    assert_array_equal(weight, WEIGHT)


# ---- bad and odd input -----------------------------------------------------------------------


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.coo_array])
def test_sparse_is_refused_with_a_remedy(model, make):
    with pytest.raises(TypeError, match=r"dense data is required.*toarray"):
        regressor().fit(make(X), y)
    with pytest.raises(TypeError, match=r"dense data is required.*toarray"):
        model.predict(make(X))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lifetime", -1.0), ("lifetime", "average time"), ("lifetime", np.nan),
        ("lifetime", np.inf), ("alpha", 0.0), ("alpha", -1.0), ("alpha", "loo"), ("alpha", np.nan),
        ("alpha", np.inf),
        ("n_estimators", 0), ("n_estimators", 2.5), ("criterion", "aic"), ("max_cells", 0),
        ("solver", "cg"), ("random_state", "seed"), ("n_jobs", 1.5), ("verbose", -1),
    ],
)  # fmt: skip
def test_bad_parameters(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        clone(regressor()).set_params(**{name: value}).fit(X, y)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(50), "zero"),
        (-WEIGHT, "[Nn]egative"),
        (WEIGHT[:-1], "sample_weight"),
        (np.full(50, np.nan), "NaN"),
        (np.ones((50, 2)), "1D"),
    ],
)
def test_bad_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        regressor().fit(X, y, weight)


@pytest.mark.parametrize(
    ("rows", "target"),
    [
        (X, np.full(50, np.nan)), (X, np.full(50, np.inf)), (X * np.nan, y), (X, y[:-1]),
        (X[:0], y[:0]), (X[:, 0], y), (X, np.array(["a"] * 50)),
    ],
)  # fmt: skip
def test_bad_data(rows, target):
    with pytest.raises(ValueError):  # noqa: PT011
        regressor("path", "auto").fit(rows, target)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_constant_target(criterion):
    model = regressor("path", "auto", criterion=criterion).fit(X, np.full(50, 3.5))
    mean, std = model.predict(NEW, return_std=True)
    assert_allclose(mean, 3.5)
    assert_allclose(std, 0.0, atol=1e-7)
    assert_allclose(model.predict_interval(NEW), 3.5)
    assert_allclose(model.sample_y(NEW), 3.5, atol=1e-6)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_few_rows(criterion, n_rows):
    model = regressor("path", "auto", criterion=criterion).fit(X[:n_rows], y[:n_rows])
    mean, std = model.predict(NEW, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert np.isfinite(model.predict_interval(NEW)).all()
    if n_rows == 1:
        assert_allclose(mean, y[0])


@pytest.mark.parametrize("criterion", CRITERIA)
def test_rows_that_are_all_the_same(criterion):
    model = regressor("path", "auto", criterion=criterion).fit(np.ones((50, 3)), y)
    mean, std = model.predict(np.ones((1, 3)), return_std=True)
    assert_allclose(mean, y.mean())
    assert np.isfinite(std).all()


def test_duplicate_rows_with_other_targets():
    """Two targets at one row pull it to their mean, and tell of the noise."""
    model = regressor("path", "auto").fit(np.vstack([X, X]), np.hstack([y + 0.5, y - 0.5]))
    assert np.sqrt(model.noise_variance_) > 0.4
    assert_allclose(model.predict(X).mean(), y.mean(), atol=0.05)
    fixed = regressor(3.0, 1e-6).fit(np.vstack([X, X]), np.hstack([y + 0.5, y - 0.5]))
    assert_allclose(fixed.predict(X), y, atol=0.01)


def test_copies_are_joined():
    rows = np.array([[2.0, 0.0], [1.0, 5.0], [2.0, 0.0], [2.0, 0.0], [1.0, 5.0], [0.0, 0.0]])
    target = np.array([[1.0], [2.0], [1.0], [9.0], [2.0], [1.0]])
    joined = join_copies(rows, target, None)
    assert_array_equal(joined[0], [[2, 0], [1, 5], [2, 0], [0, 0]])
    assert_array_equal(joined[1], [[1], [2], [9], [1]])
    assert_array_equal(joined[2], [2, 2, 1, 1])
    assert_allclose(join_copies(rows, target, np.arange(1.0, 7.0))[2], [4, 7, 4, 6])
    plain = join_copies(X, y[:, None], None)
    assert plain[0] is X
    assert plain[2] is None


# ---- company ---------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(model, frame):
    names = ["speed", "mass", "age"]
    table = frame({name: X[:, j] for j, name in enumerate(names)})
    new = frame({name: NEW[:, j] for j, name in enumerate(names)})
    series = pd.Series(y, name="y") if frame is pd.DataFrame else pl.Series("y", y)
    named = regressor().fit(table, series, sample_weight=None)
    assert list(named.feature_names_in_) == names
    assert named.n_features_in_ == 3
    assert_array_equal(named.predict(new), model.predict(NEW))
    assert_array_equal(named.predict_interval(new), model.predict_interval(NEW))
    with pytest.raises(ValueError, match="feature names"):
        named.predict(new[["mass", "speed", "age"]])
    assert list(named.at(0.1).feature_names_in_) == names
    assert not hasattr(model, "feature_names_in_")


def test_frame_of_targets():
    outputs = regressor().fit(X, pd.DataFrame(Y2, columns=["a", "b"]))
    assert_allclose(outputs.predict(NEW), regressor().fit(X, Y2).predict(NEW), rtol=1e-12)


def test_wrong_number_of_columns(model):
    for call in (model.predict, model.predict_interval, model.sample_y):
        with pytest.raises(ValueError, match="expecting 3 features"):
            call(NEW[:, :2])


def test_pipeline_and_search():
    pipeline = make_pipeline(StandardScaler(), regressor("path", "auto"))
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.3
    search = GridSearchCV(regressor(alpha="auto"), {"lifetime": [0.1, 1.0], "alpha": [0.1, "auto"]})
    search.fit(X, y)
    assert set(search.best_params_) == {"lifetime", "alpha"}
    assert search.best_estimator_.lifetime_ == search.best_params_["lifetime"]
    assert search.predict(NEW).shape == (12,)


def test_metadata_routing():
    expected = regressor(scale=None).fit(X, y, WEIGHT).predict(NEW)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = regressor(scale=None).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), asked)
        pipeline[0].set_fit_request(sample_weight=False)
        pipeline.fit(X, y, sample_weight=WEIGHT)
        assert_array_equal(pipeline.predict(NEW), expected)
        ignoring = regressor(scale=None).set_fit_request(sample_weight=False)
        ignoring.set_score_request(sample_weight=True)
        asked.set_score_request(sample_weight=True)
        scores = [
            cross_val_score(m, X, y, params={"sample_weight": WEIGHT}) for m in (asked, ignoring)
        ]
    assert not np.array_equal(*scores)


def test_drawn_in_notebooks(auto):
    assert "MondrianKernelRegressor" in auto._repr_html_()
    assert "lifetime='path', n_estimators=15, random_state=0" in repr(auto)


def test_attributes(auto):
    n_cells = auto.features_.n_cells_
    assert isinstance(auto.features_, MondrianFeatures)
    assert auto.cell_weights_.shape == (n_cells,)
    for name in ("intercept_", "signal_variance_", "noise_variance_", "lifetime_", "alpha_"):
        assert isinstance(getattr(auto, name), float)
    by_hand = auto.features_.transform(NEW / auto.scale_) @ auto.cell_weights_ + auto.intercept_
    assert_allclose(by_hand, auto.predict(NEW))


def test_too_little_memory_is_said_before_the_work(monkeypatch):
    monkeypatch.setattr(checks, "machine_memory", lambda: 1e5)
    model = MondrianKernelRegressor(random_state=0)
    with pytest.raises(MemoryError, match=r"50 rows takes about 0\.\d+ GB .* there are 0\.0001 GB"):
        model.fit(X, y)
    assert not hasattr(model, "n_features_in_")


def test_the_expected_memory_of_a_fit_is_about_what_it_takes():
    """What is learnt before the trees takes up to 0.1 GB more, whatever the rows."""
    X = np.random.default_rng(0).normal(size=(6000, 5))
    model = MondrianKernelRegressor(n_estimators=100, random_state=0)
    model.fit(X[:100], X[:100, 0])  # compiles
    tracemalloc.start()
    model.fit(X, np.sin(X[:, 0]))
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    cells = model.model_.levels.per_tree[-1].mean()
    expected = fit_bytes(6000, 5, 100, cells)
    assert 0.6 * expected < used < 1.2 * expected + 1e8
