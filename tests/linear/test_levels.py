"""The operator of several lifetimes is the matrix product with their features, in every verb."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel._linear.levels import LevelOperator
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.levels import Levels

LIFETIMES, WEIGHTS = np.array([0.3, 1.0, 4.0]), np.array([0.5, 0.2, 0.3])
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
X[40:50] = X[:10]


def operator(centre=True, weighted=False, n_jobs=None, lifetimes=LIFETIMES, weights=WEIGHTS):
    growth = Growth(X, 7, 3, n_jobs)
    growth.advance(float(lifetimes[-1]))
    trees, leaf = growth.freeze()
    levels = Levels.of(trees, lifetimes, weights)
    s = np.random.default_rng(1).uniform(0.5, 2.0, len(X)) if weighted else np.ones(len(X))
    made = LevelOperator(trees, leaf, levels, s, X, centre=centre, n_jobs=n_jobs)
    Phi = levels.features(leaf, None).toarray()
    return made, Phi, s


def centred_kernel(Phi, s, centre):
    u = np.sqrt(s) / np.sqrt(s.sum())
    H = np.eye(len(s)) - centre * np.outer(u, u)
    Psi = H @ (np.sqrt(s)[:, None] * Phi)
    return Psi @ Psi.T


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("k", [1, 3])
def test_products(centre, weighted, k):
    made, Phi, s = operator(centre, weighted)
    V, W = RNG.normal(size=(len(X), k)), RNG.normal(size=(Phi.shape[1], k))
    K = centred_kernel(Phi, s, centre)
    assert_allclose(made.gram(V), K @ V, atol=1e-12)
    assert_allclose(made.kernel_matrix(), K, atol=1e-12)
    assert_allclose(made.scatter(V), Phi.T @ V, atol=1e-12)
    assert_allclose(made.gather(W), Phi @ W, atol=1e-12)
    assert_allclose(made.features(np.arange(9)).toarray(), Phi[:9], atol=1e-12)
    some = np.array([3, 8, 44])
    assert_allclose(
        made.take(some).gram(V[some]), centred_kernel(Phi[some], s[some], centre) @ V[some]
    )


def test_each_level_alone():
    made, _, s = operator(weighted=True)
    v, n_levels = RNG.normal(size=(len(X), 1)), LIFETIMES.size
    each = made.products(np.repeat(v, n_levels, axis=1), np.eye(n_levels))
    for level, lifetime in enumerate(LIFETIMES):
        _, Phi, _ = operator(weighted=True, lifetimes=np.array([lifetime]), weights=np.ones(1))
        assert_allclose(each[:, [level]], Phi @ (Phi.T @ v), atol=1e-12)
    weights, root = np.array([2.0, 1.0, 0.5]), np.sqrt(s)[:, None]
    right = np.repeat(root * made.centred(v.copy()), n_levels, axis=1)
    alone = made.products(right, np.eye(n_levels))
    expected = made.centred(root * (alone @ weights)[:, None])
    assert_allclose(made.with_weights(weights).gram(v), expected, atol=1e-12)


def test_each_column_has_its_own_weights():
    made, _, _ = operator()
    V, weights = RNG.normal(size=(len(X), 2)), np.array([[1.0, 0.0], [0.5, 2.0], [3.0, 0.1]])
    both = made.products(V, weights)
    for j in range(2):
        assert_allclose(both[:, [j]], made.products(V[:, [j]], weights[:, [j]]), atol=1e-12)


def test_threads_change_nothing():
    V = RNG.normal(size=(len(X), 2))
    assert_array_equal(operator(n_jobs=1)[0].gram(V), operator(n_jobs=3)[0].gram(V))


def test_columns_of_the_expected_kernel():
    made, _, s = operator(weighted=True)
    some = np.array([0, 5])
    distance = np.abs(X[:, None] - X[some]).sum(axis=2)
    expected = sum(w * np.exp(-t * distance) for t, w in zip(LIFETIMES, WEIGHTS, strict=True))
    assert_allclose(made.kernel_columns(some), np.sqrt(np.outer(s, s[some])) * expected)
