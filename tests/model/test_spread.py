"""Local error bars: quantiles, coverage and scale."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import MondrianKernelRegressor
from mondrian_kernel import _settings as settings
from mondrian_kernel._model.error_scale import hats, knots_of, ranks_of
from mondrian_kernel._model.spread import Spread, errors_with_all_rows, range_of, upper_quantile

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
    spread = Spread.normal(errors, weight.astype(float))
    repeated = np.repeat(errors, weight, axis=0)
    assert_allclose(spread.unit_deviation, np.sqrt((repeated**2).mean(axis=0)))


@pytest.mark.parametrize(("lifetime", "alpha"), [("auto", "auto"), (1.0, 0.1)])
def test_the_errors_of_a_fit_have_the_weights_of_their_rows(lifetime, alpha):
    X, y, _ = noisy(100, 0)
    weight = rng.uniform(1, 3, size=100)
    model = MondrianKernelRegressor(lifetime, alpha, 10, random_state=0).fit(X, y, weight)
    found = np.sort(model.model_.spread.weight)
    assert_allclose(found / found.mean(), np.sort(weight) / weight.mean())


def test_hats_add_up_to_one_and_keep_straight_lines():
    knots = np.array([-1.0, 0.5, 2.0])
    values = rng.uniform(-1, 2, size=50)
    found = hats(values, knots)
    assert_allclose(found.sum(axis=1), 1.0)
    assert_allclose(found @ knots, values)
    assert_array_equal(hats(knots, knots), np.eye(3))
    assert_array_equal(hats(np.array([-9.0, 9.0]), knots), np.eye(3)[[0, 2]])


def test_knots_are_in_the_middle_of_equal_shares_of_the_weight():
    values = np.arange(10.0)
    assert_array_equal(knots_of(values, np.ones(10), 5), [0, 2, 4, 6, 8])
    weight = np.where(values == 3, 100.0, 1.0)
    assert_array_equal(knots_of(values, weight, 5), [3])
    repeated = np.repeat(values, [3, 1, 2, 5, 1, 1, 2, 4, 1, 1])
    weight = np.array([3.0, 1, 2, 5, 1, 1, 2, 4, 1, 1])
    for n in (1, 2, 5):
        found = knots_of(values, weight, n)
        assert_array_equal(found, knots_of(repeated, np.ones(repeated.size), n))


def test_ranks_are_shares_of_the_weight_below():
    values, weight = np.array([3.0, 1.0, 3.0, 7.0]), np.array([1.0, 2.0, 1.0, 4.0])
    distinct, ranks = ranks_of(values, weight)
    assert_array_equal(distinct, [1, 3, 7])
    assert_array_equal(ranks, [1 / 8, 3 / 8, 6 / 8])
    repeated = np.repeat(values, weight.astype(int))
    assert_array_equal(ranks_of(repeated, np.ones(repeated.size)), [distinct, ranks])


@pytest.mark.parametrize("n_ties", [0, 1200])
def test_quantiles_know_only_the_order_of_predictions(n_ties):
    predictions = rng.normal(size=(2000, 1))
    predictions[:n_ties] = 0.5
    spread = Spread.normal(rng.normal(size=(2000, 1)) * predictions, np.ones(2000))
    shares = np.array([0.05, 0.95])
    found = [
        Spread(**vars(spread) | {"predictions": own}).quantiles(shares, own)
        for own in (predictions, np.exp(4 * predictions))
    ]
    assert_allclose(found[1], found[0], rtol=1e-12)


def test_quantiles_are_those_of_rows_with_like_predictions():
    """Errors of 1 at predictions below 0, and of 3 above."""
    predictions = rng.uniform(-1, 1, size=(2000, 1))
    errors = np.where(predictions < 0, 1.0, 3.0) * rng.choice([-1.0, 1.0], size=(2000, 1))
    spread = Spread.normal(errors, np.ones(2000))
    some = np.array([[-2.0], [-0.9], [0.9], [2.0]])
    alike = spread.quantiles(np.array([0.05, 0.95]), some)
    assert_array_equal(alike[:, :, 0], np.tile(errors[[0]] * 0 + [[-3], [3]], (1, 4)))
    spread = Spread(**vars(spread) | {"predictions": predictions})
    found = spread.quantiles(np.array([0.05, 0.95]), some)
    assert_array_equal(found[:, :, 0], [[-1, -1, -3, -3], [1, 1, 3, 3]])


def test_only_what_is_not_noise_gets_smaller_with_more_rows():
    errors, ones = rng.normal(size=(500, 2)), np.ones(500)
    square = (errors**2).mean(axis=0)
    assert_allclose(errors_with_all_rows(errors, ones, square, 0.8), errors)
    assert_allclose(errors_with_all_rows(errors, ones, 9 * square, 0.8), errors)
    assert_allclose(errors_with_all_rows(errors, ones, 0 * square, 0.8), 0.8**0.4 * errors)
    assert_array_equal(errors_with_all_rows(0 * errors, ones, square, 0.8), 0 * errors)


def test_few_rows_have_one_set_of_quantiles():
    errors = rng.normal(size=(60, 1))
    spread = Spread(**vars(Spread.normal(errors, np.ones(60))) | {"predictions": errors.copy()})
    found = spread.quantiles(np.array([0.1, 0.9]), np.array([[-9.0], [0.0], [9.0]]))
    assert_array_equal(found, np.repeat(found[:, :1], 3, axis=1))


def test_the_scale_follows_the_prediction():
    """The noise grows with a column that means nothing but through the prediction."""
    draw = np.random.default_rng(0)
    X = draw.uniform(size=(4000, 3))
    mean = X.sum(axis=1)
    y = mean + 0.1 * mean**2 * draw.normal(size=4000)
    model = MondrianKernelRegressor(n_estimators=40, random_state=0).fit(X[:2000], y[:2000])
    low, high = model.predict_interval(X[2000:], 0.9).T
    inside = (low <= y[2000:]) & (y[2000:] <= high)
    fifths = np.array_split(inside[np.argsort(mean[2000:])], 5)
    # A fifth of 2000 rows has a standard error of 0.015, and a fifth of those held out of 0.02.
    assert all(0.82 < part.mean() < 0.97 for part in fifths)
    std = model.predict(X[2000:], return_std=True)[1]
    assert np.median(np.abs(np.log(std / (0.1 * mean[2000:] ** 2)))) < 0.25


def test_the_scale_follows_a_column_that_the_mean_does_not_depend_on():
    draw = np.random.default_rng(0)
    X = draw.uniform(size=(4000, 4))
    true = 0.1 + 0.4 * X[:, 3]
    y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + true * draw.normal(size=4000)
    model = MondrianKernelRegressor(n_estimators=40, random_state=0).fit(X[:2000], y[:2000])
    low, high = model.predict_interval(X[2000:], 0.9).T
    inside = (low <= y[2000:]) & (y[2000:] <= high)
    fifths = np.array_split(inside[np.argsort(true[2000:])], 5)
    assert all(0.82 < part.mean() < 0.97 for part in fifths)


@pytest.mark.parametrize("lifetime", [1.0, 5.0])
def test_intervals_of_a_fixed_lifetime_are_not_too_wide(lifetime):
    """New rows among the fitted ones count as known, also where cells are narrow."""
    draw = np.random.default_rng(0)
    X = draw.uniform(size=(1300, 3))
    y = np.sin(4 * X[:, 1]) + 0.2 * draw.normal(size=1300)
    model = MondrianKernelRegressor(lifetime, 0.1, 100, random_state=0).fit(X[:300], y[:300])
    low, high = model.predict_interval(X[300:], 0.9).T
    inside = (low <= y[300:]) & (y[300:] <= high)
    assert 0.85 < inside.mean() < 0.95  # 300 and 1000 rows: 0.017 and 0.009
    assert model.predict(np.full((1, 3), 1e6), return_std=True)[1][0] > y.std()


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


def test_intervals_are_computed_some_rows_at_a_time(model, monkeypatch):
    """More rows take memory for the result alone: for that of the blocks, and of all together."""
    X = noisy(32_000, 5)[0]
    whole = model.predict_interval(X)
    monkeypatch.setattr(settings, "BLOCK_ROWS", 2000)

    def memory(n):
        tracemalloc.start()
        found = model.predict_interval(X[:n])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert_array_equal(found, whole[:n])
        return peak

    assert memory(32_000) - memory(8000) < 2 * (whole.nbytes - whole[:8000].nbytes)


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


def test_what_is_not_known_adds_to_the_scale(model):
    spread, zero = model.model_.spread, np.zeros((3, 1))
    mass = spread.known * np.array([1.0, 0.5, 0.0])
    found = spread.scale(zero, mass, zero, np.zeros((3, 3)))
    unknown = np.array([[0.0], [0.5], [1.0]])
    assert_allclose(found**2, found[0] ** 2 + unknown * spread.far**2)


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


@pytest.mark.parametrize(
    "name",
    [
        *("cell_weights", "knots", "log_scale", "column_knots", "column_logs"),
        *("errors", "predictions", "weight", "far"),
    ],
)
def test_impossible_spreads_are_refused(model, name):
    spread = model.model_.spread
    n_cells, n_outputs = spread.cell_weights.shape
    spread.check(n_cells, 3, n_outputs)
    bad = getattr(spread, name).copy()
    bad.flat[0] = np.nan
    with pytest.raises(ValueError, match=f"{name} of Spread"):
        Spread(**{**vars(spread), name: bad}).check(n_cells, 3, n_outputs)


def test_too_many_rows_for_a_joint_covariance_are_refused(model):
    many = np.zeros((10_001, 3))
    for ask in (lambda: model.predict(many, return_cov=True), lambda: model.sample_y(many)):
        with pytest.raises(ValueError, match=r"10001 × 10001 numbers.*return_std"):
            ask()


@pytest.mark.parametrize(
    ("share", "expected"), [(0.15, 1.0), (0.25, 2.0), (0.75, 8.0), (0.85, 9.0)]
)
def test_quantiles_are_rounded_away_from_the_middle(share, expected):
    """Of 9 errors and a new one: down to the last with 10 · share below it, or up to the next."""
    spread = Spread.normal(np.arange(1.0, 10.0)[:, None], np.ones(9))
    found = spread.quantiles(np.array([share]), np.zeros((1, 1)))
    assert found[0, 0, 0] == expected
