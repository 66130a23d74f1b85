"""How many trees a model has by default."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mondrian_kernel import MondrianFeatures, MondrianKernelRegressor
from mondrian_kernel.features import draw_seed
from mondrian_kernel.path import tree_number as module
from mondrian_kernel.path.tree_number import cells_of_a_tree, enough_trees

X = np.random.default_rng(0).uniform(size=(200, 3))


def test_a_number_is_kept():
    assert enough_trees(17, X, 5.0, None, 0) == 17


def test_few_trees_tell_the_cells_of_one():
    features = MondrianFeatures(5.0, module._PILOT, random_state=0).fit(X)
    assert_allclose(cells_of_a_tree(X, 5.0, draw_seed(0)), features.n_cells_ / module._PILOT)


def test_bounded_by_rows_memory_cells_and_a_most(monkeypatch):
    cells = cells_of_a_tree(X, 5.0, 0)
    assert enough_trees("auto", X, 5.0, None, 0) == module._MOST
    assert enough_trees("auto", X, 5.0, int(300 * cells) + 1, 0) == 300
    monkeypatch.setattr(module, "_PAIRS", 200 * 250)
    assert enough_trees("auto", X, 5.0, None, 0) == 250
    monkeypatch.setattr(module, "_BYTES", 150 * 2 * cells * (16 * 3 + 44) + 1)
    assert enough_trees("auto", X, 5.0, None, 0) == 150
    monkeypatch.setattr(module, "_BYTES", 1)
    assert enough_trees("auto", X, 5.0, None, 0) == module._LEAST


def test_too_few_cells_for_the_trees():
    with pytest.raises(ValueError, match="max_cells=50"):
        enough_trees("auto", X, 5.0, 50, 0)


def test_the_model_has_them(monkeypatch):
    monkeypatch.setattr(module, "_MOST", 120)
    model = MondrianKernelRegressor(2.0, 0.1, random_state=0).fit(X, X[:, 0])
    assert model.features_.n_estimators == 120
    stream = MondrianKernelRegressor(2.0, 0.1, random_state=0).partial_fit(X, X[:, 0])
    assert stream.features_.n_estimators == 100
