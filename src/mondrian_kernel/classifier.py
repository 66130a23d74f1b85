"""Classification with the Mondrian kernel: width chosen on the lifetime path of the loss."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from mondrian_kernel._linear.cell_operator import CellOperator
from mondrian_kernel._linear.classes import (
    announced_classes,
    check_classes,
    stream_class_weight,
    weigh_classes,
)
from mondrian_kernel._linear.losses import LOSSES, encode, probabilities
from mondrian_kernel._linear.newton import minimise
from mondrian_kernel._model.relevance import scale_and_relevance
from mondrian_kernel._online.filter import Filter
from mondrian_kernel._online.model import (
    begin_stream,
    check_new,
    check_stream,
    continue_stream,
    learn_and_show,
    stream_rows,
)
from mondrian_kernel._online.scores import linear_scores
from mondrian_kernel._online.stream import STREAM_ALPHA, rows_per_cell
from mondrian_kernel._path.checks import check_weights, join_equal
from mondrian_kernel._path.choose import cells_of_trees, choose_loss_width, enough_trees
from mondrian_kernel._path.driver import Verbose
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import MondrianFeatures, check_budget, check_ranges, draw_seed

_TOL = 1e-4


def _has_probabilities(model: MondrianKernelClassifier) -> bool:
    if model.loss != "log_loss":
        raise AttributeError(
            f"Scores of loss={model.loss!r} are not log-odds: predict_proba needs "
            "loss='log_loss'. Or wrap the model in CalibratedClassifierCV."
        )
    return True


class MondrianKernelClassifier(ClassifierMixin, BaseEstimator):
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
        inputs, or "auto" to choose it.
    alpha : float or "auto", default="auto"
        Penalty α > 0 beside a sum of losses, ``1 / (2 * C)`` of
        :class:`sklearn.svm.SVC` or :class:`sklearn.linear_model.LogisticRegression`; or "auto".
    n_estimators : int or "auto", default="auto"
        Number of trees M. More trees come closer to the exact kernel, at a cost in proportion.
        "auto": 1000, or as many as go with 150 million triples of a row, a tree and a class (of
        more than two) and with 1.2 GB of boxes, but at least 100. A stream without a fit has 100.
    loss : {"log_loss", "hinge", "squared"}, default="log_loss"
        Loss ℓ: logistic, with a softmax for many classes, or that of a support vector machine, or
        the square of the distance to ±1, both with one score a class against the rest.
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
        Seed of the trees and of the rows held out.
    n_jobs : int or None, default=None
        Threads. The result does not depend on it.
    verbose : int or callable, default=0
        Whether to print how the path advances, or what to call instead: the ``callback`` of
        :func:`lifetime_path`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes, sorted.
    lifetime_, alpha_ : float
        Lifetime and penalty of the fit.
    path_ : LifetimePath or None
        The path on which they were chosen; None where both were given.
    coef_ : ndarray of shape (1, n_cells) or (n_classes, n_cells)
        Weights of the features; of two classes, for the second.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts, not penalised.
    features_ : MondrianFeatures
        The feature map, of the scaled inputs.
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
    >>> from mondrian_kernel.classifier import MondrianKernelClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = MondrianKernelClassifier(n_estimators=50, random_state=0).fit(X, y)
    >>> model.predict([[0.5, 0.5], [0.5, -0.5]])
    array(['same', 'other'], dtype='<U5')
    >>> model.predict_proba([[0.5, 0.5]]).shape
    (1, 2)
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "lifetime": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "alpha": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "n_estimators": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "loss": [StrOptions(set(LOSSES))],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "scale": [StrOptions({"std"}), None, "array-like"],
        "relevance": [StrOptions({"auto", "learn", "equal"})],
        "max_cells": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose", callable],
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
        rows, targets = validate_data(self, X, y, dtype=np.float64, order="C")
        check_budget(self.max_cells, self.n_estimators)
        weight = check_weights(sample_weight, rows)
        rows, classes, labels, weight = check_classes(rows, targets, weight)
        shape = rows.shape
        seed = draw_seed(self.random_state)
        one_hot = np.eye(classes.size)[labels]
        scale, relevance = scale_and_relevance(self, rows, one_hot, weight, seed)
        rows = rows / scale
        check_ranges(rows)
        weight = weigh_classes(self.class_weight, classes, labels, weight)
        # Equal rows must not be fitted and held out both; and a row of weight 2 is two rows.
        first, weight = join_equal(rows, labels[:, None], weight)
        rows, labels = rows[first], labels[first]
        lifetime, alpha, path = choose_loss_width(
            rows, labels, classes.size, self.loss, weight, seed,
            lifetime=self.lifetime, alpha=self.alpha, n_estimators=self.n_estimators,
            n_jobs=self.n_jobs, verbose=self.verbose,
        )  # fmt: skip
        n_trees = enough_trees(
            self.n_estimators, shape, self.max_cells,
            partial(cells_of_trees, rows, lifetime, seed), classes.size,
        )  # fmt: skip
        features = MondrianFeatures(lifetime, n_trees, max_cells=self.max_cells, n_jobs=self.n_jobs)
        leaf = features._grow(rows, seed)
        cells, n_cells = features._cells.column[leaf], features.n_cells_
        operator = CellOperator(cells, n_cells, centre=False, n_jobs=self.n_jobs)
        Y = encode(labels, classes.size, self.loss)
        fit = minimise(operator, Y, self.loss, alpha, sample_weight=weight, tol=_TOL)
        self.classes_, self.path_ = classes, path
        self.scale_, self.relevance_ = scale, relevance
        self.features_, self.lifetime_, self.alpha_ = features, features.lifetime_, alpha
        self.coef_, self.intercept_ = fit.W.T, fit.b
        self.__dict__.pop("_stream", None)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> MondrianKernelClassifier:
        """Learn from further rows, each taken once, after :meth:`fit` or from nothing.

        After a fit the width, the penalty and the scale stay. From nothing, ``lifetime="auto"`` is
        a ladder of widths on the same trees, of which the one predicts that does best on rows it
        has not learnt from, and that climbs; ``scale="std"`` is taken from the first 1024 rows, and
        how much each dim counts from the first 4096; ``alpha="auto"`` is 0.1. See
        :class:`mondrian_kernel._online.stream.Stream` for these, and
        :class:`mondrian_kernel._online.filter.Filter` for how weights learn. Memory grows with the
        number of cells, until ``max_cells``; from then on no cell is cut any more, but all learn.

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
        known = getattr(self, "classes_", None)
        rows, targets = check_stream(self, X, y, first=known is None)
        known, labels = announced_classes(classes, known, targets)
        weight = check_weights(sample_weight, rows)
        weight = stream_class_weight(self.class_weight, known, labels, weight)
        rows, Y, weight = stream_rows(rows, encode(labels, known.size, self.loss), weight)
        stream = self.__dict__.get("_stream")
        if stream is None and hasattr(self, "coef_"):
            learner = Filter.after(
                self.coef_.T, self.intercept_, rows_per_cell(self.features_),
                self.features_.trees_.n_trees, self.loss, self.alpha_,
            )  # fmt: skip
            stream = continue_stream(self, learner)
        elif stream is None:
            alpha = STREAM_ALPHA if isinstance(self.alpha, str) else float(self.alpha)
            stream = begin_stream(self, Filter(Y.shape[1], self.loss, alpha), rows.shape[1])
        learn_and_show(
            self, stream, (rows, Y, weight), lambda new: self._learnt(new.learner, known)
        )
        return self

    @staticmethod
    def _learnt(learner: Filter, classes: NDArray[Any]) -> dict[str, Any]:
        coef = learner.W[: learner.n_cells].T
        return {
            "classes_": classes, "alpha_": learner.alpha, "coef_": coef, "intercept_": learner.b,
        }  # fmt: skip

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

    def _scores(self, X: ArrayLike) -> FloatArray:
        rows = check_new(self, X)
        return linear_scores(self.features_, rows / self.scale_, self.coef_.T, self.intercept_)
