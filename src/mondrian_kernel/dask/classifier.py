"""Classification with the Mondrian kernel on dask collections."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from mondrian_kernel import _settings as settings
from mondrian_kernel._estimator.shared_docs import shared_docs
from mondrian_kernel._linear.losses import (
    class_numbers,
    encode,
    intercept_hessian,
    label_array,
    slope,
    smoothness,
    value,
    weigh_classes,
)
from mondrian_kernel._linear.operator import gather_cells, scatter_cells
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._path.checks import join_equal
from mondrian_kernel._path.choose import Choice, choose_loss_width
from mondrian_kernel._path.driver import Verbose
from mondrian_kernel._trees.checks import all_or_nothing
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.dask.base import BlockEstimator, docs_of, if_learnt, lazy, not_on_dask
from mondrian_kernel.dask.blocks import Blocks, Rows
from mondrian_kernel.dask.cells import CellBlocks, Part, join_matrix, sum_totals
from mondrian_kernel.dask.regressor import fit_cells, is_dense


@dataclass(frozen=True)
class Encoded:
    """Makes targets of classes: the columns of a loss, and weights with a factor of each class."""

    classes: NDArray[Any]
    factor: FloatArray
    loss: str

    def labels(self, y: NDArray[Any]) -> NDArray[np.intp]:
        """Numbers of classes (n,)."""
        return class_numbers(self.classes, label_array(y), "of all blocks")

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return int(self.classes.size)

    def columns(self, y: NDArray[Any]) -> FloatArray:
        """Columns of zeros and ones, one for each class, (n, K)."""
        return np.eye(self.classes.size)[self.labels(y)]

    def __call__(self, y: NDArray[Any], weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Targets (n, K) and weights (n,)."""
        labels = self.labels(y)
        return encode(labels, self.classes.size, self.loss), weight * self.factor[labels]


def _has_probabilities(model: DaskMondrianKernelClassifier) -> bool:
    if model.loss not in ("auto", "log_loss"):
        raise AttributeError(
            f"Scores of loss={model.loss!r} are not log-odds: predict_proba needs loss='log_loss'."
        )
    return True


def _n_classes(model: Any, **_: Any) -> int:
    return int(model.classes_.size)


def _n_scores(model: Any) -> int | None:
    n = int(model.model_.n_outputs)
    return None if n == 1 else n


