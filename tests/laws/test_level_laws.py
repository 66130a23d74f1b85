"""A kernel over several lifetimes has the mixture of Laplace kernels as its expectation."""

import numpy as np
import pytest
from scipy import stats

from mondrian_kernel import MondrianFeatures

LIFETIMES, WEIGHTS = np.array([0.2, 1.0, 3.0]), np.array([0.5, 0.3, 0.2])
N_TREES = 4000


def mixture(X, Y, lifetimes=LIFETIMES, weights=WEIGHTS):
    distance = np.abs(X[:, None] - Y[None]).sum(axis=2)
    return sum(w * np.exp(-t * distance) for t, w in zip(lifetimes, weights, strict=True))


@pytest.mark.parametrize("new", [False, True], ids=["fitted rows", "new rows"])
@pytest.mark.parametrize("n_columns", [1, 2, 5, 20])
def test_expected_kernel(n_columns, new):
    """Two-sided: the mean over trees lies within 5 standard errors of the mixture, all pairs."""
    rng = np.random.default_rng(n_columns)
    X = rng.normal(size=(8, n_columns)) / n_columns
    Y = rng.normal(size=(5, n_columns)) / n_columns if new else X
    features = MondrianFeatures(LIFETIMES, N_TREES, weights=WEIGHTS, random_state=7).fit(X)
    K, expected = features.kernel(X, Y), mixture(X, Y)
    # One tree gives a value in [0, 1] with this mean, whose variance is at most mean (1 - mean).
    error = np.sqrt(np.maximum(expected * (1 - expected), 1e-12) / N_TREES)
    z = (K - expected) / error
    off = ~np.eye(8, dtype=bool) if not new else np.ones(K.shape, bool)
    assert np.abs(z[off]).max() < 5
    # The bound is loose, so a bias that hides below it is looked for in the mean of all pairs.
    spread = np.std(
        [
            MondrianFeatures(LIFETIMES, 400, weights=WEIGHTS, random_state=s)
            .fit(X)
            .kernel(X, Y)[off]
            .mean()
            for s in range(20)
        ]
    )
    assert abs((K - expected)[off].mean()) < 5 * spread * np.sqrt(400 / N_TREES)


def test_one_lifetime_is_the_plain_kernel():
    X = np.random.default_rng(0).normal(size=(30, 3))
    plain = MondrianFeatures(0.7, 20, random_state=1).fit(X)
    levels = MondrianFeatures([0.7], 20, random_state=1).fit(X)
    np.testing.assert_array_equal(plain.transform(X).toarray(), levels.transform(X).toarray())


def test_levels_are_those_of_the_same_trees():
    X = np.random.default_rng(0).normal(size=(30, 3))
    both = MondrianFeatures([0.3, 0.9], 20, weights=[1, 3], random_state=1).fit(X)
    K = 0.25 * both.at(0.3).kernel(X) + 0.75 * both.at(0.9).kernel(X)
    np.testing.assert_allclose(both.kernel(X), K, atol=1e-12)
    assert both.n_cells_ == both.at(0.3).n_cells_ + both.at(0.9).n_cells_


def test_a_distribution_of_lifetimes():
    """A Gamma distribution gives (1 + s/b)^-a; the quantiles that stand for it are close."""
    X = np.random.default_rng(0).normal(size=(6, 2))
    features = MondrianFeatures(stats.gamma(2.0), N_TREES, random_state=0).fit(X)
    distance = np.abs(X[:, None] - X[None]).sum(axis=2)
    assert np.abs(features.kernel(X) - (1 + distance) ** -2.0).max() < 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lifetime": [1.0, 0.5]}, "must increase"),
        ({"lifetime": [1.0, -0.5]}, "not negative"),
        ({"lifetime": [1.0, 2.0], "weights": [1.0]}, "one for each lifetime"),
        ({"lifetime": [1.0, 2.0], "weights": [1.0, 0.0]}, "positive"),
        ({"lifetime": stats.gamma(2.0), "weights": [1.0]}, "its own weights"),
    ],
)
def test_bad_lifetimes(options, message):
    with pytest.raises(ValueError, match=message):
        MondrianFeatures(random_state=0, **options).fit(np.zeros((3, 1)))


def test_partial_fit_takes_one_lifetime():
    with pytest.raises(ValueError, match="one lifetime"):
        MondrianFeatures([1.0, 2.0]).partial_fit(np.zeros((3, 1)))
