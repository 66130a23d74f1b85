"""The lifetime path of a Mondrian forest: every row left out in turn, in closed form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel._path.best import BestOfGrid
from mondrian_kernel._path.checks import join_equal
from mondrian_kernel._path.plan import growing, passed_its_best
from mondrian_kernel._path.progress import Callback, Verbose, listener
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._typing import FloatArray, IntArray

DEFAULT_ALPHAS = np.logspace(-3, 1, 9)
_SAMPLE_TREES = 100
_SAMPLE_ROWS = 4000
_CELLS = 3_000_000
_PATIENCE = 3


@dataclass(frozen=True, eq=False)
class ForestPath(BestOfGrid):
    """Leave-one-out error of a forest at every (lifetime, alpha) of a grid, on one set of trees.

    Attributes
    ----------
    lifetimes : ndarray of shape (L,)
        Lifetimes λ, increasing.
    n_cells : ndarray of shape (L,)
        Number of cells C at each lifetime.
    alphas : ndarray of shape (A,)
        Shrinkages γ², increasing.
    loo_error : ndarray of shape (L, A)
        Mean squared error when each row is left out in turn, summed over outputs.
    """

    loo_error: FloatArray

    @property
    def score(self) -> FloatArray:
        """What decides, lower is better: the leave-one-out error."""
        return self.loo_error


def forest_path(
    rows: FloatArray,
    Y: FloatArray,
    *,
    n_estimators: int = 100,
    n_lifetimes: int = 20,
    lifetimes: ArrayLike | None = None,
    alphas: ArrayLike | None = None,
    sample_weight: FloatArray | None = None,
    fit_intercept: bool = True,
    seed: int = 0,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> ForestPath:
    r"""Leave-one-out error of a forest with leaf values shrunk by alpha, at every width of a grid.

    .. math::
        \hat y_{-i} = b_{-i} + \frac1M \sum_m
        \frac{\sum_{j \in c_m(i), j \ne i} s_j (y_j - b_{-i})}{\sum_{j \in c_m(i), j \ne i} s_j
        + \alpha}

    The trees grow as the path advances, until the error has clearly passed its best.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Rows, scaled as the trees are to see them.
    Y : ndarray of shape (N, T)
        Targets.
    n_estimators : int, default=100
        Number of trees M.
    n_lifetimes : int, default=20
        Number of lifetimes at most, placed by the growth of the number of cells.
    lifetimes : array-like or None, default=None
        The very lifetimes to look at instead.
    alphas : array-like or None, default=None
        Shrinkages γ². None: nine from 0.001 to 10.
    sample_weight : ndarray of shape (N,) or None, default=None
        Positive weights s. A row is left out with all its weight.
    fit_intercept : bool, default=True
        Whether leaves are shrunk to the mean b of the targets; to 0 otherwise.
    seed : int, default=0
        Seed of the trees.
    n_jobs : int or None, default=None
        Threads that grow the trees.
    callback : callable or None, default=None
        Called as ``callback(done, total, info)`` as the path advances.

    Returns
    -------
    path : ForestPath
        Errors for each (lifetime, alpha).

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._path.forest_path import forest_path
    >>> rows = np.random.default_rng(0).uniform(size=(200, 2))
    >>> path = forest_path(rows, np.sin(6 * rows[:, :1]))
    >>> bool(path.score.min() < 0.2 * np.var(np.sin(6 * rows[:, 0])))
    True
    """
    grid = DEFAULT_ALPHAS if alphas is None else np.unique(np.asarray(alphas, dtype=float))
    s = np.ones(rows.shape[0]) if sample_weight is None else sample_weight
    growth = Growth(rows, n_estimators, seed, n_jobs)
    steps: Iterable[FloatArray]
    if lifetimes is None:
        budget = min(rows.shape[0] * n_estimators, max(2 * n_estimators, _CELLS))
        steps = growing(growth, n_lifetimes, budget)
    else:
        wanted = np.unique(np.asarray(lifetimes, dtype=float))
        growth.advance(float(wanted[-1]))
        steps, n_lifetimes = [wanted], wanted.size
    seen: list[float] = []
    n_cells: list[int] = []
    errors: list[FloatArray] = []

    def result() -> ForestPath:
        return ForestPath(np.array(seen), np.array(n_cells), grid, np.array(errors))

    for group in steps:
        trees, leaf = growth.freeze(float(group[-1]))
        for lifetime in group:
            cells = trees.cells(float(lifetime))
            left_out = loo_predictions(
                cells.column[leaf], cells.total, Y, s, grid, fit_intercept=fit_intercept
            )
            losses = ((left_out - Y) ** 2).sum(axis=2)
            errors.append(np.average(losses, axis=1, weights=s))
            seen.append(float(lifetime))
            n_cells.append(cells.total)
            if callback is not None:
                info = {"lifetime": float(lifetime), "best": float(np.min(errors))}
                callback(len(seen), n_lifetimes, info)
            if lifetimes is None and passed_its_best(np.min(errors, axis=1), _PATIENCE):
                return result()
    return result()


def loo_predictions(
    cells: IntArray,
    n_cells: int,
    Y: FloatArray,
    s: FloatArray,
    alphas: FloatArray,
    *,
    fit_intercept: bool = True,
) -> FloatArray:
    """Predict each row by the forest of the others, for all alphas, on trees that stay.

    Parameters
    ----------
    cells : ndarray of shape (N, M), int32
        Cell of each row in each tree.
    n_cells : int
        Number of cells C of all trees.
    Y : ndarray of shape (N, T)
        Targets.
    s : ndarray of shape (N,)
        Positive weights.
    alphas : ndarray of shape (A,)
        Shrinkages, not negative.
    fit_intercept : bool, default=True
        Whether the leaves are shrunk to the mean of the others.

    Returns
    -------
    predictions : ndarray of shape (A, N, T)
        Predictions.
    """
    n_rows, n_trees = cells.shape
    flat = cells.ravel()
    others: FloatArray = np.bincount(flat, np.repeat(s, n_trees), n_cells)[cells] - s[:, None]
    others[others < 1e-12 * s[:, None]] = 0.0  # a row alone in its cell, up to rounding
    sY = s[:, None] * Y
    b = np.zeros_like(Y)
    if fit_intercept and n_rows > 1:
        b = (sY.sum(axis=0) - sY) / (s.sum() - s)[:, None]
    inverse: list[FloatArray] = [
        1.0 / np.where(others > 0, others + alpha, np.inf) for alpha in alphas
    ]
    out = np.empty((alphas.size, *Y.shape))
    for t in range(Y.shape[1]):
        totals = np.bincount(flat, np.repeat(sY[:, t], n_trees), n_cells)
        sums = totals[cells] - (sY[:, t : t + 1] + b[:, t : t + 1] * others)
        for a in range(alphas.size):
            out[a, :, t] = np.einsum("nm,nm->n", sums, inverse[a])
    out /= n_trees
    out += b
    return out


def choose_forest_width(
    rows: FloatArray,
    Y: FloatArray,
    sample_weight: FloatArray | None,
    seed: int,
    *,
    lifetime: float | str,
    alpha: float | str,
    n_estimators: int,
    fit_intercept: bool,
    n_jobs: int | None,
    verbose: Verbose,
) -> tuple[float, float, ForestPath | None]:
    """Return a lifetime and an alpha, and the path on some rows and trees that chose them."""
    if lifetime != "auto" and alpha != "auto":
        return float(lifetime), float(alpha), None
    first, weight = join_equal(rows, Y, sample_weight)
    some = np.random.default_rng(seed).permutation(first.size)[:_SAMPLE_ROWS]
    path = forest_path(
        rows[first[some]], Y[first[some]], n_estimators=min(n_estimators, _SAMPLE_TREES),
        lifetimes=None if lifetime == "auto" else [float(lifetime)],
        alphas=None if alpha == "auto" else [float(alpha)], sample_weight=weight[some],
        fit_intercept=fit_intercept, seed=seed, n_jobs=n_jobs,
        callback=listener(verbose),
    )  # fmt: skip
    return path.best_lifetime, path.best_alpha, path
