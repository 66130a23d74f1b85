"""The lifetime path of a Mondrian forest: every row left out in turn, in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel._path.driver import Callback, Plan, Point, follow
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._settings import CHOICE_PATH_CELLS, FOREST_ALPHAS, FOREST_PATIENCE
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray


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
) -> LifetimePath:
    r"""Leave-one-out error of a forest with leaf values shrunk by alpha, at every width of a grid.

    .. math::
        \hat y_{-i} = b_{-i} + \frac1M \sum_m
        \frac{\sum_{j \in c_m(i), j \ne i} s_j (y_j - b_{-i})}{\sum_{j \in c_m(i), j \ne i} s_j
        + \alpha}

    for targets (N, T), whose errors are added up. b is their mean, or 0 without ``fit_intercept``.
    A row is left out with all its weight. The trees grow as the path advances, until the error has
    clearly passed its best.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).uniform(size=(200, 2))
    >>> path = forest_path(rows, np.sin(6 * rows[:, :1]))
    >>> bool(path.score.min() < 0.2 * np.var(np.sin(6 * rows[:, 0])))
    True
    """
    grid = np.logspace(*FOREST_ALPHAS) if alphas is None else np.unique(np.asarray(alphas, float))
    wanted = None if lifetimes is None else np.unique(np.asarray(lifetimes, dtype=float))
    s = np.ones(rows.shape[0]) if sample_weight is None else sample_weight
    budget = rows.shape[0] * n_estimators
    if wanted is None:
        budget = min(budget, max(2 * n_estimators, CHOICE_PATH_CELLS))
    learner = ForestLearner(Y, s, grid, fit_intercept)
    plan = Plan(n_lifetimes, budget, FOREST_PATIENCE, lifetimes=wanted)
    growth = Growth(rows, n_estimators, seed, n_jobs)
    return follow(growth, learner, plan, grid, "loo", callback).path


@dataclass(frozen=True)
class ForestLearner:
    """Leave-one-out errors of a forest on targets (N, T) with weights (N,)."""

    Y: FloatArray
    s: FloatArray
    alphas: FloatArray
    fit_intercept: bool

    def score(self, trees: Trees, leaf: IntArray, lifetimes: FloatArray) -> Iterator[list[Point]]:
        """Yield the point of each lifetime."""
        for lifetime in lifetimes.tolist():
            cells = trees.cells(lifetime)
            left_out = loo_predictions(
                cells.column[leaf],
                cells.total,
                self.Y,
                self.s,
                self.alphas,
                fit_intercept=self.fit_intercept,
            )
            losses = ((left_out - self.Y) ** 2).sum(axis=2)
            error = np.average(losses, axis=1, weights=self.s)
            yield [Point(lifetime, cells.total, {"loo_error": error})]


def loo_predictions(
    cells: IntArray,
    n_cells: int,
    Y: FloatArray,
    s: FloatArray,
    alphas: FloatArray,
    *,
    fit_intercept: bool = True,
) -> FloatArray:
    """Predict each row by the forest of the others, for all alphas, on trees that stay, (A, N, T).

    ``cells`` (N, M) are the cells of the rows, ``Y`` (N, T) and ``s`` (N,) targets and weights. The
    leaves are shrunk to the mean of the others, or to 0 without ``fit_intercept``.
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
