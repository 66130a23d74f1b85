"""Measure a fitted model on rows that it was not fitted on.

The command line prints these numbers, a model file keeps them, and a report shows them.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import (
    _check_feature_names_in,
    assert_all_finite,
    check_consistent_length,
    column_or_1d,
)

from mondrian_kernel import _settings as settings
from mondrian_kernel._tables.columns import read_columns
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.console import two_columns
from mondrian_kernel.encoder import TableEncoder
from mondrian_kernel.on_disk import TableParts
from mondrian_kernel.plotting.interval import coverage_by_fifth, is_inside

_FALL, _GROWTH = "fall of R²", "growth of the log loss"


class Importance(NamedTuple):
    """How much worse predictions become when a column is shuffled, its deviation, and its words.

    The deviation is that of single shuffles, of which there are ``n_shuffles``. ``measure`` says
    what is measured ("fall of R²"), ``rows`` on which rows.
    """

    mean: FloatArray
    deviation: FloatArray
    n_shuffles: int
    measure: str
    rows: str


class Measured:
    """A fitted model with the rows it was fitted on and test rows, and all that is measured.

    Rows are kept as the numbers that the model's encoder makes of a table. What takes time is
    computed when it is asked for, once.

    Test rows of a class that was not fitted are left out; ``n_unknown`` counts them, and ``rows``
    are the numbers of the others. ``estimator`` is a copy of the model that takes encoded rows.
    ``column_of`` is the index of the column that each number comes from, and ``categories`` has
    None for a column of numbers. ``saved`` is the model whose lifetimes and importances are shown,
    by default the one that is measured.
    """

    def __init__(
        self,
        estimator: Any,
        X_train: Any,
        y_train: ArrayLike,
        X_test: Any,
        y_test: ArrayLike,
        *,
        feature_names: Sequence[str] | None = None,
        row_numbers: NDArray[np.intp] | None = None,
        saved: Any = None,
    ) -> None:
        self.is_regression = not hasattr(estimator, "classes_")
        self._X_train, self.y_train = X_train, _check_targets(y_train, "y_train")
        X, y = estimator._check_new(X_test), _check_targets(y_test, "y_test")
        check_consistent_length(X, y)
        known = np.ones(y.size, bool) if self.is_regression else np.isin(y, estimator.classes_)
        if not known.any():
            raise ValueError(
                "No row of y_test has a class that the model was fitted on: give rows of "
                f"{estimator.classes_.tolist()}."
            )
        self.X_test, self.y_test, self.n_unknown = X[known], y[known], int((~known).sum())
        self.rows = (np.arange(y.size) if row_numbers is None else row_numbers)[known]
        self.names = _names(estimator, feature_names)
        encoder = estimator._encoder
        self.categories, self.column_of = encoder.categories_, encoder.column_of_output_
        self.estimator = _for_numbers(estimator, X.shape[1])
        self.saved = estimator if saved is None else saved
        self.fitted, self._tables, self._known = estimator, X_test, known

    @cached_property
    def X_train(self) -> FloatArray:
        """Rows as the fit has seen them: means of y for categories leave out a row's own y."""
        X, y = self._X_train, self.y_train
        check_consistent_length(X, y)
        encoder: TableEncoder = clone(self.fitted._encoder)
        return encoder.fit_transform(X, y if self.is_regression else y.astype(str))

    def words(self, column: int) -> NDArray[Any]:
        """Return the values of a column in the test rows, as they were before encoding."""
        parts = self._tables if isinstance(self._tables, TableParts) else [self._tables]
        columns = [read_columns(self.fitted, part, reset=False)[column] for part in parts]
        words = [word for part in columns for word in part.words()]
        values: NDArray[Any] = np.array(words, object)[self._known]
        return values

    @cached_property
    def predicted(self) -> NDArray[Any]:
        """Predictions of the test rows: numbers or classes."""
        if self.is_regression or self.probability is None:
            return predict_blocks(self.estimator.predict, self.X_test)
        found: NDArray[Any] = self.estimator.classes_[self.probability.argmax(axis=1)]
        return found

    @cached_property
    def probability(self) -> FloatArray | None:
        """Probabilities of the classes in the test rows; None for a loss that has none."""
        if not hasattr(self.estimator, "predict_proba"):
            return None
        return predict_blocks(self.estimator.predict_proba, self.X_test)

    @cached_property
    def intervals(self) -> FloatArray:
        """Intervals of the test rows at all coverages, (n_coverages, n, 2)."""
        by_row = predict_blocks(
            lambda X: self.estimator.predict_interval(X, settings.COVERAGE_LEVELS).swapaxes(0, 1),
            self.X_test,
        )
        return by_row.swapaxes(0, 1)

    @property
    def interval(self) -> FloatArray:
        """Intervals of the test rows at the usual coverage, (n, 2)."""
        own: FloatArray = self.intervals[settings.COVERAGE_LEVELS.index(settings.COVERAGE)]
        return own

    @cached_property
    def scores(self) -> dict[str, Any]:
        """Errors on the test rows, and those of a constant prediction."""
        y, y_train = self.y_test, self.y_train
        if self.is_regression:
            error, plain = _rmse(y, self.predicted), _rmse(y, y_train.mean())
            # One row may lie right at the mean: then R² is not defined.
            r2 = 1.0 - (error / plain) ** 2 if plain > 0 else float("nan")
            ends = self.interval
            return {
                "rows": y.size,
                "rmse": error,
                "rmse_of_the_mean": plain,
                "r2": r2,
                **coverage_of(ends, y),
                "coverage_by_fifth": coverage_by_fifth(y, self.predicted, ends).tolist(),
            }
        values, counts = np.unique(y_train, return_counts=True)
        found = {
            "rows": y.size,
            "accuracy": float(np.mean(self.predicted == y)),
            "accuracy_of_the_commonest": float(np.mean(y == values[counts.argmax()])),
        }
        if self.probability is not None:
            P, frequencies = self.probability, np.tile(counts / y_train.size, (y.size, 1))
            found["log_loss"] = log_loss(P, y, self.estimator.classes_)
            found["log_loss_of_the_frequencies"] = log_loss(frequencies, y, values)
        return found

    @cached_property
    def boosting(self) -> float:
        """Error (root mean squared), or share of right classes, of HistGradientBoosting.

        It has scikit-learn's defaults and is fitted to the same rows.
        """
        from sklearn import ensemble  # here, since every command imports this module

        name = "HistGradientBoosting" + ("Regressor" if self.is_regression else "Classifier")
        kind = getattr(ensemble, name)
        predicted = kind(random_state=0).fit(self.X_train, self.y_train).predict(self.X_test)
        if self.is_regression:
            return _rmse(self.y_test, predicted)
        return float(np.mean(predicted == self.y_test))

    @cached_property
    def importance(self) -> Importance:
        """Importance of each column: that of the fit or, if it has none, on the test rows."""
        found = fitted_importance(self.saved)
        return self._shuffled() if found is None else found

    def _shuffled(self) -> Importance:
        """Shuffle each column among some test rows, all numbers that it is encoded as together."""
        n_columns, rng = len(self.names), np.random.default_rng(0)
        some = rng.permutation(self.y_test.size)[: settings.SHUFFLE_ROWS]
        X, y = self.X_test[some], self.y_test[some]
        error, growth = self._error(X, y), np.empty((n_columns, settings.SHUFFLES))
        for d in range(n_columns):
            own = self.column_of == d
            for k in range(settings.SHUFFLES):
                shuffled = X.copy()
                shuffled[:, own] = X[rng.permutation(y.size)][:, own]
                growth[d, k] = self._error(shuffled, y) - error
        measure = _FALL if self.is_regression else "growth of the share of wrong classes"
        if self.probability is not None and not self.is_regression:
            measure = _GROWTH
        found = growth.mean(axis=1), growth.std(axis=1), settings.SHUFFLES
        return Importance(*found, measure, f"{y.size} test rows")

    def _error(self, X: FloatArray, y: NDArray[Any]) -> float:
        """Return the squared error over the variance, the log loss, or the share that is wrong."""
        if self.is_regression:
            square = _rmse(y, predict_blocks(self.estimator.predict, X)) ** 2
            return square / (float(np.var(y)) or 1.0)
        if self.probability is None:
            return float(np.mean(self.estimator.predict(X) != y))
        return log_loss(predict_blocks(self.estimator.predict_proba, X), y, self.estimator.classes_)


