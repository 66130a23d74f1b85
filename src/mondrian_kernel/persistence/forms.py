"""The arrays of every class that is saved: dtypes, shapes, and how a wrong one is refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from mondrian_kernel.persistence.container import ModelFileError

# Attribute: dtype, then a letter an axis: M trees, n nodes, C cells, D dims, N rows, T outputs,
# L lifetimes, A alphas, K columns of a table, E errors. A letter is one length within an object. A
# question mark allows None.
ARRAYS = {
    "Trees": {},  # they check themselves
    "Cells": {"column": "i4 n", "per_tree": "i8 M"},
    "Columns": {"medians": "f8 K", "gaps": "b1 K", "spreads": "f8 K"},
    "MondrianFeatures": {"n_cells_per_tree_": "i8 M"},
    "LifetimePath": {
        "lifetimes": "f8 L", "n_cells": "i8 L", "alphas": "f8 A", "train_error": "f8 L A",
        "loo_error": "f8 L A", "loo_error_std": "f8 L A", "validation_error": "f8? L A",
        "log_marginal_likelihood": "f8 L A",
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
        "relevance": "f8 D",
    },
    "MondrianForestClassifier": {"scale_": "f8 D", "relevance_": "f8 D"},
    "MondrianForestRegressor": {"scale_": "f8 D", "relevance_": "f8 D"},
    "MondrianKernelClassifier": {
        "scale_": "f8 D", "relevance_": "f8 D", "coef_": "f8 T C", "intercept_": "f8 T",
    },
    "MondrianKernelRegressor": {
        "scale_": "f8 D", "relevance_": "f8 D",
        "_leaf": "i4? N M", "_Y": "f8? N T", "_weight": "f8? N",
        "_coef": "f8 C T", "_intercept": "f8 T", "_signal": "f8 T",
    },
    "TableModel": {"errors": "f8? E"},
    "WidthMixture": {"weights": "f8 K"},
}  # fmt: skip


def check_arrays(value: Any, sizes: dict[str, int]) -> None:
    """Refuse an object whose arrays are not of their forms; ``sizes`` gives letters a length."""
    for attribute, form in ARRAYS.get(type(value).__name__, {}).items():
        dtype, *axes = form.split()
        array = getattr(value, attribute)
        if array is None and dtype.endswith("?"):
            continue
        dtype = dtype.rstrip("?")
        right = isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == len(axes)
        require(right, value, f"an attribute {attribute} that is no {dtype} array of its shape")
        for axis, length in zip(axes, array.shape, strict=True):
            agrees = sizes.setdefault(axis, length) == length
            require(agrees, value, f"a {attribute} of length {length} where {sizes[axis]} is due")


def in_range(array: Any, low: float, high: float) -> bool:
    """Whether all entries lie in [low, high]; NaN does not."""
    return bool(((array >= low) & (array <= high)).all())


def positive(array: Any) -> bool:
    """Whether all entries are greater than 0; None, for no array, is."""
    return array is None or bool((array > 0).all())


def require(condition: Any, value: Any, problem: str) -> None:
    """Refuse an object unless a condition holds; ``problem`` is what it has otherwise."""
    if not condition:
        raise ModelFileError(f"Its {type(value).__name__} is inconsistent: {problem}.")
