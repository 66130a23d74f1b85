"""Mondrian forests: the trees of the kernel, each fitted apart from the others."""

from __future__ import annotations

import copy
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MultiOutputMixin,
    RegressorMixin,
    _fit_context,
)
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from mondrian_kernel.classes import (
    announced_classes,
    check_classes,
    stream_class_weight,
    weigh_classes,
)
from mondrian_kernel.features import MondrianFeatures, _csr, check_budget, check_ranges, draw_seed
from mondrian_kernel.partition.trees import FloatArray
from mondrian_kernel.path.checks import check_weights, with_weight
from mondrian_kernel.path.forest_path import choose_forest_width
from mondrian_kernel.path.progress import Verbose
from mondrian_kernel.scaling import dim_scale
from mondrian_kernel.stream.means import Means
from mondrian_kernel.stream.model import (
    begin_stream,
    check_new,
    check_stream,
    continue_stream,
    learn_and_show,
    stream_rows,
)
from mondrian_kernel.stream.scores import cells_of
from mondrian_kernel.stream.stream import STREAM_ALPHA, Stream


class _MondrianForest(BaseEstimator):
    """What both forests share: trees, and leaf values fitted in each tree apart."""

    _parameter_constraints: dict[str, list[Any]] = {
        "lifetime": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "scale": [StrOptions({"std"}), None, "array-like"],
        "max_cells": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose", callable],
    }

    @classmethod
    def from_features(
        cls, features: MondrianFeatures, alpha: float = 1.0, *, scale: Any = None, **params: Any
    ) -> Self:
        """Return a forest on the very trees of fitted features, to be fitted to targets.

        Kernel and forest can be compared on one sample of trees then, at every lifetime by
        ``features.at``. A clone of the forest grows trees of its own.

        Parameters
        ----------
        features : MondrianFeatures
            Fitted features, for instance ``features_`` of a kernel model.
        alpha : float, default=1.0
            Shrinkage γ².
        scale : None or array-like of shape (n_features,), default=None
            What inputs are divided by before they reach the features: ``scale_`` of that model.
        **params : dict
            Further parameters of the forest.

        Returns
        -------
        forest : estimator
            A forest whose ``fit`` keeps the trees.
        """
        check_is_fitted(features)
        forest = cls(
            features.lifetime_, alpha, features.trees_.n_trees, scale=scale,
            n_jobs=features.n_jobs, **params,
        )  # fmt: skip
        online = "_online" in vars(features)  # whose trees further rows would change
        forest._shared = features.at(features.lifetime_) if online else features
        return forest

    def _fit_leaves(
        self,
        rows: FloatArray,
        Y: FloatArray,
        weight: FloatArray | None,
        scale: FloatArray,
        fit_intercept: bool,
    ) -> Means:
        """Choose the width, grow the trees on scaled rows and return the means of their leaves."""
        check_budget(self.max_cells, self.n_estimators)
        rows = rows / scale
        check_ranges(rows)
        seed = draw_seed(self.random_state)
        shared: MondrianFeatures | None = getattr(self, "_shared", None)
        lifetime, alpha, path = choose_forest_width(
            rows, Y, weight, seed,
            lifetime=self.lifetime if shared is None else shared.lifetime_, alpha=self.alpha,
            n_estimators=self.n_estimators, fit_intercept=fit_intercept, n_jobs=self.n_jobs,
            verbose=self.verbose,
        )  # fmt: skip
        if shared is None:
            features = MondrianFeatures(
                lifetime, self.n_estimators, max_cells=self.max_cells, n_jobs=self.n_jobs
            )
            leaf = features._grow(rows, seed)
            Phi = _csr(features._cells.column[leaf], None, features.n_cells_)
        else:
            features, Phi = shared, shared.transform(rows)
        self.scale_, self.path_, self.alpha_ = scale, path, alpha
        self.features_, self.lifetime_ = features, features.lifetime_
        self.__dict__.pop("_stream", None)
        return Means.of(Phi, Y, weight, alpha, features.trees_.n_trees, fit_intercept)

    def _learn(
        self, rows: FloatArray, Y: FloatArray, weight: FloatArray | None, centre: bool, **known: Any
    ) -> None:
        """Learn from further rows of a stream."""
        rows, Y, s = stream_rows(rows, Y, weight)
        stream: Stream | None = self.__dict__.get("_stream")
        if stream is None and hasattr(self, "_means"):
            stream = continue_stream(self, copy.deepcopy(self._means))
        elif stream is None:
            if hasattr(self, "_shared"):
                raise ValueError("A forest on given trees is to be fitted before partial_fit.")
            alpha = STREAM_ALPHA if isinstance(self.alpha, str) else float(self.alpha)
            stream = begin_stream(self, Means(Y.shape[1], alpha, centre), rows.shape[1])
        if Y.shape[1] != stream.blank.n_outputs:
            raise ValueError(
                f"y has {Y.shape[1]} outputs, but those before had {stream.blank.n_outputs}."
            )
        learn_and_show(
            self, stream, (rows, Y, s),
            lambda new: {"alpha_": new.blank.alpha, "_means": new.learner, **known},
        )  # fmt: skip

    def _average(self, X: ArrayLike) -> FloatArray:
        rows = check_new(self, X)
        cells, log_stay = cells_of(self.features_, rows / self.scale_)
        average: FloatArray = self._means.scores(cells, np.exp(log_stay, out=log_stay))
        return average


