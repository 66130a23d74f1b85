"""The picture of a lifetime path shows the numbers of the path."""

import warnings
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.exceptions import NotFittedError

from mondrian_kernel import (
    LifetimePath,
    MondrianForestRegressor,
    MondrianKernelClassifier,
    MondrianKernelRegressor,
    every_cut_path,
    lifetime_path,
    sgd_path,
)
from mondrian_kernel.plotting import LifetimePathDisplay

rng = np.random.default_rng(0)
X = rng.uniform(size=(80, 2))
y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=80)
ALPHAS = [0.01, 0.1, 1.0]


@pytest.fixture(scope="module")
def path():
    return lifetime_path(
        X, y, n_estimators=30, max_lifetime=50.0, n_lifetimes=12, alphas=ALPHAS, random_state=0
    )


def test_line_is_the_criterion_at_the_best_alphas(path):
    display = LifetimePathDisplay.from_path(path)
    (line,) = display.lines_
    assert_array_equal(line.get_xdata(), path.lifetimes)
    assert_array_equal(line.get_ydata(), path.loo_error.min(axis=1))
    assert_allclose(display.chosen_.get_xdata(), [path.best_lifetime])
    assert_allclose(display.chosen_.get_ydata(), [path.loo_error.min()])
    assert_array_equal(display.cells_line_.get_ydata(), path.n_cells)
    assert display.ax_.get_ylabel() == "mean squared error, leave-one-out"
    assert display.posterior_ is None
    assert display.figure_ is display.ax_.figure


def test_another_curve_is_read_at_the_alphas_that_the_criterion_chose(path):
    display = LifetimePathDisplay.from_path(path, criterion="evidence")
    best = path.loo_error.argmin(axis=1)
    expected = path.log_marginal_likelihood[np.arange(best.size), best]
    assert_array_equal(display.lines_[0].get_ydata(), expected)


def test_all_alphas(path):
    display = LifetimePathDisplay.from_path(path, alphas="all")
    assert len(display.lines_) == 3
    for line, values in zip(display.lines_, path.loo_error.T, strict=True):
        assert_array_equal(line.get_ydata(), values)
    assert len({line.get_color() for line in display.lines_}) == 3


def test_posterior_is_drawn_beneath(path):
    display = LifetimePathDisplay.from_path(path, prior=stats.loguniform(0.1, 100))
    low, high = display.posterior.interval(0.9)
    assert f"{low:.3g} to {high:.3g}" in display.posterior_.get_label()
    assert display.ax_.get_zorder() > display.posterior_.axes.get_zorder()
    display.figure_.canvas.draw()


def test_lifetime_zero_has_no_place_on_the_axis():
    path = every_cut_path(X, y, n_estimators=5, max_lifetime=5.0, random_state=0)
    assert path.lifetimes[0] == 0
    display = LifetimePathDisplay.from_path(path)
    assert_array_equal(display.lines_[0].get_xdata(), path.lifetimes[1:])
    display.figure_.canvas.draw()


@pytest.mark.parametrize(
    "model",
    [
        MondrianKernelRegressor("path", n_estimators=20, random_state=0),
        MondrianForestRegressor(n_estimators=20, random_state=0),
        MondrianKernelClassifier("path", n_estimators=20, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("alphas", ["best", "all"])
def test_every_model_with_a_path(model, alphas):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The best lifetime")
        model.fit(X, y > 0 if isinstance(model, MondrianKernelClassifier) else y)
    display = LifetimePathDisplay.from_estimator(model, alphas=alphas)
    assert_allclose(display.chosen_.get_xdata(), [model.lifetime_])
    drawn = np.concatenate([line.get_ydata() for line in display.lines_])
    assert_allclose(np.nanmin(drawn), np.nanmin(model.path_.score))
    display.figure_.canvas.draw()


def test_path_of_gradient_descent_has_one_alpha():
    path = sgd_path(X, y, alpha=0.1, max_lifetime=5.0, n_estimators=10, random_state=0)
    display = LifetimePathDisplay.from_path(path, alphas="all")
    assert_array_equal(display.lines_[0].get_ydata(), path.train_loss[:, 0])
    assert "alpha = 0.1" in display.chosen_.get_label()


def test_draws_on_given_axes_with_given_options(path):
    _, ax = plt.subplots()
    display = LifetimePathDisplay.from_path(path, ax=ax, line_kwargs={"color": "black"})
    assert display.ax_ is ax
    assert display.lines_[0].get_color() == "black"


def test_bad_input(path):
    with pytest.raises(ValueError, match="criterion='holdout' is not on this path"):
        LifetimePathDisplay.from_path(path, criterion="holdout")
    with pytest.raises(ValueError, match="alphas must be 'best' or 'all'"):
        LifetimePathDisplay.from_path(path, alphas="some")
    with pytest.raises(NotFittedError):
        LifetimePathDisplay.from_estimator(MondrianKernelRegressor())
    for lifetime, alpha in [(1.0, 0.1), ("auto", "auto")]:
        without = MondrianKernelRegressor(lifetime, alpha, n_estimators=5).fit(X, y)
        with pytest.raises(ValueError, match="has no path"):
            LifetimePathDisplay.from_estimator(without)
    forest = MondrianForestRegressor(n_estimators=5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="no evidence"):
        LifetimePathDisplay.from_estimator(forest, prior=stats.loguniform(0.1, 100))
    unknown = np.full_like(path.loo_error, np.nan)
    without = replace(path, curves=path.curves | {"log_marginal_likelihood": unknown})
    with pytest.raises(ValueError, match="no evidence"):
        LifetimePathDisplay.from_path(without, prior=stats.loguniform(0.1, 100))
    with pytest.raises(ValueError, match="criterion='evidence' is not on this path"):
        LifetimePathDisplay.from_path(without, criterion="evidence")
    assert plt.get_fignums() == []


def test_legend_covers_no_curve():
    """The error falls and the number of cells, in other axes, rises to the upper right."""
    lifetimes = np.geomspace(0.1, 10.0, 30)
    path = LifetimePath(
        lifetimes,
        np.geomspace(100, 5000, 30).astype(np.int64),
        np.ones(1),
        {"train_error": np.exp(-lifetimes)[:, None]},
        "train",
    )
    display = LifetimePathDisplay(path=path, criterion="train").plot()
    display.figure_.canvas.draw()
    box = display.ax_.get_legend().get_window_extent()
    for line in (*display.lines_, display.cells_line_):
        drawn = line.get_transform().transform_path(line.get_path())
        assert not drawn.intersects_bbox(box, filled=False)
