"""The trend: kernel ridge regression on landmarks, against literal formulas."""

from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import linalg
from sklearn.gaussian_process.kernels import Matern
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import laplacian_kernel

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.columns import Columns, Metric
from mondrian_kernel._model.folds import draw_folds
from mondrian_kernel._model.trend import Trend
from mondrian_kernel._model.trend_fit import _Ridge, _Tried, directions, fit_trend
from mondrian_kernel._path.driver import Stages

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
Y = np.stack([np.sin(X[:, 0]), X[:, 1] ** 2], axis=1) + 0.1 * rng.normal(size=(200, 2))
NEW = rng.normal(size=(20, 3))
METRIC = Metric(Columns.scaled(np.ones(3)), np.array([0.1, 0.4, 1.6]), np.array([0.5, 0.3, 0.2]))
NONE, ONE, FREE = np.empty(0), np.ones(3), np.full(2, np.inf)
STAGES = Stages(0, 1)
ENDS = np.array([[-100.0] * 3, [100.0] * 3])


def blank(smooth, landmarks=X):
    shape = (landmarks.shape[0], 2)
    if smooth:
        return Trend(
            ENDS, ONE, landmarks, np.zeros(shape), np.zeros(2), 1.5, NONE, NONE, -FREE, FREE
        )
    widths = METRIC.lifetimes, METRIC.shares
    return Trend(ENDS, ONE, landmarks, np.zeros(shape), np.zeros(2), 1.0, *widths, -FREE, FREE)


def test_kernels():
    laplace = sum(
        w * laplacian_kernel(NEW, X, gamma=t)
        for w, t in zip(METRIC.shares, METRIC.lifetimes, strict=True)
    )
    assert_allclose(blank(False).kernel(NEW), laplace, atol=1e-12)
    # scikit-learn's Matérn kernel has the width times √3; the root of a difference of squares
    # loses half of the digits.
    matern = Matern(length_scale=1.5 * np.sqrt(3), nu=1.5)(NEW, X)
    assert_allclose(blank(True).kernel(NEW), matern, atol=1e-7)


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("fold", [-1, 0, 2])
def test_ridge_on_all_rows_is_kernel_ridge(smooth, fold):
    """With all rows as landmarks, centred, without the rows of the fold."""
    folds, weight = draw_folds(200, 0), rng.integers(1, 4, size=200) * 1.0
    kernel = blank(smooth)
    found = _Ridge(kernel, X, Y, weight, folds).trend(0.3, *[fold][: fold + 1])
    kept = folds.of_row != fold
    s = weight[kept]
    K, mean = kernel.kernel(X)[kept], np.average(Y[kept], axis=0, weights=s)
    # Minimise Σ s (y - b - k c)² + α cᵀ K c with b the free intercept.
    centred = K - np.average(K, axis=0, weights=s)
    A = centred.T @ (s[:, None] * centred) + 0.3 * (kernel.kernel(X) + 1e-6 * np.eye(200))
    c = np.linalg.solve(A, centred.T @ (s[:, None] * (Y[kept] - mean)))
    expected = kernel.kernel(NEW) @ c + mean - np.average(K, axis=0, weights=s) @ c
    assert_allclose(found(NEW), expected, atol=1e-5)


@pytest.mark.parametrize("smooth", [True, False])
def test_a_linear_part_adds_a_linear_kernel(smooth):
    """With all rows as landmarks the kernel is k(x, z) + γ² xᵀz, with a free intercept."""
    kernel = replace(blank(smooth), linear=0.7, coef=np.zeros((203, 2)))
    found = _Ridge(kernel, X, Y, np.ones(200), draw_folds(200, 0)).trend(0.3)
    G = kernel.kernel(X) + 1e-6 * np.eye(200) + 0.49 * X @ X.T
    saddle = np.block([[G + 0.3 * np.eye(200), np.ones((200, 1))], [np.ones((1, 200)), 0.0]])
    dual = np.linalg.solve(saddle, np.vstack([Y, np.zeros((1, 2))]))
    expected = (kernel.kernel(NEW) + 0.49 * NEW @ X.T) @ dual[:-1] + dual[-1]
    # Kernels of new rows are rounded by 2**-21, and those of the fit as much.
    assert_allclose(found(NEW), expected, atol=2.0**-20 * np.abs(dual).sum(axis=0).max())


