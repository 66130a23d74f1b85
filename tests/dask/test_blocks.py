"""Rows in blocks: what is read, left out, fetched and put together."""

import dask.array as da
import numpy as np
from numpy.testing import assert_array_equal

from mondrian_kernel.dask.blocks import Blocks

rng = np.random.default_rng(0)
ROWS, TARGETS = rng.normal(size=(25, 2)), rng.normal(size=25)
WEIGHTS = np.where(np.arange(25) % 4 == 0, 0.0, 1.0 + np.arange(25))
X, y = da.from_array(ROWS, chunks=((10, 0, 8, 7), 2)), da.from_array(TARGETS, chunks=5)
SCALE = np.array([2.0, 5.0])


def test_rows_are_fetched_in_the_order_asked_for():
    blocks = Blocks(X, y).scaled(SCALE)
    numbers = np.array([24, 0, 17, 3, 18, 9, 10])
    found = blocks.take(numbers)
    assert_array_equal(found.X, ROWS[numbers] / SCALE)
    assert_array_equal(found.Y, TARGETS[numbers])
    assert_array_equal(found.weight, np.ones(7))


def test_rows_without_weight_have_no_number():
    used = np.flatnonzero(WEIGHTS)
    found = Blocks(X, y, da.from_array(WEIGHTS)).take(np.array([5, 1, 12]))
    assert_array_equal(found.X, ROWS[used[[5, 1, 12]]])
    assert_array_equal(found.weight, WEIGHTS[used[[5, 1, 12]]])


def test_answers_are_put_together_in_order():
    many = da.from_array(np.arange(100.0)[:, None], chunks=1)
    joined = Blocks(many).total(lambda rows: rows.X.ravel().tolist(), lambda a, b: a + b)
    assert joined == list(range(100))
