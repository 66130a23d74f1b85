"""Columns of a table of pandas, polars or pyarrow, or of an array, as numbers or words."""

from __future__ import annotations

from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from mondrian_kernel._typing import FloatArray
from mondrian_kernel.on_disk import TableParts, row_blocks

_WORDS = (str, bool, int, float)
_DATES = (date, time, timedelta, np.datetime64, np.timedelta64)
_NO_VALUE = ("NAType", "NaTType")  # of pandas, which need not be there
_KINDS = dict.fromkeys("fiub", "number") | {"U": "category"}  # of arrays
_REMEDY = (
    "an argument must be a string, a truth value or a number: take the values apart into columns "
    "of these."
)


def needs_encoding(X: Any, categorical_features: Any) -> bool:
    """Whether rows are other than an array of finite numbers."""
    listed = categorical_features is not None and not isinstance(categorical_features, str)
    if (
        isinstance(X, TableParts)
        or listed
        or np.ma.is_masked(X)
        or nw.dependencies.is_into_dataframe(X)
        or hasattr(X, "collect")
    ):
        return True
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind not in "fOUSmM":
        return False  # what is no table is refused elsewhere
    if rows.dtype.kind != "f":
        return True
    return not all(np.isfinite(rows[block]).all() for block in row_blocks(rows.shape[0]))


def read_columns(estimator: BaseEstimator, X: Any, *, reset: bool, first: int = 0) -> list[Column]:
    """Check a table on behalf of an estimator and return its columns.

    ``first`` is the number of its first row, where it is a part of a larger one.
    """
    if hasattr(X, "collect"):
        raise TypeError(f"X is a {type(X).__name__}: call X.collect() first.")
    if nw.dependencies.is_into_dataframe(X):
        columns = list(nw.from_native(X, eager_only=True).iter_columns())
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        if 0 in X.shape:
            raise ValueError(f"Found {X.shape[0]} sample(s) and {X.shape[1]} feature(s) in X.")
        return [Column(data.name, data, _kind(data.dtype), first) for data in columns]
    if np.ma.is_masked(X):
        X = np.where(np.ma.getmaskarray(X), None, X.data)
    elif not hasattr(X, "dtype") and _loses_values(np.asarray(X)):
        X = np.array(X, dtype=object)
    rows = validate_data(estimator, X, reset=reset, dtype=None, ensure_all_finite=False)
    if rows.dtype.kind in "mM":
        raise TypeError(_refuse_dates(0))
    kind = _KINDS.get(rows.dtype.kind, "")
    return [Column(j, rows[:, j], kind, first) for j in range(rows.shape[1])]


def _loses_values(rows: NDArray[Any]) -> bool:
    """Whether an array of a list may hold numbers as text, or large whole ones rounded."""
    kind = rows.dtype.kind
    return kind == "U" or (kind == "f" and bool((np.abs(rows) >= 2.0**53).any()))


def refuse_missing_targets(y: Any) -> None:
    """Raise ValueError if a target is missing, also one among text or objects."""
    values = np.asarray(y)
    if values.ndim == 0 or values.dtype.kind not in "fO":  # None, sparse: refused later
        return
    if values.dtype.kind == "f":
        missing = np.isnan(values)
    else:
        missing = np.reshape([_plain(value) is None for value in values.ravel()], values.shape)
    rows = np.nonzero(missing)[0]
    if rows.size:
        raise ValueError(f"Input y contains NaN, first in row {rows[0]}: leave such rows out.")


class Column(NamedTuple):
    """A column of a table.

    ``data`` is a narwhals series or an array. ``kind`` is "number" or "category" by its dtype, or
    empty where its values decide. ``first`` is the number of its first row.
    """

    name: Any
    data: Any
    kind: str
    first: int = 0

    def is_category(self) -> bool:
        """Whether it holds categories by its dtype or, where that leaves it open, by its values."""
        if self.kind:
            return self.kind == "category"
        kinds = {isinstance(w, str | bool) for w in self.words(strict=True) if w is not None}
        if len(kinds) > 1:
            raise ValueError(
                f"{self} mixes text and numbers: turn all of it into one or the other, with "
                "astype(float) or astype(str)."
            )
        return kinds == {True}

    def numbers(self, complaint: str) -> FloatArray:
        """Return finite numbers, NaN where they are missing; ``complaint`` is about text."""
        values = self.data
        if self.kind != "number":
            values = self.words(strict=True)
            text = next((word for word in values if isinstance(word, str)), None)
            if text is not None:
                raise ValueError(f"{self} holds text such as {text!r}, but {complaint}.")
        elif not isinstance(values, np.ndarray):
            values = values.to_numpy()
        try:
            numbers = np.array(values, dtype=np.float64)
        except OverflowError as error:
            raise ValueError(f"{self} holds a whole number that is too large.") from error
        infinite = np.isinf(numbers)
        if infinite.any():
            raise ValueError(
                f"{self} contains infinity, first in row {self.first + int(infinite.argmax())}: "
                "replace it by a number, or by NaN where it stands for a missing one."
            )
        return numbers

    def words(self, strict: bool = False) -> list[Any]:
        """Return text, truth values and numbers, None where they are missing.

        Values of any other kind become text, or are refused if that is ``strict``.
        """
        is_array = isinstance(self.data, np.ndarray)
        values = self.data.tolist() if is_array else self.data.to_list()
        try:
            plain = dict.fromkeys(values)
        except TypeError as error:  # not hashable
            raise TypeError(f"{self} holds nested values, but {_REMEDY}") from error
        for value in plain:
            plain[value] = word = _plain(value)
            if word is not None and not isinstance(word, _WORDS):
                if strict and isinstance(word, _DATES):
                    raise TypeError(_refuse_dates(self.name))
                if strict:
                    kind = type(word).__name__
                    raise TypeError(f"{self} holds values of type {kind}, but {_REMEDY}")
                plain[value] = str(word)
        return [plain[value] for value in values]

    def listed(self) -> list[Any]:
        """Return the categories that the dtype lists, present or not."""
        if isinstance(self.data, np.ndarray):
            return []
        found = getattr(getattr(self.data.to_native(), "cat", None), "categories", None)
        if found is None and self.data.dtype == nw.Enum:
            found = self.data.dtype.categories
        words = [] if found is None else [_plain(value) for value in found]
        return [word if isinstance(word, _WORDS) else str(word) for word in words]

    def __str__(self) -> str:
        return f"Column {self.name!r}"


def _kind(dtype: Any) -> str:
    if dtype in (nw.Boolean, nw.String, nw.Categorical, nw.Enum):
        return "category"
    return "number" if dtype.is_numeric() else ""


def _plain(value: Any) -> Any:
    """Return None for a missing value, and numbers as those of Python."""
    if isinstance(value, np.generic) and not isinstance(value, _DATES):
        value = value.item()
    if value is None or type(value).__name__ in _NO_VALUE or value != value:
        return None
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == int(value) else float(value)
    return value


def _refuse_dates(name: Any) -> str:
    return (
        f"Column {name!r} holds dates or times: replace it by numbers, for instance by the columns "
        f"of skrub.DatetimeEncoder().fit_transform(X[{name!r}])."
    )