def fitted_importance(estimator: Any) -> Importance | None:
    """Return the importances that a fit has left; None if it has none."""
    if not hasattr(estimator, "feature_importances_"):
        return None
    measure = _GROWTH if hasattr(estimator, "classes_") else _FALL
    found = estimator.feature_importances_, estimator.feature_importances_std_
    return Importance(*found, settings.IMPORTANCE_SHUFFLES, measure, "rows held out in the fit")


def importance_values(importance: Importance | None, names: Sequence[str]) -> dict[str, Any]:
    """Return importances by the names of the columns, the largest first."""
    if importance is None:
        return {}
    mean, deviation, _, measure, rows = importance
    order = np.argsort(-mean, kind="stable")
    return {
        "importance_measure": f"{measure} on {rows} when a column is shuffled",
        "importance": {names[d]: float(mean[d]) for d in order},
        "importance_deviation": {names[d]: float(deviation[d]) for d in order},
    }


def importance_words(found: dict[str, Any]) -> list[str]:
    """List the most important columns of :func:`importance_values`, one a line."""
    if "importance" not in found:
        return []
    deviation = found["importance_deviation"]
    most = list(found["importance"].items())[: settings.COLUMNS_LISTED]
    columns = [(name, f"{mean:z.3f} ± {deviation[name]:.3f}") for name, mean in most]
    return [f"  importance: {found['importance_measure']}\n{two_columns(columns, '    ')}"]


