"""The scale of the input dims."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel._model.columns import column_scale

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(30, 3)) * [1.0, 100.0, 1e-3] + [0.0, 5.0, 1.0]


def test_std():
    assert_allclose(column_scale("std", ROWS, None), ROWS.std(axis=0))


def test_std_with_weights_is_that_of_repeated_rows():
    weight = rng.integers(1, 5, size=30)
    expected = np.repeat(ROWS, weight, axis=0).std(axis=0)
    assert_allclose(column_scale("std", ROWS, weight.astype(float)), expected)


def test_none():
    assert_array_equal(column_scale(None, ROWS, None), np.ones(3))


@pytest.mark.parametrize("given", [[1.0, 2.0, 3.0], (1, 2, 3), np.array([1.0, 2.0, 3.0])])
def test_given(given):
    assert_array_equal(column_scale(given, ROWS, None), [1.0, 2.0, 3.0])


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1e8, 1e300])
def test_constant_columns_are_left_alone(value):
    rows = ROWS.copy()
    rows[:, 1] = value
    scale = column_scale("std", rows, None)
    assert scale[1] == 1.0
    assert_allclose(scale[[0, 2]], ROWS.std(axis=0)[[0, 2]])


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e200, 1e307])
def test_deviations_out_of_range_do_not_spoil_the_rows(size):
    """Where the square of a deviation is no number the dim keeps its own scale."""
    scale = column_scale("std", ROWS[:, :1] * size, None)
    assert np.isfinite(scale).all()
    assert (scale > 0).all()
    assert np.isfinite(ROWS[:, :1] * size / scale).all()


@pytest.mark.parametrize(
    "given", [[1.0, 2.0], [1.0] * 4, 2.0, [], np.ones((1, 3)), np.ones((3, 1))]
)
def test_bad_shape(given):
    with pytest.raises(ValueError, match="one number for each of the 3 columns"):
        column_scale(given, ROWS, None)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_values(bad):
    with pytest.raises(ValueError, match="positive and finite"):
        column_scale([1.0, bad, 1.0], ROWS, None)
