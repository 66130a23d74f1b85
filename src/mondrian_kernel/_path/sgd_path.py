"""Stochastic gradients along the lifetimes: one learner, warm from the first cut to the last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel._linear.losses import value
from mondrian_kernel._linear.sgd import SgdState, parents
from mondrian_kernel._path.checks import (
    check_options,
    features_checker,
    held_out_rows,
    loss_targets,
)
from mondrian_kernel._path.driver import Callback, Plan, Point, follow
from mondrian_kernel._path.result import LifetimePath, SgdWeights
from mondrian_kernel._trees.checks import check_rows, draw_seed, naming
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features import MondrianFeatures


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
) -> LifetimePath:
    r"""Descend a loss by stochastic gradients while the cells of the trees split.

    .. math::
        \min_{W, b} \sum_i \ell(y_i, b + W^\top \phi_\lambda(x_i)) + \alpha \lVert W \rVert^2

    At each lifetime the children of a split cell inherit its weight, which leaves the scores of all
    rows as they are. Then come some passes over the rows, O(M) a step. Scores are those of the
    weights averaged over these passes, which the next lifetime starts from. Steps are those of
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
    path : LifetimePath
        ``train_loss`` and, with rows held out, ``validation_loss`` at each lifetime, for the one
        alpha; and the model at the last lifetime. After Ctrl-C it holds what was done so far and
        ``path.complete`` is False.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import sgd_path
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> path = sgd_path(
    ...     X, y, loss="log_loss", alpha=0.01, max_lifetime=5.0, n_lifetimes=20, random_state=0
    ... )
    >>> bool(path.train_loss[-1, 0] < 0.5 * np.log(2))
    True
    >>> bool(np.mean(path.predict(X) == y) > 0.9)
    True
    """
    check_options(
        "sgd_path",
        loss=loss,
        alpha=alpha,
        max_lifetime=max_lifetime,
        n_lifetimes=n_lifetimes,
        passes=passes,
        validation=validation,
        callback=callback,
    )
    with naming("max_lifetime"):
        end = float(max_lifetime)
    checker = features_checker(n_estimators, random_state, n_jobs)
    rows = check_rows(checker, X, reset=True)
    Y, classes = loss_targets(loss, y, rows)
    held_out = held_out_rows(
        checker, validation, Y.shape[1], lambda y, rows: loss_targets(loss, y, rows, classes)[0]
    )
    seed = draw_seed(random_state)
    growth = Growth(rows, n_estimators, seed, n_jobs)
    state = SgdState(n_estimators, Y.shape[1], loss, float(alpha))
    if loss == "squared":
        state.b = Y.mean(axis=0)  # so that no weight has to carry the level of y
    learner = SgdLearner(state, Y, held_out, passes, np.random.default_rng(seed), n_jobs)
    budget, warns = rows.shape[0] * n_estimators, held_out is not None
    plan = Plan(n_lifetimes, budget, n_lifetimes, max_lifetime=end, warns=warns)
    criterion = "train" if held_out is None else "holdout"
    path, trees, _ = follow(growth, learner, plan, np.array([float(alpha)]), criterion, callback)
    features = MondrianFeatures.from_trees(
        trees, float(path.lifetimes[-1]), n_jobs=n_jobs, seed=seed, names_of=checker
    )
    coef, intercept = learner.weights_after(path.lifetimes.size)
    return replace(path, model=SgdWeights(features, coef, intercept, classes))


@dataclass
class SgdLearner:
    """Some passes over the rows at each lifetime, whose average the next one starts from."""

    state: SgdState
    Y: FloatArray
    held_out: tuple[FloatArray, FloatArray] | None
    passes: int
    rng: np.random.Generator
    n_jobs: int | None

    def __post_init__(self) -> None:
        self._cells: IntArray | None = None
        self._recent: dict[int, tuple[FloatArray, FloatArray]] = {}
        self._done = 0

    def score(self, trees: Trees, leaf: IntArray, lifetimes: FloatArray) -> Iterator[list[Point]]:
        """Yield the point of each lifetime."""
        state, loss = self.state, self.state.loss
        for lifetime in lifetimes.tolist():
            features = MondrianFeatures.from_trees(trees, lifetime, n_jobs=self.n_jobs)
            cells = features.levels_.column[0][leaf]
            coarse = self._cells
            if coarse is None:
                whole = np.arange(cells.shape[1], dtype=np.int32)  # before the first cut
                coarse = np.broadcast_to(whole, cells.shape)
            state.inherit(parents(coarse, cells, features.n_cells_))
            state.run(cells, self.Y, self.passes, self.rng)
            state.restart()  # averaged over the whole path the weights would lag behind the cells
            curves = {"train_loss": value(loss, self.Y, state.scores(cells)).mean(keepdims=True)}
            if self.held_out is not None:
                rows, Y = self.held_out
                scores = features.transform(rows) @ state.W + state.b
                curves["validation_loss"] = value(loss, Y, scores).mean(keepdims=True)
            self._cells = cells
            self._keep()
            yield [Point(lifetime, features.n_cells_, curves)]

    def _keep(self) -> None:
        """Keep the weights of this lifetime and of the one before.

        An interrupt may come before the driver has noted this lifetime.
        """
        before = {k: v for k, v in self._recent.items() if k == self._done}
        self._recent = before | {self._done + 1: (self.state.W, self.state.b.copy())}
        self._done += 1

    def weights_after(self, n_lifetimes: int) -> tuple[FloatArray, FloatArray]:
        """Averaged weights (C, K) and intercept (K,) after the last lifetime or the one before."""
        return self._recent[n_lifetimes]
