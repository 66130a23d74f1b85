"""Base of both forests: trees whose leaves are fitted in each tree alone."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._estimator.explainable import ExplainableEstimator
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.notes import notes_on
from mondrian_kernel._online.exact import ExactStream
from mondrian_kernel._online.learners import Means
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._path.choose import choose_forest_width
from mondrian_kernel._trees.checks import check_ranges
from mondrian_kernel._trees.levels import Levels, grow_trees
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import MondrianFeatures


class MondrianForest(ExplainableEstimator):
    """Base of both forests: trees, and leaf values fitted in each tree alone."""

    _parameter_constraints: dict[str, list[Any]] = {
        **ExplainableEstimator._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
    }
    _penalised = False
    # The features of another model, whose trees a fit keeps.
    _shared: MondrianFeatures | None = None

    @classmethod
    def from_features(
        cls, features: MondrianFeatures, alpha: float = 1.0, *, scale: Any = None, **params: Any
    ) -> Self:
        """Return a forest on the very trees of fitted features, to be fitted to targets.

        Kernel and forest can then be compared on one sample of trees, at every lifetime by
        ``features.at``. A clone of the forest grows trees of its own.

        Parameters
        ----------
        features : MondrianFeatures
            Fitted features, for instance ``features_`` of a kernel model.
        alpha : float, default=1.0
            Shrinkage γ².
        scale : None or array-like of shape (n_features,), default=None
            What columns are divided by before they reach the features: ``scale_`` of that model.
        **params : dict
            Further parameters of the forest.

        Returns
        -------
        forest : estimator
            A forest whose ``fit`` keeps the trees.
        """
        check_is_fitted(features)
        if features.levels_.n_levels > 1:
            raise ValueError("A forest has one lifetime: pass features.at(lifetime).")
        forest = cls(
            features.lifetime_,
            alpha,
            features.trees_.n_trees,
            scale=scale,
            n_jobs=features.n_jobs,
            **params,
        )
        forest._shared = features.at(features.lifetime_)
        return forest

    def _fit_leaves(
        self,
        rows: FloatArray,
        Y: FloatArray,
        weight: FloatArray | None,
        columns: Columns,
        seed: int,
    ) -> None:
        """Choose the width, grow the trees on scaled rows and fit their leaves."""
        notes = notes_on(rows, Y, weight, columns, seed)
        rows = columns(rows)
        check_ranges(rows)
        shared = self._shared
        wanted = self._wanted()
        if shared is not None:
            wanted = wanted._replace(lifetime=shared.lifetime_)
        lifetime, alpha, path = choose_forest_width(rows, Y, weight, seed, wanted, self._centres)
        if shared is None:
            n_trees = int(self.n_estimators)
            trees, leaf = grow_trees(rows, lifetime, n_trees, seed, self.max_cells, self.n_jobs)
            levels = Levels.of(trees, np.array([trees.lifetime]))
            Phi = levels.features(leaf, None)
        else:
            trees, levels, Phi = shared.trees_, shared.levels_, shared.transform(rows)
        s = np.ones(Y.shape[0]) if weight is None else weight
        sums = leaf_sums(Phi, Y, s, trees.n_trees)
        b = np.average(Y, axis=0, weights=s) if self._centres else np.zeros(Y.shape[1])
        values = leaf_values(sums, b, alpha) / np.sqrt(trees.n_trees)
        model = FittedModel(
            trees, levels, values, b, columns, float(alpha), seed, np.empty(0), sums=sums
        )
        self._set_fitted(model, path, notes)

    def check(self) -> None:
        """Raise ValueError unless the fitted parts belong together."""
        super().check()
        if not isinstance(self._shared, MondrianFeatures | None):
            raise ValueError("_shared holds no features.")
        if self._stream is None and self._fitted().sums is None:
            raise ValueError("The sums of the leaves are missing.")

    @property
    def _centres(self) -> bool:
        """Whether leaves are shrunk to the mean of y, rather than to 0."""
        return True

    def _next_stream(self, n_columns: int, n_outputs: int, n_new: int) -> Stream | ExactStream:
        if self._shared is not None and not hasattr(self, "_model"):
            raise ValueError("A forest on given trees must be fitted before partial_fit.")
        return super()._next_stream(n_columns, n_outputs, n_new)

    def _learner(self, n_outputs: int, alpha: float) -> Means:
        return Means(n_outputs, alpha, self._centres)


def leaf_sums(
    Phi: sparse.csr_matrix, Y: FloatArray, weight: FloatArray, n_trees: int
) -> FloatArray:
    """Sum s p y, s p and s p² over the rows of each leaf, (C, K + 2).

    p is the probability that a row lies in the leaf, 1 for rows the trees were grown on.
    """
    sY = weight[:, None] * np.hstack([Y, np.ones((Y.shape[0], 1))])
    sums = Phi.T @ sY * np.sqrt(n_trees)
    counts = Phi.multiply(Phi).T @ weight * n_trees
    return np.hstack([sums, counts[:, None]])


def leaf_values(sums: FloatArray, b: FloatArray, alpha: float) -> FloatArray:
    """Leaf values (Σ s p (y - b)) / (Σ s p² + γ²), (C, K); 0 for a leaf without rows."""
    counts = sums[:, -1:] + alpha
    values: FloatArray = (sums[:, :-2] - sums[:, -2:-1] * b) / np.where(counts > 0, counts, np.inf)
    return values