TURN = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0] * [2.0, 1.0, 0.5]


def test_a_turned_kernel_is_the_kernel_of_turned_rows():
    """And rows are turned one by one: the rows beside a row change no digit."""
    turned = replace(blank(True), factor=TURN).around(X)
    assert_allclose(turned.kernel(turned.seen(NEW)), blank(True, X @ TURN).kernel(NEW @ TURN))
    whole = turned.seen(NEW)
    for i in range(len(NEW)):
        np.testing.assert_array_equal(turned.seen(NEW[[i]])[0], whole[i])


@pytest.mark.parametrize("factor", [np.array([2.0, 1.0, 0.5]), TURN])
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_directions_are_a_power_of_the_mean_squared_slopes(monkeypatch, factor, power):
    """Against differences of the trend that is fitted to the rows that are never held out."""
    monkeypatch.setattr(settings, "TREND_TURN_PRIOR", 0.0)
    folds, base = draw_folds(200, 0).first(2), np.array([2.0, 1.0, 0.5])
    kernel = replace(blank(True), factor=factor).around(X[:80])
    ridge = _Ridge(kernel, X, Y, np.ones(200), folds)
    found = directions(_Tried(0.0, 3, ridge), X, base, power)
    trend = ridge.trend(settings.TREND_ALPHAS[3], 0, 1)
    M, step = np.zeros((3, 3)), 1e-5
    for k in range(2):
        up, down = (
            np.stack(
                [
                    trend.kernel(trend.seen(X + sign * step * e)) @ trend.coef[:, k]
                    for e in np.eye(3)
                ]
            )
            for sign in (1.0, -1.0)
        )
        slope = (up - down) / (2.0 * step) / base[:, None]  # in rows times the base
        M += slope @ slope.T
    M *= 3.0 / np.trace(M)
    half = found / base[:, None]
    assert_allclose(half @ half.T, linalg.fractional_matrix_power(M, power), rtol=1e-4, atol=1e-4)


def test_the_data_choose_directions():
    """A function of one direction is learnt along it, and a sum of functions of columns is not."""
    draw = np.random.default_rng(2)
    rows, along = draw.normal(size=(600, 3)), np.array([[2.0], [1.0], [-2.0]]) / 3.0
    folds, weight = draw_folds(600, 0), np.ones(600)
    noise = 0.1 * draw.normal(size=(600, 1))
    one, each = np.sin(3.0 * rows @ along), np.sin(2.0 * rows).sum(axis=1, keepdims=True)
    (turned, *_), _ = fit_trend(rows, one + noise, weight, folds, METRIC, [ONE], 0, STAGES)
    (plain, *_), _ = fit_trend(rows, each + noise, weight, folds, METRIC, [ONE], 0, STAGES)
    assert plain.factor.ndim == 1
    values, vectors = np.linalg.eigh(turned.factor @ turned.factor.T)
    assert abs(vectors[:, -1] @ along[:, 0]) > 0.99
    assert values[-1] > 5.0 * values[-2]
    new = draw.normal(size=(500, 3))
    error = np.sqrt(np.mean((turned(new) - np.sin(3.0 * new @ along)) ** 2))
    exact = KernelRidge(alpha=0.01, kernel="laplacian", gamma=0.4).fit(rows, one + noise)
    assert error < 0.3 * np.sqrt(np.mean((exact.predict(new) - np.sin(3.0 * new @ along)) ** 2))


def test_the_data_choose_a_linear_part():
    folds, weight = draw_folds(200, 0), np.ones(200)
    noise = 0.3 * np.random.default_rng(1).normal(size=(200, 1))
    linear = X @ [[1.0], [-2.0], [0.5]] + noise
    bumps = np.sin(4.0 * X[:, :1]) + noise
    chosen = [
        fit_trend(X, y, weight, folds, METRIC, [ONE], 0, STAGES)[0][0] for y in (linear, bumps)
    ]
    assert chosen[0].linear > 0.0 == chosen[1].linear
    assert chosen[0].coef.shape == (chosen[0].landmarks.shape[0] + 3, 1)


