"""How a model of scikit-learn begins a stream, continues a fit with one, and shows what it is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from mondrian_kernel._online.filter import Filter
from mondrian_kernel._online.means import Means
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._path.checks import with_weight
from mondrian_kernel._trees.checks import check_budget, draw_seed
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import MondrianFeatures

# Trees of a stream, where their number is not given: a row takes time in proportion.
_TREES = 100


def check_new(model: Any, X: ArrayLike) -> FloatArray:
    """Validate rows to predict with a model, which must be fitted.

    What is plain already is only looked at for its values: scikit-learn's own checks, which find
    out what else it could be, take longer than a prediction of one row.
    """
    if "features_" not in model.__dict__:
        check_is_fitted(model)
    if _is_plain(model, X):
        return X  # type: ignore[return-value]
    rows: FloatArray = validate_data(model, X, reset=False, dtype=np.float64, order="C")
    return rows


def check_stream(
    model: Any, X: ArrayLike, y: ArrayLike, *, first: bool, **options: Any
) -> tuple[FloatArray, NDArray[Any]]:
    """Validate rows and targets to learn from, as :func:`check_new` does; at first parameters too.

    This is what scikit-learn's decorator of ``partial_fit`` does, which takes as long as a row.
    """
    if first:
        model._validate_params()
    if isinstance(X, list) and isinstance(y, list):
        X, y = np.array(X), np.array(y)
    if not first and _is_plain(model, X):
        t = np.asarray(y)
        if t.shape == X.shape[:1] and t.dtype.kind in "fiu" and np.isfinite(t).all():  # type: ignore[union-attr]
            return X, t  # type: ignore[return-value]
    rows, targets = validate_data(model, X, y, reset=first, dtype=np.float64, order="C", **options)
    return rows, targets


def _is_plain(model: Any, X: Any) -> bool:
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.flags.c_contiguous
        and X.shape[0] > 0
        and X.shape[1] == model.n_features_in_
        and "feature_names_in_" not in model.__dict__
        and bool(np.isfinite(X).all())
    )


def stream_rows(
    rows: FloatArray, Y: FloatArray, weight: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the rows whose weight is not zero, with their weights."""
    rows, Y, weight = with_weight(rows, Y, weight)
    if weight is None:
        weight = np.empty(rows.shape[0])
        weight.fill(1.0)
    return rows, np.ascontiguousarray(Y), weight


def stream_trees(model: Any) -> int:
    """Return the number of trees of a model that begins with a stream."""
    n_trees: int = _TREES if isinstance(model.n_estimators, str) else model.n_estimators
    check_budget(model.max_cells, n_trees)
    return n_trees


def begin_stream(model: Any, blank: Filter | Means, n_dims: int) -> Stream:
    """Return the stream of a model that has not been fitted."""
    n_trees = stream_trees(model)
    return Stream.begin(
        blank, n_dims, n_trees, model.lifetime, model.scale, model.relevance,
        draw_seed(model.random_state),
    )  # fmt: skip


def continue_stream(model: Any, learner: Filter | Means) -> Stream:
    """Return the stream that goes on from a fitted model, at its width and scale."""
    return Stream.after(learner, model.features_._stream(), model.scale_, model.relevance_)


def own_features(model: Any, lifetime: float) -> MondrianFeatures:
    """Return features that online learning may change; those of a fit others may hold as well."""
    features: MondrianFeatures | None = model.__dict__.get("features_")
    if features is None:
        features = MondrianFeatures(
            lifetime, stream_trees(model), max_cells=model.max_cells, n_jobs=model.n_jobs
        )
        features.n_features_in_ = model.n_features_in_
    elif "_online" not in features.__dict__:
        features = copy.copy(features)
    return features


@contextmanager
def all_or_nothing(model: Any, undo: Callable[[], None]) -> Iterator[None]:
    """If anything fails, undo what was learnt and put the model back as it was."""
    before = dict(model.__dict__)
    features: MondrianFeatures | None = before.get("features_")
    shown = {} if features is None else dict(features.__dict__)
    try:
        yield
    except BaseException:
        undo()
        model.__dict__.clear()
        model.__dict__.update(before)
        if features is not None and "_online" in shown:
            online = shown["_online"]
            features._follow(online, int(np.flatnonzero(online.rungs == shown["lifetime_"])[0]))
        raise


def learn_and_show(
    model: Any,
    stream: Stream,
    rows: tuple[FloatArray, FloatArray, FloatArray],
    attributes: Callable[[Stream], dict[str, Any]],
) -> None:
    """Let the stream of a model learn from rows, and show it: all of it or nothing."""
    with all_or_nothing(model, stream.rollback):
        stream = stream.learn(*rows, model.max_cells)
        show(model, stream, **attributes(stream))


def show(model: Any, stream: Stream, **attributes: Any) -> None:
    """Set the attributes of a model to those of its stream, all at once."""
    features = own_features(model, float(stream.rungs[stream.best]))
    features._follow(stream.online, stream.best)
    model.__dict__.update(
        _stream=stream, features_=features, lifetime_=features.lifetime_, scale_=stream.scale,
        relevance_=stream.relevance, path_=model.__dict__.get("path_"), **attributes,
    )  # fmt: skip
