"""Rows and targets of estimators: tables that are encoded, arrays that are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import check_is_fitted, validate_data

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.losses import label_array
from mondrian_kernel._model.columns import is_learnt
from mondrian_kernel._tables.columns import needs_encoding, refuse_missing_targets
from mondrian_kernel._trees.checks import check_magnitudes, check_penalty, no_overflow, refuse_dates
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.encoder import TableEncoder, encode_table, is_plain, learn_numbers, learn_table
from mondrian_kernel.on_disk import as_parts


class TableInput(BaseEstimator):
    """An estimator that takes tables with categories and gaps, and arrays of numbers."""

    lifetime: Any
    alpha: float | str
    scale: Any
    relevance: str
    categorical_features: Any

    # Whether alpha is the penalty of a linear system, rather than a shrinkage that may be 0.
    _penalised = True
    _encoder: TableEncoder | None = None

    @property
    def encoder_(self) -> TableEncoder | None:
        """What turned a table into numbers; None where the columns are numbers without gaps."""
        return None if self._encoder is None or is_plain(self._encoder) else self._encoder

    def _first_rows(
        self, X: Any, y: ArrayLike, *, least: float, listed: bool = False, **options: Any
    ) -> tuple[FloatArray, NDArray[Any]]:
        """Validate the first rows and their targets, and learn how a table is encoded."""
        refuse_missing_targets(y)
        classes = y is not None and is_classifier(self)
        learnt = is_learnt(self.relevance, self.lifetime, self.scale)
        encoder = TableEncoder(self.categorical_features, special_values=learnt and not listed)
        X = as_parts(X)
        if needs_encoding(X, self.categorical_features):
            rows = learn_table(encoder, X, _label_numbers(y) if classes else y, listed)
            rows, targets = self._valid(rows, y, least=least, encoded=True, **options)
        else:
            rows, targets = self._valid(X, y, least=least, **options)
            rows = learn_numbers(encoder, rows, _label_numbers(targets) if classes else targets)
        for name in ("_model", "feature_names_in_"):  # those of an earlier fit
            if hasattr(self, name):
                delattr(self, name)
        if hasattr(encoder, "feature_names_in_"):
            self.feature_names_in_ = encoder.feature_names_in_
        self._encoder, self.n_features_in_ = encoder, encoder.n_features_in_
        return rows, targets

    def _valid(
        self, X: Any, y: ArrayLike, *, least: float, encoded: bool = False, **options: Any
    ) -> tuple[FloatArray, NDArray[Any]]:
        """Validate rows, and labels or numbers, whose range in a column is 0 or ``least``."""
        numbers = "y_numeric" in options
        if numbers:
            refuse_dates(y, "y")
            if sparse.issparse(y):
                raise TypeError("y is sparse: pass y.toarray().")
        else:
            y = label_array(y)
        options |= {"dtype": np.float64, "order": "C"}
        if not encoded:
            refuse_dates(X, "X")
        with no_overflow("y"):  # rows with such numbers were encoded
            if encoded:
                rows, targets = check_X_y(X, y, estimator=self, **options)
            else:
                rows, targets = validate_data(self, X, y, **options)
        check_magnitudes(rows, "X", least=least)
        if numbers:
            targets = check_array(targets, ensure_2d=False, dtype=np.float64, input_name="y")
            check_magnitudes(targets.reshape(rows.shape[0], -1), "y", least=least)
        return rows, targets

    def _scale_rule(self) -> Any:
        """Return the scale of the columns that the trees see: of a table, its encoded ones."""
        encoder = self.encoder_
        if encoder is None or self.scale is None:
            return self.scale
        if isinstance(self.scale, str):
            return np.where(encoder.is_number_, self.scale, np.array(1.0, object))
        given = np.asarray(self.scale)
        columns = encoder.column_of_output_
        return given[columns] if given.shape == (self.n_features_in_,) else given

    def _relevance_rule(self) -> str:
        return "learn" if is_learnt(self.relevance, self.lifetime, self.scale) else "equal"

    def _check_new(self, X: ArrayLike) -> FloatArray:
        """Validate rows to predict.

        A plain array is only checked for its values: scikit-learn's own checks take longer than
        the prediction of one row.
        """
        if not hasattr(self, "_model"):  # the check takes longer than the prediction of one row
            check_is_fitted(self)
        if self._is_plain(X):
            return X  # type: ignore[return-value]
        rows = self._encoded(X)
        if rows is None:
            refuse_dates(X, "X")
            rows = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        check_magnitudes(rows, "X")
        return rows

    def _is_plain(self, X: Any) -> bool:
        return (
            type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and X.flags.c_contiguous
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
            and self.encoder_ is None
            and bool(max(X.max(), -X.min()) <= settings.LARGEST_NUMBER)  # NaN: no
        )

    def _encoded(self, X: Any) -> FloatArray | None:
        """Encode a table, rows with gaps, and any rows of a model of such; None for others."""
        encoder = self._encoder
        if encoder is None or (is_plain(encoder) and not needs_encoding(X, None)):
            return None
        return encode_table(encoder, X, self)

    def _check_batch(
        self, X: ArrayLike, y: ArrayLike, **options: Any
    ) -> tuple[FloatArray, NDArray[Any]]:
        """Validate the rows and targets of a batch; on the first, the parameters as well."""
        first = not hasattr(self, "_model")
        if first:
            self._validate_params()
            if self._penalised:
                check_penalty(self._stream_alpha, 1.0)
        if not first and self._is_plain(X) and not np.ma.is_masked(y):
            targets = np.asarray(y)
            plain = targets.shape == X.shape[:1] and targets.dtype.kind in "fiu"  # type: ignore[union-attr]
            if plain and float(np.abs(targets).max()) <= settings.LARGEST_NUMBER:
                return X, targets  # type: ignore[return-value]
        if first:
            return self._first_rows(X, y, least=0.0, listed=True, **options)
        refuse_missing_targets(y)
        encoded = self._encoded(X)
        if encoded is None:
            return self._valid(X, y, least=0.0, reset=False, **options)
        return self._valid(encoded, y, least=0.0, encoded=True, **options)

    @property
    def _stream_alpha(self) -> float:
        return settings.STREAM_ALPHA if isinstance(self.alpha, str) else float(self.alpha)


def _label_numbers(y: ArrayLike) -> NDArray[Any]:
    """Return class labels for an encoder: of two classes the numbers 0 and 1, else text."""
    labels: NDArray[Any] = np.asarray(y)
    if labels.ndim == 1 and labels.size > 0 and labels.dtype.kind in "biu":
        low, high = labels.min(), labels.max()
        if np.isin(labels, [low, high]).all():
            return np.asarray(labels == high, np.int8)
    return labels.astype(str)
