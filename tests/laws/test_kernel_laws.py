"""Laws of the Mondrian kernel: k_M against the Laplace kernel, for fitted and for new rows.

A kernel value is a mean of M independent draws in [0, 1] with mean k, hence with variance at most
k (1 - k). Bernstein's inequality and a union bound over all pairs give the tolerance, from both
sides, without any approximation: right code exceeds it with probability at most the level.
"""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.metrics.pairwise import laplacian_kernel

from feature_map_contract import bernstein_tolerance
from laws.level import FALSE_ALARM, assert_mean
from mondrian_kernel import MondrianFeatures
from oracles import stays_in_a_sampled_extension

N_TREES = 20000
DIMS = [1, 2, 5, 20]
WHERE = ["fitted", "inside", "outside", "far"]


def rows(n_dims):
    """Return rows in a cube, and a lifetime at which a typical kernel value is 1/e."""
    X = np.random.default_rng([0, n_dims]).uniform(size=(20, n_dims))
    return X, 3.0 / n_dims


def new_rows(n_dims, where):
    """Return rows inside the bounding box of the fitted ones, or outside it in some dimension."""
    X, _ = rows(n_dims)
    lower, upper = X.min(axis=0), X.max(axis=0)
    rng = np.random.default_rng([1, n_dims])
    new = rng.uniform(lower, upper, size=(20, n_dims))
    if where == "outside":
        new[:, 0] = np.where(rng.uniform(size=20) < 0.5, lower[0] - 0.3, upper[0] + 0.3)
    if where == "far":
        new = rng.uniform(upper, upper + 2.0 / n_dims, size=(20, n_dims))
    return X if where == "fitted" else new


@pytest.fixture(scope="module", params=DIMS)
def fitted(request):
    """Return features fitted on the rows in D dimensions, shared and never changed."""
    X, lifetime = rows(request.param)
    return MondrianFeatures(lifetime, N_TREES, random_state=0).fit(X)


def assert_kernel(estimate, exact, n_draws=N_TREES):
    """Two-sided: no entry is further from the exact one than Monte Carlo error can take it."""
    tolerance = bernstein_tolerance(exact * (1.0 - exact), 1.0, n_draws, exact.size)
    excess = np.abs(estimate - exact) - tolerance
    worst = np.unravel_index(np.argmax(excess), excess.shape)
    assert excess[worst] <= 1e-12, (
        f"kernel {estimate[worst]:.4f} where {exact[worst]:.4f} ± {tolerance[worst]:.4f} is right"
    )


def leaf_lookup_kernel(features, A, B):
    """Return the kernel of the classic mistake: a new row belongs to the leaf that it falls in."""
    a, b = features.apply(A), features.apply(B)
    return np.array([(row == b).mean(axis=1) for row in a])


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_kernel_is_laplacian(fitted, where, share):
    X, lifetime = rows(fitted.n_features_in_)
    new = new_rows(fitted.n_features_in_, where)
    estimate = fitted.at(share * lifetime).kernel(new, X)
    assert_kernel(estimate, laplacian_kernel(new, X, gamma=share * lifetime))


@pytest.mark.parametrize("where", ["inside", "outside", "far"])
def test_leaf_lookup_of_new_rows_is_rejected(fitted, where):
    X, lifetime = rows(fitted.n_features_in_)
    exact = laplacian_kernel(X, X, gamma=lifetime)
    assert_kernel(leaf_lookup_kernel(fitted, X, X), exact)  # right for the rows it was fitted on
    new = new_rows(fitted.n_features_in_, where)
    with pytest.raises(AssertionError, match="is right"):
        assert_kernel(leaf_lookup_kernel(fitted, new, X), laplacian_kernel(new, X, gamma=lifetime))


def test_tolerance_is_small():
    """An error of one part in fifteen of the middle of the range would be seen."""
    assert bernstein_tolerance(0.25, 1.0, N_TREES, 400) < 0.035


