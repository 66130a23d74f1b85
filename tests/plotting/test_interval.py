"""The picture of intervals counts what is inside and shows every row where it belongs."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from mondrian_kernel import MondrianKernelRegressor
from mondrian_kernel.plotting import IntervalDisplay

Y_TRUE = np.array([1.0, 5.0, 2.0, 3.0])
Y_PRED = np.array([1.5, 2.0, 3.0, 0.0])
INTERVAL = np.stack([Y_PRED - 1.0, Y_PRED + 1.0], axis=1)


def test_sorted_by_prediction():
    display = IntervalDisplay.from_predictions(Y_TRUE, Y_PRED, INTERVAL)
    assert display.covered == 0.5
    assert_array_equal(display.line_.get_ydata(), [0.0, 1.5, 2.0, 3.0])
    assert_array_equal(display.inside_.get_offsets(), [[1, 1.0], [3, 2.0]])
    assert_array_equal(display.outside_.get_offsets(), [[0, 3.0], [2, 5.0]])
    assert "50.0 %" in display.ax_.get_title()
    assert "requested" not in display.ax_.get_title()
    assert_array_equal(display.covered_by_fifth, [0.0, 1.0, 0.0, 1.0, np.nan])
    assert display.ax_.get_title().endswith("by fifths of the prediction: 0, 100, 0, 100, nan %")


def test_against_x():
    x = np.array([0.3, 0.1, 0.4, 0.2])
    display = IntervalDisplay.from_predictions(Y_TRUE, Y_PRED, INTERVAL, x=x, coverage=0.8)
    assert_array_equal(display.line_.get_xdata(), np.sort(x))
    assert_array_equal(display.line_.get_ydata(), [2.0, 0.0, 1.5, 3.0])
    assert "80 % requested" in display.ax_.get_title()


@pytest.mark.parametrize("n_columns", [1, 2])
def test_from_estimator(n_columns):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(120, n_columns)), columns=["a", "b"][:n_columns])
    y = np.sin(6 * X["a"]) + 0.1 * rng.normal(size=120)
    model = MondrianKernelRegressor(n_estimators=50, random_state=0).fit(X[:60], y[:60])
    display = IntervalDisplay.from_estimator(model, X[60:], y[60:], coverage=0.8)
    interval = model.predict_interval(X[60:], coverage=0.8)
    assert_allclose(display.interval, interval)
    inside = (interval[:, 0] <= y[60:]) & (y[60:] <= interval[:, 1])
    assert display.covered == np.mean(inside)
    if n_columns == 1:
        assert_array_equal(display.x, X["a"][60:])
        assert display.ax_.get_xlabel() == "a"
    else:
        assert display.x is None
    display.figure_.canvas.draw()


def test_bad_input():
    with pytest.raises(TypeError, match="Ridge has no predict_interval"):
        IntervalDisplay.from_estimator(Ridge(), [[0.0]], [0.0])
    with pytest.raises(ValueError, match="shape"):
        IntervalDisplay.from_predictions(Y_TRUE, Y_PRED, Y_PRED)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        IntervalDisplay.from_predictions(Y_TRUE[:3], Y_PRED, INTERVAL)
    assert plt.get_fignums() == []