def test_error_from_sums_is_the_error_of_predictions():
    folds = draw_folds(200, 0)
    fit = _Ridge(blank(True, X[:50]), X, Y, np.ones(200), folds)
    rest = [
        fit.trend(0.1, fold)(X[folds.of_row == fold]) - Y[folds.of_row == fold] for fold in range(5)
    ]
    assert_allclose(fit.error(0.1), sum(np.sum(part**2) for part in rest), rtol=1e-8)


def test_fit_trend_holds_rows_out():
    """The columns of the second result are the fits without each fold, at the same penalty."""
    folds = draw_folds(200, 1)
    (trend, *_), at_rows = fit_trend(X, Y, np.ones(200), folds, METRIC, [ONE], 1, STAGES)
    assert_allclose(at_rows[:, 0], trend(X))
    changed = Y.copy()
    changed[folds.of_row == 3] += 100.0  # not seen by the fit without fold 3, at the same penalty
    kernel = replace(trend, coef=np.zeros_like(trend.coef))
    for alpha in (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0):
        same = _Ridge(kernel, X, Y, np.ones(200), folds).trend(alpha, 3)(X)
        if np.allclose(same, at_rows[:, 4], atol=1e-9):
            other = _Ridge(kernel, X, changed, np.ones(200), folds).trend(alpha, 3)(X)
            assert_allclose(other, same, atol=1e-9)
            return
    pytest.fail("no penalty gives the fit without fold 3")


def test_smooth_functions_are_learnt_as_by_the_exact_kernel():
    y = np.sin(X[:, :1]) * np.cos(X[:, 1:2])
    (trend, *_), _ = fit_trend(X, y, np.ones(200), draw_folds(200, 0), METRIC, [ONE], 0, STAGES)
    exact = KernelRidge(alpha=1e-3, kernel="laplacian", gamma=0.4).fit(X, y - y.mean())
    truth = np.sin(NEW[:, :1]) * np.cos(NEW[:, 1:2])
    ours = np.mean((trend(NEW) - truth) ** 2)
    assert ours < np.mean((exact.predict(NEW) + y.mean() - truth) ** 2)


def test_trend_stays_within_its_range_on_the_fitted_rows():
    """Also where there are no rows, of which a close fit says nothing."""
    y = X[:, :1] ** 3
    (trend, *_), at_rows = fit_trend(
        X, y, np.ones(200), draw_folds(200, 0), METRIC, [ONE], 0, STAGES
    )
    far = 20.0 * rng.normal(size=(1000, 3))
    low, high = at_rows[:, 0].min(), at_rows[:, 0].max()
    margin = 0.1 * (high - low)
    assert trend(far).min() >= low - margin - 1e-9
    assert trend(far).max() <= high + margin + 1e-9
    free = replace(trend, low=-FREE[:1], high=FREE[:1])
    assert_allclose(free(X), trend(X))
    doubled = trend.rescaled(np.array([2.0]), np.array([3.0]))
    assert_allclose(doubled(far), 2.0 * trend(far) + 3.0)


def test_landmarks_pay_where_the_function_is_smooth_and_detailed(monkeypatch):
    """Noise has few landmarks, waves many; up to as many rows all are landmarks."""
    for name, number in {
        "TREND_LANDMARKS": (40, 80, 160),
        "TREND_SAMPLE_LANDMARKS": 20,
        "TREND_FINAL_LANDMARKS": 40,
    }.items():
        monkeypatch.setattr(settings, name, number)
    draw = np.random.default_rng(1)
    rows = draw.uniform(-2, 2, size=(2000, 3))
    waves = np.sin(2 * rows[:, :1]) * np.sin(2 * rows[:, 1:2]) + rows[:, 2:]
    noise = draw.normal(size=(2000, 1))

    def n_landmarks(y, n):
        folds = draw_folds(n, 0)
        trends, _ = fit_trend(rows[:n], y[:n], np.ones(n), folds, METRIC, [ONE], 0, STAGES)
        return {len(trend.landmarks) for trend in trends}

    assert n_landmarks(noise, 2000) == {40}
    assert n_landmarks(waves, 2000) == {160}
    assert n_landmarks(noise, 80) == {80}
    monkeypatch.setattr(settings, "TREND_GAINS", (0.0, 1.0))
    assert n_landmarks(waves, 2000) == {80}


