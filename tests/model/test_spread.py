"""Local error bars: quantiles, coverage and scale."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import MondrianKernelRegressor
from mondrian_kernel._model.spread import Spread, range_of, upper_quantile

rng = np.random.default_rng(0)


def noisy(n, seed):
    """The noise grows tenfold along the first column, and is skewed."""
    draw = np.random.default_rng(seed)
    X = draw.uniform(size=(n, 3))
    noise = (draw.exponential(size=n) - 1) * (0.1 + 0.9 * X[:, 0])
    return X, np.sin(4 * X[:, 1]) + noise, noise


@pytest.fixture(scope="module")
def model():
    X, y, _ = noisy(3000, 0)
    return MondrianKernelRegressor(n_estimators=60, random_state=0).fit(X, y)


def test_upper_quantile_is_that_of_conformal_prediction():
    errors = rng.normal(size=(95, 2))
    for share in (0.5, 0.9, 0.95):
        rank = int(np.ceil(share * 96)) - 1
        found = upper_quantile(errors, np.ones(95), share)
        assert_array_equal(found, np.sort(errors, axis=0)[rank])


def test_weights_are_repetitions_in_quantiles():
    errors, weight = rng.normal(size=(40, 2)), rng.integers(1, 5, size=40)
    repeated = np.repeat(errors, weight, axis=0)
    for share in (0.1, 0.5, 0.9):
        assert_array_equal(
            upper_quantile(errors, weight.astype(float), share),
            upper_quantile(repeated, np.ones(len(repeated)), share),
        )


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_shares_are_equal_weights_in_quantiles(share):
    errors = rng.normal(size=(40, 2))
    expected = upper_quantile(errors, np.ones(40), share)
    assert_allclose(upper_quantile(errors, np.full(40, 1 / 40), share), expected)


def test_weights_are_repetitions_in_the_deviation():
    errors, weight = rng.normal(size=(40, 2)), rng.integers(1, 5, size=40)
    spread = replace(Spread.normal(2), errors=errors, weight=weight.astype(float))
    repeated = np.repeat(errors, weight, axis=0)
    assert_allclose(spread.unit_deviation, np.sqrt((repeated**2).mean(axis=0)))


@pytest.mark.parametrize(("lifetime", "alpha"), [("auto", "auto"), (1.0, 0.1)])
def test_the_errors_of_a_fit_have_the_weights_of_their_rows(lifetime, alpha):
    X, y, _ = noisy(100, 0)
    weight = rng.uniform(1, 3, size=100)
    model = MondrianKernelRegressor(lifetime, alpha, 10, random_state=0).fit(X, y, weight)
    found = np.sort(model.model_.spread.weight)
    assert_allclose(found / found.mean(), np.sort(weight) / weight.mean())


def test_quantiles_beyond_the_rows_are_larger_than_all_errors():
    errors = rng.normal(size=(30, 1))
    assert upper_quantile(errors, np.ones(30), 0.999)[0] > errors.max()


def test_quantiles_do_not_cross(model):
    X, _, _ = noisy(200, 5)
    shares = np.array([0.01, 0.05, 0.3, 0.49, 0.5, 0.51, 0.7, 0.95, 0.99])
    values = model.predict_quantiles(X, shares)
    assert values.shape == (200, 9)
    assert (np.diff(values, axis=1) >= 0).all()
    low_high = model.predict_interval(X, 0.9)
    assert_allclose(low_high, model.predict_quantiles(X, [0.05, 0.95]))
    assert_array_equal(model.predict_interval(X, [0.5, 0.9])[1], low_high)


def test_intervals_cover_everywhere(model):
    """Overall and in each fifth of the noise. The standard error of a fifth of 4000 is 0.011."""
    X, y, _ = noisy(4000, 1)
    low, high = model.predict_interval(X, 0.9).T
    inside = (low <= y) & (y <= high)
    assert abs(inside.mean() - 0.9) < 0.025  # 450 rows were held out: 0.014, and 0.005 of 4000
    fifth = np.minimum((5 * X[:, 0]).astype(int), 4)
    shares = np.array([inside[fifth == k].mean() for k in range(5)])
    assert (np.abs(shares - 0.9) < 0.08).all()


def test_the_scale_follows_the_noise(model):
    X, _, _ = noisy(2000, 2)
    std = model.predict(X, return_std=True)[1]
    true = 0.1 + 0.9 * X[:, 0]  # the deviation of the noise
    assert np.corrcoef(np.log(std), np.log(true))[0, 1] > 0.9
    assert 0.8 < np.median(std / true) < 1.25


def test_ends_are_skewed_as_the_noise(model):
    X = noisy(500, 3)[0]
    mean = model.predict(X)
    low, high = model.predict_interval(X, 0.9).T
    assert np.mean((high - mean) / (mean - low)) > 1.5  # exponential noise: 2.0 to 0.95


def test_far_away_the_bar_is_wide(model):
    std = model.predict(np.array([[0.5, 0.5, 0.5], [1e6, 1e6, 1e6]]), return_std=True)[1]
    y = noisy(3000, 0)[1]
    assert std[1] > y.std() > std[0]


def test_range_of_targets():
    Y = np.linspace(1, 2, 300)[:, None]
    assert_array_equal(range_of(Y, np.ones(300)), [[0.0], [np.inf]])
    assert_array_equal(range_of(-Y, np.ones(300)), [[-np.inf], [0.0]])
    Y[:4] = -3.0
    assert_array_equal(range_of(Y, np.ones(300)), [[-3.0], [np.inf]])
    assert_array_equal(range_of(Y[:100], np.ones(100)), [[-np.inf], [np.inf]])


def test_intervals_end_where_targets_do():
    X, y, _ = noisy(600, 4)
    y = np.maximum(y, 0.0)
    model = MondrianKernelRegressor(n_estimators=30, random_state=0).fit(X, y)
    assert model.predict_interval(X, 0.99).min() == 0.0
    assert model.predict_interval(X, 0.99, clip=False).min() < 0.0


@pytest.mark.parametrize("shares", [[0.1, 1.0], [], [[0.5]], [np.nan]])
def test_impossible_quantiles(model, shares):
    with pytest.raises(ValueError, match="quantiles must lie between 0 and 1"):
        model.predict_quantiles(np.zeros((1, 3)), shares)


def test_shares_as_weights_give_bars():
    """Weights that sum to 1 give the bars of equal weights."""
    X, y, _ = noisy(400, 6)
    plain = MondrianKernelRegressor(n_estimators=30, random_state=0).fit(X, y)
    shares = MondrianKernelRegressor(n_estimators=30, random_state=0).fit(
        X, y, np.full(400, 1 / 400)
    )
    ones, other = (m.predict(X, return_std=True)[1] for m in (plain, shares))
    assert_allclose(other, ones, rtol=0.05)  # single precision, and a floor of the penalty


@pytest.mark.parametrize("name", ["cell_weights", "intercept", "errors", "weight", "far"])
def test_impossible_spreads_are_refused(model, name):
    spread = model.model_.spread
    spread.check(*spread.cell_weights.shape)
    bad = getattr(spread, name).copy()
    bad.flat[0] = np.nan
    with pytest.raises(ValueError, match="spread"):
        Spread(**{**vars(spread), name: bad}).check(*spread.cell_weights.shape)
