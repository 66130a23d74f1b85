"""What is learnt of a column of a table, part by part, and the numbers that it becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length

from mondrian_kernel import _settings as settings
from mondrian_kernel._tables.columns import Column, refuse_missing_targets
from mondrian_kernel._typing import FloatArray


@dataclass(eq=False)
class ColumnCode:
    """How a column of a table becomes numbers.

    All parts of the column are first shown to :meth:`see`. :meth:`settle` says which outputs there
    will be. When all parts have been encoded, :meth:`finish` puts in what depends on all rows:
    means of y where the categories are many, and the median in the place of gaps.

    Attributes
    ----------
    categories : list or None
        Its categories, None for a column of numbers.
    table : ndarray or None
        Outputs of each category and, last, of an unknown one.
    median : float
        What a gap becomes.
    has_gaps : bool
        Whether a further output marks gaps.
    special : ndarray of shape (V, 2) or None
        Special values of a column of numbers, and what a further output is at each; see
        :func:`special_values`.
    """

    categories: list[Any] | None = None
    table: FloatArray | None = None
    median: float = 0.0
    has_gaps: bool = False
    special: FloatArray | None = None
    _is_known = False
    _Y: FloatArray | None = None

    def see(self, column: Column) -> None:
        """Look at a part of the column."""
        if self.categories is not None:
            words = {*self.categories, *column.words()}
            self.categories, self._is_known = list(words), bool(words - {None})
            return
        complaint = "is not in categorical_features: list it, or turn it into numbers"
        missing = np.isnan(column.numbers(complaint))
        self.has_gaps |= bool(missing.any())
        self._is_known |= not missing.all()

    def settle(self, column: Column, most: int, y: ArrayLike | None, n_rows: int) -> None:
        """End the first pass; the column names itself in errors."""
        if not self._is_known:
            raise ValueError(f"{column} has no values: drop it, or fit rows that have some.")
        if self.categories is None:
            self.median = np.nan if self.has_gaps else 0.0
            return
        words = set(self.categories)
        known = sorted(words - {None}, key=lambda word: (isinstance(word, str), word))
        self.categories = [*known, None] if None in words else known
        n = len(self.categories)
        if n <= most:
            self.table = 0.5 * np.eye(n + 1, n)
            self.table[n, 0] = -0.5
        elif y is None:
            raise ValueError(
                f"{column} has {n} categories, more than max_categories={most}: pass y to encode "
                "them by its means, raise max_categories, or drop the column."
            )
        else:  # means of y are to come; until then a row has the number of its category
            self._Y = target_columns(y, n_rows)
            self.table = np.repeat(np.arange(n + 1.0)[:, None], self._Y.shape[1], axis=1)

    @property
    def is_number(self) -> NDArray[np.bool_]:
        """Whether each of the outputs is a number."""
        if self.table is None:
            further = [False] * self.has_gaps + [True] * (self.special is not None)
            return np.array([True, *further])
        return np.full(self.table.shape[1], self._Y is not None)

    def finish(self, values: FloatArray) -> FloatArray | None:
        """Take the first output of all rows, and return outputs to put in their place, if any."""
        if self._Y is not None:
            assert self.categories is not None
            rows, self.table = _target_means(values.astype(np.intp), len(self.categories), self._Y)
            return rows
        if self.categories is not None:
            return None
        missing = np.isnan(values)
        self.median = float(np.quantile(values[~missing], 0.5, method="lower"))
        return np.where(missing, self.median, values)[:, None] if self.has_gaps else None


def encode_column(
    column: Column,
    words: list[Any] | None,
    table: Any,
    median: float,
    has_gaps: bool,
    special: FloatArray | None,
) -> FloatArray:
    """Return the outputs of rows of a column, (n, outputs), by the parts of its code."""
    if words is not None:
        outputs: FloatArray = table[category_codes(column, column.words(), words)]
        return outputs
    numbers = column.numbers("held numbers when it was fitted: turn it into numbers")
    missing = np.isnan(numbers)
    found = [np.where(missing, median, numbers), missing][: 1 + has_gaps]
    further = [] if special is None else [special_output(numbers, special)]
    return np.stack([*found, *further], axis=1)


def special_values(numbers: FloatArray, y: FloatArray) -> FloatArray | None:
    """Return values of a column at which y is unlike y at the values on both sides of it.

    A tax form has amounts that many people share for one reason. There y has a peak or a dip, which
    a monotone function of the column cannot show. A value is special if the mean of y at it lies
    above, or below, the means at the nearest rows on either side, by several standard errors.

    ``numbers`` (N,) are NaN where they are missing. Special values come in ascending order, (V, 2),
    with how far the mean of y at each lies from that on the nearer side.
    """
    known = ~np.isnan(numbers)
    values, place, count = np.unique(numbers[known], return_inverse=True, return_counts=True)
    before, near = np.append(0, np.cumsum(count)), settings.SPECIAL_NEIGHBOURS
    own = np.flatnonzero(
        (count >= settings.SPECIAL_ROWS) & (before[:-1] >= near) & (before[1:] <= before[-1] - near)
    )
    if values.size <= settings.SPECIAL_LEAST_VALUES or own.size == 0:
        return None
    edges = [
        np.searchsorted(before, before[own] - near, side="right") - 1,
        own,
        own + 1,
        np.searchsorted(before, before[own + 1] + near),
    ]
    n = np.diff(before[edges], axis=0)  # rows on the left, at the value, and on the right
    centred = y[known] - y[known].mean()
    sums, squares = (
        np.append(0.0, np.cumsum(np.bincount(place, centred**p)))[edges] for p in (1, 2)
    )
    mean = np.diff(sums, axis=0) / n
    variance = (np.diff(squares, axis=0) - n * mean**2).sum(axis=0) / n.sum(axis=0)
    step = mean[1] - mean[[0, 2]]
    error = variance * (1.0 / n[1] + 1.0 / n[[0, 2]])
    is_special = (step[0] * step[1] > 0.0) & (step**2 > settings.SPECIAL_ERRORS**2 * error).all(0)
    nearer = np.where(np.abs(step[0]) < np.abs(step[1]), *step)
    nearer = nearer.astype(np.float32)  # the order of the rows does not show
    return np.stack([values[own], nearer], axis=1)[is_special] if is_special.any() else None


def special_output(
    numbers: FloatArray, special: FloatArray, y: FloatArray | None = None
) -> FloatArray:
    """Return the further output of numbers (n,): 0 where they have no special value.

    With the targets ``y`` (n,) of fitted rows it is cross-fitted: no row sees y of its own fold.
    """
    at = np.minimum(np.searchsorted(special[:, 0], numbers), len(special) - 1)
    is_special = special[at, 0] == numbers
    out: FloatArray = np.where(is_special, special[at, 1], 0.0)
    if y is None:
        return out

    def means(rows: NDArray[np.intp]) -> FloatArray:
        """Return the mean of y at each special value, in some rows."""
        rows = rows[is_special[rows]]
        count = np.bincount(at[rows], minlength=len(special))
        return np.asarray(np.bincount(at[rows], y[rows], len(special)) / np.maximum(count, 1))

    whole = means(np.arange(numbers.size))
    for some, others in _folds(numbers.size).split(numbers):
        own = others[is_special[others]]
        out[own] += (means(some) - whole)[at[own]]
    return out


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
    from sklearn.preprocessing import TargetEncoder  # here, since the import takes 0.1 s

    def means(some: Any, wanted: NDArray[np.intp]) -> FloatArray:
        encoder = TargetEncoder(target_type="continuous")
        fits = [encoder.fit(codes[some, None], y[some]).transform(wanted[:, None]) for y in Y.T]
        return np.concatenate(fits, axis=1)

    rows = np.empty((codes.size, Y.shape[1]))
    for some, others in _folds(codes.size).split(codes):
        rows[others] = means(some, codes[others])
    return rows, means(slice(None), np.arange(n + 1))


def _folds(n_rows: int) -> Any:
    """Return the folds in which means of y are cross-fitted."""
    from sklearn.model_selection import KFold  # here, since the import takes 0.1 s

    return KFold(min(settings.TARGET_FOLDS, n_rows), shuffle=True, random_state=0)


def target_columns(y: ArrayLike, n_rows: int, most: float = np.inf) -> FloatArray:
    """Return targets as columns of numbers, classes as zeros and ones; of two classes one.

    If there are more than ``most`` classes there are no columns.
    """
    refuse_missing_targets(y)
    values = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    check_consistent_length(range(n_rows), values)
    if values.ndim == 1 and values.dtype.kind not in "fiu":
        classes, labels = np.unique(values.astype(str), return_inverse=True)
        if classes.size > most:
            return np.empty((n_rows, 0))
        return np.eye(classes.size)[labels][:, classes.size == 2 :]
    Y: FloatArray = values.astype(np.float64).reshape(len(values), -1)
    return Y
