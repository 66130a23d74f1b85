"""What all estimators share: parameters, checks, scaling, streams and the fitted record."""

from __future__ import annotations

import copy
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.relevance import scale_and_relevance
from mondrian_kernel._online.exact import ExactStream
from mondrian_kernel._online.learners import Filter, Means
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._path.checks import check_weights, with_weight
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._settings import STREAM_ALPHA, STREAM_TREES
from mondrian_kernel._trees.checks import check_budget, check_columns, draw_seed
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import MondrianFeatures

_DOCS = {
    "scale": """
    scale : "std", None or array-like of shape (n_features,), default="std"
        What every column is divided by: its standard deviation, nothing, or the given numbers. A
        Laplace kernel adds up the columns, so they should be on one scale.
    relevance : {"auto", "learn", "equal"}, default="auto"
        How much each scaled column counts. It is learnt from some of the rows, or equal for all.
        "auto" learns it unless ``lifetime`` or ``scale`` are given as numbers.""",
    "max_cells": """
    max_cells : int or None, default=None
        Bound on the number of cells of all trees.""",
    "random_state": """
    random_state : int, RandomState instance or None, default=None
        Seed of the trees, and of the rows that are held out.
    n_jobs : int or None, default=None
        Threads. The result does not depend on it.
    verbose : int or callable, default=0
        Whether to print the progress, or a function to call instead: the ``callback`` of
        :func:`lifetime_path`.""",
    "attributes": """
    model_ : FittedModel
        Everything that prediction needs, as one frozen record of arrays.
    lifetime_ : float
        Lifetime λ of the kernel. Of a mixture of widths, their weighted mean.
    lifetimes_, lifetime_weights_ : ndarrays of shape (n_lifetimes,)
        All lifetimes of the kernel and their weights.
    alpha_ : float
        Penalty of the fit.
    path_ : LifetimePath or None
        The path on which lifetime and penalty were chosen; None where both were given.
    features_ : MondrianFeatures
        The feature map, for scaled columns.
    relevance_ : ndarray of shape (n_features_in_,)
        How much each scaled column counts, 1 on average.
    scale_ : ndarray of shape (n_features_in_,)
        What the columns are divided by: their scale over their relevance.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input columns, where ``X`` had any.""",
}

Estimator = TypeVar("Estimator", bound=type)


def shared_docs(cls: Estimator) -> Estimator:
    """Put the shared text where the docstring of a class says ``<name>``."""
    doc = cls.__doc__ or ""
    for name, text in _DOCS.items():
        doc = doc.replace(f"\n    <{name}>", text)
    cls.__doc__ = doc
    return cls


