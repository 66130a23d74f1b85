"""Mondrian forest for classification."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import validate_data

from mondrian_kernel._linear.classes import (
    announced_classes,
    check_classes,
    stream_class_weight,
    weigh_classes,
)
from mondrian_kernel._model.relevance import scale_and_relevance
from mondrian_kernel._online.model import check_stream
from mondrian_kernel._path.checks import check_weights
from mondrian_kernel._path.driver import Verbose
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import draw_seed
from mondrian_kernel.forest.base import MondrianForest


class MondrianForestClassifier(ClassifierMixin, MondrianForest):
    r"""Mondrian forest: the mean of class frequencies in leaves, shrunk to the prior by γ².

    .. math::
        \hat p(x) = \pi + \frac1M \sum_m \left(p^{(m)}_{c_m(x)} - \pi\right), \qquad
        p^{(m)}_c = \frac{\sum_{i \in c} s_i e_{y_i} + \gamma^2 \pi}{\sum_{i \in c} s_i + \gamma^2}

    with π the frequencies of the classes among all rows. A leaf of a new row counts by the
    probability that the row lies in it; the prior takes the rest.

    Parameters
    ----------
    lifetime : float or "auto", default="auto"
        Lifetime λ of the trees on the scaled inputs, or "auto" for the one whose probabilities
        have the least squared error when each row is left out.
    alpha : float or "auto", default="auto"
        Shrinkage γ² ≥ 0, in rows, or "auto" to choose it likewise.
    n_estimators : int, default=200
        Number of trees M.
    class_weight : dict, "balanced" or None, default=None
        Factor of the weights of each class; "balanced" gives all classes the same total.
    scale : "std", None or array-like of shape (n_features,), default="std"
        What every input is divided by: its standard deviation, nothing, or the given numbers.
    relevance : {"auto", "learn", "equal"}, default="auto"
        How much each scaled input counts: learnt from at most 1000 of the rows, or all the same;
        "auto" learns it unless ``lifetime`` or ``scale`` are given as numbers. See
        :func:`mondrian_kernel._model.relevance.learn_relevance`.
    max_cells : int or None, default=None
        Bound on the number of cells of all trees.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees.
    n_jobs : int or None, default=None
        Threads. The result does not depend on it.
    verbose : int or callable, default=0
        Whether to print how the path advances, or what to call instead: the ``callback`` of
        :func:`lifetime_path`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes, sorted.
    class_prior_ : ndarray of shape (n_classes,)
        Frequencies π.
    lifetime_, alpha_ : float
        Lifetime and shrinkage of the fit.
    path_ : LifetimePath or None
        The path on which they were chosen; None where both were given.
    coef_ : ndarray of shape (n_classes, n_cells)
        Leaf frequencies minus the prior, over √M: the weights of the features.
    features_ : MondrianFeatures
        The trees, on the scaled inputs.
    relevance_ : ndarray of shape (n_features_in_,)
        How much each scaled input counts, 1 on average.
    scale_ : ndarray of shape (n_features_in_,)
        What the inputs are divided by: their scale over their relevance.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input columns, where ``X`` had any.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import MondrianForestClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> forest = MondrianForestClassifier(n_estimators=50, random_state=0).fit(X, y)
    >>> forest.predict([[0.5, 0.5], [0.5, -0.5]])
    array(['same', 'other'], dtype='<U5')
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **MondrianForest._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        lifetime: float | str = "auto",
        alpha: float | str = "auto",
        n_estimators: int = 200,
        *,
        class_weight: dict[Any, float] | str | None = None,
        scale: Any = "std",
        relevance: str = "auto",
        max_cells: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Verbose = 0,
    ) -> None:
        self.lifetime = lifetime
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.class_weight = class_weight
        self.scale = scale
        self.relevance = relevance
        self.max_cells = max_cells
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MondrianForestClassifier:
        """Choose the width and fit every tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : array-like of shape (n_samples,)
            Classes, numbers or strings.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two, one of weight 0 is left out.

        Returns
        -------
        self : MondrianForestClassifier
            The fitted forest.
        """
        rows, targets = validate_data(self, X, y, dtype=np.float64, order="C")
        weight = check_weights(sample_weight, rows)
        rows, classes, labels, weight = check_classes(rows, targets, weight)
        seed, one_hot = draw_seed(self.random_state), np.eye(classes.size)[labels]
        scales = scale_and_relevance(self, rows, one_hot, weight, seed)
        weight = weigh_classes(self.class_weight, classes, labels, weight)
        self._means = self._fit_leaves(rows, one_hot, weight, scales, seed, fit_intercept=True)
        self.classes_ = classes
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> MondrianForestClassifier:
        """Learn from further rows, after :meth:`fit` or from nothing.

        See :meth:`MondrianForestRegressor.partial_fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : array-like of shape (n_samples,)
            Classes.
        classes : array-like of shape (n_classes,) or None, default=None
            All classes that will ever come; needed on the first call, unless after a fit.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 0 is left out.

        Returns
        -------
        self : MondrianForestClassifier
            The forest; unchanged if anything fails.
        """
        known = getattr(self, "classes_", None)
        rows, targets = check_stream(self, X, y, first=known is None)
        known, labels = announced_classes(classes, known, targets)
        weight = check_weights(sample_weight, rows)
        weight = stream_class_weight(self.class_weight, known, labels, weight)
        one_hot = np.eye(known.size)[labels]
        self._learn(rows, one_hot, weight, fit_intercept=True, classes_=known)
        return self

    @property
    def coef_(self) -> FloatArray:
        """Leaf frequencies minus the prior, over √M: the weights of the features."""
        return self._means.coef(self.features_.trees_.n_trees).T

    @property
    def class_prior_(self) -> FloatArray:
        """Frequencies of the classes among all rows."""
        return self._means.intercept

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Class probabilities of rows, averaged over the trees.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        P : ndarray of shape (n_samples, n_classes)
            Probabilities in the order of ``classes_``.
        """
        P = np.clip(self._average(X), 0.0, 1.0)
        P /= P.sum(axis=1, keepdims=True)  # they sum to 1 but for rounding
        return P

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Class with the highest probability.
        """
        best = self.predict_proba(X).argmax(axis=1)
        classes: NDArray[Any] = self.classes_[best]
        return classes
