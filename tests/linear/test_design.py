"""Design: every product against the same product with dense matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel._linear.design import Design
from ridge_problem import random_problem

rng = np.random.default_rng(1)


@pytest.fixture(params=[False, True], ids=["rows", "weighted"])
def problem(request):
    return random_problem(30, weighted=request.param)


def scaled(problem, level=-1):
    weight = np.ones(len(problem.cells)) if problem.weight is None else problem.weight
    return np.sqrt(weight)[:, None] * problem.Phi(level)


def centring(problem, centre):
    """I - uuᵀ with u along the roots of the weights."""
    n = len(problem.cells)
    root = np.ones(n) if problem.weight is None else np.sqrt(problem.weight)
    return np.eye(n) - centre * np.outer(root, root) / (root @ root)


def test_sizes(problem):
    design = problem.design(centre=True)
    assert (design.n_rows, design.n_levels) == (30, 3)
    assert_array_equal(design.n_cells, [6, 12, 24])
    expected = 30 if problem.weight is None else problem.weight.sum()
    assert design.total_weight == expected


def test_gather_and_scatter_multiply_with_uncentred_features(problem):
    design, Phi = problem.design(centre=True), scaled(problem)
    W, V = rng.normal(size=(24, 5)), rng.normal(size=(30, 5))
    assert_allclose(design.gather(W), Phi @ W, atol=1e-13)
    assert_allclose(design.scatter(V), Phi.T @ V, atol=1e-13)


@pytest.mark.parametrize("centre", [False, True])
def test_gram_multiplies_every_level_with_its_own_vectors(problem, centre):
    design, H = problem.design(centre), centring(problem, centre)
    V = rng.normal(size=(30, 6))
    before = V.copy()
    out = design.gram(V)
    for level in range(3):
        Phi, own = H @ scaled(problem, level), slice(2 * level, 2 * level + 2)
        assert_allclose(out[:, own], Phi @ (Phi.T @ V[:, own]), atol=1e-12)
    assert_array_equal(V, before)


@pytest.mark.parametrize("centre", [False, True])
def test_coef_applies_the_transposed_centred_features(problem, centre):
    design, H = problem.design(centre), centring(problem, centre)
    dual = rng.normal(size=(30, 2))
    before = dual.copy()
    assert_allclose(design.coef(dual), scaled(problem).T @ H @ dual, atol=1e-13)
    assert_array_equal(dual, before)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_level_stands_alone(problem, level):
    alone = problem.design(centre=True).level(level)
    assert alone.n_levels == 1
    assert alone.centre
    W = rng.normal(size=(int(alone.n_cells[0]), 3))
    assert_allclose(alone.gather(W), scaled(problem, level) @ W, atol=1e-13)


def test_centred_works_in_place_and_leaves_no_mean(problem):
    design = problem.design(centre=True)
    V = rng.normal(size=(30, 2))
    assert design.centred(V) is V
    assert_allclose(design.root_weight @ V, 0.0, atol=1e-13)


def test_threads_change_nothing(problem):
    one, two = problem.design(centre=True), problem.design(centre=True, n_jobs=2)
    V, W = rng.normal(size=(30, 6)), rng.normal(size=(24, 6))
    assert_array_equal(one.gram(V), two.gram(V))
    assert_array_equal(one.scatter(V), two.scatter(V))
    assert_array_equal(one.gather(W), two.gather(W))


def test_trees_may_be_numbered_in_any_order():
    """Cells 0 to 2 are those of the second tree, 3 to 5 of the first; a level joins some."""
    rng = np.random.default_rng(0)
    cells = np.stack([3 + np.arange(30) % 3, rng.permutation(np.arange(30) % 3)], axis=1)
    groups = np.array([0, 0, 1, 2, 3, 3])
    design = Design(cells.astype(np.int32), groups.astype(np.int32)[:, None], centre=False)
    Phi = np.zeros((30, 4))
    for tree in range(2):
        Phi[np.arange(30), groups[cells[:, tree]]] += 0.5**0.5
    V = rng.normal(size=(30, 3))
    assert_allclose(design.gram(V), Phi @ (Phi.T @ V), atol=1e-12)
