"""What must hold in a saved model: dtypes, shapes and bounds, so that no index can go astray."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mondrian_kernel.partition.trees import Cells, IntArray, Trees
from mondrian_kernel.persistence.container import ModelFileError

# Attribute: dtype, then a letter an axis: M trees, n nodes, C cells, D dims, N rows, T outputs,
# L lifetimes, A alphas, K columns of a table, E errors. A letter is one length within an object. A
# question mark allows None.
_ARRAYS = {
    "Trees": {
        "root": "i4 M", "tree": "i4 n", "parent": "i4 n", "left": "i4 n", "right": "i4 n",
        "dim": "i4 n", "loc": "f8 n", "time": "f8 n", "lower": "f8 n D", "upper": "f8 n D",
        "count": "i4 n",
    },
    "Cells": {"column": "i4 n", "per_tree": "i8 M"},
    "Columns": {"medians": "f8 K", "gaps": "b1 K", "spreads": "f8 K"},
    "MondrianFeatures": {"n_cells_per_tree_": "i8 M"},
    "LifetimePath": {
        "lifetimes": "f8 L", "n_cells": "i8 L", "alphas": "f8 A", "train_error": "f8 L A",
        "loo_error": "f8 L A", "validation_error": "f8? L A", "log_marginal_likelihood": "f8 L A",
        "log_marginal_likelihood_paper": "f8 L A", "log_marginal_likelihood_std": "f8 L A",
        "_leaf": "i4 N M", "_y": "f8 N T", "_sample_weight": "f8? N", "_offset": "f8 T",
    },
    "LossPath": {
        "lifetimes": "f8 L", "n_cells": "i8 L", "alphas": "f8 A", "train_loss": "f8 L A",
        "validation_loss": "f8 L A",
    },
    "ForestPath": {
        "lifetimes": "f8 L", "n_cells": "i8 L", "alphas": "f8 A", "loo_error": "f8 L A",
    },
    "Filter": {
        "W": "f8 W T", "P": "f8 W", "b": "f8 T", "b_variance": "f8 1", "recent": "f8 R T",
        "n_rows": "i8 1",
    },
    "Means": {"sums": "f8 W S", "counts": "f8 W", "totals": "f8 S"},
    "Stream": {
        "column": "i4 R n", "stop": "f8 n", "rungs": "f8 R", "error": "f8 E", "scale": "f8 D",
    },
    "MondrianForestClassifier": {"scale_": "f8 D"},
    "MondrianForestRegressor": {"scale_": "f8 D"},
    "MondrianKernelClassifier": {"scale_": "f8 D", "coef_": "f8 T C", "intercept_": "f8 T"},
    "MondrianKernelRegressor": {
        "scale_": "f8 D", "_leaf": "i4? N M", "_Y": "f8? N T", "_weight": "f8? N",
        "_coef": "f8 C T", "_intercept": "f8 T", "_signal": "f8 T",
    },
    "TableModel": {"errors": "f8? E"},
    "WidthMixture": {"weights": "f8 K"},
}  # fmt: skip


def check(value: Any) -> None:
    """Refuse an object of this library whose attributes contradict each other."""
    name = type(value).__name__
    sizes: dict[str, int] = {}
    features = getattr(value, "features_", None)
    if name == "LifetimePath":
        features = value.trees
    if features is not None:
        _require(type(features).__name__ == "MondrianFeatures", value, "no features")
        trees, cells = features.trees_, features._cells
        sizes |= {"M": trees.n_trees, "n": trees.time.size, "D": trees.n_dims, "C": cells.total}
    _check_arrays(value, _ARRAYS.get(name, {}), sizes)
    if name in _CHECKS:
        _CHECKS[name](value)
    if features is not None and getattr(value, "_leaf", None) is not None:
        _check_leaf(value, value._leaf, features.trees_)


def _check_arrays(value: Any, arrays: dict[str, str], sizes: dict[str, int]) -> None:
    for attribute, form in arrays.items():
        dtype, *axes = form.split()
        array = getattr(value, attribute)
        if array is None and dtype.endswith("?"):
            continue
        dtype = dtype.rstrip("?")
        right = isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == len(axes)
        _require(right, value, f"an attribute {attribute} that is no {dtype} array of its shape")
        for axis, length in zip(axes, array.shape, strict=True):
            agrees = sizes.setdefault(axis, length) == length
            _require(agrees, value, f"a {attribute} of length {length} where {sizes[axis]} is due")


def _check_trees(trees: Trees) -> None:
    """Every node hangs once below the root of its own tree, and cuts follow each other in time."""
    n, inner = trees.time.size, trees.left >= 0
    _require(_in_range(trees.root, 0, n - 1), trees, "roots out of range")
    cut = np.flatnonzero(inner)
    left, right = trees.left[cut], trees.right[cut]
    both = np.concatenate([left, right])
    _require(_in_range(both, 0, n - 1), trees, "children out of range")
    _require((trees.right[~inner] < 0).all(), trees, "a node with one child")
    _require((trees.parent[trees.root] == -1).all(), trees, "a root with a parent")
    above = np.concatenate([cut, cut])
    hangs = (trees.parent[both] == above).all() and (left != right).all()
    _require(hangs and n == trees.n_trees + both.size, trees, "children of other parents")
    _require(np.array_equal(trees.tree[trees.root], np.arange(trees.n_trees)), trees, "mixed trees")
    _require((trees.tree[both] == trees.tree[above]).all(), trees, "mixed trees")
    _require(_n_reached(trees) == n, trees, "nodes that no root leads to")

    _require(
        trees.n_dims > 0 and _in_range(trees.dim[cut], 0, trees.n_dims - 1),
        trees,
        "a cut along no dim",
    )
    _require(np.isfinite(trees.loc[cut]).all(), trees, "a cut at no place")
    known = type(trees.lifetime) is float and _in_range(trees.time[cut], 0, trees.lifetime)
    _require(known and np.isfinite(trees.time[cut]).all(), trees, "a cut out of time")
    _require(np.isposinf(trees.time[~inner]).all(), trees, "a leaf that is cut")
    _require((trees.time[both] >= trees.time[above]).all(), trees, "cuts out of order")
    boxes = np.isfinite(trees.lower) & np.isfinite(trees.upper) & (trees.lower <= trees.upper)
    _require(boxes.all(), trees, "an impossible box")
    held = trees.lower[both] >= trees.lower[above], trees.upper[both] <= trees.upper[above]
    _require(held[0].all() and held[1].all(), trees, "a box outside its parent's")
    counts = trees.count.astype(np.int64)
    adds_up = (
        (counts >= 0).all()
        and (counts[trees.root] >= 1).all()
        and (counts[cut] == counts[left] + counts[right]).all()
    )
    _require(adds_up, trees, "counts that do not add up")


def _n_reached(trees: Trees) -> int:
    """Nodes below the roots; each is met once, as it has one parent."""
    front, n = trees.root, 0
    while front.size:
        n += front.size
        front = front[trees.left[front] >= 0]
        front = np.concatenate([trees.left[front], trees.right[front]])
    return n


def _check_cells(cells: Cells) -> None:
    _require((cells.per_tree >= 1).all(), cells, "a tree without cells")
    _require(_in_range(cells.column, -1, cells.total - 1), cells, "cells out of range")


def _check_features(features: Any) -> None:
    trees, cells, lifetime = features.trees_, features._cells, features.lifetime_
    _require(type(trees) is Trees and type(cells) is Cells, features, "no trees")
    _check_arrays(cells, _ARRAYS["Cells"], {"M": trees.n_trees, "n": trees.time.size})
    known = type(lifetime) is float and 0 <= lifetime <= trees.lifetime
    _require(known, features, "a lifetime that its trees have not reached")
    whole = np.isinf(trees.time) | (trees.time > lifetime)
    _require((cells.column[whole] >= 0).all(), features, "a cell without a column")
    same = features.n_cells_ == cells.total
    same = same and np.array_equal(features.n_cells_per_tree_, cells.per_tree)
    _require(same, features, "two numbers of cells")
    _require(features.n_features_in_ == trees.n_dims, features, "trees of other dims")


def _check_leaf(value: Any, leaf: IntArray, trees: Trees) -> None:
    """Row i lies in tree m in a leaf of tree m."""
    _require(leaf.ndim == 2 and leaf.shape[1] == trees.n_trees, value, "leaves of other trees")
    _require(_in_range(leaf, 0, trees.time.size - 1), value, "leaves out of range")
    _require((trees.left < 0)[leaf].all(), value, "rows in a node that is cut")
    own = (trees.tree[leaf] == np.arange(trees.n_trees)).all()
    _require(own, value, "rows in leaves of another tree")


def _check_path(path: Any) -> None:
    _require((np.diff(path.lifetimes) >= 0).all(), path, "lifetimes out of order")
    _require(_in_range(path.lifetimes, 0, path.trees.lifetime_), path, "lifetimes out of range")
    _require(np.isfinite(path._y).all(), path, "targets that are not finite")
    _require(_positive(path.alphas), path, "an impossible alpha")
    _require(_positive(path._sample_weight), path, "impossible weights")


def _check_model(model: Any) -> None:
    _require(_positive(model.scale_), model, "an impossible scale")
    _require(type(model.alpha_) is float and model.alpha_ >= 0, model, "an impossible alpha")
    _require(model.lifetime_ == model.features_.lifetime_, model, "two lifetimes")
    _require(model.n_features_in_ == model.features_.n_features_in_, model, "trees of other dims")
    on_path = type(model.path_).__name__ in ("NoneType", "ForestPath", "LifetimePath", "LossPath")
    _require(on_path, model, "an impossible path")


def _check_classifier(model: Any) -> None:
    _check_model(model)
    one = model.classes_.size == 2
    right = model.classes_.ndim == 1
    right = right and model.coef_.shape[0] == (1 if one else model.classes_.size)
    _require(right, model, "scores of other classes")


def _check_forest(model: Any) -> None:
    _check_model(model)
    means = model._means
    _require(type(means).__name__ == "Means", model, "no means")
    _require(means.n_cells == model.features_.n_cells_, model, "means of other cells")
    if hasattr(model, "classes_"):
        right = model.classes_.ndim == 1 and means.n_outputs == model.classes_.size
        _require(right, model, "scores of other classes")


def _streams(model: Any) -> bool:
    return type(getattr(model, "_stream", None)).__name__ == "Stream"


def _check_learner(learner: Any) -> None:
    size = learner.P.size if type(learner).__name__ == "Filter" else learner.counts.size
    n_outputs = learner.b.size if type(learner).__name__ == "Filter" else learner.totals.size - 1
    plain = type(learner.n_cells) is int and type(learner.n_outputs) is int
    _require(plain and 0 <= learner.n_cells <= size, learner, "cells without numbers")
    _require(learner.n_outputs == n_outputs, learner, "other outputs")
    _require(type(learner.alpha) is float and learner.alpha >= 0, learner, "an impossible alpha")


def _check_stream(stream: Any) -> None:
    _require(type(stream.trees) is Trees, stream, "no trees")
    _check_arrays(
        stream, _ARRAYS["Stream"], {"n": stream.trees.time.size, "D": stream.trees.n_dims}
    )
    rising = (np.diff(stream.rungs) > 0).all() and stream.rungs[-1] == stream.trees.lifetime
    _require(rising, stream, "rungs that do not rise to its lifetime")
    _require(_positive(stream.scale), stream, "an impossible scale")
    n_learners = len(stream.learners)
    _require(1 <= n_learners == stream.error.size <= stream.rungs.size, stream, "no learners")
    for learner, column in zip(stream.learners, stream.column, strict=False):
        same = type(learner) is type(stream.blank) and learner.n_outputs == stream.blank.n_outputs
        _require(same, stream, "learners of other kinds")
        _require(_in_range(column, -1, learner.n_cells - 1), stream, "cells out of range")


def _check_regressor(model: Any) -> None:
    _check_model(model)
    _require(_positive(model._weight), model, "impossible weights")
    _require(_in_range(model._signal, 0, np.inf), model, "a negative variance")
    rows = model._leaf is not None
    _require(rows == (model._Y is not None) and (rows or _streams(model)), model, "no rows")
    _require(not rows or np.isfinite(model._Y).all(), model, "targets that are not finite")
    coef = model._coef[:, 0] if model._one_output else model._coef
    _require(np.array_equal(coef, model.coef_, equal_nan=True), model, "two sets of weights")


def _check_mixture(mixture: Any) -> None:
    known = type(mixture.models) is list and len(mixture.models) == mixture.weights.size > 0
    _require(known, mixture, "other numbers of models and weights")
    kinds = {type(model).__name__ for model in mixture.models}
    _require(kinds == {"MondrianKernelRegressor"}, mixture, "models that are no regressors")
    _require(_positive(mixture.weights), mixture, "impossible weights")
    _require(bool(np.isclose(mixture.weights.sum(), 1.0)), mixture, "weights of another sum")


def _check_columns(columns: Any) -> None:
    n = columns.medians.size
    listed = type(columns.names) is list and type(columns.categories) is list
    _require(listed and len(columns.names) == len(columns.categories) == n, columns, "no columns")
    _require(_texts(columns.names), columns, "names that are not text")
    known = all(words is None or _texts(words) for words in columns.categories)
    _require(known, columns, "categories that are not text")
    _require(np.isfinite(columns.medians).all(), columns, "an impossible median")
    _require(_positive(columns.spreads), columns, "an impossible spread")


def _check_table_model(model: Any) -> None:
    tasks = {
        "regression": "MondrianKernelRegressor",
        "classification": "MondrianKernelClassifier",
    }
    kind = type(model.estimator).__name__
    _require(type(model.columns).__name__ == "Columns", model, "no columns")
    _require(tasks.get(model.task) == kind, model, "an estimator of another task")
    _require(model.estimator.n_features_in_ == len(model.columns.dims), model, "other columns")
    plain = type(model.target) is str and type(model.n_rows) is int
    _require(plain and type(model.held_out) is dict, model, "no target, rows or scores")
    _require(model.errors is None or _in_range(model.errors, 0, np.inf), model, "impossible errors")


def _texts(words: Any) -> bool:
    return type(words) is list and all(type(word) is str for word in words)


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


def _in_range(array: Any, low: float, high: float) -> bool:
    """Whether all entries lie in [low, high]; NaN does not."""
    return bool(((array >= low) & (array <= high)).all())


def _positive(array: Any) -> bool:
    """Whether all entries are greater than 0; None, for no array, is."""
    return array is None or bool((array > 0).all())


def _require(condition: Any, value: Any, problem: str) -> None:
    if not condition:
        raise ModelFileError(f"Its {type(value).__name__} is inconsistent: {problem}.")
