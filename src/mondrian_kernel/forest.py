"""Mondrian forests: the trees of the kernel, each fitted on its own."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._estimator.explainable import ExplainableEstimator
from mondrian_kernel._estimator.shared_docs import shared_docs
from mondrian_kernel._estimator.targets import ClassEstimator, NumberEstimator, as_columns
from mondrian_kernel._linear.losses import check_classes, weigh_classes
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.notes import notes_on
from mondrian_kernel._online.exact import ExactStream
from mondrian_kernel._online.learners import Means
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._path.choose import choose_forest_width
from mondrian_kernel._path.driver import Verbose
from mondrian_kernel._trees.checks import all_or_nothing, check_ranges, draw_seed
from mondrian_kernel._trees.levels import Levels, grow_trees
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import MondrianFeatures

__all__ = ["MondrianForestClassifier", "MondrianForestRegressor"]


class MondrianForest(ExplainableEstimator):
    """Base of both forests: trees, and leaf values fitted in each tree alone."""

    _parameter_constraints: dict[str, list[Any]] = {
        **ExplainableEstimator._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
    }
    _penalised = False
    _target_kind: dict[str, bool] = {}  # options of scikit-learn's checks of y
    # The features of another model, whose trees a fit keeps.
    _shared: MondrianFeatures | None = None

    @classmethod
    def from_features(
        cls, features: MondrianFeatures, alpha: float = 1.0, *, scale: Any = None, **params: Any
    ) -> Self:
        """Return a forest on the very trees of fitted features; its ``fit`` keeps them.

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
        """
        check_is_fitted(features)
        if features.levels_.n_levels > 1:
            raise ValueError("A forest has one lifetime: pass features.at(lifetime).")
        params = {"scale": scale, "n_jobs": features.n_jobs, **params}
        forest = cls(features.lifetime_, alpha, features.trees_.n_trees, **params)
        forest._shared = features.at(features.lifetime_)
        return forest

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the width and fit every tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite, or a data frame, also with gaps: see :class:`TableEncoder`.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets; of a classifier one class a row, a number or a string.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two, one of weight 0 is left out.

        Returns
        -------
        self : estimator
            The fitted forest.
        """
        rows, targets, weight = self._check_fit(X, y, sample_weight, **self._target_kind)
        Y, seed = self._numbers(targets), draw_seed(self.random_state)
        columns = self._learn_columns(rows, Y, weight, seed).columns
        self._fit_leaves(rows, Y, self._weighed(Y, weight), columns, seed)
        return self

    def _numbers(self, targets: NDArray[Any]) -> FloatArray:
        """Return targets as columns of numbers (N, K), and keep what predictions need of them."""
        raise NotImplementedError

    def _weighed(self, Y: FloatArray, weight: FloatArray | None) -> FloatArray | None:
        """Return the weights of the rows in the leaves."""
        return weight

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
        # Sums of s p y, s p and s p² over the rows of each leaf, (C, K + 2), with p the probability
        # that a row lies in it: 1 for rows the trees were grown on.
        sY, root = s[:, None] * np.hstack([Y, np.ones((Y.shape[0], 1))]), np.sqrt(trees.n_trees)
        counts = Phi.multiply(Phi).T @ s * trees.n_trees
        sums = np.hstack([Phi.T @ sY * root, counts[:, None]])
        b = np.average(Y, axis=0, weights=s) if self._centres else np.zeros(Y.shape[1])
        # Leaf values (Σ s p (y - b)) / (Σ s p² + γ²), 0 for a leaf without rows.
        total = np.where(counts + alpha > 0, counts + alpha, np.inf)[:, None]
        values = (sums[:, :-2] - sums[:, -2:-1] * b) / total / root
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
        return bool(getattr(self, "fit_intercept", True))

    def _next_stream(self, n_columns: int, n_outputs: int, n_new: int) -> Stream | ExactStream:
        if self._shared is not None and not hasattr(self, "_model"):
            raise ValueError("A forest on given trees must be fitted before partial_fit.")
        return super()._next_stream(n_columns, n_outputs, n_new)

    def _learner(self, n_outputs: int, alpha: float) -> Means:
        return Means(n_outputs, alpha, self._centres)


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
    _target_kind = {"multi_output": True, "y_numeric": True}

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

    def _numbers(self, targets: NDArray[Any]) -> FloatArray:
        self._one_output = targets.ndim == 1
        return as_columns(targets)

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

    def _numbers(self, targets: NDArray[Any]) -> FloatArray:
        self.classes_, labels = check_classes(targets)
        return np.eye(self.classes_.size)[labels]

    def _weighed(self, Y: FloatArray, weight: FloatArray | None) -> FloatArray | None:
        return weigh_classes(self.class_weight, self.classes_, Y.argmax(axis=1), weight)

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