class MondrianEstimator(BaseEstimator):
    """Base of regressor, classifier and forests."""

    _parameter_constraints: dict[str, list[Any]] = {
        "lifetime": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "alpha": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "n_estimators": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "scale": [StrOptions({"std"}), None, "array-like"],
        "relevance": [StrOptions({"auto", "learn", "equal"})],
        "max_cells": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose", callable],
    }

    lifetime: Any
    alpha: float | str
    n_estimators: int | str
    scale: Any
    relevance: str
    max_cells: int | None
    random_state: Any
    n_jobs: int | None
    verbose: int | Callable[..., None]

    # The fitted state: a record, or the stream that makes the next one; and how it was chosen.
    _model: FittedModel
    _stream: Stream | ExactStream | None
    path_: LifetimePath | None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def _set_fitted(self, model: FittedModel, path: LifetimePath | None) -> None:
        self._model, self._stream, self.path_ = model, None, path

    @property
    def model_(self) -> FittedModel:
        """Everything that prediction needs, as one frozen record of arrays."""
        return self._fitted()

    def _fitted(self) -> FittedModel:
        check_is_fitted(self)
        return self._model

    @property
    def lifetime_(self) -> float:
        """Lifetime of the kernel; of a mixture, their weighted mean."""
        levels = self._fitted().levels
        return float(levels.weights @ levels.lifetimes / levels.weights.sum())

    @property
    def lifetimes_(self) -> FloatArray:
        """All lifetimes of the kernel."""
        return self._fitted().levels.lifetimes

    @property
    def lifetime_weights_(self) -> FloatArray:
        """Weights of the lifetimes."""
        return self._fitted().levels.weights

    @property
    def alpha_(self) -> float:
        """Penalty of the fit."""
        return self._fitted().alpha

    @property
    def scale_(self) -> FloatArray:
        """What the columns are divided by: their scale over their relevance."""
        return self._fitted().scale

    @property
    def relevance_(self) -> FloatArray:
        """How much each scaled column counts, 1 on average."""
        return self._fitted().relevance

    @property
    def features_(self) -> MondrianFeatures:
        """The feature map, for scaled columns."""
        model = self._fitted()
        return MondrianFeatures.from_trees(
            model.trees,
            model.levels,
            seed=model.seed,
            n_jobs=self.n_jobs,
            names_of=self,
        )

    def _check_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, **options: Any
    ) -> tuple[FloatArray, NDArray[Any], FloatArray | None]:
        """Validate the rows, targets and weights of a fit; copy what will be kept."""
        check_budget(self.max_cells, self.n_estimators)
        rows, targets = validate_data(self, X, y, dtype=np.float64, order="C", **options)
        weight = check_weights(sample_weight, rows)
        return with_weight(rows, targets.copy(), None if weight is None else weight.copy())

    def _learn_columns(
        self, rows: FloatArray, Y: FloatArray, weight: FloatArray | None, seed: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return what the columns are divided by, and their relevance."""
        return scale_and_relevance(
            rows,
            Y,
            weight,
            seed,
            scale=self.scale,
            relevance=self.relevance,
            lifetime=self.lifetime,
        )

    def _check_new(self, X: ArrayLike) -> FloatArray:
        """Validate rows to predict.

        A plain array is only checked for its values: scikit-learn's own checks take longer than
        the prediction of one row.
        """
        check_is_fitted(self)
        if self._is_plain(X):
            return X  # type: ignore[return-value]
        rows: FloatArray = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        return rows

    def _is_plain(self, X: Any) -> bool:
        return (
            type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and X.flags.c_contiguous
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
            and bool(np.isfinite(X).all())
        )

    def _check_batch(
        self, X: ArrayLike, y: ArrayLike, **options: Any
    ) -> tuple[FloatArray, NDArray[Any]]:
        """Validate the rows and targets of a batch; on the first, the parameters as well."""
        first = not hasattr(self, "_model")
        if first:
            self._validate_params()
        if isinstance(X, list) and isinstance(y, list):
            X, y = np.array(X), np.array(y)
        if not first and self._is_plain(X):
            targets = np.asarray(y)
            plain = targets.shape == X.shape[:1] and targets.dtype.kind in "fiu"  # type: ignore[union-attr]
            if plain and np.isfinite(targets).all():
                return X, targets  # type: ignore[return-value]
        rows, targets = validate_data(
            self, X, y, reset=first, dtype=np.float64, order="C", **options
        )
        return rows, targets

    def _blank_learner(self, n_outputs: int) -> Filter | Means:
        """Return the learner of a stream that has seen nothing."""
        raise NotImplementedError

    def _continuing_learner(self, model: FittedModel) -> Filter | Means:
        """Return the learner of a stream that goes on from a fit."""
        raise NotImplementedError

    def _next_stream(self, n_columns: int, n_outputs: int, n_new: int) -> Stream | ExactStream:
        """Return the stream that takes the next batch."""
        if hasattr(self, "_model"):
            return self._stream or Stream.after(self._model, self._continuing_learner(self._model))
        return Stream.begin(
            self._blank_learner(n_outputs),
            n_columns,
            self._stream_trees(),
            self.lifetime,
            self.scale,
            self.relevance,
            draw_seed(self.random_state),
        )

    def _learn(self, rows: FloatArray, Y: FloatArray, sample_weight: FloatArray | None) -> None:
        """Learn a batch of valid rows: all of it or, if anything fails, nothing."""
        if hasattr(self, "_model") and Y.shape[1] != self._model.n_outputs:
            raise ValueError(
                f"y has {Y.shape[1]} outputs, but before it had {self._model.n_outputs}."
            )
        rows, Y, weight = with_weight(rows, Y, sample_weight)
        if weight is None:
            weight = np.ones(rows.shape[0])
        stream = self._next_stream(rows.shape[1], Y.shape[1], rows.shape[0])
        try:
            new = stream.learn(rows, np.ascontiguousarray(Y), weight, self.max_cells)
            self._model, self._stream = new.fitted(), new
        except BaseException:
            stream.rollback()
            if getattr(self, "_stream", None) is stream:
                self._model = stream.fitted()  # the old record is a view of arrays that moved
            raise
        self.path_ = getattr(self, "path_", None)

    def _stream_trees(self) -> int:
        n_trees = STREAM_TREES if isinstance(self.n_estimators, str) else self.n_estimators
        check_budget(self.max_cells, n_trees)
        return n_trees

    @property
    def _stream_alpha(self) -> float:
        return STREAM_ALPHA if isinstance(self.alpha, str) else float(self.alpha)

    def _copy_with(self, model: FittedModel) -> Self:
        """Return a fitted copy of this estimator with another record."""
        other = copy.copy(self)
        other._model, other._stream = model, None
        return other

    def check(self) -> None:
        """Raise ValueError unless the fitted parts belong together; they check themselves."""
        if not isinstance(self._model, FittedModel):
            raise ValueError("There is no fitted model.")
        if not isinstance(self._stream, Stream | ExactStream | None):
            raise ValueError("The stream is none.")
        if not isinstance(self.path_, LifetimePath | None):
            raise ValueError("The path is none.")
        check_columns(self, self._model.trees.n_dims)
        classes = getattr(self, "classes_", None)
        if classes is not None and not np.array_equal(np.unique(classes), classes):
            raise ValueError("The classes are not sorted.")

    def _check_scores(self, n_scores: int) -> None:
        if self._model.n_outputs != n_scores:
            raise ValueError(f"The model has {self._model.n_outputs} scores, not {n_scores}.")

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__().copy()
        # The record of a stream is a view of it, and is made again.
        if state.get("_stream") is not None:
            state.pop("_model", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        stream = state.get("_stream")
        if stream is not None:
            self._model = stream.fitted()
