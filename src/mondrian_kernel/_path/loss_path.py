"""Classifiers along the lifetimes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.losses import encode, value
from mondrian_kernel._linear.minimise import Minimum, minimise
from mondrian_kernel._linear.operator import CellOperator
from mondrian_kernel._path.checks import default_alphas
from mondrian_kernel._path.driver import Callback, Plan, Point, follow
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features import MondrianFeatures

Index = NDArray[np.intp]


def loss_path(
    rows: FloatArray,
    labels: NDArray[np.integer],
    n_classes: int,
    loss: str,
    *,
    n_estimators: int = 200,
    max_rows: int = 4000,
    held_out: tuple[FloatArray, NDArray[np.integer]] | None = None,
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

    ``rows`` are scaled, ``labels`` (N,) are class numbers. Without rows ``held_out`` and their
    labels, at most ``max_rows`` are drawn to fit, and to hold out. The other arguments are those
    of :func:`mondrian_kernel.lifetime_path`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> labels = (rows[:, 0] * rows[:, 1] > 0).astype(int)
    >>> path = loss_path(rows, labels, 2, "log_loss", n_estimators=50)
    >>> bool(np.nanmin(path.score) < 0.5 * np.log(2))
    True
    """
    grid = default_alphas() if alphas is None else np.unique(np.asarray(alphas, dtype=float))
    wanted = None if lifetimes is None else np.unique(np.asarray(lifetimes, dtype=float))
    s = np.ones(rows.shape[0]) if sample_weight is None else sample_weight
    if held_out is None:
        fitted, out = split(labels, max_rows, np.random.default_rng(seed))
        others = rows[out], encode(labels[out], n_classes, loss), s[out]
        rows, labels, s = rows[fitted], labels[fitted], s[fitted]
    else:
        ones = np.ones(held_out[1].size)
        others = held_out[0], encode(held_out[1], n_classes, loss), ones
    Y = encode(labels, n_classes, loss)
    learner = LossLearner(Y, s, others, loss, grid, n_jobs)
    growth = Growth(rows, n_estimators, seed, n_jobs)
    every_row_apart = labels.size * n_estimators
    budget = min(every_row_apart, max(2 * n_estimators, settings.CHOICE_PATH_CELLS // Y.shape[1]))
    if wanted is not None or max_lifetime is not None:
        budget = every_row_apart  # as far as was asked for
    few = labels.size <= settings.LOSS_FEW_ROWS
    patience = settings.LOSS_PATIENCE_FEW if few else settings.LOSS_PATIENCE
    plan = Plan(n_lifetimes, budget, patience, None, max_lifetime, wanted)
    return follow(growth, learner.score, plan, grid, "holdout", callback)[0]


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
            near = here.get(a - 1) or here.get(a + 1)
            start = None if near is None else (near.dual, near.b)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # rough minima do to rank
                found = here[a] = minimise(
                    *(operator, self.Y, self.loss, float(self.alphas[a])),
                    sample_weight=self.s,
                    start=start,
                    tol=self.tol,
                    max_iter=self.max_iter,
                )
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


def split(
    labels: NDArray[np.integer], max_rows: int, rng: np.random.Generator
) -> tuple[Index, Index]:
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
