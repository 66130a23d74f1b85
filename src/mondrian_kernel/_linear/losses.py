r"""Losses of a linear score, their derivatives, classes, and the conversions of ``alpha``.

Everything here serves one objective,

.. math:: \sum_i s_i \, \ell(y_i, f_i) + \alpha \lVert W \rVert^2, \qquad f_i = b + \phi_i^\top W,

whose intercept b is not penalised. Scores and targets have K columns:

- ``"squared"``: :math:`\sum_k (y_k - f_k)^2`;
- ``"log_loss"``, K = 1: :math:`\log(1 + e^{-yf})` with y in {-1, 1}; K > 1:
  :math:`\log \sum_k e^{f_k} - \sum_k y_k f_k` with y one-hot;
- ``"hinge"``: :math:`\sum_k \max(0, 1 - y_k f_k)` with y in {-1, 1}.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from mondrian_kernel._trees.checks import check_weight_range, refuse_masked
from mondrian_kernel._typing import FloatArray

LOSSES = ("squared", "log_loss", "hinge")


def check_loss(loss: str) -> None:
    """Raise unless ``loss`` is one of the losses."""
    if loss not in LOSSES:
        raise ValueError(f"loss={loss!r} is not one of {', '.join(map(repr, LOSSES))}.")


def encode(labels: NDArray[np.integer], n_classes: int, loss: str) -> FloatArray:
    """Targets Y of class numbers: one column of ±1 for two classes, else a column a class.

    Many classes are one-hot for the softmax of ``"log_loss"``, and ±1 for the other losses.

    Examples
    --------
    >>> import numpy as np
    >>> encode(np.array([0, 1]), 2, "log_loss").ravel()
    array([-1.,  1.])
    >>> encode(np.array([0, 2]), 3, "hinge")
    array([[ 1., -1., -1.],
           [-1., -1.,  1.]])
    """
    check_loss(loss)
    if n_classes == 2:
        return np.where(labels == 1, 1.0, -1.0)[:, None]
    one_hot: FloatArray = (labels[:, None] == np.arange(n_classes)).astype(float)
    return one_hot if loss == "log_loss" else 2.0 * one_hot - 1.0


def value(loss: str, Y: FloatArray, F: FloatArray) -> FloatArray:
    """Loss ℓ(y, f) of each row, shape (N,)."""
    if loss == "squared":
        out = ((Y - F) ** 2).sum(axis=1)
    elif loss == "hinge":
        out = np.maximum(0.0, 1.0 - Y * F).sum(axis=1)
    elif F.shape[1] == 1:
        out = np.logaddexp(0.0, -Y * F)[:, 0]
    else:
        most = F.max(axis=1, keepdims=True)
        out = np.log(np.exp(F - most).sum(axis=1)) + most[:, 0] - (Y * F).sum(axis=1)
    return np.asarray(out)


def slope(loss: str, Y: FloatArray, F: FloatArray) -> FloatArray:
    """Gradient ∂ℓ/∂f of each row, shape (N, K); of the hinge, 0 at the kink."""
    if loss == "squared":
        out = 2.0 * (F - Y)
    elif loss == "hinge":
        out = np.where(Y * F < 1.0, -Y, 0.0)
    elif F.shape[1] == 1:
        out = -Y * expit(-Y * F)
    else:
        out = softmax(F, axis=1) - Y
    return np.asarray(out)


def hessian(loss: str, F: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Product with the Hessian ∂²ℓ/∂f² of each row: a function of U of shape (N, K).

    The Hessian is 2 for the squared loss, p(1-p) for two classes and diag(p) - ppᵀ for many, with
    p the probabilities at F.
    """
    if loss == "squared":
        return lambda U: 2.0 * U
    if loss != "log_loss":
        raise ValueError(f"loss={loss!r} has no second derivative.")
    if F.shape[1] == 1:
        P = expit(F)
        H = P * (1.0 - P)
        return lambda U: H * U
    P = softmax(F, axis=1)

    def product(U: FloatArray) -> FloatArray:
        PU: FloatArray = P * U
        PU -= P * PU.sum(axis=1, keepdims=True)
        return PU

    return product


def intercept_hessian(loss: str, F: FloatArray, s: FloatArray) -> FloatArray:
    """Sum over rows of s_i ∂²ℓ/∂f², the Hessian (K, K) in the intercept; ``s`` is (N, 1)."""
    if loss == "squared":
        return np.asarray(2.0 * s.sum() * np.eye(F.shape[1]))
    if F.shape[1] == 1:
        P = expit(F)
        return np.asarray((s * P * (1.0 - P)).sum(axis=0, keepdims=True))
    P = softmax(F, axis=1)
    return np.asarray(np.diag((s * P).sum(axis=0)) - (s * P).T @ P)


def smoothness(loss: str, n_outputs: int) -> float:
    """Bound on the Hessian of ℓ in f; of the hinge, on its slope.

    A step of 1/(smoothness · ‖φ‖²) does not overshoot the best score of a row.
    """
    if loss == "log_loss":
        return 0.25 if n_outputs == 1 else 0.5
    return 2.0 if loss == "squared" else 1.0


def probabilities(F: FloatArray) -> FloatArray:
    """Class probabilities of the scores of a ``"log_loss"`` learner, (N, 2) or (N, K)."""
    if F.shape[1] == 1:
        return np.hstack([expit(-F), expit(F)])
    return np.asarray(softmax(F, axis=1))


def penalty_per_row(alpha: float, n_rows: int) -> float:
    r"""Return λ = 2 alpha / N, Pegasos' factor of :math:`½\lVert W \rVert^2` for a mean loss."""
    return 2.0 * alpha / n_rows


def dual_bound(alpha: float) -> float:
    r"""Return C = 1 / (2 alpha), liblinear's factor of a sum beside :math:`½\lVert W \rVert^2`."""
    return 0.5 / alpha


def label_array(y: Any) -> Any:
    """Return labels of one type; numbers of pandas and of Python stay whole, also above 2⁵³."""
    refuse_masked(y, "y")
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

    ``classes`` are those given to this call, ``known`` those of earlier calls; one may be None.
    """
    if classes is not None and (known is None or not np.array_equal(classes, known)):
        given = np.unique(label_array(classes))
        check_classification_targets(given)
        if given.size < 2:
            raise ValueError(f"classes={classes!r} are fewer than two: it takes two to classify.")
        if known is not None and not np.array_equal(given, known):
            raise ValueError(
                f"classes={given.tolist()} is not the same as on the last call to partial_fit, or "
                f"as of the fit before it: {known.tolist()}."
            )
        known = given
    if known is None:
        raise ValueError(
            "classes must be passed on the first call to partial_fit: all that will ever come."
        )
    return known, class_numbers(known, y, "given to the first call")


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
