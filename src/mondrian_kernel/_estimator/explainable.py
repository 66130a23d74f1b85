"""Base of estimators that say which columns matter, and explain their predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._estimator.base import MondrianEstimator
from mondrian_kernel._model.explain import most_similar, shapley_values
from mondrian_kernel._model.model_html import model_html
from mondrian_kernel._trees.checks import check_whole, naming
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.explanation import Explanation


class ExplainableEstimator(MondrianEstimator):
    """Importances of columns, explanations of predictions, and a summary for notebooks."""

    @property
    def feature_importances_(self) -> FloatArray:
        """How much the error on rows held out grows when an input column is shuffled.

        The error is the squared one over the variance of y, or the log loss of classes. Only after
        a fit with ``lifetime="auto"``.
        """
        return self._importances(0)

    @property
    def feature_importances_std_(self) -> FloatArray:
        """Standard deviation of the importances over shuffles, each of other rows."""
        return self._importances(1)

    def _importances(self, which: int) -> FloatArray:
        check_is_fitted(self)
        if self._notes is None or self._notes.importances.size == 0:
            raise AttributeError(
                'Importances exist after a fit with lifetime="auto" that held rows out. For other '
                "models use sklearn.inspection.permutation_importance(model, X_test, y_test)."
            )
        found: FloatArray = self._notes.importances[which]
        return found

    def explain(
        self, X: ArrayLike, *, n_neighbours: int = 5, background: ArrayLike | None = None
    ) -> Explanation:
        """Take predictions apart by column, and find the fitted rows that are most similar.

        The contributions of a row are Shapley values. They add up to its prediction less the mean
        prediction of a background. The time grows with the number of rows, of columns, and of rows
        of the background.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        n_neighbours : int, default=5
            Number of similar rows.
        background : array-like of shape (n_background, n_features) or None, default=None
            Rows to compare with. None takes 10 rows of the fit that stand for all of them.

        Returns
        -------
        explanation : Explanation
            Contributions, predictions and similar rows.
        """
        model, notes = self._fitted(), self._notes
        n_neighbours, rows = check_whole(n_neighbours, "n_neighbours"), self._check_new(X)
        if background is not None:
            with naming("background"):
                others = self._check_new(background)
        elif notes is not None:
            others = notes.background
        else:
            raise ValueError("The model keeps no rows of a fit: pass some rows as background.")
        parts = shapley_values(self._outputs, rows, others, self._column_of_output())
        base, contributions, prediction = (self._shaped(part) for part in parts)
        near: tuple[Any, ...] = ()
        # After partial_fit the model has other rows than the notes, or none.
        if notes is not None and model.rows and model.rows.weight.size == notes.index.size:
            found, similarity = most_similar(model, rows, n_neighbours, self.n_jobs)
            near = notes.index[found], similarity, self._as_given(notes.targets[found])
        classes = getattr(self, "classes_", None)
        return Explanation(base, contributions, prediction, self._names(), classes, *near)

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return what :meth:`explain` takes apart, so that ``shap.Explainer(model, X)`` works.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        prediction : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions; of a classifier the probabilities, or its scores where it has none.
        """
        return self._shaped(self._outputs(self._check_new(X)))

    def _outputs(self, rows: FloatArray) -> FloatArray:
        """Return what is explained, (n, K), of rows of numbers."""
        return self._fitted().scores(rows, self.n_jobs)

    def _shaped(self, values: FloatArray) -> FloatArray:
        """Return outputs (..., K) in the shape of predictions."""
        raise NotImplementedError

    def _as_given(self, targets: FloatArray) -> NDArray[Any]:
        """Return targets (..., K) of the notes as y had them."""
        return self._shaped(targets)

    def _column_of_output(self) -> NDArray[np.intp]:
        """Return the input column of each column that the trees see."""
        encoder = self.encoder_
        return np.arange(self.n_features_in_) if encoder is None else encoder.column_of_output_

    def _names(self) -> list[Any]:
        """Return the names of the input columns, or their numbers."""
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        return list(names.tolist())

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._html_summary()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._html_summary()
        return bundle

    def _html_summary(self) -> str:
        if not hasattr(self, "_model"):
            return ""
        name, model = type(self).__name__, self._fitted()
        return model_html(name, model, self._notes, self._names(), self._seconds)
