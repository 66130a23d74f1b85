"""Rows that are dicts, with columns by name.

A row is a sparse vector, as in river's linear models and nearest neighbours: a column that it does
not name is 0. So a column may appear at any time. All rows before it are 0 there, and trees do not
change by a column of zeros. Predictions leave out columns that no row was learnt with.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel._typing import FloatArray

if TYPE_CHECKING:
    import pandas as pd

Row = dict[Hashable, Any]


class NamedColumns:
    """What all classes share: a model of ours, and the names of its columns."""

    _model: Any

    def __init__(self) -> None:
        self._names: dict[Hashable, None] = {}  # in the order of the columns

    @property
    def _is_empty(self) -> bool:
        return not self._model.__sklearn_is_fitted__()

    def _row(self, x: Row) -> FloatArray:
        """Return a row to predict, (1, D)."""
        return numbers([[x.get(name, 0.0) for name in self._names]], self._names)

    def _rows(self, X: pd.DataFrame) -> FloatArray:
        """Return rows to predict, (n, D)."""
        known = X.reindex(columns=list(self._names), fill_value=0.0)
        return numbers(known.to_numpy(), self._names)

    def _row_to_learn(self, x: Row) -> FloatArray:
        if self._is_empty or not x.keys() <= self._names.keys():
            numbers([list(x.values())], x)
            self._add_columns(x)
        return self._row(x)

    def _rows_to_learn(self, X: pd.DataFrame) -> FloatArray:
        if self._is_empty or not self._names.keys() >= set(X.columns):
            numbers(X.to_numpy(), X.columns)
            self._add_columns(X.columns)
        return self._rows(X)

    def _add_columns(self, names: Iterable[Hashable]) -> None:
        """Let the model have columns for names that are new, sorted: their order means nothing."""
        new = sorted((name for name in names if name not in self._names), key=repr)
        if not self._is_empty:
            self._model._add_columns(len(new))
        self._names.update(dict.fromkeys(new))
        if not self._names:
            raise ValueError("The first row has no columns: there is nothing to learn from.")


def numbers(table: Any, names: Iterable[Hashable]) -> FloatArray:
    """Return rows as numbers, or raise ValueError with the name of a column that has others."""
    try:
        rows = np.array(table, dtype=np.float64, order="C")
        # The sum of squares says it of most rows, and sooner.
        if rows.ndim == 2 and (
            np.vdot(rows, rows) <= settings.LARGEST_NUMBER**2
            or np.abs(rows).max() <= settings.LARGEST_NUMBER
        ):
            return rows
    except (TypeError, ValueError):
        pass
    for name, column in zip(names, zip(*table, strict=True), strict=True):
        for value in column:
            try:
                is_number = abs(float(value)) <= settings.LARGEST_NUMBER
            except (TypeError, ValueError):
                is_number = False
            if not is_number:
                raise ValueError(
                    f"{name!r} is {value!r}, not a finite number below "
                    f"{settings.LARGEST_NUMBER:g}. Put preprocessing.OneHotEncoder before the "
                    "model for words, and "
                    "preprocessing.StatImputer for gaps; or leave the name out, which means 0."
                )
    raise ValueError("The rows are not all of one length.")