@shared_docs
class DaskMondrianKernelClassifier(BlockEstimator, MondrianKernelClassifier):
    r"""Classification with the Mondrian kernel on rows in the blocks of a dask collection.

    .. math::
        f(x) = b + W^\top \phi_\lambda(x), \qquad
        \min_{W, b} \sum_i s_i \, \ell(y_i, f(x_i)) + \alpha \lVert W \rVert^2

    The model is that of :class:`mondrian_kernel.MondrianKernelClassifier` with the same seed: the
    same trees and, up to the tolerance of the solver, the same weights. Rows stay on the workers.

    Parameters
    ----------
    lifetime : float, "path" or "auto", default="path"
        As in :class:`mondrian_kernel.MondrianKernelClassifier`. For "path", lifetime and penalty
        are chosen on 10 000 rows drawn with the seed where there are more; they are fetched. "auto"
        makes the very same model as without Dask: the client reads the blocks one at a time and
        fits their compact form.
    alpha, n_estimators
        As in :class:`mondrian_kernel.MondrianKernelClassifier`.
    loss : {"auto", "log_loss", "squared"}, default="auto"
        Loss ℓ: logistic, with a softmax for many classes, or the squared distance to ±1. "auto" is
        logistic.
    class_weight : dict, "balanced" or None, default=None
        Factor of the weights of each class; "balanced" gives all classes the same total.
    <scale>
    <max_cells>
    <keep_cells>

    Attributes
    ----------
    <attributes>
    classes_, cell_weights_, intercept_
        As in :class:`mondrian_kernel.MondrianKernelClassifier`.

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
        **BlockEstimator._parameter_constraints,
        "loss": [StrOptions({"auto", "log_loss", "squared"})],
    }

    def __init__(
        self,
        lifetime: float | str = "path",
        alpha: float | str = "auto",
        n_estimators: int | str = "auto",
        *,
        loss: str = "auto",
        class_weight: dict[Any, float] | str | None = None,
        scale: Any = "std",
        relevance: str = "auto",
        max_cells: int | None = None,
        keep_cells: bool | str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Verbose = 0,
    ) -> None:
        run: Any = {"random_state": random_state, "n_jobs": n_jobs, "verbose": verbose}
        own: Any = {"scale": scale, "relevance": relevance, "max_cells": max_cells}
        own |= {"loss": loss, "class_weight": class_weight}
        super().__init__(lifetime, alpha, n_estimators, **own, **run)
        self.keep_cells = keep_cells

    @all_or_nothing
    @docs_of(MondrianKernelClassifier.fit)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: D102
        self._fit_blocks(MondrianKernelClassifier.fit, X, y, sample_weight, numeric=False)
        return self

    def _encoding(self, blocks: Blocks, n_dims: int) -> Encoded:
        """Return the classes and the factors of their weights, from one pass over the rows."""
        if n_dims != 1:
            raise ValueError(f"y must have one dimension, got {n_dims}.")
        classes, weight = blocks.total(_count_classes, _merge_classes)
        self.classes_ = classes = label_array(classes)
        if classes.size < 2:
            raise ValueError(
                f"All rows are of one class, {classes.tolist()[0]!r}: it takes two to classify."
            )
        weighed = weigh_classes(self.class_weight, classes, np.arange(classes.size), weight)
        assert weighed is not None
        return Encoded(classes, weighed / weight, self._loss)

    def _choose(
        self, X: FloatArray, y: Any, weight: FloatArray, encode: Encoded, seed: int
    ) -> Choice:
        labels = encode.labels(y)
        first, joint = join_equal(X, labels[:, None], weight * encode.factor[labels])
        rows = X[first], labels[first], encode.n_classes
        return choose_loss_width(*rows, self._loss, joint, seed, self._wanted())

    def _makes_matrix(self, n_features: int) -> bool:
        return self._loss == "squared" and is_dense("auto", n_features)

    def _solved(self, blank: FittedModel, cells: CellBlocks, encode: Encoded) -> FittedModel:
        if self._loss == "squared":
            return replace(fit_cells(blank, cells, "auto", np.zeros(1))[0], signal=np.empty(0))
        W, b = minimise_logistic(cells, blank.levels, blank.alpha, settings.CLASSIFIER_TOL)
        return replace(blank, cell_weights=W, intercept=b)

    partial_fit = not_on_dask(MondrianKernelClassifier.partial_fit)
    decision_function = lazy(MondrianKernelClassifier.decision_function, _n_scores)
    predict = lazy(MondrianKernelClassifier.predict, dtype=lambda model: model.classes_.dtype)
    predict_proba = available_if(_has_probabilities)(
        lazy(MondrianKernelClassifier.predict_proba, _n_classes)
    )
    predict_set = if_learnt(lazy(MondrianKernelClassifier.predict_set, _n_classes, bool))


_Classes = tuple[NDArray[Any], FloatArray]


def _count_classes(rows: Rows) -> _Classes:
    """Classes in a block, and the sum of weights of each."""
    assert rows.Y is not None
    y = label_array(rows.Y)
    if y.size:
        check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    return classes, _add_up(rows.weight, labels, classes.size)


def _merge_classes(a: _Classes, b: _Classes) -> _Classes:
    classes, labels = np.unique(np.concatenate([a[0], b[0]]), return_inverse=True)
    return classes, _add_up(np.concatenate([a[1], b[1]]), labels, classes.size)


def _add_up(weight: FloatArray, labels: NDArray[np.intp], n_classes: int) -> FloatArray:
    return np.bincount(labels.reshape(-1), weight, minlength=n_classes).astype(np.float64)


def minimise_logistic(
    cells: CellBlocks,
    levels: Levels,
    alpha: float,
    tol: float,
    max_iter: int = settings.LBFGS_STEPS,
) -> tuple[FloatArray, FloatArray]:
    r"""Minimise :math:`\sum_i s_i \ell(y_i, b + \phi_i^\top W) + \alpha \lVert W \rVert^2`.

    Returns W (F, K) and b (K,). L-BFGS on weights in units of a bound on their curvature; every
    step is a pass over the rows. (Newton's method as in :mod:`mondrian_kernel._linear.minimise`
    keeps a number for each row, and rows stay in their blocks here.) It ends when the duality gap,
    :math:`\lVert \nabla_W \rVert^2 / 4\alpha` and what the intercept may gain, is at most ``tol``
    times the objective.
    """
    J, totals = join_matrix(levels, cells.node), sum_totals(cells)
    n_outputs = totals.mean.size
    bound = smoothness("log_loss", n_outputs)
    # Σ s φ², as φ is 0 or √(w_l / M)
    square = np.repeat(levels.values, levels.per_tree.sum(axis=1)) * (J @ totals.phi)
    curvature = np.append(bound * square + 2.0 * alpha, bound * totals.total_weight)
    unit = np.repeat(1.0 / np.sqrt(curvature), n_outputs).reshape(-1, n_outputs)
    gap = np.inf

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        nonlocal gap
        point = x.reshape(unit.shape) * unit
        W, b = point[:-1], point[-1]
        loss, fine, slopes, H = cells.sum(_slopes, J.T @ W, b)
        gradient = J @ fine + 2.0 * alpha * W
        total = float(loss + alpha * np.vdot(W, W))
        gain = 0.5 * slopes @ np.linalg.pinv(H, hermitian=True) @ slopes
        gap = float(np.vdot(gradient, gradient) / (4.0 * alpha) + gain) / total
        return total, (np.vstack([gradient, slopes]) * unit).ravel()

    def stop(intermediate_result: Any) -> None:
        if gap <= tol:
            raise StopIteration

    options: Any = {
        "maxcor": settings.LBFGS_MEMORY,
        "maxiter": max_iter,
        "maxfun": 2 * max_iter,
        "ftol": 0,
        "gtol": 0,
    }
    found = minimize(
        objective, np.zeros(unit.size), jac=True, method="L-BFGS-B", callback=stop, options=options
    )
    if gap > tol:
        warnings.warn(
            f"The objective {found.fun:.6g} may be {gap * found.fun:.2g} above the optimum after "
            f"{found.nit} steps. Raise alpha.",
            ConvergenceWarning,
            stacklevel=2,
        )
    point = found.x.reshape(unit.shape) * unit
    return point[:-1], point[-1]


def _slopes(
    part: Part, W: FloatArray, b: FloatArray
) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Sum of losses, gradient in the weights and the intercept, and the intercept's Hessian."""
    s = part.weight[:, None]
    F = gather_cells(part.cells, W) + b
    R = s * slope("log_loss", part.Y, F)
    loss = float(part.weight @ value("log_loss", part.Y, F))
    gradient = scatter_cells(part.cells, R, W.shape[0])
    return loss, gradient, R.sum(axis=0), intercept_hessian("log_loss", F, s)
