"""How the columns of a table become the numbers that an estimator sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.table.reading import Table, TableError

MOST_CATEGORIES = 50


@dataclass(frozen=True, eq=False)
class Columns:
    """Encoding of a table's columns, learnt from the rows that are fitted.

    A number stays as it is and is the median where it is missing. Text becomes a column of zeros
    and ones for each category; a category that is new, or rarer than the fifty most frequent ones,
    is zero in all of them, as is a missing one. A column that had missing values gets another one
    that says where.

    Attributes
    ----------
    names : list of str
        The columns, in the order of the encoding.
    categories : list
        For each column its categories, or None for numbers.
    medians : ndarray of shape (n_columns,)
        Median of the numbers; 0 for categories.
    gaps : ndarray of bool, of shape (n_columns,)
        Whether missing values get a column.
    spreads : ndarray of shape (n_columns,)
        Standard deviation of the numbers; 1 for categories and where it is 0.
    """

    names: list[str]
    categories: list[list[str] | None]
    medians: FloatArray
    gaps: NDArray[np.bool_]
    spreads: FloatArray

    @property
    def dims(self) -> list[str]:
        """Name of each encoded column."""
        dims = []
        for name, words, gap in zip(self.names, self.categories, self.gaps, strict=True):
            dims += [name] if words is None else [f"{name}={word}" for word in words]
            dims += [f"{name} is missing"] if gap else []
        return dims

    @property
    def scale(self) -> FloatArray:
        """What each encoded column is divided by before the kernel sees it.

        Standard deviations for numbers. Columns of zeros and ones stay as they are: divided by
        their deviation, a rare category would be far away from everything.
        """
        scale = []
        columns = zip(self.categories, self.gaps, self.spreads, strict=True)
        for words, gap, spread in columns:
            scale += [spread] if words is None else [1.0] * len(words)
            scale += [1.0] if gap else []
        return np.array(scale)

    def encode(self, table: Table, rows: NDArray[np.intp] | None = None) -> FloatArray:
        """Encode a table, or some rows of it, as a matrix with a column for each of ``dims``."""
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
        Columns to use. One whose values are numbers, for the greater part, must hold nothing else.
    categorical : list of str
        Those whose numbers are categories.
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
            _require_some(table, name, missing)
            medians[k] = np.median(numbers[~missing])
            spread = float(np.std(np.where(missing, medians[k], numbers)))
            spreads[k] = spread if 0 < spread < np.inf else 1.0
            categories.append(None)
        else:
            texts = table.texts(name)[rows]
            missing = texts == None  # noqa: E711 - by element
            _require_some(table, name, missing)
            categories.append(_categories(table, name, texts[~missing].astype(str)))
        gaps[k] = missing.any()
    return Columns(names, categories, medians, gaps, spreads)


def _categories(table: Table, name: str, texts: NDArray[np.str_]) -> list[str]:
    """Return the most frequent words, sorted."""
    words, counts = np.unique(texts, return_counts=True)
    if words.size > MOST_CATEGORIES and 2 * words.size > texts.size:
        raise TableError(
            f"{table.source}: column {name!r} has {words.size} different texts in {texts.size} "
            "rows, like a name or an identifier; leave it out (--drop) or turn it into numbers."
        )
    frequent = words[np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]]
    return sorted(frequent.tolist())


def _require_some(table: Table, name: str, missing: NDArray[np.bool_]) -> None:
    if missing.all():
        raise TableError(
            f"{table.source}: column {name!r} has no values in the {missing.size} rows to learn "
            "from; leave it out (--drop)."
        )
