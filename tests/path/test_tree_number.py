"""How many trees a model has by default."""

import numpy as np
import pytest

from mondrian_kernel import MondrianFeatures, MondrianKernelRegressor
from mondrian_kernel import _settings as settings
from mondrian_kernel._path import choose as module
from mondrian_kernel._path.choose import cells_of_trees, enough_trees
from mondrian_kernel._trees.checks import draw_seed

X = np.random.default_rng(0).uniform(size=(200, 3))


def few_cells(n_trees):
    return 7 * n_trees


def test_a_number_is_kept():
    assert enough_trees(17, X.shape, None, few_cells) == 17


def test_few_trees_have_the_cells_of_features():
    features = MondrianFeatures(5.0, 10, random_state=0).fit(X)
    assert cells_of_trees(X, 5.0, draw_seed(0), 10) == features.n_cells_


def test_bounded_by_rows_memory_cells_and_a_most(monkeypatch):
    assert enough_trees("auto", X.shape, None, few_cells) == module.settings.TREES_MOST
    assert enough_trees("auto", X.shape, 300 * 7, few_cells) == 300
    of_classes = enough_trees("auto", X.shape, None, few_cells, n_classes=2)
    assert of_classes == module.settings.TREES_MOST_OF_CLASSES
    many = module.settings.PAIRS_MOST_OF_CLASSES // (200 * 5), X.shape[1]
    assert enough_trees("auto", many, None, few_cells, n_classes=5) == 200
    monkeypatch.setattr(settings, "PAIRS_MOST", 200 * 250)
    assert enough_trees("auto", X.shape, None, few_cells) == 250
    monkeypatch.setattr(settings, "MODEL_BYTES", 150 * 2 * 7 * (16 * 3 + 44))
    assert enough_trees("auto", X.shape, None, few_cells) == 150
    monkeypatch.setattr(settings, "MODEL_BYTES", 1)
    assert enough_trees("auto", X.shape, None, few_cells) == module.settings.TREES_LEAST


def test_too_few_cells_for_the_trees():
    with pytest.raises(ValueError, match="max_cells=50"):
        enough_trees("auto", X.shape, 50, few_cells)


def test_the_model_has_them(monkeypatch):
    monkeypatch.setattr(settings, "TREES_MOST", 120)
    model = MondrianKernelRegressor(2.0, 0.1, random_state=0).fit(X, X[:, 0])
    assert model.features_.n_estimators == 120
    stream = MondrianKernelRegressor(2.0, 0.1, random_state=0).partial_fit(X, X[:, 0])
    assert stream.features_.n_estimators == 100
