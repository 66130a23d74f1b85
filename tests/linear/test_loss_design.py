"""Products with Φ against the dense matrix, and independence of threads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from linear.sparse_problem import features
from mondrian_kernel._linear.loss_design import Design


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("with_values", [False, True])
def test_products_are_those_of_the_dense_matrix(with_values, n_outputs):
    cells, values, n_cells, Phi = features(with_values=with_values)
    design = Design(cells, values, n_cells)
    rng = np.random.default_rng(0)
    W, R = rng.normal(size=(n_cells, n_outputs)), rng.normal(size=(len(cells), n_outputs))
    assert_allclose(design.scores(W), Phi @ W, atol=1e-13)
    assert_allclose(design.weights(R), Phi.T @ R, atol=1e-13)
    assert_allclose(design.gram(R), Phi @ (Phi.T @ R), atol=1e-13)
    assert_allclose(design.square, (Phi**2).sum(axis=1), atol=1e-13)


@pytest.mark.parametrize("with_values", [False, True])
def test_threads_change_nothing(with_values):
    cells, values, n_cells, _ = features(n_slots=11, with_values=with_values)
    V = np.random.default_rng(0).normal(size=(len(cells), 2))
    one, three = (Design(cells, values, n_cells, n_jobs) for n_jobs in (1, 3))
    assert_array_equal(one.gram(V), three.gram(V))
    W = one.weights(V)
    assert_array_equal(one.scores(W), three.scores(W))


def test_columns_may_be_numbered_in_any_order():
    cells, _, n_cells, Phi = features()
    shuffled = np.random.default_rng(3).permutation(n_cells).astype(np.int32)
    V = np.ones((len(cells), 1))
    assert_allclose(Design(shuffled[cells], None, n_cells).gram(V), Phi @ (Phi.T @ V))


def test_bad_cells_are_refused():
    cells = np.array([[0, 1], [1, 2]], np.int32)
    for values in (None, np.ones((2, 2))):
        with pytest.raises(ValueError, match=r"Two (trees|slots of cells) share a c"):
            Design(cells, values, 3).gram(np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"outside \[0, 2\)"):
        Design(cells, None, 2)
    with pytest.raises(ValueError, match="differ"):
        Design(cells, np.ones((2, 3)), 3)
