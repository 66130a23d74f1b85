"""Fit a model of a table, measure it on rows held out, and predict with it."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mondrian_kernel import _settings as settings
from mondrian_kernel.app.console import Progress
from mondrian_kernel.app.measure import Measured
from mondrian_kernel.app.tables import Table, TableError
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.on_disk import TableParts
from mondrian_kernel.persistence import load
from mondrian_kernel.regressor import MondrianKernelRegressor

_KINDS: dict[str, Any] = {
    "regression": MondrianKernelRegressor,
    "classification": MondrianKernelClassifier,
}


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted model of a table, as :func:`~mondrian_kernel.save` keeps it.

    ``target`` is the column that is predicted, ``task`` "regression" or "classification". The
    ``estimator`` was fitted to ``n_rows`` rows of the columns that :meth:`frame` returns.
    ``held_out`` are scores on rows held out; empty if there were none.
    """

    target: str
    task: str
    estimator: Any
    n_rows: int
    held_out: dict[str, Any]

    def check(self) -> None:
        """Raise ValueError unless estimator, task and columns belong together."""
        if self.task not in _KINDS or not isinstance(self.estimator, _KINDS[self.task]):
            raise ValueError(f"The estimator is not one of a {self.task}.")

    @property
    def categories(self) -> dict[str, list[Any] | None]:
        """The categories of each column, without missing values; None for numbers."""
        names, found = (
            self.estimator.feature_names_in_.tolist(),
            self.estimator._encoder.categories_,
        )
        known = [words and [word for word in words if word is not None] for words in found]
        return dict(zip(names, known, strict=True))

    def frame(self, table: Table) -> Any:
        """Return the columns of a table that the estimator takes."""
        table.require(list(self.categories), why=", which the model predicts from")
        return table.frame({name: words is not None for name, words in self.categories.items()})


@dataclass(frozen=True)
class Choices:
    """The user's choices for a fit."""

    target: str
    task: str
    drop: list[str]
    categorical: list[str]
    holdout: float = settings.HELD_OUT_SHARE
    n_trees: int | None = None
    seed: int = 0
    n_jobs: int | None = None


def load_table_model(file: str, n_jobs: int | None) -> TableModel:
    """Load a model that 'fit' has saved, to be used with ``n_jobs`` threads."""
    model = load(file)
    if not isinstance(model, TableModel):
        raise ValueError(
            f"{file}: it holds a {type(model).__name__}, not a model that 'fit' has written."
        )
    model.estimator.n_jobs = n_jobs
    return model


