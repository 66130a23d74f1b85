"""Fit a model of a table: rows set aside, columns encoded, width chosen, errors measured."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._path.driver import Callback
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.table.columns import Columns, learn_columns
from mondrian_kernel.app.table.model import (
    TableModel,
    coverage_of,
    error_quantile,
    held_out_scores,
    in_blocks,
)
from mondrian_kernel.app.table.reading import Table, TableError
from mondrian_kernel.app.table.targets import read_targets, require_variety
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.regressor import MondrianKernelRegressor

COVERAGE = 0.9
# So many rows are fitted at once. A regression then has error bars of its own, which rest on a
# matrix of this size: 512 MB.
AT_ONCE = {"regression": 8000, "classification": 50_000}
# Trees for a stream of many rows: time is in proportion to rows times trees.
_STREAM_TREES = (100, 400)
_STREAM_WORK = 100_000_000
_MEMORY = 5e8  # bytes, for the boxes of all cells
BLOCK = 5000


@dataclass(frozen=True)
class Choices:
    """What the user may choose of a fit."""

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
        What is kept.
    measured : estimator
        The estimator that was measured on the rows held out, with its path; that of ``model``
        unless that was fitted again with all rows.
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


def used_columns(table: Table, choices: Choices) -> list[str]:
    """Columns to learn from: all but the target and those left out."""
    table.require([choices.target, *choices.drop, *choices.categorical])
    names = [n for n in table.names if n != choices.target and n not in choices.drop]
    if not names:
        raise TableError(
            f"{table.source}: no column is left to learn from; keep one beside the target."
        )
    return names


def split_rows(n_rows: int, choices: Choices) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to learn from and rows to hold out, each in random order."""
    order = np.random.default_rng(choices.seed).permutation(n_rows)
    n_out = round(choices.holdout * n_rows)
    return order[n_out:], order[:n_out]


def fit_table(
    table: Table,
    choices: Choices,
    *,
    stage: Callable[[str], None],
    callback: Callback,
) -> Training:
    """Fit a model of a table and measure it on rows that were set aside.

    The width is chosen, and the model measured, without the rows held out. Up to ``AT_ONCE`` rows
    the same width is then fitted to all rows. Of more rows, so many are fitted, the others are
    learnt one after the other, and intervals get their width from the rows held out.

    Parameters
    ----------
    table : Table
        The table.
    choices : Choices
        What the user has chosen.
    stage : callable
        Called with a few words as the work advances.
    callback : callable
        Called as ``callback(done, total, info)`` while the width is chosen.

    Returns
    -------
    training : Training
        The model and what it was measured on.
    """
    names = used_columns(table, choices)
    y = read_targets(table, choices.target, choices.task)
    require_variety(table, choices.target, y)
    train, test = split_rows(table.n_rows, choices)
    if train.size < 2:
        raise TableError(f"{table.source}: {table.n_rows} rows are too few to learn from.")
    if choices.task == "classification":
        train = _classes_first(train, y)
    y_train, y_test = y[train], y[test]
    require_variety(table, choices.target, y_train)
    columns = learn_columns(table, names, choices.categorical, train)
    X_train, X_test = columns.encode(table, train), columns.encode(table, test)

    stage("choosing the width (Ctrl-C takes the best so far)")
    few = AT_ONCE[choices.task]
    measured = _estimator(choices, columns.scale, train.size).set_params(verbose=callback)
    measured.fit(X_train[:few], y_train[:few])
    measured.set_params(verbose=0)
    if train.size > few:
        stage("learning the other rows")
        with warnings.catch_warnings():
            # That each row is taken once and forgotten is what a stream is for.
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
        every, n_rows = np.arange(table.n_rows), table.n_rows
        learnt = learn_columns(table, names, choices.categorical, every)
        # Categories that only rows held out have count as much as an average dim.
        relevance = dict(zip(columns.dims, measured.relevance_, strict=True))
        scale = learnt.scale / [relevance.get(dim, 1.0) for dim in learnt.dims]
        fitted = _estimator(choices, scale, n_rows)
        fitted.set_params(lifetime=measured.lifetime_, alpha=measured.alpha_, relevance="equal")
        fitted.fit(learnt.encode(table), y)
    model = TableModel(learnt, choices.target, choices.task, fitted, n_rows, scores, errors)
    return Training(model, measured, columns, X_train, y_train, X_test, y_test)


def _classes_first(rows: NDArray[np.intp], y: NDArray[Any]) -> NDArray[np.intp]:
    """Put a row of each class in front: a stream cannot bring classes that were not fitted."""
    first = np.unique(y[rows], return_index=True)[1]
    return np.concatenate([rows[first], np.delete(rows, first)])


def learn_further(estimator: Any, X: FloatArray, y: NDArray[Any], callback: Callback) -> None:
    """Let a fitted estimator learn further rows, some at a time."""
    for begin in range(0, len(y), BLOCK):
        end = min(begin + BLOCK, len(y))
        estimator.partial_fit(X[begin:end], y[begin:end])
        callback(end, len(y), {})


def _estimator(choices: Choices, scale: FloatArray, n_rows: int) -> Any:
    options: dict[str, Any] = {
        "scale": scale,
        "relevance": "learn",
        "random_state": choices.seed,
        "n_jobs": choices.n_jobs,
    }
    if n_rows > AT_ONCE[choices.task]:
        options["n_estimators"] = int(np.clip(_STREAM_WORK // n_rows, *_STREAM_TREES))
        options["max_cells"] = int(_MEMORY / (64 * scale.size + 200))
    if choices.n_trees is not None:
        options["n_estimators"] = choices.n_trees
    if choices.task == "regression":
        return MondrianKernelRegressor(**options)
    return MondrianKernelClassifier(**options)


def _measure(
    task: str, estimator: Any, X: FloatArray, y: NDArray[Any], y_train: NDArray[Any]
) -> tuple[dict[str, Any], FloatArray | None]:
    """Scores on rows held out, and the errors for intervals of a regression that was a stream."""
    scores = {"rows": y.size, **held_out_scores(task, estimator, X, y, y_train)}
    if task == "classification":
        return scores, None
    if y_train.size <= AT_ONCE[task]:
        return scores | coverage_of(estimator.predict_interval(X, COVERAGE), y), None
    errors, covered = _calibrate(estimator, X, y)
    return scores | covered, errors


def _calibrate(estimator: Any, X: FloatArray, y: FloatArray) -> tuple[FloatArray, dict[str, float]]:
    """Errors that give intervals their width; how those from half of them cover the others."""
    mean = in_blocks(estimator.predict, X)
    errors = np.abs(mean - y)
    middle = y.size // 2  # they are in random order
    width = error_quantile(np.sort(errors[:middle]), COVERAGE)
    interval = mean[middle:, None] + np.array([-width, width])
    return np.sort(errors), coverage_of(interval, y[middle:])
