"""What an estimator predicts: numbers, or classes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import StrOptions

from mondrian_kernel._estimator.explainable import ExplainableEstimator
from mondrian_kernel._linear.losses import announced_classes, stream_class_weight
from mondrian_kernel._path.checks import check_weights
from mondrian_kernel._typing import FloatArray


class NumberEstimator(ExplainableEstimator):
    """Base of regressors: y has one or several numbers for each row."""

    _one_output: bool

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from further rows, after :meth:`fit` or without one.

        After a fit the width, the penalty and the scale stay. Without one, and with
        ``lifetime="auto"``, up to five widths share the trees and predict together, weighted by
        their errors on rows that they had not learnt. When the narrowest has the lowest error, a
        narrower one is added. ``scale="std"`` is taken from the first 1024 rows, relevances are
        learnt after 256, 1024 and 4096 rows, and ``alpha="auto"`` is 0.1. Memory grows with the
        number of cells until there are ``max_cells``. From then on no cell is cut, but all learn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 0 is left out.

        Returns
        -------
        self : estimator
            The model; unchanged if anything fails.
        """
        first = not hasattr(self, "_model")
        rows, targets = self._check_batch(X, y, multi_output=True, y_numeric=True)
        changes = {"_one_output": targets.ndim == 1} if first else {}
        self._learn(rows, as_columns(targets), check_weights(sample_weight, rows), **changes)
        return self

    @property
    def cell_weights_(self) -> FloatArray:
        """Weights of the cells."""
        return self._shaped(self._fitted().cell_weights)

    @property
    def intercept_(self) -> Any:
        """Intercept, not penalised."""
        return self._shaped(self._fitted().intercept)[()]

    def _shaped(self, values: FloatArray) -> FloatArray:
        return values[..., 0] if self._one_output else values

    def check(self) -> None:
        """Raise ValueError unless the fitted parts belong together."""
        super().check()
        if self._one_output:
            self._check_scores(1)


def as_columns(targets: NDArray[Any]) -> FloatArray:
    """Return targets (n,) or (n, K) as numbers (n, K)."""
    return targets.astype(np.float64).reshape(targets.shape[0], -1)


class ClassEstimator(ExplainableEstimator):
    """Base of classifiers."""

    _parameter_constraints: dict[str, list[Any]] = {
        **ExplainableEstimator._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    class_weight: dict[Any, float] | str | None
    classes_: NDArray[Any]

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from further rows, each used once, after :meth:`fit` or without one.

        After a fit the width, the penalty and the scale stay. Without one, and with
        ``lifetime="auto"``, up to five widths share the trees and predict together, weighted by
        their losses on rows that they had not learnt. When the narrowest has the lowest loss, a
        narrower one is added. ``scale="std"`` is taken from the first 1024 rows, relevances are
        learnt after 256, 1024 and 4096 rows, and ``alpha="auto"`` is 0.1. Memory grows with the
        number of cells until there are ``max_cells``. From then on no cell is cut, but all learn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : array-like of shape (n_samples,)
            Classes.
        classes : array-like of shape (n_classes,) or None, default=None
            All classes that will ever come. They are needed at the first call without a fit.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 0 is left out.

        Returns
        -------
        self : estimator
            The model; unchanged if anything fails.
        """
        rows, targets = self._check_batch(X, y)
        known, labels = announced_classes(classes, getattr(self, "classes_", None), targets)
        weight = check_weights(sample_weight, rows)
        weight = stream_class_weight(self.class_weight, known, labels, weight)
        self._learn(rows, self._coded(labels, known.size), weight, classes_=known)
        return self

    def _coded(self, labels: NDArray[np.intp], n_classes: int) -> FloatArray:
        """Return the targets (n, K) that a stream learns, of class numbers (n,)."""
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Class with the highest score.
        """
        F = self._class_scores(self._check_new(X))
        best = (F[:, 0] > 0).astype(int) if F.shape[1] == 1 else F.argmax(axis=1)
        classes: NDArray[Any] = self.classes_[best]
        return classes

    def _class_scores(self, rows: FloatArray) -> FloatArray:
        """Return scores (n, K) of valid rows; one column for two classes is that of the second."""
        return self._outputs(rows)

    @property
    def cell_weights_(self) -> FloatArray:
        """Weights of the cells."""
        return self._fitted().cell_weights.T

    def _shaped(self, values: FloatArray) -> FloatArray:
        return values[..., 0] if values.shape[-1] == 1 else values

    def _as_given(self, targets: FloatArray) -> NDArray[Any]:
        given: NDArray[Any] = self.classes_[targets[..., 0].astype(int)]
        return given
