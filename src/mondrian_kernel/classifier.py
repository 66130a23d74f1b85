"""Classification with the Mondrian kernel: width chosen on the lifetime path of the loss."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if

from mondrian_kernel._base import MondrianEstimator, shared_docs
from mondrian_kernel._linear.classes import (
    announced_classes,
    check_classes,
    stream_class_weight,
    weigh_classes,
)
from mondrian_kernel._linear.losses import LOSSES, encode, probabilities
from mondrian_kernel._linear.newton import minimise
from mondrian_kernel._model.fitted import FittedModel, TrainingRows
from mondrian_kernel._model.ridge_model import fitted_operator
from mondrian_kernel._online.learners import Filter
from mondrian_kernel._path.checks import check_weights, join_equal
from mondrian_kernel._path.choose import cells_of_trees, choose_loss_width, enough_trees
from mondrian_kernel._path.driver import Verbose
from mondrian_kernel._settings import CLASSIFIER_TOL
from mondrian_kernel._trees.checks import check_ranges, draw_seed
from mondrian_kernel._trees.levels import Levels, grow_trees
from mondrian_kernel._typing import FloatArray


def _has_probabilities(model: MondrianKernelClassifier) -> bool:
    if model.loss != "log_loss":
        raise AttributeError(
            f"Scores of loss={model.loss!r} are not log-odds: predict_proba needs "
            "loss='log_loss'. Or wrap the model in CalibratedClassifierCV."
        )
    return True


@shared_docs
class MondrianKernelClassifier(ClassifierMixin, MondrianEstimator):
    r"""Classification with the Mondrian kernel, an approximation to the Laplace kernel.

    .. math::
        f(x) = b + W^\top \phi_\lambda(x), \qquad
        \min_{W, b} \sum_i s_i \, \ell(y_i, f(x_i)) + \alpha \lVert W \rVert^2

    The width 1/λ and the penalty α are chosen on the lifetime path, by the mean loss ℓ of rows
    held out; then all rows are fitted.

    Parameters
    ----------
    lifetime : float or "auto", default="auto"
        Lifetime λ of the kernel :math:`\exp(-\lambda \lVert x - x' \rVert_1)` on the scaled
        columns, or "auto" to choose it.
    alpha : float or "auto", default="auto"
        Penalty α > 0 beside a sum of losses, ``1 / (2 * C)`` of :class:`sklearn.svm.SVC` or
        :class:`sklearn.linear_model.LogisticRegression`; or "auto" to choose it.
    n_estimators : int or "auto", default="auto"
        Number of trees M. More trees come closer to the exact kernel, at a cost in proportion.
        "auto" takes 1000, or as many as 150 million triples of a row, a tree and a class (of more
        than two) and 1.2 GB of boxes allow, but at least 100. A stream without a fit has 100.
    loss : {"log_loss", "hinge", "squared"}, default="log_loss"
        Loss ℓ: logistic, with a softmax for many classes; or that of a support vector machine; or
        the squared distance to ±1. The last two have one score for each class against the rest.
    class_weight : dict, "balanced" or None, default=None
        Factor of the weights of each class; "balanced" gives all classes the same total.
    <scale>
    <max_cells>
    <random_state>

    Attributes
    ----------
    <attributes>
    classes_ : ndarray of shape (n_classes,)
        Classes, sorted.
    cell_weights_ : ndarray of shape (1, n_cells) or (n_classes, n_cells)
        Weights of the cells; of two classes, for the second.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts, not penalised.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import MondrianKernelClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = MondrianKernelClassifier(n_estimators=50, random_state=0).fit(X, y)
    >>> model.predict([[0.5, 0.5], [0.5, -0.5]])
    array(['same', 'other'], dtype='<U5')
    >>> model.predict_proba([[0.5, 0.5]]).shape
    (1, 2)
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **MondrianEstimator._parameter_constraints,
        "loss": [StrOptions(set(LOSSES))],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        lifetime: float | str = "auto",
        alpha: float | str = "auto",
        n_estimators: int | str = "auto",
        *,
        loss: str = "log_loss",
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
        self.loss = loss
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
    ) -> MondrianKernelClassifier:
        """Choose the width and fit.

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
        self : MondrianKernelClassifier
            The fitted model.
        """
        rows, targets, weight = self._check_fit(X, y, sample_weight)
        classes, labels = check_classes(targets)
        shape, seed = rows.shape, draw_seed(self.random_state)
        scale, relevance = self._learn_columns(rows, np.eye(classes.size)[labels], weight, seed)
        rows = rows / scale
        check_ranges(rows)
        weight = weigh_classes(self.class_weight, classes, labels, weight)
        # Equal rows must not be both fitted and held out; and a row of weight 2 is two rows.
        first, weight = join_equal(rows, labels[:, None], weight)
        rows, labels = rows[first], labels[first]
        lifetime, alpha, path = choose_loss_width(
            rows,
            labels,
            classes.size,
            self.loss,
            weight,
            seed,
            lifetime=self.lifetime,
            alpha=self.alpha,
            n_estimators=self.n_estimators,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        n_trees = enough_trees(
            self.n_estimators,
            shape,
            self.max_cells,
            partial(cells_of_trees, rows, lifetime, seed),
            classes.size,
        )
        trees, leaf = grow_trees(rows, lifetime, n_trees, seed, self.max_cells, self.n_jobs)
        levels = Levels.of(trees, np.array([trees.lifetime]))
        known = TrainingRows(leaf, encode(labels, classes.size, self.loss), weight)
        # The weights of the rows belong to the losses, not to the features.
        operator = fitted_operator(
            trees, levels, known, self.n_jobs, points=rows, centre=False, weighted=False
        )
        fit = minimise(
            operator, known.Y, self.loss, alpha, sample_weight=weight, tol=CLASSIFIER_TOL
        )
        model = FittedModel(
            trees, levels, fit.W, fit.b, scale, relevance, float(alpha), seed, np.empty(0)
        )
        self._set_fitted(model, path)
        self.classes_ = classes
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> MondrianKernelClassifier:
        """Learn from further rows, each taken once, after :meth:`fit` or from nothing.

        After a fit the width, the penalty and the scale stay. From nothing, with
        ``lifetime="auto"``, up to five widths share the trees. The one with the lowest loss on
        unseen rows predicts. When the narrowest wins, a narrower one is added. ``scale="std"`` is
        taken from the first 1024 rows, the relevances from the first 4096, and ``alpha="auto"`` is
        0.1. Memory grows with the number of cells, until ``max_cells``; from then on no cell is
        cut any more, but all learn.

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
        self : MondrianKernelClassifier
            The model; unchanged if anything fails.
        """
        rows, targets = self._check_batch(X, y)
        known, labels = announced_classes(classes, getattr(self, "classes_", None), targets)
        weight = check_weights(sample_weight, rows)
        weight = stream_class_weight(self.class_weight, known, labels, weight)
        self._learn(rows, encode(labels, known.size, self.loss), weight)
        self.classes_ = known
        return self

    def _blank_learner(self, n_outputs: int) -> Filter:
        return Filter(n_outputs, self.loss, self._stream_alpha)

    def _continuing_learner(self, model: FittedModel) -> Filter:
        return Filter.after(model, self.loss)

    @property
    def cell_weights_(self) -> FloatArray:
        """Weights of the cells."""
        return self._fitted().cell_weights.T

    @property
    def intercept_(self) -> FloatArray:
        """Intercepts, not penalised."""
        return self._fitted().intercept

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Scores of rows, the higher the likelier.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
            Scores; of two classes, of the second.
        """
        F = self._scores(X)
        return F[:, 0] if F.shape[1] == 1 else F

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
        F = self._scores(X)
        best = (F[:, 0] > 0).astype(int) if F.shape[1] == 1 else F.argmax(axis=1)
        classes: NDArray[Any] = self.classes_[best]
        return classes

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Class probabilities of rows, the softmax of their scores; only for "log_loss".

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        P : ndarray of shape (n_samples, n_classes)
            Probabilities in the order of ``classes_``. Far from the data they go to those of the
            intercept alone.
        """
        return probabilities(self._scores(X))

    def check(self) -> None:
        """Raise ValueError unless the fitted parts belong together."""
        super().check()
        self._check_scores(1 if self.classes_.size == 2 else self.classes_.size)

    def _scores(self, X: ArrayLike) -> FloatArray:
        rows = self._check_new(X)
        return self._fitted().scores(rows, self.n_jobs)
