"""Fit a model of a table, measure it on rows held out, and predict with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mondrian_kernel._settings import COVERAGE, LEARN_BLOCK_ROWS, PREDICT_BLOCK_ROWS
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.roles import (
    frame_to_learn,
    read_targets,
    refuse_useless_columns,
    require_variety,
)
from mondrian_kernel.app.tables import Table, TableError
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.persistence import load
from mondrian_kernel.regressor import MondrianKernelRegressor

Callback = Callable[[int, int, dict[str, Any]], None]


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted model of a table, as :func:`~mondrian_kernel.save` keeps it.

    Attributes
    ----------
    target : str
        Name of the column that is predicted.
    task : {"regression", "classification"}
        Task.
    estimator : MondrianKernelRegressor or MondrianKernelClassifier
        Fitted on the columns as :meth:`frame` returns them.
    relevance : dict
        How much each column of numbers that the kernel sees counts, by its name.
    n_rows : int
        Number of rows learnt.
    held_out : dict
        Scores on rows set aside before anything was fitted; empty if there were none.
    """

    target: str
    task: str
    estimator: Any
    relevance: dict[str, float]
    n_rows: int
    held_out: dict[str, Any]

    def check(self) -> None:
        """Raise ValueError unless estimator, task and columns belong together."""
        kinds: dict[str, Any] = {
            "regression": MondrianKernelRegressor,
            "classification": MondrianKernelClassifier,
        }
        if self.task not in kinds or not isinstance(self.estimator, kinds[self.task]):
            raise ValueError(f"The estimator is not one of a {self.task}.")
        if list(self.relevance) != self.estimator.feature_names_in_.tolist():
            raise ValueError("The relevances are those of other columns.")

    @property
    def categories(self) -> dict[str, list[Any] | None]:
        """The categories of each column, without missing values; None for numbers."""
        names, encoder = self.estimator.feature_names_in_.tolist(), self.estimator.encoder_
        found: list[Any] = [None] * len(names) if encoder is None else encoder.categories_
        known = [words and [word for word in words if word is not None] for words in found]
        return dict(zip(names, known, strict=True))

    def frame(self, table: Table) -> Any:
        """Return the columns of a table that the estimator takes."""
        return table.frame({name: words is not None for name, words in self.categories.items()})


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
        The estimator that was measured on the rows held out. It differs from that of ``model`` if
        that was fitted again with all rows.
    X_train, X_test : pyarrow.Table
        Rows, fitted and held out.
    y_train, y_test : ndarray
        Their targets.
    """

    model: TableModel
    measured: Any
    X_train: Any
    y_train: NDArray[Any]
    X_test: Any
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


def fit_table(table: Table, choices: Choices, *, stage: Callable[[str], None]) -> Training:
    """Fit a model of a table and measure it on rows that were set aside.

    The model that is measured knows nothing of the rows held out. The model to save is then fitted
    to all rows.

    Parameters
    ----------
    table : Table
        The table.
    choices : Choices
        The user's choices.
    stage : callable
        Called with the name of each stage when it begins.

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
    y_train, y_test = y[train], y[test]
    require_variety(table, choices.target, y_train)
    X = frame_to_learn(table, names, choices.categorical)
    X_train, X_test = X.take(train), X.take(test)
    refuse_useless_columns(table, X_train)

    stage("fitting")
    kind: Any = (
        MondrianKernelRegressor if choices.task == "regression" else MondrianKernelClassifier
    )
    trees = "auto" if choices.n_trees is None else choices.n_trees
    measured = kind(n_estimators=trees, random_state=choices.seed, n_jobs=choices.n_jobs)
    fitted = measured.fit(X_train, y_train)
    scores: dict[str, Any] = {}
    if test.size:
        stage("measuring on the rows held out")
        scores = held_out_scores(choices.task, measured, X_test, y_test, y_train)
        stage("fitting all rows")
        fitted = clone(measured).fit(X, y)
    relevance = dict(
        zip(fitted.feature_names_in_.tolist(), fitted.relevance_.tolist(), strict=True)
    )
    model = TableModel(
        choices.target, choices.task, fitted, relevance, train.size + test.size, scores
    )
    return Training(model, measured, X_train, y_train, X_test, y_test)


def learn_further(estimator: Any, X: Any, y: NDArray[Any], callback: Callback) -> None:
    """Let a fitted estimator learn more rows, some thousand at a time."""
    for begin in range(0, len(y), LEARN_BLOCK_ROWS):
        end = min(begin + LEARN_BLOCK_ROWS, len(y))
        estimator.partial_fit(X[begin:end], y[begin:end])
        callback(end, len(y), {})


def predict_blocks(
    predict: Callable[[Any], NDArray[Any]], X: Any, callback: Callback | None = None
) -> NDArray[Any]:
    """Predict some thousand rows at a time, so that memory is bounded."""
    blocks = []
    for begin in range(0, len(X), PREDICT_BLOCK_ROWS):
        blocks.append(predict(X[begin : begin + PREDICT_BLOCK_ROWS]))
        if callback is not None:
            callback(min(begin + PREDICT_BLOCK_ROWS, len(X)), len(X), {})
    return np.concatenate(blocks)


def held_out_scores(
    task: str, model: Any, X: Any, y: NDArray[Any], y_train: NDArray[Any]
) -> dict[str, float]:
    """Return the scores of an estimator on rows held out, and those of a constant prediction."""
    if task == "regression":
        error = float(np.sqrt(np.mean((predict_blocks(model.predict, X) - y) ** 2)))
        plain = float(np.sqrt(np.mean((y_train.mean() - y) ** 2)))
        # One row held out may lie right at the mean: then R² is not defined.
        r2 = 1.0 - (error / plain) ** 2 if plain > 0 else float("nan")
        scores = {"rows": y.size, "rmse": error, "rmse_of_the_mean": plain, "r2": r2}
        interval = predict_blocks(lambda rows: model.predict_interval(rows, COVERAGE), X)
        return scores | coverage_of(interval, y)
    P = predict_blocks(model.predict_proba, X)
    classes = model.classes_
    frequency = np.array([np.mean(y_train == c) for c in classes])
    truth = y[:, None] == classes  # all False for a class that was not fitted
    return {
        "rows": y.size,
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


def _log_loss(P: FloatArray, truth: NDArray[np.bool_]) -> float:
    likelihood = np.where(truth, P, 0.0).sum(axis=1)
    return float(-np.mean(np.log(np.maximum(likelihood, np.finfo(float).eps))))
