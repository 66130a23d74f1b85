"""One learner by stochastic gradients along the lifetimes, while the cells split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.losses import check_loss, penalty_per_row, smoothness, value
from mondrian_kernel._linear.operator import gather_cells
from mondrian_kernel._path.checks import (
    checked_options,
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
    weights averaged over these passes, which the next lifetime starts from. Step sizes fall with
    the number of steps, for the hinge as in Pegasos; there is none to set. After few passes the
    objective is still above its minimum, mostly because of the penalty: the weight of a split cell
    counts twice.

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
        Largest number of lifetimes, placed by the growth of the number of cells.
    passes : int, default=1
        Passes over the rows at each lifetime.
    validation : tuple (X, y) or None, default=None
        Rows held out, which decide on the best lifetime. Without them the training loss does,
        which is usually lowest at the end.
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
    coef, intercept = learner.recent[float(path.lifetimes[-1])]
    return replace(path, model=SgdWeights(features, coef, intercept, classes))


@dataclass
class SgdLearner:
    """Some passes over the rows at each lifetime, whose average the next one starts from.

    ``recent`` has the averaged weights (C, K) and intercept (K,) at the last two lifetimes.
    """

    state: SgdState
    Y: FloatArray
    held_out: tuple[FloatArray, FloatArray] | None
    passes: int
    rng: np.random.Generator
    n_jobs: int | None

    def __post_init__(self) -> None:
        self._cells: IntArray | None = None
        self.recent: dict[float, tuple[FloatArray, FloatArray]] = {}

    def score(self, trees: Trees, leaf: IntArray, lifetimes: FloatArray) -> Iterator[list[Point]]:
        """Yield the point of each lifetime."""
        state, loss = self.state, self.state.loss
        for lifetime in lifetimes.tolist():
            features = MondrianFeatures.from_trees(trees, lifetime, n_jobs=self.n_jobs)
            cells = features.levels_.column[0][leaf]
            if self._cells is None:  # before the first cut
                self._cells = np.broadcast_to(
                    np.arange(cells.shape[1], dtype=np.int32), cells.shape
                )
            state.inherit(parents(self._cells, cells, features.n_cells_))
            state.run(cells, self.Y, self.passes, self.rng)
            state.restart()  # averaged over the whole path the weights would lag behind the cells
            curves = {"train_loss": value(loss, self.Y, state.scores(cells)).mean(keepdims=True)}
            if self.held_out is not None:
                rows, Y = self.held_out
                scores = features.transform(rows) @ state.W + state.b
                curves["validation_loss"] = value(loss, Y, scores).mean(keepdims=True)
            self._cells = cells
            # An interrupt may come before the driver has noted this lifetime: the last two stay.
            self.recent = {**dict([*self.recent.items()][-1:]), lifetime: (state.W, state.b.copy())}
            yield [Point(lifetime, features.n_cells_, curves)]


def parents(coarse: IntArray, fine: IntArray, n_fine: int) -> IntArray:
    """Coarse cell of each fine cell, from both cells (N, M) of the rows: no cell is empty."""
    parent_of = np.empty(n_fine, np.int32)
    parent_of[fine] = coarse
    return parent_of


@dataclass
class SgdState:
    r"""Descend :math:`\sum_i \ell(y_i, f_i) + \alpha\lVert W\rVert^2` one row at a time.

    Step t on row i of N, with λ = 2α/N and :math:`\eta_t = \eta_0 (1 + \lambda \eta_0 t)^{-p}`:

    .. math::
        W \leftarrow (W - \eta_t \phi_i \nabla\ell) / (1 + \lambda\eta_t), \qquad
        b \leftarrow b - \eta_t \nabla\ell

    in O(MK), then the average :math:`\bar W \propto \sum_t (t + 1) W_t`, which forgets where it
    started. η₀ is the inverse of the largest curvature, :math:`L (\lVert\phi_i\rVert^2 + 1) = 2 L`.
    p is 3/4 for the smooth losses, best for averages, and 1 for the hinge: the steps of Pegasos,
    :math:`1/\lambda t`, once t is large. Losses and targets are those of
    :mod:`mondrian_kernel._linear.losses`.

    Examples
    --------
    >>> import numpy as np
    >>> cells = np.array([[0, 2], [0, 3], [1, 2], [1, 3]], np.int32)
    >>> y = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> state = SgdState(n_cells=4, n_outputs=1, loss="squared", alpha=1.0)
    >>> state.run(cells, y, 2000, np.random.default_rng(0))
    >>> state.W_mean.ravel().round(1), state.b_mean.round(1)
    (array([-0.7,  0.7, -0.4,  0.4]), array([1.5]))
    """

    n_cells: int
    n_outputs: int
    loss: str
    alpha: float

    def __post_init__(self) -> None:
        check_loss(self.loss)
        shape = (self.n_cells, self.n_outputs)
        self._U, self._V = np.zeros(shape), np.zeros(shape)
        self.b, self._b_sum = np.zeros(self.n_outputs), np.zeros(self.n_outputs)
        # Steps t, scale c, τ, sum of the average's weights: see the kernel.
        self._clock = np.array([0.0, 1.0, 0.0, 0.0])

    @property
    def n_steps(self) -> int:
        """Number of steps taken, since the last restart."""
        return int(self._clock[0])

    @property
    def W(self) -> FloatArray:
        """Current weights (C, K)."""
        return np.asarray(self._clock[1] * self._U[: self.n_cells])

    @property
    def W_mean(self) -> FloatArray:
        """Averaged weights (C, K); the current ones before the first step."""
        if self.n_steps == 0:
            return self.W
        _, _, tau, total = self._clock
        return np.asarray((tau * self._U[: self.n_cells] + self._V[: self.n_cells]) / total)

    @property
    def b_mean(self) -> FloatArray:
        """Averaged intercept (K,)."""
        return np.asarray(self._b_sum / self._clock[3]) if self.n_steps > 0 else self.b.copy()

    def run(self, cells: IntArray, Y: FloatArray, passes: int, rng: np.random.Generator) -> None:
        """Take a step on every row, ``passes`` times, each time in another order.

        ``cells`` (N, M) are the cells of the rows, ``Y`` (N, K) their targets.
        """
        from mondrian_kernel._kernels.descent import sgd_pass

        eta = 0.5 / smoothness(self.loss, self.n_outputs)
        decay = penalty_per_row(self.alpha, cells.shape[0])
        schedule = eta, settings.SGD_POWER[self.loss], decay, settings.SGD_AVERAGE_DEGREE
        state = self._U, self._V, self.b, self._b_sum, self._clock
        cells, Y = np.ascontiguousarray(cells, dtype=np.int32), np.ascontiguousarray(Y, dtype=float)
        for _ in range(passes):
            sgd_pass(cells, Y, rng.permutation(cells.shape[0]), self._code, schedule, state)

    def scores(self, cells: IntArray) -> FloatArray:
        """Scores of rows by the averaged weights, shape (N, K): O(NMK), whatever C."""
        if self.n_steps == 0:
            return gather_cells(cells, self._U) + self.b
        _, _, tau, total = self._clock
        sums = tau * gather_cells(cells, self._U) + gather_cells(cells, self._V)
        return np.asarray((sums + self._b_sum) / total)

    def inherit(self, parent_of: IntArray) -> None:
        """Hand the weights of split cells to their children: row c is that of ``parent_of[c]``.

        Every score is unchanged, as the features of a row move to the children of its cells.
        """
        self._U, self._V = self._U[parent_of], self._V[parent_of]
        self.n_cells = len(parent_of)

    def restart(self) -> None:
        """Begin a new average, and the schedule of steps, at the average so far."""
        self._U, self.b = np.array(self.W_mean), np.array(self.b_mean)
        self._V, self._b_sum = np.zeros_like(self._U), np.zeros_like(self.b)
        self._clock[:] = 0.0, 1.0, 0.0, 0.0

    @property
    def _code(self) -> int:
        from mondrian_kernel._kernels.descent import HINGE, LOGISTIC, SOFTMAX, SQUARED

        if self.loss == "log_loss":
            return LOGISTIC if self.n_outputs == 1 else SOFTMAX
        return SQUARED if self.loss == "squared" else HINGE
