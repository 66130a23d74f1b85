"""Classification with the Mondrian kernel on dask collections."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from mondrian_kernel._linear.classes import weigh_classes
from mondrian_kernel._linear.losses import probabilities
from mondrian_kernel._path.checks import join_equal
from mondrian_kernel._path.choose import choose_loss_width, enough_trees
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._trees.checks import check_budget, draw_seed
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.dask.blocks import Blocks, Rows
from mondrian_kernel.dask.cells import CellBlocks
from mondrian_kernel.dask.choose import block_scale
from mondrian_kernel.dask.features import cells_of_block_trees, keep_names, plant
from mondrian_kernel.dask.inputs import beside, is_collection, row_array
from mondrian_kernel.dask.lazy import known_rows, map_rows
from mondrian_kernel.dask.linear import Linear, predict_mean
from mondrian_kernel.dask.logistic import minimise_logistic
from mondrian_kernel.dask.ridge import is_dense, solve_products, solve_sums
from mondrian_kernel.dask.summary import Summary, summarise
from mondrian_kernel.dask.sums import sum_rows
from mondrian_kernel.dask.targets import Encoded
from mondrian_kernel.features import MondrianFeatures, features_at

_TOL = 1e-4
# The width is chosen on so many rows at most, in one place.
SAMPLE_ROWS = 10_000


def _has_probabilities(model: DaskMondrianKernelClassifier) -> bool:
    if model.loss != "log_loss":
        raise AttributeError(
            f"Scores of loss={model.loss!r} are not log-odds: predict_proba needs loss='log_loss'."
        )
    return True


class DaskMondrianKernelClassifier(ClassifierMixin, BaseEstimator):
    r"""Classification with the Mondrian kernel on rows in the blocks of a dask collection.

    .. math::
        f(x) = b + W^\top \phi_\lambda(x), \qquad
        \min_{W, b} \sum_i s_i \, \ell(y_i, f(x_i)) + \alpha \lVert W \rVert^2

    The model is that of :class:`mondrian_kernel.MondrianKernelClassifier` with the same seed: the
    same trees and, up to the tolerance of the solver, the same weights. Rows never move.

    Parameters
    ----------
    lifetime : float or "auto", default="auto"
        Lifetime λ of the kernel on the scaled inputs, or "auto" to choose it as the classifier
        without Dask does, on 10 000 rows drawn with the seed where there are more.
    alpha : float or "auto", default="auto"
        Penalty α > 0 beside a sum of losses, or "auto" to choose it likewise.
    n_estimators : int or "auto", default="auto"
        Number of trees M; "auto" as in :class:`mondrian_kernel.MondrianKernelClassifier`: of very
        many rows 100.
    loss : {"log_loss", "squared"}, default="log_loss"
        Loss ℓ: logistic, with a softmax for many classes, or the square of the distance to ±1.
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
    keep_cells : bool or "auto", default="auto"
        Whether the fit keeps the cells of all rows in the memory of the workers, M bytes a row or
        2 M where a tree has more than 256 cells. If not, rows are read and go down the trees again
        at every step. By default they are kept where they take less than half of what is free.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees and of the rows on which the width is chosen.

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
    >>> import dask.array as da
    >>> from mondrian_kernel.dask import DaskMondrianKernelClassifier
    >>> X = da.random.default_rng(0).uniform(-1, 1, size=(1000, 2), chunks=(250, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> model = DaskMondrianKernelClassifier(3.0, 0.1, n_estimators=50, random_state=0)
    >>> bool((model.fit(X, y).predict(X) == y).mean().compute() > 0.95)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **MondrianKernelClassifier._parameter_constraints,
        "loss": [StrOptions({"log_loss", "squared"})],
        "keep_cells": ["boolean", StrOptions({"auto"})],
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
        keep_cells: bool | str = "auto",
        random_state: Any = None,
    ) -> None:
        self.lifetime = lifetime
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.loss = loss
        self.class_weight = class_weight
        self.scale = scale
        self.relevance = relevance
        self.max_cells = max_cells
        self.keep_cells = keep_cells
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DaskMondrianKernelClassifier:
        """Choose the width and fit.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Rows, finite. Read once for each level of the trees: ``persist`` it if it fits into the
            memory of the workers.
        y : dask array or series of shape (n_samples,)
            Classes, numbers or strings, in the same blocks where the sizes of blocks are not known.
        sample_weight : dask array or series of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two, one of weight 0 is left out.

        Returns
        -------
        self : DaskMondrianKernelClassifier
            The fitted model.
        """
        check_budget(self.max_cells, self.n_estimators)
        rows, names = row_array(X)
        y = beside(y, rows, "y")
        if y.ndim != 1:
            raise ValueError(f"y must have one dimension, got {y.ndim}.")
        blocks = Blocks(rows, y, sample_weight)
        summary = summarise(blocks)
        seed = draw_seed(self.random_state)
        target = self._encoding(blocks)
        scale, relevance = block_scale(self, blocks, summary, seed, target.one_hot)
        blocks = blocks.scaled(scale)
        lifetime, alpha, path = self._choose(blocks, summary, target, seed)
        n_trees = enough_trees(
            self.n_estimators, (summary.n_rows, blocks.n_dims), self.max_cells,
            partial(cells_of_block_trees, blocks, summary, scale, lifetime, seed),
            target.classes.size,
        )  # fmt: skip
        features = MondrianFeatures(lifetime, n_trees, max_cells=self.max_cells)
        features._run(plant(blocks, summary, scale, n_trees, seed))
        W, b = self._minimise(blocks, features, target, alpha)

        self.n_features_in_ = blocks.n_dims
        keep_names(self, names)
        self.classes_, self.path_ = target.classes, path
        self.scale_, self.relevance_ = scale, relevance
        self.features_, self.lifetime_, self.alpha_ = features, features.lifetime_, alpha
        self.coef_, self.intercept_ = W.T, b
        return self

    def _encoding(self, blocks: Blocks) -> Encoded:
        """Classes and the factors of their weights, from one pass over the rows."""
        classes, weight = blocks.total(_count_classes, _merge_classes)
        if classes.size < 2:
            raise ValueError(
                f"All rows are of one class, {classes.tolist()[0]!r}: it takes two to classify."
            )
        weighed = weigh_classes(self.class_weight, classes, np.arange(classes.size), weight)
        assert weighed is not None
        return Encoded(classes, weighed / weight, self.loss)

    def _choose(
        self, blocks: Blocks, summary: Summary, target: Encoded, seed: int
    ) -> tuple[float, float, LifetimePath | None]:
        if self.lifetime != "auto" and self.alpha != "auto":
            return float(self.lifetime), float(self.alpha), None
        some = np.arange(summary.n_rows)
        if some.size > SAMPLE_ROWS:
            rng = np.random.default_rng(seed)
            some = np.sort(rng.choice(summary.n_rows, SAMPLE_ROWS, replace=False, shuffle=False))
        sample = blocks.take(some, summary.lengths)
        assert sample.Y is not None
        labels = target.labels(sample.Y)
        first, weight = join_equal(sample.X, labels[:, None], sample.weight * target.factor[labels])
        return choose_loss_width(
            sample.X[first], labels[first], target.classes.size, self.loss, weight, seed,
            lifetime=self.lifetime, alpha=self.alpha, n_estimators=self.n_estimators,
            n_jobs=None, verbose=0,
        )  # fmt: skip

    def _minimise(
        self, blocks: Blocks, features: MondrianFeatures, target: Encoded, alpha: float
    ) -> tuple[FloatArray, FloatArray]:
        dense = self.loss == "squared" and is_dense("auto", features.n_cells_)
        cells = CellBlocks(blocks, features, target, keep=False if dense else self.keep_cells)
        if self.loss == "log_loss":
            return minimise_logistic(cells, alpha, _TOL)
        solution = solve_sums(sum_rows(cells), alpha) if dense else solve_products(cells, alpha)
        return solution.coef, solution.intercept

    def decision_function(self, X: Any) -> Any:
        """Scores of rows, the higher the likelier, lazily where rows are a collection.

        Parameters
        ----------
        X : dask array or dataframe, or array-like, of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : dask array or ndarray of shape (n_samples,) for two classes, else (n_samples, \
n_classes)
            Scores; of two classes, of the second.
        """
        check_is_fitted(self)
        n = self.coef_.shape[0]
        return self._map(_decide, X, None if n == 1 else n, np.empty((0,) * (1 if n == 1 else 2)))

    def predict(self, X: Any) -> Any:
        """Predict the class of rows, lazily where they are a collection.

        Parameters
        ----------
        X : dask array or dataframe, or array-like, of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : dask array or ndarray of shape (n_samples,)
            Class with the highest score.
        """
        check_is_fitted(self)
        return self._map(_classify, X, None, self.classes_[:0])

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities of rows, lazily where they are a collection; only for "log_loss".

        Parameters
        ----------
        X : dask array or dataframe, or array-like, of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        P : dask array or ndarray of shape (n_samples, n_classes)
            Probabilities in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self._map(_probabilities, X, self.classes_.size, np.empty((0, 0)))

    def _map(self, function: Any, X: Any, n_columns: int | None, meta: NDArray[Any]) -> Any:
        features = features_at(self.features_.trees_, self.lifetime_)
        model = Linear(features, self.scale_, self.coef_.T, self.intercept_), self.classes_
        if is_collection(X):
            return map_rows(function, model, known_rows(self, X), n_columns, meta)
        return function(model, validate_data(self, X, reset=False, dtype=np.float64, order="C"))


_Model = tuple[Linear, NDArray[Any]]


def _decide(model: _Model, X: FloatArray) -> FloatArray:
    F = predict_mean(model[0], X)
    return F[:, 0] if F.shape[1] == 1 else F


def _classify(model: _Model, X: FloatArray) -> NDArray[Any]:
    F = predict_mean(model[0], X)
    best = (F[:, 0] > 0).astype(int) if F.shape[1] == 1 else F.argmax(axis=1)
    classes: NDArray[Any] = model[1][best]
    return classes


def _probabilities(model: _Model, X: FloatArray) -> FloatArray:
    return probabilities(predict_mean(model[0], X))


_Classes = tuple[NDArray[Any], FloatArray]


def _count_classes(rows: Rows) -> _Classes:
    """Classes in a block, and the sum of weights of each."""
    assert rows.Y is not None
    if rows.Y.size:
        check_classification_targets(rows.Y)
    classes, labels = np.unique(rows.Y, return_inverse=True)
    return classes, _add_up(rows.weight, labels, classes.size)


def _merge_classes(a: _Classes, b: _Classes) -> _Classes:
    classes, labels = np.unique(np.concatenate([a[0], b[0]]), return_inverse=True)
    return classes, _add_up(np.concatenate([a[1], b[1]]), labels, classes.size)


def _add_up(weight: FloatArray, labels: NDArray[np.intp], n_classes: int) -> FloatArray:
    return np.bincount(labels.reshape(-1), weight, minlength=n_classes).astype(np.float64)
