"""Mondrian forests: the trees of the kernel, each fitted on its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin

from mondrian_kernel._estimator.forest_base import MondrianForest
from mondrian_kernel._estimator.shared_docs import shared_docs
from mondrian_kernel._estimator.targets import ClassEstimator, NumberEstimator, as_columns
from mondrian_kernel._linear.losses import check_classes, weigh_classes
from mondrian_kernel._path.driver import Verbose
from mondrian_kernel._trees.checks import all_or_nothing, draw_seed
from mondrian_kernel._typing import FloatArray


@shared_docs
class MondrianForestRegressor(MultiOutputMixin, RegressorMixin, MondrianForest, NumberEstimator):
    r"""Mondrian forest: the mean of trees whose leaf means are shrunk by γ².

    .. math::
        \hat f(x) = b + \frac1M \sum_m w^{(m)}_{c_m(x)}, \qquad
        w^{(m)}_c = \frac{\sum_{i \in c} s_i (y_i - b)}{\sum_{i \in c} s_i + \gamma^2}

    Every tree is fitted on its own: the leaf values minimise :math:`\frac1M \sum_m \sum_i s_i
    (y_i - b - w^{(m)}_{c_m(x_i)})^2 + \gamma^2 \lVert w \rVert^2`, the mean of the losses of the
    trees, where :class:`MondrianKernelRegressor` minimises the loss of their mean. A leaf of a new
    row counts by the probability that the row lies in it. The leaves of a stream that forgets
    nothing are those of a fit of all rows on the same trees, as long as no width is added.

    Parameters
    ----------
    lifetime : float or "auto", default="auto"
        Lifetime λ of the trees on the scaled columns, or "auto" for the one with the least
        leave-one-out error.
    alpha : float or "auto", default="auto"
        Shrinkage γ² ≥ 0, in rows, or "auto" to choose it likewise.
    n_estimators : int, default=200
        Number of trees M.
    fit_intercept : bool, default=True
        Whether leaves are shrunk to the mean b of y. False for the paper's forest: b = 0.
    <scale>
    <max_cells>
    <forgetting>
    <random_state>

    Attributes
    ----------
    <attributes>
    cell_weights_ : ndarray of shape (n_cells,) or (n_cells, n_outputs)
        Leaf values over √M, the weights of the cells.
    intercept_ : float or ndarray of shape (n_outputs,)
        Intercept b.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import MondrianForestRegressor
    >>> X = np.random.default_rng(0).uniform(size=(300, 2))
    >>> y = np.sin(6 * X[:, 0])
    >>> forest = MondrianForestRegressor(n_estimators=50, random_state=0).fit(X, y)
    >>> bool(forest.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **MondrianForest._parameter_constraints,
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
        relevance: str = "auto",
        categorical_features: Any = "from_dtype",
        max_cells: int | None = None,
        forgetting: float | str | None = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Verbose = 0,
    ) -> None:
        self.lifetime = lifetime
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.relevance = relevance
        self.categorical_features = categorical_features
        self.max_cells = max_cells
        self.forgetting = forgetting
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def _centres(self) -> bool:
        return self.fit_intercept

    @all_or_nothing
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MondrianForestRegressor:
        """Choose the width and fit every tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite, or a data frame, also with gaps: see :class:`TableEncoder`.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two, one of weight 0 is left out.
        """
        rows, targets, weight = self._check_fit(
            X, y, sample_weight, multi_output=True, y_numeric=True
        )
        Y, seed = as_columns(targets), draw_seed(self.random_state)
        columns = self._learn_columns(rows, Y, weight, seed).columns
        self._fit_leaves(rows, Y, weight, columns, seed)
        self._one_output = targets.ndim == 1
        return self

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
        rows = self._check_new(X)
        return self._shaped(self._scores_of(rows))


@shared_docs
class MondrianForestClassifier(ClassifierMixin, MondrianForest, ClassEstimator):
    r"""Mondrian forest: the mean of class frequencies in leaves, shrunk to the prior by γ².

    .. math::
        \hat p(x) = \pi + \frac1M \sum_m \left(p^{(m)}_{c_m(x)} - \pi\right), \qquad
        p^{(m)}_c = \frac{\sum_{i \in c} s_i e_{y_i} + \gamma^2 \pi}{\sum_{i \in c} s_i + \gamma^2}

    with π the frequencies of the classes among all rows. A leaf of a new row counts by the
    probability that the row lies in it; the prior takes the rest.

    Parameters
    ----------
    lifetime : float or "auto", default="auto"
        Lifetime λ of the trees on the scaled columns, or "auto" for the one whose probabilities
        have the least squared error when each row is left out.
    alpha : float or "auto", default="auto"
        Shrinkage γ² ≥ 0, in rows, or "auto" to choose it likewise.
    n_estimators : int, default=200
        Number of trees M.
    class_weight : dict, "balanced" or None, default=None
        Factor of the weights of each class; "balanced" gives all classes the same total.
    <scale>
    <max_cells>
    <forgetting>
    <random_state>

    Attributes
    ----------
    <attributes>
    classes_ : ndarray of shape (n_classes,)
        Classes, sorted.
    class_prior_ : ndarray of shape (n_classes,)
        Frequencies π.
    cell_weights_ : ndarray of shape (n_classes, n_cells)
        Leaf frequencies minus the prior, over √M: the weights of the cells.

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
        **ClassEstimator._parameter_constraints,
        **MondrianForest._parameter_constraints,
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
        categorical_features: Any = "from_dtype",
        max_cells: int | None = None,
        forgetting: float | str | None = "auto",
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
        self.categorical_features = categorical_features
        self.max_cells = max_cells
        self.forgetting = forgetting
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MondrianForestClassifier:
        """Choose the width and fit every tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite, or a data frame, also with gaps: see :class:`TableEncoder`.
        y : array-like of shape (n_samples,)
            Classes, numbers or strings.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two, one of weight 0 is left out.
        """
        rows, targets, weight = self._check_fit(X, y, sample_weight)
        classes, labels = check_classes(targets)
        seed, one_hot = draw_seed(self.random_state), np.eye(classes.size)[labels]
        columns = self._learn_columns(rows, one_hot, weight, seed).columns
        weight = weigh_classes(self.class_weight, classes, labels, weight)
        self._fit_leaves(rows, one_hot, weight, columns, seed)
        self.classes_ = classes
        return self

    @property
    def class_prior_(self) -> FloatArray:
        """Frequencies of the classes among all rows."""
        return self._fitted().intercept

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
        return self._outputs(self._check_new(X))

    def _outputs(self, rows: FloatArray) -> FloatArray:
        P = np.clip(super()._outputs(rows), 0.0, 1.0)
        P /= P.sum(axis=1, keepdims=True)  # they sum to 1 but for rounding
        return P

    def _coded(self, labels: NDArray[np.intp], n_classes: int) -> FloatArray:
        return np.eye(n_classes)[labels]

    def check(self) -> None:
        """Raise ValueError unless the fitted parts belong together."""
        super().check()
        self._check_scores(self.classes_.size)
