"""The lifetime path by stochastic gradients: one learner, warm from the first cut to the last."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite, check_consistent_length, check_scalar, column_or_1d

from mondrian_kernel._linear.classes import check_classes
from mondrian_kernel._linear.losses import check_loss, encode, value
from mondrian_kernel._linear.sgd import SgdState
from mondrian_kernel._path.checks import blamed_on, check_targets
from mondrian_kernel._path.plan import lifetimes_between
from mondrian_kernel._path.progress import Callback
from mondrian_kernel._trees.checks import check_rows, draw_seed
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features import MondrianFeatures, features_at


@dataclass(frozen=True, eq=False)
class SgdPath:
    """Losses of a learner trained by stochastic gradients along the lifetimes of one set of trees.

    Attributes
    ----------
    lifetimes : ndarray of shape (L,)
        Lifetimes λ, increasing.
    n_cells : ndarray of shape (L,)
        Number of cells C at each lifetime.
    train_loss : ndarray of shape (L,)
        Mean loss on the rows, of the averaged weights.
    validation_loss : ndarray of shape (L,) or None
        The same on the rows given as ``validation``.
    complete : bool
        False where the path was interrupted.
    features : MondrianFeatures
        The features at the last lifetime, fitted; ``features.at(λ)`` are those at an earlier one.
    coef, intercept : ndarrays of shape (C, K) and (K,)
        Averaged weights at the last lifetime: rows score ``features.transform(X) @ coef +
        intercept``. K is 1 for one target or two classes.
    classes : ndarray of shape (n_classes,) or None
        Classes in the order of the scores; of two, the second has the positive ones.
    """

    lifetimes: FloatArray
    n_cells: NDArray[np.int64]
    train_loss: FloatArray
    validation_loss: FloatArray | None
    complete: bool
    features: MondrianFeatures
    coef: FloatArray
    intercept: FloatArray
    classes: NDArray[Any] | None

    @property
    def score(self) -> FloatArray:
        """What decides, lower is better: the validation loss where there is one, of shape (L,)."""
        return self.train_loss if self.validation_loss is None else self.validation_loss

    @property
    def best_index(self) -> int:
        """Index of the best lifetime."""
        return int(np.argmin(self.score))

    @property
    def best_lifetime(self) -> float:
        """Lifetime λ̂ with the best score."""
        return float(self.lifetimes[self.best_index])

    def _repr_html_(self) -> str:
        from mondrian_kernel._path.html_repr import path_html

        return path_html(self)


def sgd_path(
    X: ArrayLike,
    y: ArrayLike,
    *,
    loss: str = "squared",
    alpha: float,
    max_lifetime: float,
    n_estimators: int = 100,
    n_lifetimes: int = 50,
    passes: int = 1,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> SgdPath:
    r"""Descend a loss by stochastic gradients while the cells of the trees split.

    .. math::
        \min_{W, b} \sum_i \ell(y_i, b + W^\top \phi_\lambda(x_i)) + \alpha \lVert W \rVert^2

    At each lifetime the children of a split cell inherit its weight, which leaves the scores of all
    rows as they are; then come some passes over the rows, O(M) a step. Scores are those of the
    weights averaged over these passes, where the next lifetime sets out from. Steps are those of
    :class:`mondrian_kernel._linear.sgd.SgdState`, for the hinge those of Pegasos. Few passes end
    short of the minimum, mostly in the penalty: two children have twice the square of one weight.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, used as they are: scale the columns first.
    y : array-like of shape (n_samples,)
        Numbers for the squared loss (several columns too), classes for the others.
    loss : {"squared", "log_loss", "hinge"}, default="squared"
        Loss ℓ; with more than two classes the softmax, or hinges of one class against the rest.
    alpha : float
        Penalty α > 0 beside the *sum* of losses.
    max_lifetime : float
        Terminal lifetime Λ > 0.
    n_estimators : int, default=100
        Number of trees M.
    n_lifetimes : int, default=50
        Number of lifetimes at most, placed by the growth of the number of cells.
    passes : int, default=1
        Passes over the rows at each lifetime.
    validation : tuple (X, y) or None, default=None
        Rows held out, which decide on the best lifetime. Without them the training loss does, and
        that is mostly least at the end.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees and of the order of the rows.
    n_jobs : int or None, default=None
        Threads. The result does not depend on it.
    callback : callable or None, default=None
        Called as ``callback(done, total, info)`` after each lifetime.

    Returns
    -------
    path : SgdPath
        Losses at each lifetime, and the model at the last. After Ctrl-C it holds what was done so
        far and ``path.complete`` is False.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._path.sgd_path import sgd_path
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> path = sgd_path(
    ...     X, y, loss="log_loss", alpha=0.01, max_lifetime=5.0, n_lifetimes=20, random_state=0
    ... )
    >>> bool(path.train_loss[-1] < 0.5 * np.log(2))
    True
    >>> scores = path.features.transform(X) @ path.coef + path.intercept
    >>> bool(np.mean(path.classes[(scores[:, 0] > 0).astype(int)] == y) > 0.9)
    True
    """
    check_loss(loss)
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha must be positive and finite, got {alpha}.")
    if not max_lifetime > 0:
        raise ValueError(f"max_lifetime must be positive, got {max_lifetime}.")
    check_scalar(n_lifetimes, "n_lifetimes", Integral, min_val=1)
    check_scalar(passes, "passes", Integral, min_val=1)
    checker = MondrianFeatures(n_estimators=n_estimators, random_state=random_state, n_jobs=n_jobs)
    checker._validate_params()
    rows = check_rows(checker, X, reset=True)
    Y, classes = _targets(loss, y, rows)
    held_out = None
    if validation is not None:
        with blamed_on("validation"):
            X_val = check_rows(checker, validation[0])
            held_out = X_val, _targets(loss, validation[1], X_val, classes)[0]
        if held_out[1].shape[1] != Y.shape[1]:
            raise ValueError("validation y has another number of outputs than y.")

    seed = draw_seed(random_state)
    rng = np.random.default_rng(seed)
    growth = Growth(rows, n_estimators, seed, n_jobs)
    growth.advance(float(max_lifetime))
    lifetimes = lifetimes_between(growth.cut_times, max_lifetime, n_estimators, n_lifetimes)
    trees, leaf = growth.freeze(float(lifetimes[-1]))
    n_cells = np.zeros(lifetimes.size, np.int64)
    train, held = np.full((2, lifetimes.size), np.nan)
    score = train if held_out is None else held

    state = SgdState(n_estimators, Y.shape[1], loss, float(alpha))
    if loss == "squared":
        state.b = Y.mean(axis=0)  # so that no weight has to carry the level of y
    cells: IntArray = np.broadcast_to(np.arange(n_estimators, dtype=np.int32), leaf.shape)
    done, complete = (0, state.W, state.b.copy()), True
    try:
        for k, lifetime in enumerate(lifetimes):
            features = features_at(trees, lifetime, n_jobs)
            n_cells[k], coarse, cells = features.n_cells_, cells, features.levels_.column[0][leaf]
            state.inherit(_parents(coarse, cells, features.n_cells_))
            state.run(cells, Y, passes, rng)
            state.restart()  # averaged over the whole path the weights would lag behind the cells
            train[k] = value(loss, Y, state.scores(cells)).mean()
            if held_out is not None:
                scores = features.transform(held_out[0]) @ state.W + state.b
                held[k] = value(loss, held_out[1], scores).mean()
            done = k + 1, state.W, state.b.copy()  # at one blow: an interrupt may come anywhere
            if callback is not None:
                info = {"lifetime": float(lifetime), "best": float(score[: k + 1].min())}
                callback(k + 1, lifetimes.size, info)
    except KeyboardInterrupt:
        if done[0] == 0:
            raise
        complete = False
    n, coef, intercept = done
    if complete and held_out is not None and np.argmin(score) == n - 1 and not growth.done:
        warnings.warn(
            f"The best lifetime, {lifetimes[-1]:.4g}, is the last of the path: a larger one may "
            "be better. Raise max_lifetime.",
            UserWarning,
            stacklevel=2,
        )
    return SgdPath(
        lifetimes[:n], n_cells[:n], train[:n], None if held_out is None else held[:n], complete,
        features_at(trees, lifetimes[n - 1], n_jobs, seed=seed, names_of=checker), coef,
        intercept, classes,
    )  # fmt: skip


def _parents(coarse: IntArray, fine: IntArray, n_fine: int) -> IntArray:
    """Coarse cell of each fine cell, from the cells (N, M) of the rows: no cell is empty."""
    parent_of = np.empty(n_fine, np.int32)
    parent_of[fine] = coarse
    return parent_of


def _targets(
    loss: str, y: ArrayLike, rows: FloatArray, classes: NDArray[Any] | None = None
) -> tuple[FloatArray, NDArray[Any] | None]:
    """Targets (N, K) and the classes, where not given those of y; the squared loss has none."""
    if loss == "squared":
        return check_targets(y, rows), None
    numbers, classes = class_labels(y, rows, classes)
    return encode(numbers, classes.size, loss), classes


def class_labels(
    y: ArrayLike, rows: FloatArray, classes: NDArray[Any] | None = None
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the numbers of the classes of rows, and the classes; where not given those of y."""
    labels = column_or_1d(y)
    check_consistent_length(rows, labels)
    assert_all_finite(labels, input_name="y")
    if classes is None:
        _, classes, _, _ = check_classes(rows, labels, None)
    new = labels[~np.isin(labels, classes)].tolist()
    if new:
        raise ValueError(f"validation y has the class {new[0]!r}, which y has not.")
    return np.searchsorted(classes, labels), classes
