"""Fit a model of a table, measure it on rows held out, and predict with it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._settings import (
    COVERAGE,
    LEARN_BLOCK_ROWS,
    PREDICT_BLOCK_ROWS,
    ROWS_AT_ONCE,
    STREAM_BOX_BYTES,
    STREAM_WORK,
    TABLE_TREES,
)
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.columns import Columns, learn_columns, read_targets, require_variety
from mondrian_kernel.app.tables import Table, TableError
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.persistence import load
from mondrian_kernel.regressor import MondrianKernelRegressor

Callback = Callable[[int, int, dict[str, Any]], None]
CHOOSING = "choosing the width"


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted model of a table, as :func:`~mondrian_kernel.save` keeps it.

    Attributes
    ----------
    columns : Columns
        Encoding of the columns.
    target : str
        Name of the column that is predicted.
    task : {"regression", "classification"}
        Task.
    estimator : MondrianKernelRegressor or MondrianKernelClassifier
        Fitted on the encoded columns.
    n_rows : int
        Number of rows learnt.
    held_out : dict
        Scores on rows set aside before anything was fitted; empty if there were none.
    errors : ndarray or None
        Absolute errors on rows that were never fitted, increasing. They give the intervals of a
        regression on so many rows that the estimator's own intervals would take too long.
    """

    columns: Columns
    target: str
    task: str
    estimator: Any
    n_rows: int
    held_out: dict[str, Any]
    errors: FloatArray | None

    def check(self) -> None:
        """Raise ValueError unless estimator, task and columns belong together."""
        kinds: dict[str, Any] = {
            "regression": MondrianKernelRegressor,
            "classification": MondrianKernelClassifier,
        }
        if self.task not in kinds or not isinstance(self.estimator, kinds[self.task]):
            raise ValueError(f"The estimator is not one of a {self.task}.")
        if self.estimator.n_features_in_ != len(self.columns.encoded_names):
            raise ValueError("The estimator was fitted on other columns.")
        if self.errors is not None and not (
            self.errors.ndim == 1
            and self.errors.size
            and (np.diff(self.errors) >= 0).all()
            and 0 <= self.errors[0] <= self.errors[-1] < np.inf
        ):
            raise ValueError("The errors do not increase from 0.")

    def predict_interval(self, X: FloatArray, coverage: float) -> FloatArray:
        """Return an interval for a new target at each encoded row, of shape (n_rows, 2)."""
        if self.errors is None:
            interval: FloatArray = self.estimator.predict_interval(X, coverage)
            return interval
        half = error_quantile(self.errors, coverage)
        mean = self.estimator.predict(X)
        return np.stack([mean - half, mean + half], axis=1)


@dataclass(frozen=True)
class Choices:
    """The user's choices for a fit."""

    target: str
    task: str
    drop: list[str]
    categorical: list[str]
    holdout: float = 0.2
    n_trees: int | None = None
    seed: int = 0
    n_jobs: int | None = None


@dataclass(frozen=True, eq=False)
class Training:
    """A fit and the rows it was measured on.

    Attributes
    ----------
    model : TableModel
        The model to save.
    measured : estimator
        The estimator that was measured on the rows held out, with its path. It differs from that
        of ``model`` if that was fitted again with all rows.
    columns : Columns
        Encoding that ``measured`` was fitted with.
    X_train, y_train, X_test, y_test : ndarray
        Encoded rows and targets, fitted and held out.
    """

    model: TableModel
    measured: Any
    columns: Columns
    X_train: FloatArray
    y_train: NDArray[Any]
    X_test: FloatArray
    y_test: NDArray[Any]


def load_table_model(file: str, n_jobs: int) -> TableModel:
    """Load a model that 'fit' has saved, to be used with ``n_jobs`` threads."""
    model = load(file)
    if not isinstance(model, TableModel):
        raise ValueError(
            f"{file}: it holds a {type(model).__name__}, not a model that 'fit' has written."
        )
    model.estimator.n_jobs = model.estimator.features_.n_jobs = n_jobs
    return model


def used_columns(table: Table, choices: Choices) -> list[str]:
    """Return the columns to learn from: all but the target and those left out."""
    table.require([choices.target, *choices.drop, *choices.categorical])
    names = [n for n in table.names if n != choices.target and n not in choices.drop]
    if not names:
        raise TableError(
            f"{table.source}: no column is left to learn from; keep one beside the target."
        )
    return names


