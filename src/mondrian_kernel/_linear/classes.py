"""Classes and their weights, as every classifier takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from mondrian_kernel._typing import FloatArray


def check_classes(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes, at least two, and each row's class number."""
    check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    if classes.size < 2:
        only = classes.tolist()[0]
        raise ValueError(f"All rows are of one class, {only!r}: it takes two to classify.")
    return classes, labels.reshape(-1)


def weigh_classes(
    class_weight: dict[Any, float] | str | None,
    classes: NDArray[Any],
    labels: NDArray[np.intp],
    weight: FloatArray | None,
) -> FloatArray | None:
    """Multiply the weights by those of the classes; "balanced" goes by the sum of weights."""
    if class_weight is None:
        return weight
    s = np.ones(labels.size) if weight is None else weight
    if isinstance(class_weight, dict):
        factor = compute_class_weight(class_weight, classes=classes, y=classes[labels])
        if not (np.isfinite(factor) & (factor > 0)).all():
            raise ValueError(f"class_weight must be positive and finite, got {class_weight!r}.")
    else:
        factor = s.sum() / (classes.size * np.bincount(labels, weights=s))
    product: FloatArray = s * factor[labels]
    return product


def announced_classes(
    classes: Any, known: NDArray[Any] | None, y: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes of a stream and each row's class number.

    Parameters
    ----------
    classes : array-like or None
        All classes that will ever come, as told on the first call.
    known : ndarray or None
        The classes told before; None on the first call.
    y : ndarray of shape (n,)
        Classes of rows.
    """
    if classes is not None and (known is None or not np.array_equal(classes, known)):
        told = np.unique(np.asarray(classes))
        if told.size < 2:
            raise ValueError(f"classes={classes!r} are fewer than two: it takes two to classify.")
        if known is not None and not np.array_equal(told, known):
            raise ValueError(
                f"classes={told.tolist()} is not the same as on the last call to partial_fit, or "
                f"as of the fit before it: {known.tolist()}."
            )
        known = told
    if known is None:
        raise ValueError(
            "classes must be passed on the first call to partial_fit: all that will ever come."
        )
    labels = np.minimum(known.searchsorted(y), known.size - 1)
    if not (known[labels] == y).all():
        check_classification_targets(y)
        unknown = np.setdiff1d(y, known)
        raise ValueError(
            f"y has the classes {unknown.tolist()} that are not among those told on the first "
            f"call, {known.tolist()}."
        )
    return known, labels


def stream_class_weight(
    class_weight: dict[Any, float] | str | None,
    classes: NDArray[Any],
    labels: NDArray[np.intp],
    weight: FloatArray | None,
) -> FloatArray | None:
    """Multiply the weights by those of the classes, which a stream cannot balance."""
    if isinstance(class_weight, str):
        raise ValueError(
            f"class_weight={class_weight!r} cannot be had from partial_fit, which does not know "
            "how many rows of each class are to come. Pass a dict of weights instead."
        )
    return weigh_classes(class_weight, classes, labels, weight)
