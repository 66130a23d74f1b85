"""Errors on rows held out, from one walk down the trees."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import MondrianFeatures
from mondrian_kernel._path.ridge_path import held_out_errors
from mondrian_kernel._trees.levels import features_through

rng = np.random.default_rng(0)
X, NEW = rng.uniform(size=(60, 3)), rng.uniform(-0.3, 1.3, size=(25, 3))
FEATURES = MondrianFeatures(6.0, 15, random_state=0).fit(X)
LIFETIMES = np.array([0.0, 0.7, 2.0, 6.0])


def test_features_are_those_of_each_lifetime():
    for rows in (X, NEW):
        through = features_through(FEATURES.trees_, rows, LIFETIMES)
        for lifetime, Phi in zip(LIFETIMES, through, strict=True):
            expected = FEATURES.at(lifetime).transform(rows)
            assert_array_equal(Phi.indices, expected.indices)
            assert_allclose(Phi.data, expected.data, rtol=1e-13)


def test_errors_whatever_the_number_of_rows_at_once():
    Y = rng.normal(size=(25, 2))
    models, expected = [], []
    for lifetime in LIFETIMES:
        at = FEATURES.at(lifetime)
        coef, intercept = rng.normal(size=(at.n_cells_, 6)), rng.normal(size=6)
        models.append((coef, intercept))
        predicted = (at.transform(NEW) @ coef + intercept).reshape(25, 2, 3)
        expected.append(np.mean((predicted - Y[:, :, None]) ** 2, axis=(0, 1)))
    for at_once in (2**24, 1000, 1):
        found = held_out_errors(FEATURES.trees_, LIFETIMES, models, NEW, Y, None, at_once=at_once)
        assert_allclose(found, expected)
