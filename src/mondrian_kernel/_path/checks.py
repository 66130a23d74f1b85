"""Arguments of a path, checked before any work is done."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from typing import Any, ParamSpec

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import _check_sample_weight

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.losses import LOSSES, check_classes, class_numbers, encode, label_array
from mondrian_kernel._path.result import CRITERIA, LifetimePath
from mondrian_kernel._trees.checks import (
    check_magnitudes,
    check_rows,
    check_weight_range,
    naming,
    no_overflow,
    refuse_dates,
    refuse_masked,
)
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import MondrianFeatures
from mondrian_kernel.on_disk import is_on_disk, taken

P = ParamSpec("P")
ClassRows = tuple[FloatArray, NDArray[np.intp]]


def default_alphas() -> FloatArray:
    """Penalties of a model, increasing."""
    return np.logspace(*settings.MODEL_ALPHAS)


def check_alphas(alphas: ArrayLike | None) -> FloatArray:
    """Positive penalties, increasing; the default ones for None."""
    if alphas is None:
        return default_alphas()[settings.PATH_ALPHAS_LEFT_OUT :]
    out = _numbers(np.atleast_1d(alphas), "alphas")
    if out.size == 0 or out.min() <= 0 or out.max() > settings.LARGEST_NUMBER:
        raise ValueError(
            "alphas must be positive numbers, at least one and at most "
            f"{settings.LARGEST_NUMBER:g}, got {alphas!r}."
        )
    return out


def _numbers(values: ArrayLike, name: str) -> FloatArray:
    with naming(name):
        out: FloatArray = check_array(
            values, ensure_2d=False, ensure_min_samples=0, dtype=np.float64, input_name=name
        )
    return np.unique(out)


def check_lifetimes(lifetimes: ArrayLike) -> FloatArray:
    """Lifetimes that are not negative, increasing."""
    out = _numbers(lifetimes, "lifetimes")
    if out.size == 0 or out.min() < 0:
        raise ValueError(f"lifetimes must be at least one and not negative, got {lifetimes!r}.")
    return out


_OPTIONS: dict[str, list[Any]] = {
    "features": [MondrianFeatures, None],
    "loss": [StrOptions(set(LOSSES))],
    "criterion": [StrOptions(set(CRITERIA))],
    "solver": [StrOptions({"auto", "dense", "lanczos"})],
    "validation": [tuple, None],
    "max_lifetime": [Interval(Real, 0, np.inf, closed="right"), None],
    "n_lifetimes": [Interval(Integral, 1, None, closed="left")],
    "passes": [Interval(Integral, 1, None, closed="left")],
    "alpha": [Interval(Real, 0, None, closed="neither")],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "fit_intercept": ["boolean"],
    "callback": [callable, None],
}
"""What arguments of paths may be; arrays are checked as they are read."""


def checked_options(path: Callable[P, LifetimePath]) -> Callable[P, LifetimePath]:
    """Let a path refuse impossible arguments before it does any work."""

    @wraps(path)
    def checked(*args: P.args, **kwargs: P.kwargs) -> LifetimePath:
        given = signature(path).bind(*args, **kwargs)
        given.apply_defaults()
        options = {name: value for name, value in given.arguments.items() if name in _OPTIONS}
        validate_parameter_constraints(_OPTIONS, options, path.__name__)
        validation = options["validation"]
        if options.get("criterion") == "holdout" and validation is None:
            raise ValueError("criterion='holdout' needs rows to hold out: pass validation=(X, y).")
        if validation is not None and len(validation) != 2:
            raise ValueError("validation must be a pair (X, y).")
        return path(*args, **kwargs)

    return checked


def check_targets(y: ArrayLike, rows: FloatArray) -> FloatArray:
    """Targets as a float64 matrix (N, T)."""
    first = np.asarray(y).ravel()[:1].tolist()
    if first and isinstance(first[0], str | bytes):
        raise ValueError(
            f"loss='squared' takes numbers, but y holds classes such as {first[0]!r}. Choose "
            "loss='log_loss' or 'hinge'."
        )
    refuse_dates(y, "y")
    with no_overflow("y"):
        Y: FloatArray = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    check_consistent_length(rows, Y)
    Y = Y[:, None] if Y.ndim == 1 else Y
    check_magnitudes(Y, "y", least=1.0 / settings.LARGEST_NUMBER)
    return Y


def check_weights(sample_weight: ArrayLike | None, rows: FloatArray) -> FloatArray | None:
    """Sample weights that are not negative, or None."""
    if sample_weight is None:
        return None
    refuse_masked(sample_weight, "sample_weight")
    with no_overflow("sample_weight"):
        weight: FloatArray = _check_sample_weight(
            sample_weight, rows, dtype=np.float64, ensure_non_negative=True
        )
    if not weight.any():
        raise ValueError("sample_weight is zero for every row: nothing is left to fit.")
    check_weight_range(weight[weight > 0], "sample_weight")
    return weight


def with_weight(
    rows: FloatArray, Y: FloatArray, weight: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return the rows whose weight is not zero."""
    if weight is None or weight.all():
        return rows, Y, weight
    used = weight > 0
    return taken(rows, used), Y[used], weight[used]


