"""Other losses along the lifetimes: classifiers, and one learner by stochastic gradients."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.losses import check_loss, encode, value
from mondrian_kernel._linear.minimise import Minimum, minimise
from mondrian_kernel._linear.operator import CellOperator
from mondrian_kernel._linear.sgd import SgdState, parents
from mondrian_kernel._path.checks import (
    checked_options,
    default_alphas,
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


def loss_path(
    rows: FloatArray,
    labels: NDArray[np.integer],
    n_classes: int,
    loss: str,
    *,
    n_estimators: int = 200,
    max_rows: int = 4000,
    parts: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None,
    n_lifetimes: int = 20,
    max_lifetime: float | None = None,
    lifetimes: ArrayLike | None = None,
    alphas: ArrayLike | None = None,
    sample_weight: FloatArray | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> LifetimePath:
    r"""Fit a classifier at every kernel width of a grid and score it on a fifth of the rows.

    .. math::
        \min_{W, b} \sum_i s_i \ell(y_i, b + W^\top \phi_\lambda(x_i)) + \alpha \lVert W \rVert^2

    The trees grow as the path advances, until the loss has clearly passed its best. At each
    lifetime alpha moves from its last best as long as that lowers the loss; alphas that were not
    tried are NaN. A fit starts from that of the alpha before it.

    ``rows`` are scaled, ``labels`` (N,) are class numbers. ``parts`` are the rows to fit and to
    hold out; None: a random choice of at most ``max_rows`` each. The other arguments are those of
    :func:`mondrian_kernel.lifetime_path`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> labels = (rows[:, 0] * rows[:, 1] > 0).astype(int)
    >>> path = loss_path(rows, labels, 2, "log_loss", n_estimators=50)
    >>> bool(np.nanmin(path.score) < 0.5 * np.log(2))
    True
    """
    check_loss(loss)
    grid = default_alphas() if alphas is None else np.unique(np.asarray(alphas, dtype=float))
    wanted = None if lifetimes is None else np.unique(np.asarray(lifetimes, dtype=float))
    fitted, held_out = parts or split(labels, max_rows, np.random.default_rng(seed))
    Y = encode(labels, n_classes, loss)
    s = np.ones(rows.shape[0]) if sample_weight is None else sample_weight
    outside = rows[held_out], Y[held_out], s[held_out]
    learner = LossLearner(Y[fitted], s[fitted], outside, loss, grid, n_jobs)
    growth = Growth(rows[fitted], n_estimators, seed, n_jobs)
    every_row_apart = fitted.size * n_estimators
    budget = min(every_row_apart, max(2 * n_estimators, settings.CHOICE_PATH_CELLS // Y.shape[1]))
    if wanted is not None or max_lifetime is not None:
        budget = every_row_apart  # as far as was asked for
    patience = (
        settings.LOSS_PATIENCE_FEW
        if fitted.size <= settings.LOSS_FEW_ROWS
        else settings.LOSS_PATIENCE
    )
    plan = Plan(n_lifetimes, budget, patience, None, max_lifetime, wanted)
    return follow(growth, learner, plan, grid, "holdout", callback)[0]


@dataclass
class LossLearner:
    """Fits a classifier at each lifetime, at alphas around the best of the lifetime before.

    ``Y`` (N, K) and ``s`` (N,) are targets and weights of the fitted rows, ``held_out`` rows,
    targets and weights of the others.
    """

    Y: FloatArray
    s: FloatArray
    held_out: tuple[FloatArray, FloatArray, FloatArray]
    loss: str
    alphas: FloatArray
    n_jobs: int | None
    tol: float = settings.LOSS_PATH_TOL
    max_iter: int = settings.LOSS_PATH_STEPS

    def __post_init__(self) -> None:
        self._best = int(np.argmin(np.abs(np.log(self.alphas / settings.LOSS_FIRST_ALPHA))))

    def score(self, trees: Trees, leaf: IntArray, lifetimes: FloatArray) -> Iterator[list[Point]]:
        """Yield the point of each lifetime."""
        for lifetime in lifetimes.tolist():
            features = MondrianFeatures.from_trees(trees, lifetime, n_jobs=self.n_jobs)
            train, validation = self._try_alphas(features, features.levels_.column[0][leaf])
            curves = {"train_loss": train, "validation_loss": validation}
            yield [Point(lifetime, features.n_cells_, curves)]

    def _try_alphas(
        self, features: MondrianFeatures, cells: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Losses (A,) at alphas from the last best on, in both directions while the loss falls."""
        rows, Y, s = self.held_out
        Phi = features.transform(rows)
        operator = CellOperator(cells, features.n_cells_, centre=False, n_jobs=self.n_jobs)
        train, validation = np.full((2, self.alphas.size), np.nan)
        here: dict[int, Minimum] = {}

        def fit(a: int) -> float:
            start = here.get(a - 1) or here.get(a + 1)
            found = here[a] = self._minimise(operator, float(self.alphas[a]), start)
            penalty = self.alphas[a] * float(np.vdot(found.W, found.W))
            train[a] = (found.objective - penalty) / self.s.sum()
            losses = value(self.loss, Y, Phi @ found.W + found.b)
            validation[a] = np.average(losses, weights=s)
            return float(validation[a])

        lowest = fit(self._best)
        for step, worth in (1, 1.0), (-1, 1.0 - settings.SMALLER_ALPHA_WORTH):
            while 0 <= (a := self._best + step) < self.alphas.size and a not in here:
                loss = fit(a)
                if not loss < worth * lowest:
                    break
                self._best, lowest = a, loss
        return train, validation

    def _minimise(self, operator: CellOperator, alpha: float, start: Minimum | None) -> Minimum:
        point = {} if start is None else {"dual0": start.dual, "b0": start.b}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # rough minima will do to rank
            return minimise(
                operator,
                self.Y,
                self.loss,
                alpha,
                sample_weight=self.s,
                tol=self.tol,
                max_iter=self.max_iter,
                **point,
            )


def split(
    labels: NDArray[np.integer], max_rows: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows to fit and rows to hold out, a fifth of each class; every class keeps one to fit.

    Each part has at most ``max_rows``; more are fitted only if there are more classes. Of a class
    of n < 5 rows one is held out with the probability n/5, and of a single row none. If no row can
    be held out, the rows to fit are used for both.
    """
    first, fitted, held_out = [], [], []
    for c in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == c))
        n_out = min(int(settings.HELD_OUT_SHARE * members.size + rng.uniform()), members.size - 1)
        held_out.append(members[:n_out])
        first.append(members[n_out])
        fitted.append(members[n_out + 1 :])
    some = rng.permutation(np.concatenate(fitted))[: max(0, max_rows - len(first))]
    fit = np.sort(np.concatenate([first, some]))
    out = np.sort(rng.permutation(np.concatenate(held_out))[:max_rows])
    return fit, out if out.size else fit


@checked_options
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
    :class:`mondrian_kernel._linear.sgd.SgdState`, for the hinge those of Pegasos. After
    few passes the objective is still above its minimum, mostly because of the penalty: the weight
    of a split cell counts twice.

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
