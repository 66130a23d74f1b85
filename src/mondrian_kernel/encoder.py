"""Turn tables with categories and gaps into numbers for kernels that add up the columns."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from mondrian_kernel import _settings as settings
from mondrian_kernel._tables.columns import Column, read_columns
from mondrian_kernel._tables.encoding import (
    ColumnCode,
    encode_column,
    special_output,
    special_values,
    target_columns,
)
from mondrian_kernel._trees.checks import all_or_nothing
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.on_disk import TableParts, blank_rows, column_groups, row_blocks


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
        Largest number of categories that get a column each. Columns with more categories need y.
    special_values : bool, default=False
        Whether to look for special values of numbers, for which ``fit`` needs y: numbers, or two
        classes. A further column holds how far the mean of y at such a value lies from that at the
        values on both sides of it, and 0 at all other values. See ``special_values_``.

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
    special_values_ : list
        For each input column its special values, and beside each what the further column is there;
        None where there are none. A value is special if at least 10 rows have it, and if the mean
        of y there differs from the means of the 50 nearest rows on either side, in the same
        direction and by more than 6 standard errors.
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
        "special_values": ["boolean"],
    }

    def __init__(
        self,
        categorical_features: Any = "from_dtype",
        *,
        max_categories: int = settings.MAX_CATEGORIES,
        special_values: bool = False,
    ) -> None:
        self.categorical_features = categorical_features
        self.max_categories = max_categories
        self.special_values = special_values

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
        """Fit and encode. Unlike ``fit(X, y).transform(X)``, no row sees its own y.

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
            encode_table(self, X, self)
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
        return encode_table(self, X, self)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the outputs.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the input columns, where the table had none.

        Returns
        -------
        names : ndarray of shape (n_outputs,)
            A number has the name of its column; others are "column=category", "column is missing",
            "column is special" and, where y has several outputs, "column:output".
        """
        check_is_fitted(self)
        out: list[str] = []
        for j, name in enumerate(_check_feature_names_in(self, input_features)):
            words, own = self.categories_[j], self.column_of_output_ == j
            if words is None:
                out += [name, f"{name} is missing"][: 1 + self.has_gaps_[j]]
                out += [f"{name} is special"] * (self.special_values_[j] is not None)
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
        parts = self.categories_, self.tables_, self.has_gaps_, self.special_values_
        for words, table, gaps, special in zip(*parts, strict=True):
            if words is None and table is None:
                widths.append(1 + bool(gaps) + (special is not None))
                if special is not None:
                    self._check_special(special)
                continue
            if special is not None:
                raise ValueError("A column of categories has special values.")
            if not all(type(word) in (str, bool, int, float, type(None)) for word in words):
                raise ValueError("A category is neither text nor a number.")
            if table.ndim != 2 or len(table) != len(words) + 1 or not np.isfinite(table).all():
                raise ValueError(f"There are {len(words)} categories, but their table has others.")
            widths.append(table.shape[1])
        if not np.array_equal(self.column_of_output_, np.repeat(np.arange(n), widths)):
            raise ValueError("The outputs belong to other columns.")
        if self.is_number_.dtype != bool or self.is_number_.shape != (sum(widths),):
            raise ValueError("The outputs are not said to be numbers or not.")

    def _check_special(self, special: FloatArray) -> None:
        good = special.ndim == 2 and special.shape[1] == 2 and len(special) > 0
        if not (good and np.isfinite(special).all() and (np.diff(special[:, 0]) > 0).all()):
            raise ValueError("Special values are no ascending numbers with an output each.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = True
        return tags


def is_plain(encoder: TableEncoder) -> bool:
    """Whether the outputs are the input columns: numbers that had no gaps."""
    return encoder.is_number_.size == encoder.n_features_in_ and not any(encoder.categories_)


def relevance_groups(encoder: TableEncoder) -> NDArray[np.intp]:
    """Return the group of each output: those of the categories of a column share a relevance."""
    columns = encoder.column_of_output_
    first = np.unique(columns, return_index=True)[1][columns]
    is_category = np.array([words is not None for words in encoder.categories_])[columns]
    own = np.where(is_category, first, np.arange(columns.size))
    return np.asarray(np.unique(own, return_inverse=True)[1], np.intp)


def learn_table(
    encoder: TableEncoder, X: Any, y: ArrayLike | None, listed: bool = False
) -> FloatArray:
    """Fit an encoder and encode its rows; ``listed`` adds the categories that dtypes list.

    A table in parts is read twice, and many of its rows are encoded into a file.
    """
    learnt: list[ColumnCode] = []
    n_rows = 0
    for columns in _parts(encoder, X, reset=True):
        if not learnt:
            chosen = _chosen(columns, encoder.categorical_features)
            for column, is_category in zip(columns, chosen, strict=True):
                words = column.listed() if listed else []
                learnt.append(ColumnCode(words if is_category else None))
        for one, column in zip(learnt, columns, strict=True):
            one.see(column)
        n_rows += len(columns[0].data)
    if not learnt:
        raise ValueError("The table has no rows.")
    for one, column in zip(learnt, columns, strict=True):
        one.settle(column, encoder.max_categories, y, n_rows)
    _keep(encoder, learnt)
    return _finished(encoder, learnt, encode_table(encoder, X, encoder), y)


def learn_numbers(encoder: TableEncoder, rows: FloatArray, y: ArrayLike | None) -> FloatArray:
    """Fit an encoder to rows of numbers without gaps, and encode them."""
    encoder.n_features_in_ = rows.shape[1]
    return _finished(encoder, [ColumnCode() for _ in range(rows.shape[1])], rows, y)


def _finished(
    encoder: TableEncoder, learnt: list[ColumnCode], rows: FloatArray, y: ArrayLike | None
) -> FloatArray:
    """Put into encoded rows what depends on all of them, and keep it in the encoder."""
    widths = [one.is_number.size for one in learnt]
    at = dict(zip((np.cumsum(widths) - widths).tolist(), learnt, strict=True))
    targets: FloatArray | None = None
    further: list[tuple[int, FloatArray]] = []
    if encoder.special_values and y is not None:
        Y = target_columns(y, rows.shape[0], most=2)
        targets = Y[:, 0] if Y.shape[1] == 1 else None
    for j, values in column_groups(rows):
        code = at.get(j)
        if code is None:
            continue
        if targets is not None and code.categories is None:
            code.special = special_values(values, targets)
            if code.special is not None:
                output = special_output(values, code.special, targets)
                further.append((j + 1 + code.has_gaps, output))
        changed = code.finish(values)
        if changed is not None:
            rows[:, j : j + changed.shape[1]] = changed
    _keep(encoder, learnt)
    if not further:
        return rows
    places, outputs = zip(*further, strict=True)
    wide = blank_rows(rows.shape[0], rows.shape[1] + len(places))
    for block in row_blocks(rows.shape[0]):
        own = np.stack([output[block] for output in outputs], axis=1)
        wide[block] = np.insert(rows[block], places, own, axis=1)
    return wide


def _parts(checker: Any, X: Any, *, reset: bool) -> Iterator[list[Column]]:
    """Yield the columns of each part of a table, checked on behalf of an estimator."""
    begin = 0
    for part in X if isinstance(X, TableParts) else [X]:
        columns = read_columns(checker, part, reset=reset and begin == 0, first=begin)
        yield columns
        begin += len(columns[0].data)


def _keep(encoder: TableEncoder, learnt: list[ColumnCode]) -> None:
    encoder.categories_ = [one.categories for one in learnt]
    encoder.tables_ = [one.table for one in learnt]
    encoder.medians_ = np.array([one.median for one in learnt])
    encoder.has_gaps_ = np.array([one.has_gaps for one in learnt])
    encoder.special_values_ = [one.special for one in learnt]
    encoder.is_number_ = np.concatenate([one.is_number for one in learnt])
    widths = [one.is_number.size for one in learnt]
    encoder.column_of_output_ = np.repeat(np.arange(len(learnt)), widths)


def encode_table(encoder: TableEncoder, X: Any, checker: Any) -> FloatArray:
    """Encode a table, checked on behalf of an estimator; many rows of one in parts into a file."""
    if not isinstance(X, TableParts):
        return _encoded(encoder, read_columns(checker, X, reset=False))
    if X.n_rows == 0:
        raise ValueError("The table has no rows.")
    rows, begin = blank_rows(X.n_rows, encoder.is_number_.size), 0
    for columns in _parts(checker, X, reset=False):
        end = begin + len(columns[0].data)
        rows[begin:end] = _encoded(encoder, columns)
        begin = end
    return rows


def _encoded(encoder: TableEncoder, columns: list[Column]) -> FloatArray:
    numbers = encoder.medians_, encoder.has_gaps_, encoder.special_values_
    codes = encoder.categories_, encoder.tables_, *numbers
    return np.concatenate(list(map(encode_column, columns, *codes)), axis=1)


def _chosen(columns: list[Column], given: Any) -> list[bool]:
    """Return which columns are categories, by the parameter or by their dtypes."""
    names = [column.name for column in columns]
    if given is None or isinstance(given, str):
        return [given is not None and column.is_category() for column in columns]
    listed = np.asarray(given)
    if listed.dtype == bool and listed.shape == (len(names),):
        return list(listed)
    chosen = [False] * len(names)
    for item in listed.ravel().tolist():
        place = names.index(item) if isinstance(item, str) and item in names else item
        if type(place) is not int or not 0 <= place < len(names):
            raise ValueError(
                f"categorical_features has {item!r}: give names or indices of columns, or a mask "
                f"of all {len(names)}."
            )
        chosen[place] = True
    return chosen
