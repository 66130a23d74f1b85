"""What is learnt of a column of a table, part by part, and the numbers that it becomes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length

from mondrian_kernel import _settings as settings
from mondrian_kernel._tables.columns import Column, refuse_missing_targets
from mondrian_kernel._typing import FloatArray

_NUMBER = np.array([True, False])  # a number, and the column that marks gaps


class LearntNumber:
    """A column of numbers. A gap becomes the median, and a further output marks it.

    All parts are first shown to :meth:`see`. Then they are encoded, with NaN for gaps, and
    :meth:`finish` returns what has to be known of all rows to be encoded.
    """

    categories: list[Any] | None = None
    table: FloatArray | None = None

    def __init__(self, has_gaps: bool = False, median: float = 0.0) -> None:
        self.has_gaps, self.median, self._is_known = has_gaps, median, False

    def see(self, column: Column) -> None:
        """Look at a part of the column."""
        missing = np.isnan(self._numbers(column))
        self.has_gaps |= bool(missing.any())
        self._is_known |= not missing.all()

    def settle(self, column: Column, y: ArrayLike | None, n_rows: int) -> None:
        """End the first pass; the column names itself in errors."""
        if not self._is_known:
            raise _no_values(column)

    @property
    def is_number(self) -> NDArray[np.bool_]:
        """Whether each of the outputs is a number."""
        return _NUMBER[: 1 + self.has_gaps]

    def encoded(self, column: Column) -> FloatArray:
        """Return the outputs of a part, (n, outputs)."""
        return fill(self._numbers(column), np.nan, self.has_gaps)

    def finish(self, values: FloatArray) -> FloatArray | None:
        """Take the first output of all rows, and return outputs to put in their place, if any."""
        missing = np.isnan(values) if self.has_gaps else np.zeros(1, bool)
        self.median = lower_median(values[~missing] if self.has_gaps else values)
        return np.where(missing, self.median, values)[:, None] if self.has_gaps else None

    def _numbers(self, column: Column) -> FloatArray:
        return column.numbers("is not in categorical_features: list it, or turn it into numbers")


class LearntCategory:
    """A column of categories: an output for each, or means of y where they are many.

    The methods are those of :class:`LearntNumber`. Where means of y are to come, rows have the
    number of their category at first.
    """

    has_gaps, median = False, 0.0

    def __init__(self, listed: list[Any], most: int) -> None:
        self._found, self._most, self._Y = set(listed), most, np.empty((0, 0))
        self.categories: list[Any] = []
        self.table: FloatArray | None = None

    def see(self, column: Column) -> None:
        """Look at a part of the column."""
        self._found.update(column.words())

    def settle(self, column: Column, y: ArrayLike | None, n_rows: int) -> None:
        """End the first pass; the column names itself in errors."""
        if self._found <= {None}:
            raise _no_values(column)
        known = sorted(self._found - {None}, key=lambda word: (isinstance(word, str), word))
        self.categories = [*known, None] if None in self._found else known
        n = len(self.categories)
        if n <= self._most:
            self.table = 0.5 * np.eye(n + 1, n)
            self.table[n, 0] = -0.5
        elif y is None:
            raise ValueError(
                f"{column} has {n} categories, more than max_categories={self._most}: pass y to "
                "encode them by its means, raise max_categories, or drop the column."
            )
        else:
            self._Y = _targets(y, n_rows)

    @property
    def is_number(self) -> NDArray[np.bool_]:
        """Whether each of the outputs is a number."""
        n_means = self._Y.shape[1]
        return np.ones(n_means, bool) if n_means else np.zeros(len(self.categories), bool)

    def encoded(self, column: Column) -> FloatArray:
        """Return the outputs of a part, (n, outputs)."""
        codes = category_codes(column, column.words(), self.categories)
        if self.table is not None:
            return np.asarray(self.table[codes])
        return np.repeat(codes[:, None], self._Y.shape[1], axis=1).astype(np.float64)

    def finish(self, values: FloatArray) -> FloatArray | None:
        """Take the first output of all rows, and return outputs to put in their place, if any."""
        if self.table is not None:
            return None
        codes = values.astype(np.intp)
        rows, self.table = _target_means(codes, len(self.categories), self._Y)
        return rows


def lower_median(numbers: FloatArray) -> float:
    """Return the median, the lower one of two: it cannot overflow."""
    middle = (numbers.size - 1) // 2
    return float(np.partition(numbers, middle)[middle])


def fill(numbers: FloatArray, median: float, gaps: bool) -> FloatArray:
    """Put the median where numbers are missing, and mark these rows if the column has gaps."""
    missing = np.isnan(numbers)
    filled = np.where(missing, median, numbers)
    return np.stack([filled, missing][: 1 + gaps], axis=1)


def category_codes(column: Column, words: list[Any], known: list[Any]) -> NDArray[np.intp]:
    """Return the place of each word among the known ones, and their number for all others."""
    kinds = [{isinstance(word, str) for word in set(some) - {None}} for some in (words, known)]
    if all(kinds) and not set.intersection(*kinds):
        was, now = ("text", "numbers") if True in kinds[1] else ("numbers", "text")
        raise ValueError(
            f"{column} holds {now}, but its categories were {was} when it was fitted: turn it "
            f"into {was}."
        )
    place = {word: k for k, word in enumerate(known)}
    return np.array([place.get(word, len(known)) for word in words], dtype=np.intp)


def _target_means(codes: NDArray[np.intp], n: int, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return shrunk means of Y for the rows, without their own fold; and for all categories."""
    from sklearn.model_selection import KFold
    from sklearn.preprocessing import TargetEncoder  # here, since the import takes 0.1 s

    def means(some: Any, wanted: NDArray[np.intp]) -> FloatArray:
        encoder = TargetEncoder(target_type="continuous")
        fits = [encoder.fit(codes[some, None], y[some]).transform(wanted[:, None]) for y in Y.T]
        return np.concatenate(fits, axis=1)

    rows = np.empty((codes.size, Y.shape[1]))
    folds = KFold(min(settings.TARGET_FOLDS, codes.size), shuffle=True, random_state=0)
    for some, others in folds.split(codes):
        rows[others] = means(some, codes[others])
    return rows, means(slice(None), np.arange(n + 1))


def _targets(y: ArrayLike, n_rows: int) -> FloatArray:
    """Return targets as columns of numbers, classes as zeros and ones; of two classes one."""
    refuse_missing_targets(y)
    values = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    check_consistent_length(range(n_rows), values)
    if values.ndim == 1 and values.dtype.kind not in "fiu":
        classes, labels = np.unique(values.astype(str), return_inverse=True)
        return np.eye(classes.size)[labels][:, classes.size == 2 :]
    Y: FloatArray = values.astype(np.float64).reshape(len(values), -1)
    return Y


def _no_values(column: Column) -> ValueError:
    return ValueError(f"{column} has no values: drop it, or fit rows that have some.")