def predict_blocks(
    predict: Callable[[Any], NDArray[Any]],
    X: Any,
    callback: Callable[[int, int], None] | None = None,
) -> NDArray[Any]:
    """Predict some thousand rows at a time, so that memory is bounded."""
    blocks = []
    for begin in range(0, len(X), settings.PREDICT_BLOCK_ROWS):
        blocks.append(predict(X[begin : begin + settings.PREDICT_BLOCK_ROWS]))
        if callback is not None:
            callback(min(begin + settings.PREDICT_BLOCK_ROWS, len(X)), len(X))
    return np.concatenate(blocks)


def coverage_of(interval: FloatArray, y: FloatArray) -> dict[str, float]:
    """Return the share of targets inside their intervals, and the mean width of the intervals."""
    return {
        "coverage": float(is_inside(y, interval).mean()),
        "interval_width": float(np.mean(interval[:, 1] - interval[:, 0])),
    }


def log_loss(P: FloatArray, y: NDArray[Any], classes: NDArray[Any]) -> float:
    """Return minus the mean logarithm of the probabilities of the true classes."""
    own = P[np.arange(y.size), np.searchsorted(classes, y)]
    return float(-np.mean(np.log(np.maximum(own, np.finfo(float).eps))))


def _rmse(y: FloatArray, predicted: Any) -> float:
    return float(np.sqrt(np.mean((predicted - y) ** 2)))


def _check_targets(y: ArrayLike, name: str) -> NDArray[Any]:
    targets: NDArray[Any] = column_or_1d(y)
    assert_all_finite(targets, input_name=name)
    return targets


def _for_numbers(estimator: Any, n_columns: int) -> Any:
    """Return a copy of a model for arrays of numbers, those that its encoder makes of a table."""
    own = copy.copy(estimator)
    vars(own).pop("feature_names_in_", None)
    own._encoder, own.categorical_features, own.n_features_in_ = None, None, n_columns
    mixture = getattr(own, "_mixture", None)
    if mixture is not None:
        models = [_for_numbers(part, n_columns) for part in mixture.models]
        own._mixture = dataclasses.replace(mixture, models=models)
    return own


def _names(estimator: Any, feature_names: Sequence[str] | None) -> list[str]:
    n_columns = estimator.n_features_in_
    given = _check_feature_names_in(estimator) if feature_names is None else feature_names
    if len(given) != n_columns:
        raise ValueError(
            f"{len(given)} feature_names were given for {n_columns} columns of X: give one each."
        )
    return [str(name) for name in given]
