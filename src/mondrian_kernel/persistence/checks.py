"""What must hold in a saved model: dtypes, shapes and bounds, so that no index can go astray."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mondrian_kernel._trees.trees import Cells, Trees
from mondrian_kernel._typing import IntArray
from mondrian_kernel.persistence.container import ModelFileError
from mondrian_kernel.persistence.forms import check_arrays, in_range, positive, require


def check(value: Any) -> None:
    """Refuse an object of this library whose attributes contradict each other."""
    name = type(value).__name__
    sizes: dict[str, int] = {}
    features = getattr(value, "features_", None)
    if name == "LifetimePath":
        features = value.trees
    if features is not None:
        require(type(features).__name__ == "MondrianFeatures", value, "no features")
        trees, cells = features.trees_, features._cells
        sizes |= {"M": trees.n_trees, "n": trees.time.size, "D": trees.n_dims, "C": cells.total}
    check_arrays(value, sizes)
    if name in _CHECKS:
        _CHECKS[name](value)
    if features is not None and getattr(value, "_leaf", None) is not None:
        _check_leaf(value, value._leaf, features.trees_)


def _check_trees(trees: Trees) -> None:
    try:
        trees.check()
    except ValueError as error:
        raise ModelFileError(f"Its Trees is inconsistent. {error}") from error


def _check_cells(cells: Cells) -> None:
    """Every tree has cells, and every node a number that is one or none."""
    require((cells.per_tree >= 1).all(), cells, "a tree without cells")
    require(in_range(cells.column, -1, cells.total - 1), cells, "cells out of range")


def _check_features(features: Any) -> None:
    """Cells are those of the trees at the lifetime, each with a column."""
    trees, cells, lifetime = features.trees_, features._cells, features.lifetime_
    require(type(trees) is Trees and type(cells) is Cells, features, "no trees")
    check_arrays(cells, {"M": trees.n_trees, "n": trees.time.size})
    known = type(lifetime) is float and 0 <= lifetime <= trees.lifetime
    require(known, features, "a lifetime that its trees have not reached")
    whole = np.isinf(trees.time) | (trees.time > lifetime)
    require((cells.column[whole] >= 0).all(), features, "a cell without a column")
    same = features.n_cells_ == cells.total
    same = same and np.array_equal(features.n_cells_per_tree_, cells.per_tree)
    require(same, features, "two numbers of cells")
    require(features.n_features_in_ == trees.n_dims, features, "trees of other dims")


def _check_leaf(value: Any, leaf: IntArray, trees: Trees) -> None:
    """Row i lies in tree m in a leaf of tree m."""
    require(leaf.ndim == 2 and leaf.shape[1] == trees.n_trees, value, "leaves of other trees")
    require(in_range(leaf, 0, trees.time.size - 1), value, "leaves out of range")
    require((trees.left < 0)[leaf].all(), value, "rows in a node that is cut")
    own = (trees.tree[leaf] == np.arange(trees.n_trees)).all()
    require(own, value, "rows in leaves of another tree")


def _check_path(path: Any) -> None:
    require((np.diff(path.lifetimes) >= 0).all(), path, "lifetimes out of order")
    require(in_range(path.lifetimes, 0, path.trees.lifetime_), path, "lifetimes out of range")
    require(np.isfinite(path._y).all(), path, "targets that are not finite")
    require(positive(path.alphas), path, "an impossible alpha")
    require(positive(path._sample_weight), path, "impossible weights")


def _check_model(model: Any) -> None:
    require(positive(model.scale_), model, "an impossible scale")
    require(positive(model.relevance_), model, "an impossible relevance")
    require(type(model.alpha_) is float and model.alpha_ >= 0, model, "an impossible alpha")
    require(model.lifetime_ == model.features_.lifetime_, model, "two lifetimes")
    require(model.n_features_in_ == model.features_.n_features_in_, model, "trees of other dims")
    on_path = type(model.path_).__name__ in ("NoneType", "ForestPath", "LifetimePath", "LossPath")
    require(on_path, model, "an impossible path")


def _check_classifier(model: Any) -> None:
    _check_model(model)
    one = model.classes_.size == 2
    right = model.classes_.ndim == 1
    right = right and model.coef_.shape[0] == (1 if one else model.classes_.size)
    require(right, model, "scores of other classes")


def _check_forest(model: Any) -> None:
    _check_model(model)
    means = model._means
    require(type(means).__name__ == "Means", model, "no means")
    require(means.n_cells == model.features_.n_cells_, model, "means of other cells")
    if hasattr(model, "classes_"):
        right = model.classes_.ndim == 1 and means.n_outputs == model.classes_.size
        require(right, model, "scores of other classes")


def _streams(model: Any) -> bool:
    return type(getattr(model, "_stream", None)).__name__ == "Stream"


def _check_learner(learner: Any) -> None:
    size = learner.P.size if type(learner).__name__ == "Filter" else learner.counts.size
    n_outputs = learner.b.size if type(learner).__name__ == "Filter" else learner.totals.size - 1
    plain = type(learner.n_cells) is int and type(learner.n_outputs) is int
    require(plain and 0 <= learner.n_cells <= size, learner, "cells without numbers")
    require(learner.n_outputs == n_outputs, learner, "other outputs")
    require(type(learner.alpha) is float and learner.alpha >= 0, learner, "an impossible alpha")


def _check_stream(stream: Any) -> None:
    require(type(stream.trees) is Trees, stream, "no trees")
    check_arrays(stream, {"n": stream.trees.time.size, "D": stream.trees.n_dims})
    rising = (np.diff(stream.rungs) > 0).all() and stream.rungs[-1] == stream.trees.lifetime
    require(rising, stream, "rungs that do not rise to its lifetime")
    require(positive(stream.scale), stream, "an impossible scale")
    require(positive(stream.relevance), stream, "an impossible relevance")
    n_learners = len(stream.learners)
    require(1 <= n_learners == stream.error.size <= stream.rungs.size, stream, "no learners")
    for learner, column in zip(stream.learners, stream.column, strict=False):
        same = type(learner) is type(stream.blank) and learner.n_outputs == stream.blank.n_outputs
        require(same, stream, "learners of other kinds")
        require(in_range(column, -1, learner.n_cells - 1), stream, "cells out of range")


def _check_regressor(model: Any) -> None:
    _check_model(model)
    require(positive(model._weight), model, "impossible weights")
    require(in_range(model._signal, 0, np.inf), model, "a negative variance")
    rows = model._leaf is not None
    require(rows == (model._Y is not None) and (rows or _streams(model)), model, "no rows")
    require(not rows or np.isfinite(model._Y).all(), model, "targets that are not finite")
    coef = model._coef[:, 0] if model._one_output else model._coef
    require(np.array_equal(coef, model.coef_, equal_nan=True), model, "two sets of weights")


def _check_mixture(mixture: Any) -> None:
    known = type(mixture.models) is list and len(mixture.models) == mixture.weights.size > 0
    require(known, mixture, "other numbers of models and weights")
    kinds = {type(model).__name__ for model in mixture.models}
    require(kinds == {"MondrianKernelRegressor"}, mixture, "models that are no regressors")
    require(positive(mixture.weights), mixture, "impossible weights")
    require(bool(np.isclose(mixture.weights.sum(), 1.0)), mixture, "weights of another sum")


def _texts(words: Any) -> bool:
    return type(words) is list and all(type(word) is str for word in words)


def _check_columns(columns: Any) -> None:
    n = columns.medians.size
    listed = type(columns.names) is list and type(columns.categories) is list
    require(listed and len(columns.names) == len(columns.categories) == n, columns, "no columns")
    require(_texts(columns.names), columns, "names that are not text")
    known = all(words is None or _texts(words) for words in columns.categories)
    require(known, columns, "categories that are not text")
    require(np.isfinite(columns.medians).all(), columns, "an impossible median")
    require(positive(columns.spreads), columns, "an impossible spread")


def _check_table_model(model: Any) -> None:
    tasks = {
        "regression": "MondrianKernelRegressor",
        "classification": "MondrianKernelClassifier",
    }
    kind = type(model.estimator).__name__
    require(type(model.columns).__name__ == "Columns", model, "no columns")
    require(tasks.get(model.task) == kind, model, "an estimator of another task")
    require(model.estimator.n_features_in_ == len(model.columns.dims), model, "other columns")
    plain = type(model.target) is str and type(model.n_rows) is int
    require(plain and type(model.held_out) is dict, model, "no target, rows or scores")
    require(model.errors is None or in_range(model.errors, 0, np.inf), model, "impossible errors")


_CHECKS: dict[str, Callable[[Any], None]] = {
    "Trees": _check_trees,
    "Cells": _check_cells,
    "Columns": _check_columns,
    "MondrianFeatures": _check_features,
    "LifetimePath": _check_path,
    "Filter": _check_learner,
    "Means": _check_learner,
    "Stream": _check_stream,
    "MondrianForestClassifier": _check_forest,
    "MondrianForestRegressor": _check_forest,
    "MondrianKernelClassifier": _check_classifier,
    "MondrianKernelRegressor": _check_regressor,
    "TableModel": _check_table_model,
    "WidthMixture": _check_mixture,
}