class MondrianForestRegressor(MultiOutputMixin, RegressorMixin, _MondrianForest):
    r"""Mondrian forest: the mean of trees whose leaf means are shrunk by γ².

    .. math::
        \hat f(x) = b + \frac1M \sum_m w^{(m)}_{c_m(x)}, \qquad
        w^{(m)}_c = \frac{\sum_{i \in c} s_i (y_i - b)}{\sum_{i \in c} s_i + \gamma^2}

    Every tree is fitted apart: the leaf values minimise :math:`\frac1M \sum_m \sum_i s_i (y_i -
    b - w^{(m)}_{c_m(x_i)})^2 + \gamma^2 \lVert w \rVert^2`, the mean of the losses of the trees,
    where :class:`MondrianKernelRegressor` minimises the loss of their mean. A leaf of a new row
    counts by the probability that the row lies in it.

    Parameters
    ----------
    lifetime : float or "auto", default="auto"
        Lifetime λ of the trees on the scaled inputs, or "auto" for the one with the least
        leave-one-out error.
    alpha : float or "auto", default="auto"
        Shrinkage γ² ≥ 0, in rows, or "auto" to choose it likewise.
    n_estimators : int, default=200
        Number of trees M.
    fit_intercept : bool, default=True
        Whether leaves are shrunk to the mean b of y. False for the paper's forest: b = 0.
    scale : "std", None or array-like of shape (n_features,), default="std"
        What every input is divided by: its standard deviation, nothing, or the given numbers.
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
    lifetime_, alpha_ : float
        Lifetime and shrinkage of the fit.
    path_ : ForestPath or None
        The path on which they were chosen; None where both were given.
    coef_ : ndarray of shape (n_cells,) or (n_cells, n_outputs)
        Leaf values over √M, the weights of the features.
    intercept_ : float or ndarray of shape (n_outputs,)
        Intercept b.
    features_ : MondrianFeatures
        The trees, on the scaled inputs.
    scale_ : ndarray of shape (n_features_in_,)
        What the inputs are divided by.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input columns, where ``X`` had any.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel.forest import MondrianForestRegressor
    >>> X = np.random.default_rng(0).uniform(size=(300, 2))
    >>> y = np.sin(6 * X[:, 0])
    >>> forest = MondrianForestRegressor(n_estimators=50, random_state=0).fit(X, y)
    >>> bool(forest.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **_MondrianForest._parameter_constraints,
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        lifetime: float | str = "auto",
        alpha: float | str = "auto",
        n_estimators: int = 200,
        *,
        fit_intercept: bool = True,
        scale: Any = "std",
        max_cells: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Verbose = 0,
    ) -> None:
        self.lifetime = lifetime
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.max_cells = max_cells
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MondrianForestRegressor:
        """Choose the width and fit every tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two, one of weight 0 is left out.

        Returns
        -------
        self : MondrianForestRegressor
            The fitted forest.
        """
        rows, targets = validate_data(
            self, X, y, dtype=np.float64, order="C", multi_output=True, y_numeric=True
        )
        Y = targets.astype(np.float64).reshape(rows.shape[0], -1)
        rows, Y, weight = with_weight(rows, Y, check_weights(sample_weight, rows))
        scale = dim_scale(self.scale, rows, weight)
        self._means = self._fit_leaves(rows, Y, weight, scale, self.fit_intercept)
        self._one_output = targets.ndim == 1
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MondrianForestRegressor:
        """Learn from further rows, after :meth:`fit` or from nothing.

        The leaves are at any moment those of a fit of all rows on the same trees, while the ladder
        of widths does not climb. After a fit the width, the shrinkage and the scale stay. From
        nothing, ``lifetime="auto"`` is that ladder and ``scale="std"`` is taken from the first 1024
        rows, see :class:`mondrian_kernel.stream.stream.Stream`; ``alpha="auto"`` is 0.1. Memory
        grows with the number of cells, until ``max_cells``; from then on no cell is cut any more,
        but all learn.

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
        self : MondrianForestRegressor
            The forest; unchanged if anything fails.
        """
        first = not hasattr(self, "_means")
        rows, targets = check_stream(self, X, y, first=first, multi_output=True, y_numeric=True)
        Y = targets.astype(np.float64).reshape(rows.shape[0], -1)
        weight = check_weights(sample_weight, rows)
        self._learn(rows, Y, weight, self.fit_intercept, _one_output=targets.ndim == 1)
        return self

    @property
    def coef_(self) -> FloatArray:
        """Leaf values over √M, the weights of the features."""
        coef = self._means.coef(self.features_.trees_.n_trees)
        return coef[:, 0] if self._one_output else coef

    @property
    def intercept_(self) -> FloatArray | float:
        """Intercept b."""
        b = self._means.intercept
        return float(b[0]) if self._one_output else b

    def predict(self, X: ArrayLike) -> FloatArray:
        """Predict rows by the average of the trees.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions.
        """
        average = self._average(X)
        return average[:, 0] if self._one_output else average


class MondrianForestClassifier(ClassifierMixin, _MondrianForest):
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
    path_ : ForestPath or None
        The path on which they were chosen; None where both were given.
    coef_ : ndarray of shape (n_classes, n_cells)
        Leaf frequencies minus the prior, over √M: the weights of the features.
    features_ : MondrianFeatures
        The trees, on the scaled inputs.
    scale_ : ndarray of shape (n_features_in_,)
        What the inputs are divided by.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input columns, where ``X`` had any.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel.forest import MondrianForestClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> forest = MondrianForestClassifier(n_estimators=50, random_state=0).fit(X, y)
    >>> forest.predict([[0.5, 0.5], [0.5, -0.5]])
    array(['same', 'other'], dtype='<U5')
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **_MondrianForest._parameter_constraints,
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
        scale = dim_scale(self.scale, rows, weight)
        weight = weigh_classes(self.class_weight, classes, labels, weight)
        one_hot = (labels[:, None] == np.arange(classes.size)).astype(np.float64)
        self._means = self._fit_leaves(rows, one_hot, weight, scale, True)
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
        one_hot = (labels[:, None] == np.arange(known.size)).astype(np.float64)
        self._learn(rows, one_hot, weight, True, classes_=known)
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