@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize("n_dims", DIMS)
def test_mean_over_seeds(n_dims, where):
    """Twenty times as many trees, for a bias that would hide in the noise of one fit."""
    X, lifetime = rows(n_dims)
    X, new = X[:6], new_rows(n_dims, where)[:6]
    total = np.zeros((6, 6))
    for seed in range(10):
        total += MondrianFeatures(lifetime, 40000, random_state=seed).fit(X).kernel(new, X)
    assert_kernel(total / 10, laplacian_kernel(new, X, gamma=lifetime), 400_000)


@pytest.mark.parametrize("where", ["fitted", "inside", "outside"])
def test_squared_error(where):
    """E (k_M - k)² is k (1 - k) / M for fitted pairs, and no more for new rows."""
    X, lifetime = rows(2)
    X, new = X[:2], new_rows(2, where)[1:2]
    k = laplacian_kernel(new, X, gamma=lifetime)[0, 0]
    n_trees = 50
    errors = [
        MondrianFeatures(lifetime, n_trees, random_state=seed).fit(X).kernel(new, X)[0, 0] - k
        for seed in range(1000)
    ]
    scaled = n_trees * np.square(errors) / (k * (1.0 - k))
    if where == "fitted":
        assert_mean(scaled, 1.0)
    else:
        assert scaled.mean() < 1.0
    assert_mean(errors, 0.0)


@pytest.mark.parametrize("n_dims", [1, 2, 5])
def test_uniform_convergence(n_dims):
    """The error at the worst of all pairs falls as M grows, within a bound of order M^(-1/2)."""
    X = np.random.default_rng(n_dims).uniform(size=(150, n_dims))
    lifetime = 3.0 / n_dims
    exact = laplacian_kernel(X, gamma=lifetime)
    for n_trees in (30, 300, 3000):
        for seed in range(3):
            features = MondrianFeatures(lifetime, n_trees, random_state=seed).fit(X)
            assert_kernel(features.kernel(X), exact, n_trees)
    worst = [bernstein_tolerance(0.25, 1.0, n_trees, exact.size) for n_trees in (30, 300, 3000)]
    assert worst[0] > 3 * worst[1] > 9 * worst[2], "the bound itself is of that order"


@pytest.mark.parametrize("n_dims", DIMS)
def test_refinement(n_dims):
    """λ₁ < λ₂: every cell at λ₂ lies in one cell at λ₁, so the kernel falls, tree by tree."""
    X, lifetime = rows(n_dims)
    features = MondrianFeatures(lifetime, 50, random_state=0).fit(X)
    together = np.ones((20, 20, 50), dtype=bool)
    for share in (0.0, 0.1, 0.4, 0.7, 1.0):
        cells = features.at(share * lifetime).apply(X)
        now = cells[:, None, :] == cells[None, :, :]
        assert not (now & ~together).any(), "rows that were parted are together again"
        together = now
    assert not together.all()


@pytest.mark.parametrize("n_dims", [1, 3])
def test_feature_of_a_new_row_is_the_mean_over_sampled_extensions(n_dims):
    rng = np.random.default_rng(n_dims)
    X = rng.uniform(size=(8, n_dims))
    new = np.vstack([rng.uniform(size=(2, n_dims)), rng.uniform(-0.5, 1.5, size=(2, n_dims))])
    features = MondrianFeatures(2.0 / n_dims, 3, random_state=0).fit(X)
    Phi, cells = features.transform(new).toarray() * np.sqrt(3), features.apply(new)
    for i, x in enumerate(new):
        for m in range(3):
            stays = [
                stays_in_a_sampled_extension(features.trees_, m, x, features.lifetime_, rng)
                for _ in range(2000)
            ]
            value = min(Phi[i, cells[i, m]], 1.0)
            p_value = stats.binomtest(sum(stays), len(stays), value).pvalue
            assert p_value > FALSE_ALARM, f"feature {value:.4f}, stayed {np.mean(stays):.4f}"
        others = np.setdiff1d(np.arange(features.n_cells_), cells[i])
        assert_array_equal(Phi[i, others], 0.0)