def split_rows(n_rows: int, choices: Choices) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows to learn from and the rows to hold out, each in random order."""
    order = np.random.default_rng(choices.seed).permutation(n_rows)
    n_out = round(choices.holdout * n_rows)
    return order[n_out:], order[:n_out]


def rows_to_learn(
    table: Table, choices: Choices
) -> tuple[TableParts, NDArray[Any], NDArray[np.intp], NDArray[np.intp]]:
    """Return columns and targets of all rows, and which rows to learn from and to hold out.

    The rows are in random order.
    """
    table.require([choices.target, *choices.drop, *choices.categorical])
    names = [n for n in table.names if n != choices.target and n not in choices.drop]
    if not names:
        raise TableError(
            f"{table.source}: no column is left to learn from; keep one beside the target."
        )
    y = read_targets(table, choices.target, choices.task)
    train, test = split_rows(table.n_rows, choices)
    if train.size < 2:
        raise TableError(f"{table.source}: {table.n_rows} rows are too few to learn from.")
    if (y[train] == y[train[0]]).all():
        raise TableError(
            f"{table.source}: column {choices.target!r} is {y[train[0]]} in every row: there is "
            "nothing to learn."
        )
    X = frame_to_learn(table, names, choices.categorical)
    refuse_useless_columns(table, X.take(np.sort(train)))
    return X, y, train, test


def fit_table(
    table: Table, choices: Choices, progress: Progress
) -> tuple[TableModel, Measured | None]:
    """Return a model to save, fitted to all rows, and another, measured on rows it has not seen.

    ``progress`` is told of each stage.
    """
    X, y, *parts = rows_to_learn(table, choices)
    train, test = (np.sort(part) for part in parts)
    X_train = X.take(train)
    fitted = _KINDS[choices.task](
        n_estimators="auto" if choices.n_trees is None else choices.n_trees,
        random_state=choices.seed,
        n_jobs=choices.n_jobs,
        verbose=lambda *done: progress(*done),  # a function, which clone does not copy
    )
    progress.stage("fitting")
    fitted = saved = fitted.fit(X_train, y[train])
    measured = None
    if test.size:
        progress.stage("fitting all rows")
        saved = clone(fitted).fit(X, y)
        if choices.task == "regression" or np.isin(y[test], y[train]).any():
            progress.stage("measuring on the rows held out")
            rows = X_train, y[train], X.take(test), y[test]
            measured = Measured(fitted, *rows, row_numbers=test + 1, saved=saved)
    held_out = {} if measured is None else measured.scores
    return TableModel(choices.target, choices.task, saved, table.n_rows, held_out), measured


def frame_to_learn(table: Table, names: list[str], categorical: list[str]) -> TableParts:
    """Return columns as pyarrow tables of float64 and, for categories, text, with nulls for gaps.

    If most values of a column are numbers, all of them must be. The numbers of columns that are
    named in ``categorical`` are categories.
    """
    text = dict.fromkeys(names, True)
    for name in names:
        if name not in categorical:
            text[name] = table.share_of_numbers(name) < 0.5
            if text[name]:
                advice = f"if these are categories, say --categorical {name!r}"
                table.refuse_disguised_numbers(name, advice)
    return table.parts(text)


def refuse_useless_columns(table: Table, X: TableParts) -> None:
    """Raise an error if columns of the rows to learn from have no values, or are identifiers."""
    counts: Counter[str] = Counter()
    words: dict[str, set[str]] = {}
    for frame in X:
        for name, column in zip(frame.column_names, frame.columns, strict=True):
            counts[name] += len(column) - column.null_count
            own = words.setdefault(name, set())
            if str(column.type) == "string":
                own.update(column.drop_null().unique().to_pylist())
    empty = [name for name in words if counts[name] == 0]
    most = settings.MAX_CATEGORIES
    unique = [n for n, own in words.items() if len(own) > most and 2 * len(own) > counts[n]]
    drop = f"leave out with {' '.join(f'--drop {shlex.quote(name)}' for name in empty + unique)}"
    for name in empty:
        raise TableError(
            f"{table.source}: column {name!r} has no values in the {len(X)} rows to learn from; "
            f"{drop}."
        )
    for name in unique:
        raise TableError(
            f"{table.source}: column {name!r} has {len(words[name])} different texts in "
            f"{counts[name]} rows, like a name or an identifier; {drop}, or turn it into numbers."
        )


def guess_task(table: Table, target: str) -> str:
    """Classification if the target is text or has two values, else regression."""
    table.require([target])
    if table.share_of_numbers(target) < 0.5:
        remedy = "if these are classes, say --task classification"
        table.refuse_disguised_numbers(target, remedy)
        words = table.texts(target)
        n_words = len(set(words.tolist()))
        if n_words > settings.MAX_CATEGORIES and 2 * n_words > words.size:
            raise TableError(
                f"{table.source}: column {target!r} has {n_words} different texts in {words.size} "
                f"rows, such as {words[0]!r}: turn it into numbers; {remedy}."
            )
        return "classification"
    numbers = table.numbers(target)
    return "classification" if np.unique(numbers[~np.isnan(numbers)]).size == 2 else "regression"


def read_targets(table: Table, target: str, task: str) -> NDArray[Any]:
    """Return the numbers or classes to predict; none may be missing.

    Classes are text, even if they are numbers in the file.
    """
    table.require([target])
    if task == "regression":
        values: NDArray[Any] = table.numbers(target)
        missing = np.isnan(values)
    else:
        values = table.texts(target)
        missing = values == None  # noqa: E711 - by element
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        table.fail(row, target, "is missing, but it is the target; take the row out")
    return values if task == "regression" else values.astype(str)
