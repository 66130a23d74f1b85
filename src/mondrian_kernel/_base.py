"""What all estimators share: parameters, checks, scaling, streams and the fitted record."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_array, check_X_y
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from mondrian_kernel._columns import needs_encoding, read_columns, refuse_missing_targets
from mondrian_kernel._linear.losses import label_array
from mondrian_kernel._model.class_fit import working_targets
from mondrian_kernel._model.columns import Columns, Metric, column_scale, is_learnt
from mondrian_kernel._model.fitted import Basis, FittedModel
from mondrian_kernel._model.learn_columns import learn_columns
from mondrian_kernel._model.link import more_calibration
from mondrian_kernel._model.notes import FitNotes, without_measures
from mondrian_kernel._online.exact import ExactStream
from mondrian_kernel._online.filter import Filter
from mondrian_kernel._online.means import Means
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._path.checks import check_weights, fixed_order, with_weight
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._settings import (
    HALF_LIVES,
    LARGEST_NUMBER,
    STREAM_ALPHA,
    STREAM_CELLS,
    STREAM_TREES,
)
from mondrian_kernel._trees.checks import (
    check_budget,
    check_columns,
    check_magnitudes,
    check_penalty,
    check_ranges,
    draw_seed,
    refuse_dates,
)
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.encoder import (
    TableEncoder,
    encode_columns,
    is_plain,
    learn_numbers,
    learn_table,
)
from mondrian_kernel.features import MondrianFeatures

_DOCS = {
    "scale": """
    scale : "std", None or array-like of shape (n_features,), default="std"
        What every column is divided by: its standard deviation, nothing, or the given numbers. A
        Laplace kernel adds up the columns, so they should be on one scale. Two categories of a
        column have the distance 1, which "std" leaves as it is. Numbers may stand beside "std".
    relevance : {"auto", "learn", "equal"}, default="auto"
        How much each scaled column counts. It is learnt from some of the rows, or equal for all.
        "auto" learns it where ``lifetime`` is "auto" too and ``scale`` is not given as numbers.""",
    "max_cells": """
    max_cells : int or None, default=None
        Bound on the number of cells of all trees; None for no bound, in streams for a million.""",
    "forgetting": """
    forgetting : "auto", None or float, default="auto"
        How ``partial_fit`` forgets. A number is the rows, at least 1, after which a row counts
        half; None forgets nothing. "auto" lets models that forget nothing and models that forget
        predict together, by their errors so far. Exact updates forget nothing; a number turns them
        off.""",
    "random_state": """
    categorical_features : "from_dtype", array-like of bool, int or str, or None, \
            default="from_dtype"
        Which columns are categories: those of text, truth values and category dtypes of a data
        frame; or a mask, indices or names; or none. See :class:`TableEncoder`.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees, and of the rows that are held out. None: another result at each fit.
    n_jobs : int or None, default=None
        Threads; None for one, -1 for all cores. The result does not depend on it.
    verbose : int or callable, default=0
        0 prints nothing, 1 the progress. A function is called instead: the ``callback`` of
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
    encoder_ : TableEncoder or None
        What turned a table into numbers; None where the columns are numbers without gaps.
    relevance_ : ndarray of shape (n_features_in_,)
        How much each scaled column counts, 1 on average over the columns that the trees see: the
        finer the function may vary along a column, the larger.
    scale_ : ndarray of shape (n_features_in_,)
        What the columns, or outputs, are divided by: their scale over their relevance.
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
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "max_cells": [Interval(Integral, 1, None, closed="left"), None],
        "forgetting": [Interval(Real, 1, None, closed="left"), StrOptions({"auto"}), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose", callable],
    }

    # Whether alpha is the penalty of a linear system, rather than a shrinkage that may be 0.
    _penalised = True

    lifetime: Any
    alpha: float | str
    n_estimators: int | str
    scale: Any
    relevance: str
    categorical_features: Any
    max_cells: int | None
    forgetting: float | str | None
    random_state: Any
    n_jobs: int | None
    verbose: int | Callable[..., None]

    # The fitted state: a record, which a stream makes when it is asked for; the stream; and how
    # the width was chosen.
    _model: FittedModel | None
    _stream: Stream | ExactStream | None
    _fixed: Basis | None  # what stays of the fit that a stream goes on from
    path_: LifetimePath | None
    _encoder: TableEncoder | None = None
    # What the last fit left behind beside the record.
    _notes: FitNotes | None = None
    # Time of each stage; not saved, so that equal fits make equal files.
    _seconds: Mapping[str, float] = MappingProxyType({})

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def _set_fitted(
        self,
        model: FittedModel,
        path: LifetimePath | None,
        notes: FitNotes | None = None,
        seconds: dict[str, float] | None = None,
    ) -> None:
        self._model, self._stream, self._fixed, self.path_ = model, None, None, path
        self._notes, self._seconds = notes, seconds or {}

    @property
    def model_(self) -> FittedModel:
        """Everything that prediction needs, as one frozen record of arrays."""
        return self._fitted()

    def _fitted(self) -> FittedModel:
        check_is_fitted(self)
        if self._model is None:
            assert self._stream is not None
            self._model = self._present(self._stream)
        return self._model

    def _scores_of(self, rows: FloatArray) -> FloatArray:
        """Return the scores of valid rows, (n, K), without a record of the stream."""
        if not isinstance(self._stream, Stream):
            return self._fitted().scores(rows, self.n_jobs)
        fixed = self._fixed
        if fixed is None:
            return self._stream.scores(rows, self.n_jobs)
        rows = fixed.columns(rows)
        scores = self._stream.scores(rows, self.n_jobs)
        return scores if fixed.trend is None else scores + fixed.trend(rows)

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
        """How much each input column counts, 1 on average over what the trees see."""
        relevance, encoder = self._fitted().relevance, self.encoder_
        if encoder is None:
            return relevance
        first = np.unique(encoder.column_of_output_, return_index=True)[1]
        return relevance[first]

    @property
    def encoder_(self) -> TableEncoder | None:
        """What turned a table into numbers; None where the columns are numbers without gaps."""
        return None if self._encoder is None or is_plain(self._encoder) else self._encoder

    @property
    def features_(self) -> MondrianFeatures:
        """The feature map, for scaled columns."""
        model = self._fitted()
        return MondrianFeatures.from_trees(
            model.trees,
            model.levels,
            seed=model.seed,
            n_jobs=self.n_jobs,
            names_of=self if self.encoder_ is None else None,
        )

    def _check_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, **options: Any
    ) -> tuple[FloatArray, NDArray[Any], FloatArray | None]:
        """Validate the rows, targets and weights of a fit, and leave out rows of weight 0."""
        check_budget(self.max_cells, self.n_estimators)
        rows, targets = self._first_rows(X, y, least=1.0 / LARGEST_NUMBER, **options)
        weight = check_weights(sample_weight, rows)
        if self._penalised and not isinstance(self.alpha, str):
            check_penalty(self.alpha, rows.shape[0] if weight is None else weight.sum())
        return with_weight(rows, targets, weight)

    def _first_rows(
        self, X: Any, y: ArrayLike, *, least: float, listed: bool = False, **options: Any
    ) -> tuple[FloatArray, NDArray[Any]]:
        """Validate the first rows and their targets, and learn how a table is encoded."""
        refuse_missing_targets(y)
        encoder = TableEncoder(self.categorical_features)
        if needs_encoding(X, self.categorical_features):
            classes = y is not None and is_classifier(self)
            rows = learn_table(encoder, X, np.asarray(y).astype(str) if classes else y, listed)
            rows, targets = self._valid(rows, y, least=least, encoded=True, **options)
        else:
            rows, targets = self._valid(X, y, least=least, **options)
            learn_numbers(encoder, rows)
        for name in ("_model", "feature_names_in_"):  # those of an earlier fit
            if hasattr(self, name):
                delattr(self, name)
        if hasattr(encoder, "feature_names_in_"):
            self.feature_names_in_ = encoder.feature_names_in_
        self._encoder, self.n_features_in_ = encoder, encoder.n_features_in_
        return rows, targets

    def _scale_rule(self) -> Any:
        """Return the scale of the columns that the trees see: of a table, its encoded ones."""
        encoder = self.encoder_
        if encoder is None or self.scale is None:
            return self.scale
        if isinstance(self.scale, str):
            return np.where(encoder.is_number_, self.scale, np.array(1.0, object))
        given = np.asarray(self.scale)
        columns = encoder.column_of_output_
        return given[columns] if given.shape == (self.n_features_in_,) else given

    def _relevance_rule(self) -> str:
        return "learn" if is_learnt(self.relevance, self.lifetime, self.scale) else "equal"

    def _valid(
        self, X: Any, y: ArrayLike, *, least: float, encoded: bool = False, **options: Any
    ) -> tuple[FloatArray, NDArray[Any]]:
        """Validate rows, and labels or numbers, whose range in a column is 0 or ``least``."""
        numbers = "y_numeric" in options
        if numbers:
            refuse_dates(y, "y")
            if sparse.issparse(y):
                raise TypeError("y is sparse: pass y.toarray().")
        else:
            y = label_array(y)
        options |= {"dtype": np.float64, "order": "C"}
        if encoded:
            rows, targets = check_X_y(X, y, estimator=self, **options)
        else:
            refuse_dates(X, "X")
            rows, targets = validate_data(self, X, y, **options)
        check_magnitudes(rows, "X", least=least)
        if numbers:
            targets = check_array(targets, ensure_2d=False, dtype=np.float64, input_name="y")
            check_magnitudes(targets.reshape(rows.shape[0], -1), "y", least=least)
        return rows, targets

    def _learn_columns(
        self, rows: FloatArray, Y: FloatArray, weight: FloatArray | None, seed: int
    ) -> Metric:
        """Return what the trees see of the columns, and the widths that go with it."""
        order, weight = fixed_order(rows, Y, weight)
        rows, Y = rows[order], Y[order]
        scale, encoder = column_scale(self._scale_rule(), rows, weight), self.encoder_
        check_ranges(rows / scale)
        if not is_learnt(self.relevance, self.lifetime, self.scale):
            return Metric(Columns.scaled(scale), np.ones(1), np.ones(1))
        if encoder is None:
            return learn_columns(rows, Y, weight, seed, scale=scale)
        group, ranked = encoder.column_of_output_, encoder.is_number_
        return learn_columns(rows, Y, weight, seed, scale=scale, group=group, ranked=ranked)

    def _check_new(self, X: ArrayLike) -> FloatArray:
        """Validate rows to predict.

        A plain array is only checked for its values: scikit-learn's own checks take longer than
        the prediction of one row.
        """
        if not hasattr(self, "_model"):  # the check takes longer than the prediction of one row
            check_is_fitted(self)
        if self._is_plain(X):
            return X  # type: ignore[return-value]
        rows = self._encoded(X)
        if rows is None:
            refuse_dates(X, "X")
            rows = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        check_magnitudes(rows, "X")
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
            and self.encoder_ is None
            and bool(np.abs(X).max() <= LARGEST_NUMBER)
        )

    def _encoded(self, X: Any) -> FloatArray | None:
        """Encode a table, rows with gaps, and any rows of a model of such; None for others."""
        encoder = self._encoder
        if encoder is None or (is_plain(encoder) and not needs_encoding(X, None)):
            return None
        return encode_columns(encoder, read_columns(self, X, reset=False))

    def _check_batch(
        self, X: ArrayLike, y: ArrayLike, **options: Any
    ) -> tuple[FloatArray, NDArray[Any]]:
        """Validate the rows and targets of a batch; on the first, the parameters as well."""
        first = not hasattr(self, "_model")
        if first:
            self._validate_params()
            if self._penalised:
                check_penalty(self._stream_alpha, 1.0)
        if isinstance(X, list):
            X = np.array(X)
        if not first and self._is_plain(X):
            targets = np.asarray(y)
            plain = targets.shape == X.shape[:1] and targets.dtype.kind in "fiu"  # type: ignore[union-attr]
            if plain and float(np.abs(targets).max()) <= LARGEST_NUMBER:
                return X, targets  # type: ignore[return-value]
        if first:
            return self._first_rows(X, y, least=0.0, listed=True, **options)
        refuse_missing_targets(y)
        encoded = self._encoded(X)
        if encoded is None:
            return self._valid(X, y, least=0.0, reset=False, **options)
        return self._valid(encoded, y, least=0.0, encoded=True, **options)

    def _blank_learner(self, n_outputs: int, half_life: float) -> Filter | Means:
        """Return a learner of a stream that has seen nothing."""
        raise NotImplementedError

    def _continuing_learner(self, model: FittedModel, half_life: float) -> Filter | Means:
        """Return a learner of a stream that goes on from a fit."""
        raise NotImplementedError

    def _half_lives(self) -> tuple[float, ...]:
        """Return the half-lives of rows, in rows, of learners that predict together."""
        if self.forgetting == "auto":
            return HALF_LIVES
        return (np.inf if self.forgetting is None else float(self.forgetting),)

    def _next_stream(self, n_columns: int, n_outputs: int, n_new: int) -> Stream | ExactStream:
        """Return the stream that takes the next batch."""
        if hasattr(self, "_model"):
            return self._stream or self._stream_after_fit()
        return Stream.begin(
            [self._blank_learner(n_outputs, half_life) for half_life in self._half_lives()],
            n_columns,
            self._stream_trees(),
            self.lifetime,
            self._scale_rule(),
            self._relevance_rule(),
            draw_seed(self.random_state),
        )

    def _stream_after_fit(self) -> Stream:
        return self._continued(in_space_of_trees(self._fitted()))

    def _continued(self, model: FittedModel) -> Stream:
        """Return a stream that goes on from a record in the space of its trees."""
        learners = [self._continuing_learner(model, rows) for rows in self._half_lives()]
        return Stream.after(model, learners)

    def _learn(self, rows: FloatArray, Y: FloatArray, sample_weight: FloatArray | None) -> None:
        """Learn a batch of valid rows: all of it or, if anything fails, nothing."""
        known = hasattr(self, "_model")
        n_outputs = (self._stream or self._fitted()).n_outputs if known else Y.shape[1]
        if Y.shape[1] != n_outputs:
            raise ValueError(f"y has {Y.shape[1]} outputs, but before it had {n_outputs}.")
        rows, Y, weight = with_weight(rows, Y, sample_weight)
        if weight is None:
            weight = np.ones(rows.shape[0])
        fixed: Basis | None = getattr(self, "_fixed", None)
        if known and self._stream is None:
            model = self._fitted()
            fixed = Basis(model.columns, model.trend, model.link, model.spread, model.calibration)
        spread = None if fixed is None else fixed.spread
        errors, scores, n_cells = Y, Y, np.zeros(1, np.int64)
        if spread is not None:
            model = self._fitted()
            n_cells = np.diff(model.levels.offset)
            scores, scale = model.scores_and_scale(rows, self.n_jobs)
            errors = (Y - scores) / scale
        if fixed is not None:  # columns and trend of a fit stay as they are
            seen = fixed.columns(rows)
            trend = 0.0 if fixed.trend is None else fixed.trend(seen)
            if fixed.link is not None:
                F = self._scores_of(rows)
                if fixed.calibration is not None:
                    fixed = replace(
                        fixed, calibration=more_calibration(fixed.calibration, Y, F, fixed.link)
                    )
                rest, curvature = working_targets(Y, F)
                Y, weight = F + rest, weight * curvature.max(axis=1)
            rows, Y = seen, Y - trend
        stream = self._next_stream(rows.shape[1], Y.shape[1], rows.shape[0])
        try:
            max_cells = STREAM_CELLS if self.max_cells is None else self.max_cells
            new = stream.learn(rows, np.ascontiguousarray(Y), weight, max_cells)
        except BaseException:
            stream.rollback()
            if getattr(self, "_stream", None) is stream:
                self._model = None  # the old record is a view of moved arrays
            raise
        if fixed is not None and spread is not None:
            more = new.online.n_cells[: n_cells.size] - n_cells
            fixed = replace(fixed, spread=spread.continued(errors, scores, n_cells, more))
        self._fixed, self._model, self._stream = fixed, None, new
        self.path_ = getattr(self, "path_", None)

    def _add_columns(self, n_more: int) -> None:
        """Let a stream continue with further columns, in which all rows so far are 0."""
        assert self._stream is not None
        assert self._encoder is not None
        self._stream, self._model = self._stream.with_columns(n_more), None
        self.n_features_in_ += n_more
        learn_numbers(self._encoder, np.zeros((1, self.n_features_in_)))

    def _present(self, stream: Stream | ExactStream) -> FittedModel:
        """Return the record of a stream, with what a fit before it has fixed."""
        model, fixed = stream.fitted(), self._fixed
        if fixed is None:
            return model
        parts = vars(fixed)
        if fixed.calibration is None:
            parts = parts | {"calibration": model.calibration}
        return replace(model, **parts)

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
        other._model, other._stream, other._fixed = model, None, None
        other._notes = without_measures(self._notes)
        return other

    def check(self) -> None:
        """Raise ValueError unless the fitted parts belong together; they check themselves."""
        if not isinstance(self._stream, Stream | ExactStream | None):
            raise ValueError("The stream is none.")
        if not isinstance(self._fixed, Basis | None):
            raise ValueError("What stays of a fit is none.")
        if not isinstance(self._model, FittedModel) and self._stream is None:
            raise ValueError("There is no fitted model.")
        model = self._fitted()
        if self._fixed is not None:
            self._fixed.check(model)
        if not isinstance(self.path_, LifetimePath | None):
            raise ValueError("The path is none.")
        encoder, n_dims = self._encoder, model.trees.n_dims
        if isinstance(encoder, TableEncoder) and encoder.is_number_.size == n_dims:
            n_dims = encoder.n_features_in_
        elif encoder is not None:
            raise ValueError("The encoder is that of another model.")
        check_columns(self, n_dims)
        if not isinstance(self._notes, FitNotes | None):
            raise ValueError("The notes on the fit are none.")
        if self._notes is not None:
            self._notes.check(model.trees.n_dims, n_dims)
        classes = getattr(self, "classes_", None)
        if classes is not None and not np.array_equal(np.unique(classes), classes):
            raise ValueError("The classes are not sorted.")

    def _check_scores(self, n_scores: int) -> None:
        if self._fitted().n_outputs != n_scores:
            raise ValueError(f"The model has {self._fitted().n_outputs} scores, not {n_scores}.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__().copy()
        # The record of a stream is a view of it, and is made again.
        if state.get("_stream") is not None:
            state["_model"] = None
        state.pop("_seconds", None)
        return state


def in_space_of_trees(model: FittedModel) -> FittedModel:
    """Return the model as a function of rows that its columns were applied to, without a trend."""
    columns = Columns.scaled(np.ones(model.trees.n_dims), model.relevance)
    return replace(model, columns=columns, trend=None, spread=None, link=None)
