"""The lifetime path of a classifier, scored by its own loss on rows held out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel._linear.cell_operator import CellOperator
from mondrian_kernel._linear.losses import Minimum, check_loss, encode, value
from mondrian_kernel._linear.newton import minimise
from mondrian_kernel._linear.sgd import inherit
from mondrian_kernel._path.best import BestOfGrid
from mondrian_kernel._path.checks import ALPHAS
from mondrian_kernel._path.plan import growing, lifetimes_between, passed_its_best
from mondrian_kernel._path.progress import Callback, Verbose, listener
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features import features_at

_FIRST_ALPHA = 0.1
_HELD_OUT = 0.2
_TOL = 3e-3  # a rough minimum ranks widths as well as an exact one
_WORTH = 0.02  # part of the loss that a smaller alpha, which costs more, must save
_STEPS = 30  # of one fit
_CELLS = 3_000_000  # of all trees; boxes of D sides and weights of K outputs for each
# Lifetimes to wait for a better one; few rows held out make a rough curve.
_PATIENCE, _PATIENCE_FEW, _FEW_ROWS = 3, 8, 2000
# For the choice: trees, bounds on the rows, and rows times classes between these.
_SAMPLE_TREES = 100
_SAMPLE_ROWS = (1500, 10_000)
_SAMPLE_TARGETS = 40_000


@dataclass(frozen=True, eq=False)
class LossPath(BestOfGrid):
    r"""Held-out loss of a classifier on a grid of (lifetime, alpha), on one set of trees.

    Attributes
    ----------
    lifetimes : ndarray of shape (L,)
        Lifetimes λ, increasing.
    n_cells : ndarray of shape (L,)
        Number of cells C at each lifetime.
    alphas : ndarray of shape (A,)
        Penalties of :math:`\lVert W \rVert^2` beside a sum of losses, increasing.
    train_loss, validation_loss : ndarray of shape (L, A)
        Mean loss on the rows that were fitted, and on those held out. NaN for alphas that were not
        looked at, as the loss rose on the way to them.
    complete : bool
        False where the path was interrupted.
    """

    train_loss: FloatArray
    validation_loss: FloatArray
    complete: bool

    @property
    def score(self) -> FloatArray:
        """What decides, lower is better: the loss on the rows held out, of shape (L, A)."""
        return self.validation_loss


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
) -> LossPath:
    r"""Fit a classifier at every kernel width of a grid and score it on a fifth of the rows.

    .. math::
        \min_{W, b} \sum_i s_i \ell(y_i, b + W^\top \phi_\lambda(x_i)) + \alpha \lVert W \rVert^2

    The trees grow as the path advances, until the loss has clearly passed its best. At each
    lifetime alpha moves from its last best as long as that lowers the loss. A fit starts from the
    one before it; cells that were cut inherit their weights.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Rows, scaled as the kernel is to see them.
    labels : ndarray of shape (N,), integers in [0, n_classes)
        Class of each row.
    n_classes : int
        Number of classes, at least 2.
    loss : {"log_loss", "hinge", "squared"}
        Loss ℓ, which is the score too.
    n_estimators : int, default=200
        Number of trees M.
    max_rows : int, default=4000
        Most rows to fit, and most to hold out.
    parts : tuple of two arrays of int or None, default=None
        The very rows to fit and to hold out instead.
    n_lifetimes : int, default=20
        Number of lifetimes at most, placed by the growth of the number of cells.
    max_lifetime : float or None, default=None
        Lifetime at which the path ends. None: where the loss has clearly passed its best.
    lifetimes : array-like or None, default=None
        The very lifetimes to look at instead.
    alphas : array-like or None, default=None
        Penalties α. None: eleven from 0.0001 to 10.
    sample_weight : ndarray of shape (N,) or None, default=None
        Positive weights s, of the score too.
    seed : int, default=0
        Seed of the trees and of the rows held out.
    n_jobs : int or None, default=None
        Threads. The result does not depend on it.
    callback : callable or None, default=None
        Called as ``callback(done, total, info)`` as the path advances.

    Returns
    -------
    path : LossPath
        Losses for each (lifetime, alpha). After Ctrl-C it holds what was done so far and
        ``path.complete`` is False.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._path.loss_path import loss_path
    >>> rows = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> labels = (rows[:, 0] * rows[:, 1] > 0).astype(int)
    >>> path = loss_path(rows, labels, 2, "log_loss", n_estimators=50)
    >>> bool(np.nanmin(path.score) < 0.5 * np.log(2))
    True
    """
    check_loss(loss)
    grid = ALPHAS if alphas is None else np.unique(np.asarray(alphas, dtype=float))
    fitted, held_out = parts or split(labels, max_rows, np.random.default_rng(seed))
    Y = encode(labels, n_classes, loss)
    growth = Growth(rows[fitted], n_estimators, seed, n_jobs)
    budget = min(fitted.size * n_estimators, max(2 * n_estimators, _CELLS // Y.shape[1]))
    steps: Iterable[FloatArray]
    wanted = None if lifetimes is None else np.unique(np.asarray(lifetimes, dtype=float))
    if wanted is None and max_lifetime is not None:
        growth.advance(float(max_lifetime))
        wanted = lifetimes_between(growth.cut_times, max_lifetime, n_estimators, n_lifetimes)
    if wanted is None:
        steps = growing(growth, n_lifetimes, budget)
    else:
        growth.advance(float(wanted[-1]))
        steps, n_lifetimes = [wanted], wanted.size
    run = _Run(rows, Y, loss, grid, fitted, held_out, sample_weight, n_jobs)
    try:
        for group in steps:
            trees, leaf = growth.freeze(float(group[-1]))
            for lifetime in group:
                run.advance(trees, leaf, float(lifetime))
                if callback is not None:
                    info = {"lifetime": float(lifetime), "best": float(np.nanmin(run.validation))}
                    callback(len(run.lifetimes), n_lifetimes, info)
                if wanted is None and run.passed_its_best():
                    return run.result(complete=True)
    except KeyboardInterrupt:
        if not run.validation:
            raise
        return run.result(complete=False)
    return run.result(complete=True)


def choose_loss_width(
    rows: FloatArray,
    labels: NDArray[np.integer],
    n_classes: int,
    loss: str,
    sample_weight: FloatArray | None,
    seed: int,
    *,
    lifetime: float | str,
    alpha: float | str,
    n_estimators: int | str,
    n_jobs: int | None,
    verbose: Verbose,
) -> tuple[float, float, LossPath | None]:
    """Return a lifetime and an alpha, and the path on some rows and trees that chose them."""
    if lifetime != "auto" and alpha != "auto":
        return float(lifetime), float(alpha), None
    n_trees = _SAMPLE_TREES if isinstance(n_estimators, str) else min(n_estimators, _SAMPLE_TREES)
    path = loss_path(
        rows, labels, n_classes, loss, n_estimators=n_trees,
        max_rows=int(np.clip(_SAMPLE_TARGETS // n_classes, *_SAMPLE_ROWS)),
        lifetimes=None if lifetime == "auto" else [float(lifetime)],
        alphas=None if alpha == "auto" else [float(alpha)],
        sample_weight=sample_weight, seed=seed, n_jobs=n_jobs,
        callback=listener(verbose),
    )  # fmt: skip
    return path.best_lifetime, path.best_alpha, path


class _Run:
    """Losses collected so far, and the last minimum of each alpha to start from."""

    def __init__(
        self,
        rows: FloatArray,
        Y: FloatArray,
        loss: str,
        alphas: FloatArray,
        fitted: NDArray[np.intp],
        held_out: NDArray[np.intp],
        sample_weight: FloatArray | None,
        n_jobs: int | None,
    ) -> None:
        s = np.ones(rows.shape[0]) if sample_weight is None else sample_weight
        self.loss, self.alphas, self.n_jobs = loss, alphas, n_jobs
        self.Y, self.s = Y[fitted], s[fitted]
        self.rows_out, self.Y_out, self.s_out = rows[held_out], Y[held_out], s[held_out]
        self.starts: dict[int, Minimum] = {}
        self.cells: IntArray = np.empty((0, 0), np.int32)
        self.best = int(np.argmin(np.abs(np.log(alphas / _FIRST_ALPHA))))
        self.lifetimes: list[float] = []
        self.n_cells: list[int] = []
        self.train: list[FloatArray] = []
        self.validation: list[FloatArray] = []

    def advance(self, trees: Trees, leaf: IntArray, lifetime: float) -> None:
        """Look at a lifetime, at alphas from the last best on while the loss falls."""
        features = features_at(trees, lifetime, self.n_jobs)
        cells, n_cells = features.levels_.column[0][leaf], features.n_cells_
        Phi = features.transform(self.rows_out)
        self._hand_down(cells, n_cells)
        train, validation = (np.full(self.alphas.size, np.nan) for _ in range(2))
        here: dict[int, Minimum] = {}

        def fit(a: int) -> float:
            start = self.starts.get(a) or here.get(a - 1) or here.get(a + 1)
            found = here[a] = self._minimise(cells, n_cells, float(self.alphas[a]), start)
            penalty = self.alphas[a] * float(np.vdot(found.W, found.W))
            train[a] = (found.objective - penalty) / self.s.sum()
            losses = value(self.loss, self.Y_out, Phi @ found.W + found.b)
            validation[a] = np.average(losses, weights=self.s_out)
            return float(validation[a])

        lowest = fit(self.best)
        for step, worth in (1, 1.0), (-1, 1.0 - _WORTH):
            while 0 <= (a := self.best + step) < self.alphas.size and a not in here:
                loss = fit(a)
                if not loss < worth * lowest:
                    break
                self.best, lowest = a, loss
        self.starts = here
        self.lifetimes.append(lifetime)
        self.n_cells.append(n_cells)
        self.train.append(train)
        self.validation.append(validation)

    def _hand_down(self, cells: IntArray, n_cells: int) -> None:
        """Let the cells of the rows inherit the weights of the cells they were cut from.

        Every score is kept then. The coefficients of the rows would also do as a start, but where
        cells are few these are large and cancel, and no longer do when a cell is cut.
        """
        if self.starts:
            parent_of = np.empty(n_cells, np.int32)
            parent_of[cells] = self.cells
            for a, start in self.starts.items():
                self.starts[a] = start._replace(W=inherit(start.W, parent_of))
        self.cells = cells

    def _minimise(
        self, cells: IntArray, n_cells: int, alpha: float, start: Minimum | None
    ) -> Minimum:
        point: dict[str, Any] = {}
        if start is not None:
            point = {"dual0": start.dual} if self.loss == "hinge" else {"W0": start.W}
            point["b0"] = start.b
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            operator = CellOperator(cells, n_cells, centre=False, n_jobs=self.n_jobs)
            return minimise(
                operator, self.Y, self.loss, alpha, sample_weight=self.s, tol=_TOL,
                max_iter=_STEPS, **point,
            )  # fmt: skip

    def passed_its_best(self) -> bool:
        """Whether the best lies some lifetimes back and the last is clearly worse."""
        best = np.nanmin(self.validation, axis=1)
        few = self.Y.shape[0] <= _FEW_ROWS
        return passed_its_best(best, _PATIENCE_FEW if few else _PATIENCE)

    def result(self, *, complete: bool) -> LossPath:
        n = len(self.validation)  # an interrupt may have come before it
        return LossPath(
            np.array(self.lifetimes[:n]), np.array(self.n_cells[:n]), self.alphas,
            np.array(self.train[:n]), np.array(self.validation), complete,
        )  # fmt: skip


def split(
    labels: NDArray[np.integer], max_rows: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Hold out a fifth of the rows of each class; every class keeps a row to fit.

    Parameters
    ----------
    labels : ndarray of shape (N,)
        Class of each row.
    max_rows : int
        Most rows of each part; more are fitted only if there are more classes.
    rng : Generator
        Source of the choice.

    Returns
    -------
    fitted, held_out : ndarray of int
        Rows. A class of fewer than five rows gives one with the probability of a fifth a row, a
        class of one row none. Where nothing can be held out the rows to fit stand in.
    """
    first, fitted, held_out = [], [], []
    for c in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == c))
        n_out = min(int(_HELD_OUT * members.size + rng.uniform()), members.size - 1)
        held_out.append(members[:n_out])
        first.append(members[n_out])
        fitted.append(members[n_out + 1 :])
    some = rng.permutation(np.concatenate(fitted))[: max(0, max_rows - len(first))]
    fit = np.sort(np.concatenate([first, some]))
    out = np.sort(rng.permutation(np.concatenate(held_out))[:max_rows])
    return fit, out if out.size else fit
