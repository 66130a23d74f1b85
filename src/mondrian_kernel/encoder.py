"""Turn tables with categories and gaps into numbers for kernels that add up the columns."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.model_selection import KFold
from sklearn.preprocessing import TargetEncoder
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from mondrian_kernel._columns import Column, read_columns, refuse_missing_targets
from mondrian_kernel._settings import MAX_CATEGORIES, TARGET_FOLDS
from mondrian_kernel._trees.checks import all_or_nothing
from mondrian_kernel._typing import FloatArray

_NUMBER = np.array([True, False])  # a number, and the column that marks gaps


class TableEncoder(TransformerMixin, BaseEstimator):
    r"""Turn the columns of a table into numbers, for kernels of the L1 distance.

    - A number stays as it is. A missing one becomes the median, and a further column of zeros and
      ones marks it if the column had gaps when it was fitted.
    - A category becomes one column for each category, with the value 1/2 in its own and 0 in the
      others. Two different categories have the distance 1, so that the Laplace kernel of a column
      is :math:`\exp(-\lambda [x \neq x'])`. A missing value is a category. A category that was not
      fitted has the distance 1 to all others: it is -1/2 in the first of the columns.
    - A column with many categories becomes the mean of y in each category, shrunk and cross-fitted
      by :class:`sklearn.preprocessing.TargetEncoder`.

    Every row counts alike for medians and means: there are no sample weights. An estimator that is
    fitted with weights encodes its table without them.

    Parameters
    ----------
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Which columns are categories: those of text, truth values and category dtypes; or a mask,
        indices or names; or none. All others must be numbers. Numbers and truth values of an array
        are no categories unless they are listed.
    max_categories : int, default=50
        Most categories of a column that get columns of their own. Columns with more need y.

    Attributes
    ----------
    column_of_output_ : ndarray of shape (n_outputs,)
        Index of the input column that each output comes from.
    is_number_ : ndarray of shape (n_outputs,), bool
        Whether an output is a number, which is to be scaled. The others are 0, 1 or ±1/2.
    categories_ : list
        For each input column its categories, with None for missing values; None for numbers.
    tables_ : list
        For each input column the outputs of its categories, and in the last row those of a category
        that was not fitted; None for numbers.
    medians_ : ndarray of shape (n_features_in_,)
        Median of the numbers, the lower one of two; 0 for categories.
    has_gaps_ : ndarray of shape (n_features_in_,), bool
        Whether a further output marks missing numbers.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input columns, where there are any.

    Examples
    --------
    >>> import pandas as pd
    >>> from mondrian_kernel import TableEncoder
    >>> houses = pd.DataFrame({"area": [70.0, None, 90.0], "kind": ["brick", "wood", "brick"]})
    >>> encoder = TableEncoder().fit(houses)
    >>> encoder.get_feature_names_out().tolist()
    ['area', 'area is missing', 'kind=brick', 'kind=wood']
    >>> encoder.transform(pd.DataFrame({"area": [80.0], "kind": ["straw"]}))
    array([[80. ,  0. , -0.5,  0. ]])
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "max_categories": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self, categorical_features: Any = "from_dtype", *, max_categories: int = MAX_CATEGORIES
    ) -> None:
        self.categorical_features = categorical_features
        self.max_categories = max_categories

    @all_or_nothing
    def fit(self, X: Any, y: ArrayLike | None = None) -> TableEncoder:
        """Learn categories and medians.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            A table of pandas, polars or pyarrow, or an array.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs) or None, default=None
            Targets, for columns with many categories. Text and truth values are classes.

        Returns
        -------
        self : TableEncoder
            The fitted encoder.
        """
        learn_table(self, X, y)
        return self

    @all_or_nothing
    def fit_transform(self, X: Any, y: ArrayLike | None = None) -> FloatArray:
        """Fit and encode; unlike ``fit(X, y).transform(X)`` it does not show a row its own y.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            A table.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs) or None, default=None
            Targets, for columns with many categories.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_outputs)
            The encoded table.
        """
        return learn_table(self, X, y)

    @all_or_nothing
    def partial_fit(self, X: Any, y: ArrayLike | None = None) -> TableEncoder:
        """Fit the first batch of a stream; check further ones and learn nothing from them.

        The outputs stay the same for the whole stream. Categories that come later share the place
        of those not fitted, and gaps in numbers that had none become the median. Categories that
        the dtype of the first batch lists, of pandas or ``polars.Enum``, are known from the start.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            A table.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs) or None, default=None
            Targets, for columns with many categories.

        Returns
        -------
        self : TableEncoder
            The encoder.
        """
        if hasattr(self, "tables_"):
            encode_columns(self, read_columns(self, X, reset=False))
        else:
            learn_table(self, X, y, listed=True)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Encode a table.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            A table with the columns that were fitted.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_outputs)
            The encoded table.
        """
        check_is_fitted(self)
        return encode_columns(self, read_columns(self, X, reset=False))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the outputs.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the input columns, where the table had none.

        Returns
        -------
        names : ndarray of shape (n_outputs,)
            A number has the name of its column; others are "column=category", "column is missing"
            and, where y has several outputs, "column:output".
        """
        check_is_fitted(self)
        out: list[str] = []
        for j, name in enumerate(_check_feature_names_in(self, input_features)):
            words, own = self.categories_[j], self.column_of_output_ == j
            if words is None:
                out += [name, f"{name} is missing"][: own.sum()]
            elif self.is_number_[own].all():
                n_outputs = int(own.sum())
                out += [name] if n_outputs == 1 else [f"{name}:{t}" for t in range(n_outputs)]
            else:
                out += [f"{name} is missing" if w is None else f"{name}={w}" for w in words]
        return np.array(out, dtype=object)

    def check(self) -> None:
        """Raise ValueError unless the fitted parts belong together."""
        n, widths = self.n_features_in_, []
        shapes = np.shape(self.medians_), np.shape(self.has_gaps_)
        if shapes != ((n,), (n,)) or not np.isfinite(self.medians_).all():
            raise ValueError(f"There is no median of each of the {n} columns.")
        for words, table, gaps in zip(self.categories_, self.tables_, self.has_gaps_, strict=True):
            if words is None and table is None:
                widths.append(1 + bool(gaps))
                continue
            if not all(type(word) in (str, bool, int, float, type(None)) for word in words):
                raise ValueError("A category is neither text nor a number.")
            if table.ndim != 2 or len(table) != len(words) + 1 or not np.isfinite(table).all():
                raise ValueError(f"There are {len(words)} categories, but their table has others.")
            widths.append(table.shape[1])
        if not np.array_equal(self.column_of_output_, np.repeat(np.arange(n), widths)):
            raise ValueError("The outputs belong to other columns.")
        if self.is_number_.dtype != bool or self.is_number_.shape != (sum(widths),):
            raise ValueError("The outputs are not said to be numbers or not.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = True
        return tags


def is_plain(encoder: TableEncoder) -> bool:
    """Whether the outputs are the input columns: numbers that had no gaps."""
    return encoder.is_number_.size == encoder.n_features_in_ and not any(encoder.categories_)


def learn_table(
    encoder: TableEncoder, X: Any, y: ArrayLike | None, listed: bool = False
) -> FloatArray:
    """Fit an encoder and encode its rows; ``listed`` adds the categories that dtypes list."""
    columns = read_columns(encoder, X, reset=True)
    learnt = []
    for column, chosen in zip(columns, _chosen(columns, encoder.categorical_features), strict=True):
        if column.is_category() if chosen is None else chosen:
            words = column.listed() if listed else []
            learnt.append(_learn_category(column, words, y, encoder.max_categories))
        else:
            learnt.append(_learn_number(column))
    _keep(encoder, learnt)
    return np.concatenate([one.rows for one in learnt], axis=1)


def learn_numbers(encoder: TableEncoder, rows: FloatArray) -> None:
    """Fit an encoder to rows of numbers without gaps, which need no encoding."""
    encoder.n_features_in_ = rows.shape[1]
    _keep(encoder, [_Learnt(rows[:0], _NUMBER[:1], _lower_median(column)) for column in rows.T])


def _keep(encoder: TableEncoder, learnt: list[_Learnt]) -> None:
    encoder.categories_ = [one.categories for one in learnt]
    encoder.tables_ = [one.table for one in learnt]
    encoder.medians_ = np.array([one.median for one in learnt])
    encoder.has_gaps_ = np.array([one.has_gaps for one in learnt])
    encoder.is_number_ = np.concatenate([one.is_number for one in learnt])
    widths = [one.is_number.size for one in learnt]
    encoder.column_of_output_ = np.repeat(np.arange(len(learnt)), widths)


def encode_columns(encoder: TableEncoder, columns: list[Column]) -> FloatArray:
    """Encode columns of the table that an encoder was fitted on."""
    parts = []
    for j, column in enumerate(columns):
        words = encoder.categories_[j]
        if words is None:
            numbers = column.numbers("held numbers when it was fitted: turn it into numbers")
            parts.append(_fill(numbers, encoder.medians_[j], bool(encoder.has_gaps_[j])))
        else:
            parts.append(encoder.tables_[j][_codes(column, column.words(), words)])
    return np.concatenate(parts, axis=1)


class _Learnt(NamedTuple):
    """What was learnt of a column, and its outputs."""

    rows: FloatArray
    is_number: NDArray[np.bool_]
    median: float = 0.0
    has_gaps: bool = False
    categories: list[Any] | None = None
    table: FloatArray | None = None


def _learn_number(column: Column) -> _Learnt:
    numbers = column.numbers("is not in categorical_features: list it, or turn it into numbers")
    known = numbers[~np.isnan(numbers)]
    if known.size == 0:
        raise _no_values(column)
    median, gaps = _lower_median(known), known.size < numbers.size
    return _Learnt(_fill(numbers, median, gaps), _NUMBER[: 1 + gaps], median, gaps)


def _lower_median(numbers: FloatArray) -> float:
    """Return the median, the lower one of two: it cannot overflow."""
    middle = (numbers.size - 1) // 2
    return float(np.partition(numbers, middle)[middle])


def _fill(numbers: FloatArray, median: float, gaps: bool) -> FloatArray:
    """Put the median where numbers are missing, and mark these rows if the column has gaps."""
    missing = np.isnan(numbers)
    filled = np.where(missing, median, numbers)
    return np.stack([filled, missing][: 1 + gaps], axis=1)


def _learn_category(
    column: Column, listed: list[Any], y: ArrayLike | None, max_categories: int
) -> _Learnt:
    words = column.words()
    found = {*words, *listed}
    if found <= {None}:
        raise _no_values(column)
    known = sorted(found - {None}, key=lambda word: (isinstance(word, str), word))
    known += [None] if None in found else []
    n, codes = len(known), _codes(column, words, known)
    if n <= max_categories:
        table = 0.5 * np.eye(n + 1, n)
        table[n, 0] = -0.5
        return _Learnt(table[codes], np.zeros(n, bool), categories=known, table=table)
    if y is None:
        raise ValueError(
            f"{column} has {n} categories, more than max_categories={max_categories}: pass y to "
            "encode them by its means, raise max_categories, or drop the column."
        )
    rows, table = _target_means(codes, n, _targets(y, codes))
    return _Learnt(rows, np.ones(rows.shape[1], bool), categories=known, table=table)


def _codes(column: Column, words: list[Any], known: list[Any]) -> NDArray[np.intp]:
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

    def means(some: Any, wanted: NDArray[np.intp]) -> FloatArray:
        encoder = TargetEncoder(target_type="continuous")
        fits = [encoder.fit(codes[some, None], y[some]).transform(wanted[:, None]) for y in Y.T]
        return np.concatenate(fits, axis=1)

    rows = np.empty((codes.size, Y.shape[1]))
    folds = KFold(min(TARGET_FOLDS, codes.size), shuffle=True, random_state=0)
    for some, others in folds.split(codes):
        rows[others] = means(some, codes[others])
    return rows, means(slice(None), np.arange(n + 1))


def _targets(y: ArrayLike, codes: NDArray[np.intp]) -> FloatArray:
    """Return targets as columns of numbers, classes as zeros and ones; of two classes one."""
    refuse_missing_targets(y)
    values = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    check_consistent_length(codes, values)
    if values.ndim == 1 and values.dtype.kind not in "fiu":
        classes, labels = np.unique(values.astype(str), return_inverse=True)
        return np.eye(classes.size)[labels][:, classes.size == 2 :]
    Y: FloatArray = values.astype(np.float64).reshape(len(values), -1)
    return Y


def _chosen(columns: list[Column], given: Any) -> list[bool | None]:
    """Return which columns are categories by the parameter; None where the dtype decides."""
    names = [column.name for column in columns]
    if given is None or isinstance(given, str):
        return [None if given else False] * len(names)
    listed = np.asarray(given)
    if listed.dtype == bool and listed.shape == (len(names),):
        return list(listed)
    chosen: list[bool | None] = [False] * len(names)
    for item in listed.ravel().tolist():
        place = names.index(item) if isinstance(item, str) and item in names else item
        if type(place) is not int or not 0 <= place < len(names):
            raise ValueError(
                f"categorical_features has {item!r}: give names or indices of columns, or a mask "
                f"of all {len(names)}."
            )
        chosen[place] = True
    return chosen


def _no_values(column: Column) -> ValueError:
    return ValueError(f"{column} has no values: drop it, or fit rows that have some.")
