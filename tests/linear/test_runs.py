"""Products through runs of trees against sparse matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mondrian_kernel import _settings
from mondrian_kernel._linear.runs import Runs


def table(n_rows, n_trees, n_choices, rng):
    """Cells of rows, those of different trees apart, in shuffled numbering; and how many."""
    cells = rng.integers(n_choices, size=(n_rows, n_trees)) + n_choices * np.arange(n_trees)
    n_cells = n_choices * n_trees  # some of them without a row
    return rng.permutation(n_cells)[cells].astype(np.int32), n_cells


def matrix(cells, n_cells):
    n_rows, n_trees = cells.shape
    rows = np.repeat(np.arange(n_rows), n_trees)
    return sparse.csr_matrix((np.ones(cells.size), (rows, cells.ravel())), (n_rows, n_cells))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 60), st.integers(1, 12), st.integers(1, 9), st.integers(1, 19),
    st.floats(0.01, 1.0), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_products(n_rows, n_trees, n_choices, n_columns, share, seed):
    rng = np.random.default_rng(seed)
    cells, n_cells = table(n_rows, n_trees, n_choices, rng)
    Phi = matrix(cells, n_cells)
    V, W = rng.normal(size=(n_rows, n_columns)), rng.normal(size=(n_cells, n_columns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_settings, "RUN_ROW_SHARE", share)
        runs = Runs(cells, n_cells)
    assert_allclose(runs.scatter(V, None), Phi.T @ V, atol=1e-12)
    assert_allclose(runs.gather(W, None), Phi @ W, atol=1e-12)
    assert_allclose(runs.gram(V, None), Phi @ (Phi.T @ V), atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 8), st.integers(2, 8), st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_each_level_joins_cells_in_its_own_way(n_rows, n_trees, n_levels, n_columns, seed):
    rng = np.random.default_rng(seed)
    cells, n_cells = table(n_rows, n_trees, 5, rng)
    runs = Runs(cells, n_cells)
    n_own = runs.original.size
    joined = rng.random((n_own, n_levels)) < 0.5
    tree = np.searchsorted(
        np.cumsum([np.unique(c).size for c in cells.T]), np.arange(n_own), "right"
    )
    joined &= np.diff(tree, prepend=-1)[:, None] == 0  # only cells of one tree
    V = rng.normal(size=(n_rows, n_levels * n_columns))
    same = np.packbits(joined, axis=1, bitorder="little")[:, 0]
    found = runs.gram(V, None, n_levels, same)
    Phi = matrix(cells, n_cells)[:, runs.original].toarray()
    for j, new_group in enumerate(~joined.T):
        coarse = Phi @ np.eye(n_own)[np.cumsum(new_group) - 1][:, : new_group.sum()]
        own = slice(j * n_columns, (j + 1) * n_columns)
        assert_allclose(found[:, own], coarse @ (coarse.T @ V[:, own]), atol=1e-11)


def test_rows_that_share_their_cells_are_one_entry():
    cells, n_cells = table(20, 5, 3, np.random.default_rng(0))
    runs = Runs(np.tile(cells, (50, 1)), n_cells)
    assert runs.table.edges[-1] == 1
    assert np.unique(runs.table.joint).size == np.unique(cells, axis=0).shape[0]


def test_a_run_ends_where_too_many_rows_differ():
    rng = np.random.default_rng(0)
    cells, n_cells = table(2000, 30, 4, rng)
    runs = Runs(cells, n_cells)
    assert 1 < runs.table.edges[-1] < 30
    entries = runs.table.joint.reshape(2000, -1)
    assert all(np.unique(run).size <= _settings.RUN_ROW_SHARE * 2000 for run in entries.T)


def test_threads_change_nothing():
    rng = np.random.default_rng(1)
    cells, n_cells = table(20_000, 60, 6, rng)
    runs, V = Runs(cells, n_cells), rng.normal(size=(20_000, 8))
    W = runs.scatter(V, 1)
    assert_array_equal(runs.scatter(V, 3), W)
    assert_array_equal(runs.gather(W, 3), runs.gather(W, 1))
    assert_array_equal(runs.gram(V, 3), runs.gram(V, 1))


def test_trees_that_share_a_cell_are_refused():
    with pytest.raises(ValueError, match="Two trees share a cell"):
        Runs(np.array([[0, 1], [1, 2]], np.int32), 3)