def split_rows(n_rows: int, choices: Choices) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows to learn from and the rows to hold out, each in random order."""
    order = np.random.default_rng(choices.seed).permutation(n_rows)
    n_out = round(choices.holdout * n_rows)
    return order[n_out:], order[:n_out]


def fit_table(
    table: Table, choices: Choices, *, stage: Callable[[str], None], callback: Callback
) -> Training:
    """Fit a model of a table and measure it on rows that were set aside.

    The width is chosen, and the model measured, without the rows held out. Up to ``ROWS_AT_ONCE``
    rows the same width is then fitted to all rows. Of a larger table so many rows are fitted, the
    others are learnt one after the other, and the rows held out give the width of intervals.

    Parameters
    ----------
    table : Table
        The table.
    choices : Choices
        The user's choices.
    stage : callable
        Called with the name of each stage when it begins.
    callback : callable
        Called as ``callback(done, total, info)`` within a stage.

    Returns
    -------
    training : Training
        The model and the rows it was measured on.
    """
    names = used_columns(table, choices)
    y = read_targets(table, choices.target, choices.task)
    require_variety(table, choices.target, y)
    train, test = split_rows(table.n_rows, choices)
    if train.size < 2:
        raise TableError(f"{table.source}: {table.n_rows} rows are too few to learn from.")
    if choices.task == "classification":
        train = _each_class_first(train, y)
    y_train, y_test = y[train], y[test]
    require_variety(table, choices.target, y_train)
    columns = learn_columns(table, names, choices.categorical, train)
    X_train, X_test = columns.encode(table, train), columns.encode(table, test)

    stage(CHOOSING)
    few = ROWS_AT_ONCE[choices.task]
    measured = _make_estimator(choices, columns.scale, train.size).set_params(verbose=callback)
    measured.fit(X_train[:few], y_train[:few])
    measured.set_params(verbose=0)
    if train.size > few:
        stage("learning the other rows")
        with warnings.catch_warnings():
            # A stream is meant to take each row once and forget it.
            warnings.filterwarnings("ignore", "Rows and cells are more than")
            learn_further(measured, X_train[few:], y_train[few:], callback)
    scores: dict[str, Any] = {}
    errors = None
    if test.size:
        stage("measuring on the rows held out")
        scores, errors = _measure(choices.task, measured, X_test, y_test, y_train)

    fitted, learnt, n_rows = measured, columns, int(train.size)
    if test.size and table.n_rows <= few:
        stage("fitting all rows")
        n_rows = table.n_rows
        learnt = learn_columns(table, names, choices.categorical, np.arange(n_rows))
        fitted = _fit_again(choices, measured, columns, learnt).fit(learnt.encode(table), y)
    model = TableModel(learnt, choices.target, choices.task, fitted, n_rows, scores, errors)
    return Training(model, measured, columns, X_train, y_train, X_test, y_test)


def learn_further(estimator: Any, X: FloatArray, y: NDArray[Any], callback: Callback) -> None:
    """Let a fitted estimator learn more rows, some thousand at a time."""
    for begin in range(0, len(y), LEARN_BLOCK_ROWS):
        end = min(begin + LEARN_BLOCK_ROWS, len(y))
        estimator.partial_fit(X[begin:end], y[begin:end])
        callback(end, len(y), {})


def predict_blocks(
    predict: Callable[[FloatArray], NDArray[Any]], X: FloatArray, callback: Callback | None = None
) -> NDArray[Any]:
    """Predict some thousand rows at a time, so that memory is bounded."""
    blocks = []
    for begin in range(0, len(X), PREDICT_BLOCK_ROWS):
        blocks.append(predict(X[begin : begin + PREDICT_BLOCK_ROWS]))
        if callback is not None:
            callback(min(begin + PREDICT_BLOCK_ROWS, len(X)), len(X), {})
    return np.concatenate(blocks)


def error_quantile(errors: FloatArray, coverage: float) -> float:
    """Return the half-width that holds for a new row with the given probability.

    The k-th smallest of n errors with k = ⌈coverage (n + 1)⌉, as in split conformal prediction,
    or the largest if k > n. ``errors`` are increasing.
    """
    k = int(np.ceil(coverage * (errors.size + 1)))
    return float(errors[min(k, errors.size) - 1])


def held_out_scores(
    task: str, model: Any, X: FloatArray, y: NDArray[Any], y_train: NDArray[Any]
) -> dict[str, float]:
    """Return the scores of an estimator on rows held out, and those of a constant prediction."""
    if task == "regression":
        error = float(np.sqrt(np.mean((predict_blocks(model.predict, X) - y) ** 2)))
        plain = float(np.sqrt(np.mean((y_train.mean() - y) ** 2)))
        # One row held out may lie right at the mean: then R² is not defined.
        r2 = 1.0 - (error / plain) ** 2 if plain > 0 else float("nan")
        return {"rmse": error, "rmse_of_the_mean": plain, "r2": r2}
    P = predict_blocks(model.predict_proba, X)
    classes = model.classes_
    frequency = np.array([np.mean(y_train == c) for c in classes])
    truth = y[:, None] == classes  # all False for a class that was not fitted
    return {
        "accuracy": float(np.mean(classes[P.argmax(axis=1)] == y)),
        "log_loss": _log_loss(P, truth),
        "accuracy_of_the_commonest": float(np.mean(classes[frequency.argmax()] == y)),
        "log_loss_of_the_frequencies": _log_loss(frequency, truth),
    }


def coverage_of(interval: FloatArray, y: FloatArray) -> dict[str, float]:
    """Return the share of targets inside their intervals, and the mean width of the intervals."""
    inside = (interval[:, 0] <= y) & (y <= interval[:, 1])
    return {
        "coverage": float(inside.mean()),
        "interval_width": float(np.mean(interval[:, 1] - interval[:, 0])),
    }


def _each_class_first(rows: NDArray[np.intp], y: NDArray[Any]) -> NDArray[np.intp]:
    """Put a row of each class in front: a stream cannot bring classes that were not fitted."""
    first = np.unique(y[rows], return_index=True)[1]
    return np.concatenate([rows[first], np.delete(rows, first)])


def _make_estimator(choices: Choices, scale: FloatArray, n_rows: int) -> Any:
    options: dict[str, Any] = {
        "scale": scale,
        "relevance": "learn",
        "random_state": choices.seed,
        "n_jobs": choices.n_jobs,
    }
    if n_rows > ROWS_AT_ONCE[choices.task]:
        options["n_estimators"] = int(np.clip(STREAM_WORK // n_rows, *TABLE_TREES))
        options["max_cells"] = int(STREAM_BOX_BYTES / (64 * scale.size + 200))
    if choices.n_trees is not None:
        options["n_estimators"] = choices.n_trees
    if choices.task == "regression":
        return MondrianKernelRegressor(**options)
    return MondrianKernelClassifier(**options)


def _fit_again(choices: Choices, measured: Any, columns: Columns, learnt: Columns) -> Any:
    """Return an estimator for all rows, with the width and relevance of the measured one.

    A category that only rows held out have gets the average relevance, 1.
    """
    relevance = dict(zip(columns.encoded_names, measured.relevance_, strict=True))
    scale = learnt.scale / [relevance.get(name, 1.0) for name in learnt.encoded_names]
    again = _make_estimator(choices, scale, 0)
    return again.set_params(lifetime=measured.lifetime_, alpha=measured.alpha_, relevance="equal")


def _measure(
    task: str, estimator: Any, X: FloatArray, y: NDArray[Any], y_train: NDArray[Any]
) -> tuple[dict[str, Any], FloatArray | None]:
    """Return scores on rows held out, and errors for the intervals if there were many rows.

    These errors give the intervals their width. Their coverage is measured on half of the rows,
    with the errors of the other half.
    """
    scores = {"rows": y.size, **held_out_scores(task, estimator, X, y, y_train)}
    if task == "classification":
        return scores, None
    if y_train.size <= ROWS_AT_ONCE[task]:
        return scores | coverage_of(estimator.predict_interval(X, COVERAGE), y), None
    mean = predict_blocks(estimator.predict, X)
    errors = np.abs(mean - y)
    middle = y.size // 2  # the rows are in random order
    half = error_quantile(np.sort(errors[: max(middle, 1)]), COVERAGE)
    interval = mean[middle:, None] + np.array([-half, half])
    return scores | coverage_of(interval, y[middle:]), np.sort(errors)


def _log_loss(P: FloatArray, truth: NDArray[np.bool_]) -> float:
    likelihood = np.where(truth, P, 0.0).sum(axis=1)
    return float(-np.mean(np.log(np.maximum(likelihood, np.finfo(float).eps))))
