"""One learner by stochastic gradients along the lifetimes, while the cells split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel import _settings as settings
from mondrian_kernel._kernels.tables import HINGE, LOGISTIC, SOFTMAX, SQUARED
from mondrian_kernel._linear.losses import penalty_per_row, smoothness, value
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
    W, b = np.zeros((n_estimators, Y.shape[1])), np.zeros(Y.shape[1])
    if loss == "squared":
        b = Y.mean(axis=0)  # so that no weight has to carry the level of y
    how = loss, float(alpha), passes, np.random.default_rng(seed)
    learner = SgdLearner(W, b, Y, held_out, how, n_jobs)
    budget, warns = rows.shape[0] * n_estimators, held_out is not None
    plan = Plan(n_lifetimes, budget, n_lifetimes, max_lifetime=end, warns=warns)
    criterion = "train" if held_out is None else "holdout"
    path, trees, _ = follow(
        growth, learner.score, plan, np.array([float(alpha)]), criterion, callback
    )
    features = MondrianFeatures.from_trees(
        trees, float(path.lifetimes[-1]), n_jobs=n_jobs, seed=seed, names_of=checker
    )
    coef, intercept = learner.recent[float(path.lifetimes[-1])]
    return replace(path, model=SgdWeights(features, coef, intercept, classes))


@dataclass
class SgdLearner:
    """Some passes over the rows at each lifetime, whose average the next one starts from.

    ``W`` (C, K) and ``b`` (K,) are weights and intercept, at first those of whole trees; ``how``
    ends the arguments of :func:`descend`. ``recent`` has both at the last two lifetimes.
    """

    W: FloatArray
    b: FloatArray
    Y: FloatArray
    held_out: tuple[FloatArray, FloatArray] | None
    how: tuple[str, float, int, np.random.Generator]
    n_jobs: int | None
    recent: dict[float, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    def score(self, trees: Trees, leaf: IntArray, lifetimes: FloatArray) -> Iterator[list[Point]]:
        """Yield the point of each lifetime."""
        loss = self.how[0]
        for lifetime in lifetimes.tolist():
            features = MondrianFeatures.from_trees(trees, lifetime, n_jobs=self.n_jobs)
            cells = features.levels_.column[0][leaf]
            # Children of a split cell inherit its weight, which keeps every score.
            parent = np.empty(features.n_cells_, np.int32)
            parent[cells] = trees.cells(max(self.recent, default=0.0)).column[leaf]
            self.W, self.b = descend(cells, self.Y, self.W[parent], self.b, *self.how)
            scores = gather_cells(cells, self.W) + self.b
            curves = {"train_loss": value(loss, self.Y, scores).mean(keepdims=True)}
            if self.held_out is not None:
                rows, Y = self.held_out
                scores = features.transform(rows) @ self.W + self.b
                curves["validation_loss"] = value(loss, Y, scores).mean(keepdims=True)
            # An interrupt may come before the driver has noted this lifetime: the last two stay.
            self.recent = {**dict([*self.recent.items()][-1:]), lifetime: (self.W, self.b)}
            yield [Point(lifetime, features.n_cells_, curves)]


def descend(
    cells: IntArray,
    Y: FloatArray,
    W: FloatArray,
    b: FloatArray,
    loss: str,
    alpha: float,
    passes: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
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

    ``cells`` (N, M) are the cells of the rows, ``Y`` (N, K) their targets, ``W`` (C, K) and ``b``
    (K,) the start. Every pass takes the rows in another order. Returns the averages.

    Examples
    --------
    >>> import numpy as np
    >>> cells = np.array([[0, 2], [0, 3], [1, 2], [1, 3]], np.int32)
    >>> y, W, b = np.array([[0.0], [1.0], [2.0], [3.0]]), np.zeros((4, 1)), np.zeros(1)
    >>> W, b = descend(cells, y, W, b, "squared", 1.0, 2000, np.random.default_rng(0))
    >>> W.ravel().round(1), b.round(1)
    (array([-0.7,  0.7, -0.4,  0.4]), array([1.5]))
    """
    from mondrian_kernel._kernels.descent import sgd_pass

    code = {"squared": SQUARED, "log_loss": LOGISTIC if b.size == 1 else SOFTMAX, "hinge": HINGE}
    decay = penalty_per_row(alpha, cells.shape[0])
    eta = 0.5 / smoothness(loss, b.size)
    schedule = eta, settings.SGD_POWER[loss], decay, settings.SGD_AVERAGE_DEGREE
    U, V, b, b_sum = W.copy(), np.zeros_like(W), b.copy(), np.zeros_like(b)
    clock = np.array([0.0, 1.0, 0.0, 0.0])  # steps, scale c, τ, sum of the average's weights
    cells, Y = np.ascontiguousarray(cells, dtype=np.int32), np.ascontiguousarray(Y, dtype=float)
    for _ in range(passes):
        order = rng.permutation(cells.shape[0])
        sgd_pass(cells, Y, order, code[loss], schedule, (U, V, b, b_sum, clock))
    _, _, tau, total = clock
    return (tau * U + V) / total, b_sum / total
