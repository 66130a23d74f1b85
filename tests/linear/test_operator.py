"""CellOperator: every product against the same product with dense matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from linear.sparse_problem import features, rows_of
from mondrian_kernel._linear.operator import (
    CellOperator,
    Operator,
    SparseOperator,
    gather_cells,
    scatter_cells,
)
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


def test_gather_and_scatter_multiply_with_plain_features(problem):
    design, Phi = problem.design(centre=True), problem.Phi()
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
    assert_allclose(alone.gather(W), problem.Phi(level) @ W, atol=1e-13)


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
    levels = np.stack([groups, np.arange(6)], axis=1).astype(np.int32)
    design = CellOperator(cells.astype(np.int32), 6, groups=levels, centre=False)
    Phi = np.zeros((30, 4))
    for tree in range(2):
        Phi[np.arange(30), groups[cells[:, tree]]] += 0.5**0.5
    V = rng.normal(size=(30, 3))
    assert_allclose(design.gram(np.tile(V, 2))[:, :3], Phi @ (Phi.T @ V), atol=1e-12)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_up_to_ends_with_a_level(problem, index):
    some = problem.design(centre=True).up_to(index)
    assert_array_equal(some.n_cells, [6, 12, 24][: index + 1])
    V = rng.normal(size=(30, index + 1))
    for level in range(index + 1):
        Phi = centring(problem, True) @ scaled(problem, level)
        expected = Phi @ (Phi.T @ V[:, level])
        assert_allclose(some.gram(V)[:, level], expected, atol=1e-12)
        S = problem.Phi(index).T @ problem.Phi(level) > 0  # which fine cells a coarse one holds
        W = rng.normal(size=(S.shape[0], 2))
        assert some.coarsen(W, level).shape == (S.shape[1], 2)
        assert_allclose(some.coarsen(W, level).sum(axis=0), W.sum(axis=0))
        coarse = rng.normal(size=(S.shape[1], 2))
        assert_allclose(some.gather(some.refine(coarse, level)), problem.Phi(level) @ coarse)


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("with_values", [False, True])
def test_dense_blocks(problem, centre, with_values):
    """Those of CellOperator, and those that any operator has by default."""
    fine = problem.design(centre).level(2)
    Phi = problem.Phi()
    if with_values:
        Phi *= rng.uniform(0.2, 0.4, size=Phi.shape)
        fine = SparseOperator(sparse.csr_matrix(Phi), fine.sample_weight, centre, None)
    root, some = fine.root_weight[:, None], np.array([3, 17, 4])
    H = centring(problem, centre)
    new = sparse.csr_matrix(np.where(rng.random((5, 24)) < 0.3, 0.5, 0.0))
    for kind in (type(fine), Operator):
        assert_allclose(kind.dense_features(fine), H @ (root * Phi), atol=1e-13)
        K = (root * Phi) @ (root * Phi).T
        assert_allclose(kind.kernel_matrix(fine), H @ K @ H, atol=1e-12)
        assert_allclose(kind.kernel_columns(fine, some), K[:, some], atol=1e-13)
        assert_allclose(kind.kernel_with(fine, new), root * Phi @ new.toarray().T, atol=1e-13)
        assert_allclose(fine.features(some).toarray(), Phi[some], atol=1e-15)
        whole = fine.features(np.arange(30))
        assert_allclose(kind.kernel_with(fine, whole), root * Phi @ Phi.T, atol=1e-13)
    part = fine.take(some)
    assert_allclose(part.gather(np.eye(24)), Phi[some], atol=1e-15)
    V = rng.normal(size=(30, 2))
    assert_allclose(fine.scatter(V), Phi.T @ V, atol=1e-13)
    assert_allclose(fine.gram(V), H @ K @ H @ V, atol=1e-12)
    assert_array_equal(part.sample_weight, fine.sample_weight[some])


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_products_without_an_operator(n_outputs):
    cells, n_cells, Phi = features()
    rng = np.random.default_rng(0)
    W, R = rng.normal(size=(n_cells, n_outputs)), rng.normal(size=(len(cells), n_outputs))
    assert_allclose(gather_cells(cells, W), Phi @ W, atol=1e-13)
    assert_allclose(scatter_cells(cells, R, n_cells), Phi.T @ R, atol=1e-13)


def test_cells_may_be_numbered_in_any_order():
    cells, n_cells, Phi = features()
    shuffled = np.random.default_rng(3).permutation(n_cells).astype(np.int32)
    V = np.ones((len(cells), 1))
    assert_allclose(rows_of(shuffled[cells], n_cells).gram(V), Phi @ (Phi.T @ V))


def test_bad_cells_are_refused():
    cells = np.array([[0, 1], [1, 2]], np.int32)
    with pytest.raises(ValueError, match="Two trees share a cell"):
        rows_of(cells, 3).gram(np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"outside \[0, 2\)"):
        rows_of(cells, 2)
    for groups in (np.array([[1], [0], [2]]), np.zeros((3, 9), np.int32)):
        with pytest.raises(ValueError, match="in at most eight levels"):
            CellOperator(cells, 3, groups=groups)
