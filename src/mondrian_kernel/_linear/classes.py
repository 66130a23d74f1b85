"""Classes and their weights, as every classifier takes them."""

from __future__ import annotations

from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from mondrian_kernel._trees.checks import check_weight_range
from mondrian_kernel._typing import FloatArray


def label_array(y: Any) -> Any:
    """Return labels of one type; numbers of pandas and of Python stay whole, also above 2⁵³."""
    dtype = getattr(y, "dtype", None)
    is_plain = isinstance(dtype, np.dtype) and dtype.kind != "O"
    if is_plain or (dtype is None and not isinstance(y, list | tuple)):
        return y
    labels = np.asarray(y, dtype=object)
    kinds = {"number" if isinstance(v, Real) else type(v).__name__ for v in labels.ravel()}
    if len(kinds) > 1:
        raise TypeError(
            f"y has labels of different types, {' and '.join(sorted(kinds))}: make all of them "
            "strings or all of them numbers, and leave out rows without a label."
        )
    as_it_is = not kinds or (dtype is not None and kinds == {"str"})
    return labels if as_it_is else np.array(labels.tolist())


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
    check_weight_range(product, "class_weight times sample_weight")
    return product


def announced_classes(
    classes: Any, known: NDArray[Any] | None, y: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes of a stream and each row's class number.

    ``classes`` are those told on this call, ``known`` those told before; one of them may be None.
    """
    if classes is not None and (known is None or not np.array_equal(classes, known)):
        told = np.unique(label_array(classes))
        check_classification_targets(told)
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
    return known, class_numbers(known, y, "told on the first call")


def class_numbers(classes: NDArray[Any], y: NDArray[Any], which: str) -> NDArray[np.intp]:
    """Return the number of each row's class; ``which`` says where the classes come from."""
    if classes.dtype.kind != y.dtype.kind:
        classes, y = classes.astype(object), y.astype(object)  # numpy would compare them as floats
    labels, known = np.zeros(y.size, np.intp), np.zeros(y.size, np.bool_)
    with suppress(TypeError):  # strings are not among numbers
        labels = np.minimum(classes.searchsorted(y), classes.size - 1)
        known = classes[labels] == y
    if not known.all():
        check_classification_targets(y)
        new = list(dict.fromkeys(y[~known].tolist()))
        raise ValueError(
            f"y has the classes {new}, which are not among those {which}: {classes.tolist()}."
        )
    return labels


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
