"""Turn the columns of a table into the numbers that an estimator sees, and read its target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._settings import MAX_CATEGORIES
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.tables import Table, TableError


@dataclass(frozen=True, eq=False)
class Columns:
    """Encoding of a table's columns, learnt from the rows that are fitted.

    A number stays as it is. A missing number becomes the median. Text becomes a column of zeros
    and ones for each of the most frequent categories; any other category, and a missing one, is
    zero in all of them. A column with missing values gets a further column that marks them.

    Attributes
    ----------
    names : list of str
        The columns, in the order of the encoding.
    categories : list
        For each column its categories, or None for numbers.
    medians : ndarray of shape (n_columns,)
        Median of the numbers; 0 for categories.
    gaps : ndarray of bool, of shape (n_columns,)
        Whether a further column marks missing values.
    spreads : ndarray of shape (n_columns,)
        Standard deviation of the numbers; 1 for categories and where it is 0.
    """

    names: list[str]
    categories: list[list[str] | None]
    medians: FloatArray
    gaps: NDArray[np.bool_]
    spreads: FloatArray

    @property
    def encoded_names(self) -> list[str]:
        """Name of each encoded column."""
        encoded = []
        for name, words, gap in zip(self.names, self.categories, self.gaps, strict=True):
            encoded += [name] if words is None else [f"{name}={word}" for word in words]
            encoded += [f"{name} is missing"] if gap else []
        return encoded

    @property
    def scale(self) -> FloatArray:
        """Divisor of each encoded column before the kernel sees it.

        Standard deviations for numbers. Columns of zeros and ones stay as they are: divided by
        its standard deviation, a rare category would be far away from everything.
        """
        scale = []
        for words, gap, spread in zip(self.categories, self.gaps, self.spreads, strict=True):
            scale += [spread] if words is None else [1.0] * len(words)
            scale += [1.0] if gap else []
        return np.array(scale)

    def check(self) -> None:
        """Raise ValueError unless there is one of each for every column."""
        n = len(self.names)
        shapes = self.medians.shape, self.gaps.shape, self.spreads.shape
        if len(self.categories) != n or shapes != ((n,),) * 3:
            raise ValueError(f"There are {n} names of columns, but the rest has {shapes}.")
        if not np.isfinite(self.medians).all():
            raise ValueError("A median is not finite.")
        if not (np.isfinite(self.spreads) & (self.spreads > 0)).all():
            raise ValueError("A spread is not a positive number.")

    def encode(self, table: Table, rows: NDArray[np.intp] | None = None) -> FloatArray:
        """Return a matrix with one column for each of ``encoded_names``.

        Parameters
        ----------
        table : Table
            The table.
        rows : ndarray of int or None, default=None
            Rows to encode; None encodes all.
        """
        table.require(self.names)
        picked = slice(None) if rows is None else rows
        blocks: list[NDArray[Any]] = []
        for k, (name, words) in enumerate(zip(self.names, self.categories, strict=True)):
            if words is None:
                numbers = table.numbers(name)[picked]
                missing = np.isnan(numbers)
                blocks.append(np.where(missing, self.medians[k], numbers)[:, None])
            else:
                texts = table.texts(name)[picked]
                missing = texts == None  # noqa: E711 - by element
                blocks.append(texts[:, None] == np.array(words, object))
            if self.gaps[k]:
                blocks.append(missing[:, None])
        return np.concatenate(blocks, axis=1, dtype=np.float64)


def learn_columns(
    table: Table, names: list[str], categorical: list[str], rows: NDArray[np.intp]
) -> Columns:
    """Learn the encoding of columns from some rows of a table.

    Parameters
    ----------
    table : Table
        The table.
    names : list of str
        Columns to use. If most values of one are numbers, all of them must be.
    categorical : list of str
        Columns whose numbers are categories.
    rows : ndarray of int
        The rows to learn from.

    Returns
    -------
    columns : Columns
        The encoding.
    """
    categories: list[list[str] | None] = []
    medians, gaps, spreads = np.zeros(len(names)), np.zeros(len(names), bool), np.ones(len(names))
    for k, name in enumerate(names):
        if name not in categorical and not table.share_of_numbers(name) < 0.5:
            numbers = table.numbers(name)[rows]
            missing = np.isnan(numbers)
            _require_values(table, name, missing)
            medians[k] = np.median(numbers[~missing])
            spread = float(np.std(np.where(missing, medians[k], numbers)))
            spreads[k] = spread if 0 < spread < np.inf else 1.0
            categories.append(None)
        else:
            if name not in categorical:
                advice = f"if these are categories, say --categorical {name!r}"
                table.refuse_disguised_numbers(name, advice)
            texts = table.texts(name)[rows]
            missing = texts == None  # noqa: E711 - by element
            _require_values(table, name, missing)
            categories.append(_frequent_words(table, name, texts[~missing].astype(str)))
        gaps[k] = missing.any()
    return Columns(names, categories, medians, gaps, spreads)


def guess_task(table: Table, target: str) -> str:
    """Classification if the target is text or has two values, else regression."""
    table.require([target])
    if table.share_of_numbers(target) < 0.5:
        table.refuse_disguised_numbers(target, "if these are classes, say --task classification")
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


def require_variety(table: Table, target: str, values: NDArray[Any]) -> None:
    """Raise an error if all targets are the same."""
    if (values == values[0]).all():
        raise TableError(
            f"{table.source}: column {target!r} is {values[0]} in every row: there is nothing to "
            "learn."
        )


def _frequent_words(table: Table, name: str, texts: NDArray[np.str_]) -> list[str]:
    """Return the most frequent words, sorted."""
    words, counts = np.unique(texts, return_counts=True)
    if words.size > MAX_CATEGORIES and 2 * words.size > texts.size:
        raise TableError(
            f"{table.source}: column {name!r} has {words.size} different texts in {texts.size} "
            "rows, like a name or an identifier; leave it out (--drop) or turn it into numbers."
        )
    frequent = words[np.argsort(-counts, kind="stable")[:MAX_CATEGORIES]]
    return sorted(frequent.tolist())


def _require_values(table: Table, name: str, missing: NDArray[np.bool_]) -> None:
    if missing.all():
        raise TableError(
            f"{table.source}: column {name!r} has no values in the {missing.size} rows to learn "
            "from; leave it out (--drop)."
        )
