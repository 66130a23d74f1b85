"""What all estimators share: parameters, checks, scaling, streams and the fitted record."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel import _settings as settings
from mondrian_kernel._estimator.table_input import TableInput
from mondrian_kernel._model.class_fit import working_targets
from mondrian_kernel._model.columns import Columns, Metric, column_scale, is_learnt
from mondrian_kernel._model.fitted import Basis, FittedModel
from mondrian_kernel._model.learn_columns import learn_columns
from mondrian_kernel._model.link import more_calibration
from mondrian_kernel._model.notes import FitNotes, without_measures
from mondrian_kernel._online.exact import ExactStream
from mondrian_kernel._online.learners import Filter, Means
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._path.checks import check_weights, fixed_order, with_weight
from mondrian_kernel._path.choose import Wanted
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._trees.checks import (
    check_budget,
    check_columns,
    check_penalty,
    check_ranges,
    draw_seed,
    kept_on_failure,
)
from mondrian_kernel._trees.threads import Tell, no_one
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.encoder import (
    TableEncoder,
    learn_numbers,
)
from mondrian_kernel.features import MondrianFeatures


class MondrianEstimator(TableInput):
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

    n_estimators: int | str
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
        rows = fixed.seen(rows)
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
        rows, targets = self._first_rows(X, y, least=1.0 / settings.LARGEST_NUMBER, **options)
        weight = check_weights(sample_weight, rows)
        if self._penalised and not isinstance(self.alpha, str):
            check_penalty(self.alpha, rows.shape[0] if weight is None else weight.sum())
        return with_weight(rows, targets, weight)

    def _wanted(self) -> Wanted:
        """Return what a choice of the width depends on."""
        return Wanted(self.lifetime, self.alpha, self.n_estimators, self.n_jobs, self.verbose)

    def _learn_columns(
        self,
        rows: FloatArray,
        Y: FloatArray,
        weight: FloatArray | None,
        seed: int,
        tell: Tell = no_one,
    ) -> Metric:
        """Return what the trees see of the columns, and the widths that go with it."""
        order, weight = fixed_order(rows, Y, weight)
        rows, Y = rows[order], Y[order]
        scale, encoder = column_scale(self._scale_rule(), rows, weight), self.encoder_
        check_ranges(np.stack([rows.min(axis=0), rows.max(axis=0)]) / scale)
        if not is_learnt(self.relevance, self.lifetime, self.scale):
            return Metric(Columns.scaled(scale), np.ones(1), np.ones(1))
        if encoder is None:
            return learn_columns(rows, Y, weight, seed, scale=scale, tell=tell)
        groups = {"group": encoder.column_of_output_, "ranked": encoder.is_number_}
        return learn_columns(rows, Y, weight, seed, scale=scale, tell=tell, **groups)

    def _learner(self, n_outputs: int, alpha: float) -> Filter | Means:
        """Return what a stream does with a row."""
        raise NotImplementedError

    def _half_lives(self) -> tuple[float, ...]:
        """Return the half-lives of rows, in rows, of learners that predict together."""
        if self.forgetting == "auto":
            return settings.HALF_LIVES
        return (np.inf if self.forgetting is None else float(self.forgetting),)

    def _next_stream(self, n_columns: int, n_outputs: int, n_new: int) -> Stream | ExactStream:
        """Return the stream that takes the next batch."""
        if hasattr(self, "_model"):
            return self._stream or self._continued(in_space_of_trees(self._fitted()))
        return Stream.begin(
            self._learner(n_outputs, self._stream_alpha),
            self._half_lives(),
            n_columns,
            self._stream_trees(),
            self.lifetime,
            self._scale_rule(),
            self._relevance_rule(),
            draw_seed(self.random_state),
        )

    def _continued(self, model: FittedModel) -> Stream:
        """Return a stream that goes on from a record in the space of its trees."""
        rule = self._learner(model.n_outputs, model.alpha)
        return Stream.after(model, rule, self._half_lives())

    def _learn(
        self, rows: FloatArray, Y: FloatArray, sample_weight: FloatArray | None, **changes: Any
    ) -> None:
        """Learn a batch of valid rows and change attributes: all or, if anything fails, nothing."""
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
        said = None
        if fixed is not None:
            if fixed.spread is not None:
                model = self._fitted()
                scores, scale = model.scores_and_scale(rows, self.n_jobs)
                said = fixed.spread, (Y - scores) / scale, scores, np.diff(model.levels.offset)
            fixed, rows, Y, weight = self._beside_fit(fixed, rows, Y, weight)
        stream = self._next_stream(rows.shape[1], Y.shape[1], rows.shape[0])
        if known and self._stream is stream:
            self._model = None  # a record of the stream is a view of arrays that will move
        with kept_on_failure(self, partial(stream.rollback, stream.n_rows)):
            max_cells = settings.STREAM_CELLS if self.max_cells is None else self.max_cells
            new = stream.learn(rows, np.ascontiguousarray(Y), weight, max_cells)
            if fixed is not None and said is not None:
                spread, errors, scores, n_cells = said
                more = new.online.n_cells[: n_cells.size] - n_cells
                fixed = replace(fixed, spread=spread.continued(errors, scores, n_cells, more))
            self._fixed, self._model, self._stream = fixed, None, new
            self.path_ = getattr(self, "path_", None)
            for name, value in changes.items():
                setattr(self, name, value)

    def _beside_fit(
        self, fixed: Basis, rows: FloatArray, Y: FloatArray, weight: FloatArray
    ) -> tuple[Basis, FloatArray, FloatArray, FloatArray]:
        """Return rows, targets and weights as a stream after a fit learns them.

        Columns and trend of the fit stay as they are. Log-odds are learnt by a step of Newton's
        method, and the calibration of their probabilities goes on.
        """
        seen = fixed.seen(rows)
        trend = 0.0 if fixed.trend is None else fixed.trend(seen)
        if fixed.link is not None:
            F = self._scores_of(rows)
            if fixed.calibration is not None:
                more = more_calibration(fixed.calibration, Y, F, fixed.link)
                fixed = replace(fixed, calibration=more)
            rest, curvature = working_targets(Y, F)
            Y, weight = F + rest, weight * curvature.max(axis=1)
        return fixed, seen, Y - trend, weight

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
        n_trees = settings.STREAM_TREES if isinstance(self.n_estimators, str) else self.n_estimators
        check_budget(self.max_cells, n_trees)
        return n_trees

    def _copy_with(self, model: FittedModel) -> Self:
        """Return a fitted copy of this estimator with another record."""
        other = copy.copy(self)
        other._model, other._stream, other._fixed = model, None, None
        other._notes = without_measures(self._notes)
        return other

    def check(self) -> None:
        """Raise ValueError unless the fitted parts belong together; they check themselves."""
        kinds: dict[str, Any] = {
            "_stream": Stream | ExactStream | None,
            "_fixed": Basis | None,
            "path_": LifetimePath | None,
            "_notes": FitNotes | None,
        }
        for name, kind in kinds.items():
            part = getattr(self, name)
            if not isinstance(part, kind):
                raise ValueError(f"{name} is a value of type {type(part).__name__}.")
        if not isinstance(self._model, FittedModel) and self._stream is None:
            raise ValueError("There is no fitted model.")
        model = self._fitted()
        if self._fixed is not None:
            self._fixed.check(model)
        encoder, n_dims = self._encoder, model.trees.n_dims
        if isinstance(encoder, TableEncoder) and encoder.is_number_.size == n_dims:
            n_dims = encoder.n_features_in_
        elif encoder is not None:
            raise ValueError("The encoder is that of another model.")
        check_columns(self, n_dims)
        if self._notes is not None:
            self._notes.check(model.trees.n_dims, n_dims)
        classes = getattr(self, "classes_", None)
        if classes is not None and not (
            classes.size > 1 and np.array_equal(np.unique(classes), classes)
        ):
            raise ValueError("The classes are fewer than two, or not sorted.")

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
