"""Other losses through the front door: the same as the paths behind it, and clear errors."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mondrian_kernel import LifetimePath, lifetime_path
from mondrian_kernel._path.loss_path import loss_path

RNG = np.random.default_rng(0)
X, X_VAL = RNG.uniform(-1, 1, size=(2, 150, 2))
NAMES = np.array(["other", "same"])
Y, Y_VAL = (NAMES[(Z[:, 0] * Z[:, 1] > 0).astype(int)] for Z in (X, X_VAL))
OPTIONS = {"n_estimators": 15, "max_lifetime": 4.0, "n_lifetimes": 6, "random_state": 0}


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_classes_are_learnt_better_at_some_width(loss):
    path = lifetime_path(X, Y, loss=loss, validation=(X_VAL, Y_VAL), **OPTIONS)
    assert isinstance(path, LifetimePath)
    assert path.complete
    assert path.lifetimes[-1] == 4.0
    best = np.nanmin(path.score, axis=1)
    assert best.min() < 0.7 * best[0]


def test_validation_rows_are_those_that_judge():
    wrong = lifetime_path(X, Y, loss="log_loss", validation=(X_VAL, Y_VAL[::-1]), **OPTIONS)
    right = lifetime_path(X, Y, loss="log_loss", validation=(X_VAL, Y_VAL), **OPTIONS)
    assert np.nanmin(wrong.score) > 1.2 * np.nanmin(right.score)


def test_without_validation_a_fifth_is_held_out():
    options = {"n_estimators": 15, "n_lifetimes": 6}
    path = lifetime_path(X, Y, loss="log_loss", random_state=3, **options)
    seed = int(np.random.RandomState(3).randint(2**63 - 1, dtype=np.int64))
    labels = np.searchsorted(NAMES, Y)
    expected = loss_path(X, labels, 2, "log_loss", max_rows=150, seed=seed, **options)
    assert_array_equal(path.validation_loss, expected.validation_loss)


BAD = {
    "solver": ({"solver": "dense"}, "are for loss="),
    "max_lifetime": ({"max_lifetime": -1.0}, "'max_lifetime' parameter"),
    "alphas": ({"alphas": [0.0]}, "must be positive"),
    "n_lifetimes": ({"n_lifetimes": 2.5}, "'n_lifetimes' parameter"),
    "validation": ({"validation": X_VAL}, "'validation' parameter"),
    "a new class": ({"validation": (X_VAL, np.full(150, "new"))}, "the classes \\['new'\\]"),
    "no weight": ({"sample_weight": np.arange(150.0)}, "leave these rows out"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    options, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        lifetime_path(X, Y, loss="log_loss", **OPTIONS | options)


def test_classes_where_numbers_are_asked_for():
    with pytest.raises(ValueError, match=r"y holds classes such as '(same|other)'"):
        lifetime_path(X, Y, **OPTIONS)