def test_fits_tell_how_far_they_are(monkeypatch):
    """Two parts that take long say so, from 0 to 1."""
    heard = []
    monkeypatch.setattr(settings, "PROGRESS_FIRST", 0.0)
    monkeypatch.setattr(settings, "PROGRESS_GROWTH", 0.0)
    monkeypatch.setattr(settings, "TREND_BLOCK", 50)
    monkeypatch.setattr(settings, "BLOCK_ROWS", 50)
    stages = Stages(lambda done, total, info: heard.append((info["stage"], info["share"])), 1)
    fit_trend(X, Y, np.ones(200), draw_folds(200, 0), METRIC, [ONE], 0, stages)
    for stage in ("fitting the trend", "trend of all rows"):
        shares = [share for what, share in heard if what == stage]
        assert shares == sorted(shares)
        assert shares[0] < 0.5 < shares[-1] < 1


def test_columns_as_alike_as_the_function_wants():
    """The factors that undo a wrong scale are chosen, and predictions know of them."""
    y = np.sin(2 * X[:, :1]) * np.cos(2 * X[:, 1:2])
    wrong = np.array([10.0, 0.1, 1.0])
    rows, factors = X * wrong, [ONE, 1 / wrong]
    (trend, *_), at_rows = fit_trend(
        rows, y, np.ones(200), draw_folds(200, 0), METRIC, factors, 0, STAGES
    )
    # The last column has no effect, so directions without it are better still.
    turned = np.linalg.norm(trend.factor * wrong[:, None], axis=1)
    assert 0.5 < turned[0] / turned[1] < 2.0
    assert turned[2] < 0.5 * turned[1]
    (alone, *_), _ = fit_trend(X, y, np.ones(200), draw_folds(200, 0), METRIC, [ONE], 0, STAGES)
    assert_allclose(trend(NEW * wrong), alone(NEW), atol=1e-6)
    assert_allclose(at_rows[:, 0], alone(X), atol=1e-6)


ARRAYS = [field.name for field in fields(Trend) if field.name not in ("width", "linear")]


@pytest.mark.parametrize("name", ARRAYS)
def test_impossible_trends_are_refused(name):
    (trend, *_), _ = fit_trend(X, Y, np.ones(200), draw_folds(200, 0), METRIC, [ONE], 0, STAGES)
    trend = replace(trend, lifetimes=METRIC.lifetimes, shares=METRIC.shares)
    trend.check(3, 2)
    bad = getattr(trend, name).copy()
    bad.flat[-1] = np.nan
    with pytest.raises(ValueError, match=name):
        replace(trend, **{name: bad}).check(3, 2)
    for wrong in (np.ones(()), np.ones(2), np.ones((3, 2)), np.ones((3, 3, 3))):
        with pytest.raises(ValueError, match="factor"):
            replace(trend, factor=wrong).check(3, 2)
    for wrong in ({"width": 0.0}, {"linear": -1.0}, {"linear": np.nan}):
        with pytest.raises(ValueError, match=r"width|coef"):
            replace(trend, **wrong).check(3, 2)


def test_a_penalty_lost_in_rounding_errors_is_raised():
    """A wide kernel of one column has few eigenvalues above the rounding errors of many rows."""
    draw = np.random.default_rng(0)
    X = np.hstack([draw.normal(size=(20_000, 1)), np.zeros((20_000, 2))])
    Y = np.sin(X[:, :1])
    kernel = replace(blank(True, X[:800]), width=10.0)
    found = _Ridge(kernel, X, Y, np.ones(20_000), draw_folds(20_000, 0)).trend(1e-9)
    assert np.std(found(X)[:, :1] - Y) < 0.01 * Y.std()