def join_equal(
    rows: FloatArray, targets: NDArray[Any], sample_weight: FloatArray | None
) -> tuple[NDArray[np.intp], FloatArray]:
    """Find rows that differ in themselves or in their targets, in a fixed order.

    Returns one row of each set of equal ones, and the sum of their weights. A row of weight 2 is as
    good as two equal ones then, and equal rows are left out together.
    """
    s = np.ones(rows.shape[0]) if sample_weight is None else sample_weight
    order = np.lexsort([*targets.T, *rows.T])
    changes = [(part[order[1:]] != part[order[:-1]]).any(axis=1) for part in (rows, targets)]
    begin = np.flatnonzero(np.append(True, changes[0] | changes[1]))
    return order[begin], np.add.reduceat(s[order], begin)


def fixed_order(
    rows: FloatArray, Y: NDArray[Any], weight: FloatArray | None
) -> tuple[NDArray[np.intp] | slice, FloatArray | None]:
    """Join equal rows and sort them, where they are few or have weights: their numbers and weights.

    What is drawn at random then depends neither on the order of the rows nor on whether a row of
    weight 2 came as two rows. Many rows on disk stay as they are: sorted, they would have to be in
    memory.
    """
    if rows.shape[0] > settings.JOINED_ROWS and (weight is None or is_on_disk(rows)):
        return slice(None), weight
    return join_equal(rows, Y, weight)


def join_copies(
    rows: FloatArray, Y: FloatArray, weight: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Join rows that agree in X and y into one of their summed weight, in order of appearance.

    Repeated rows and weights are then the same thing in all that follows, and copies of a row do
    not stay when it is left out.
    """
    kept, weight = distinct_rows(rows, Y, weight)
    return (rows, Y, weight) if kept.size == rows.shape[0] else (rows[kept], Y[kept], weight)


def distinct_rows(
    rows: FloatArray, Y: FloatArray, weight: FloatArray | None
) -> tuple[NDArray[np.intp], FloatArray | None]:
    """Return the rows that :func:`join_copies` returns by their numbers, and their weights."""
    first, total = join_equal(rows, Y, weight)
    if first.size == rows.shape[0]:
        return np.arange(first.size), weight
    place = np.argsort(first)
    return first[place], total[place]


def used_rows(sample_weight: ArrayLike | None, n_rows: int) -> NDArray[np.intp]:
    """Return the numbers of the ``n_rows`` rows whose weight is not zero."""
    weight = None if sample_weight is None else np.asarray(sample_weight)
    return np.arange(n_rows) if weight is None or weight.ndim == 0 else np.flatnonzero(weight)


def class_labels(
    y: ArrayLike, rows: FloatArray, classes: NDArray[Any] | None = None
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the numbers of the classes of rows, and the classes; where not given those of y."""
    labels = column_or_1d(label_array(y))
    check_consistent_length(rows, labels)
    assert_all_finite(labels, input_name="y")
    if classes is None:
        classes, numbers = check_classes(labels)
        return numbers, classes
    return class_numbers(classes, labels, "of the rows that are fitted"), classes


def features_checker(n_estimators: int, random_state: Any, n_jobs: int | None) -> MondrianFeatures:
    """Return features that check the rows of a path and know their columns."""
    checker = MondrianFeatures(n_estimators=n_estimators, random_state=random_state, n_jobs=n_jobs)
    checker._validate_params()
    return checker


def held_out_rows(
    checker: MondrianFeatures,
    validation: tuple[ArrayLike, ArrayLike] | None,
    n_outputs: int,
    read: Callable[[ArrayLike, FloatArray], FloatArray] = check_targets,
) -> tuple[FloatArray, FloatArray] | None:
    """Return valid rows held out and their targets (n, n_outputs), which ``read`` makes of y."""
    if validation is None:
        return None
    with naming("validation"):
        rows = check_rows(checker, validation[0])
        Y = read(validation[1], rows)
    if Y.shape[1] != n_outputs:
        raise ValueError("validation y has another number of outputs than y.")
    return rows, Y


def loss_targets(
    loss: str, y: ArrayLike, rows: FloatArray, classes: NDArray[Any] | None = None
) -> tuple[FloatArray, NDArray[Any] | None]:
    """Return targets (N, K) and the classes, those of y unless given; numbers have none."""
    if loss == "squared":
        return check_targets(y, rows), None
    labels, classes = class_labels(y, rows, classes)
    return encode(labels, classes.size, loss), classes


def class_rows(
    X: ArrayLike,
    y: ArrayLike,
    validation: tuple[ArrayLike, ArrayLike] | None,
    sample_weight: ArrayLike | None,
    checker: MondrianFeatures,
) -> tuple[FloatArray, NDArray[np.intp], int, FloatArray | None, ClassRows | None]:
    """Return rows, class numbers, the number of classes, weights, and what is held out."""
    rows = check_rows(checker, X, reset=True)
    check_magnitudes(rows, "X", least=1.0 / settings.LARGEST_NUMBER)
    labels, classes = class_labels(y, rows)
    weight = check_weights(sample_weight, rows)
    if weight is not None and not weight.all():
        raise ValueError("sample_weight is zero for some rows: leave these rows out.")
    held_out = None
    if validation is not None:
        with naming("validation"):
            others = check_rows(checker, validation[0])
            held_out = others, class_labels(validation[1], others, classes)[0]
    return rows, labels, classes.size, weight, held_out
