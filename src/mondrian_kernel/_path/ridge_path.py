"""Ridge regression and forests along the lifetimes, for all alphas at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.cholesky import (
    Scores,
    centred_targets,
    dense_cost,
    dense_scores,
    weights,
)
from mondrian_kernel._linear.lanczos import lanczos_cost, lanczos_scores
from mondrian_kernel._linear.levels import cells_above
from mondrian_kernel._linear.operator import CellOperator
from mondrian_kernel._path.driver import Callback, Grown, Plan, Point, follow
from mondrian_kernel._path.result import LifetimePath, RidgeRows
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.levels import Levels, features_through
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features import MondrianFeatures


def ridge_path(
    grown: Growth | Grown,
    learner: RidgeLearner,
    budget: int,
    *,
    max_lifetime: float | None = None,
    n_lifetimes: int = 50,
    lifetimes: FloatArray | None = None,
    callback: Callback | None = None,
    names_of: Any = None,
) -> LifetimePath:
    """Return the path of valid rows, on trees that grow or are grown.

    The arguments are those of :func:`mondrian_kernel.lifetime_path`. Targets and weights of the
    learner belong to the rows of ``grown``; they are kept, not copied.
    """
    alphas, criterion, n_jobs = learner.alphas, learner.criterion, learner.n_jobs
    margin = settings.EVIDENCE_MARGIN if criterion.startswith("evidence") else None
    plan = Plan(
        n_lifetimes, budget, settings.PATH_PATIENCE, margin, max_lifetime, lifetimes, warns=True
    )
    path, trees, leaf = follow(grown, learner.score, plan, alphas, criterion, callback)
    end = MondrianFeatures.from_trees(
        trees, trees.lifetime, n_jobs=n_jobs, seed=learner.seed, names_of=names_of
    )
    Y, weight = learner.Y, learner.weight
    rows = RidgeRows(end, leaf, Y, weight, learner.fit_intercept, np.zeros(Y.shape[1]))
    return replace(path, model=rows)


@dataclass(frozen=True)
class RidgeLearner:
    """Scores ridge regression at several lifetimes together, which cost as much as one.

    ``Y`` (N, T) and ``weight`` (N,) are targets and weights, ``held_out`` rows and their targets;
    the rest is as in :func:`mondrian_kernel.lifetime_path`.
    """

    Y: FloatArray
    weight: FloatArray | None
    alphas: FloatArray
    criterion: str
    held_out: tuple[FloatArray, FloatArray] | None
    solver: str
    tol: float
    seed: int
    n_jobs: int | None
    fit_intercept: bool = True

    def score(self, trees: Trees, leaf: IntArray, lifetimes: FloatArray) -> Iterator[list[Point]]:
        """Yield the points of all the lifetimes at once."""
        operator = self._operator(trees, leaf, lifetimes)
        target, mean = centred_targets(operator, self.Y)
        solver, fits = self._solve(operator, target)
        curves = [scores._asdict() for scores, _ in fits]
        if self.held_out is not None:
            means = np.repeat(mean, self.alphas.size)
            models = [
                weights(operator, dual.reshape(operator.n_rows, -1), means, level)
                for level, (_, dual) in enumerate(fits)
            ]
            errors = held_out_errors(trees, lifetimes, models, *self.held_out, self.n_jobs)
            for curve, error in zip(curves, errors, strict=True):
                curve["validation_error"] = error
        points = zip(lifetimes.tolist(), operator.n_cells.tolist(), curves, strict=True)
        yield [Point(lifetime, n_cells, curve, solver) for lifetime, n_cells, curve in points]

    def _operator(self, trees: Trees, leaf: IntArray, lifetimes: FloatArray) -> CellOperator:
        """Return the rows with a level for each lifetime."""
        levels = Levels.of(trees, lifetimes)
        return CellOperator(
            levels.column[-1][leaf],
            int(levels.per_tree[-1].sum()),
            groups=cells_above(trees, levels).T,
            sample_weight=self.weight,
            centre=self.fit_intercept,
            n_jobs=self.n_jobs,
        )

    def _solve(
        self, operator: CellOperator, target: FloatArray
    ) -> tuple[str, list[tuple[Scores, FloatArray]]]:
        """Return the solver, and scores and dual coefficients of each level."""
        solver, by_probes = self.solver, self.criterion != "holdout"
        if solver == "auto":
            # An exact score is worth more time than one estimated with random vectors.
            work = operator.cells.size, operator.total_weight
            limit = settings.PATH_DENSE_COST if by_probes else lanczos_cost(*work, self.alphas)
            cost = dense_cost(operator.n_rows, int(operator.n_cells[-1]))
            solver = "dense" if cost <= limit else "lanczos"
        if solver == "dense":
            return solver, dense_scores(operator, target, self.alphas)
        # the same random vectors at every lifetime
        rng = np.random.default_rng([self.seed, 1]) if by_probes else None
        return solver, lanczos_scores(operator, target, self.alphas, self.tol, rng)


def held_out_errors(
    trees: Trees,
    lifetimes: FloatArray,
    models: list[tuple[FloatArray, FloatArray]],
    X: FloatArray,
    Y: FloatArray,
    n_jobs: int | None,
    *,
    at_once: int = settings.HELD_OUT_ENTRIES,
) -> list[FloatArray]:
    """Mean squared errors (A,) at each lifetime, from one walk down the trees.

    ``models`` holds weights (C, T·A) and intercepts (T·A,) of each lifetime; Y is (N, T). At most
    ``at_once`` features of a (row, tree, lifetime) are held at a time.
    """
    n_rows, n_outputs = Y.shape
    squares = [np.zeros(intercept.size // n_outputs) for _, intercept in models]
    step = max(1, at_once // (trees.n_trees * lifetimes.size))
    for begin in range(0, n_rows, step):
        some = slice(begin, begin + step)
        through = features_through(trees, X[some], lifetimes, n_jobs)
        for Phi, (coef, intercept), total in zip(through, models, squares, strict=True):
            predicted = (Phi @ coef + intercept).reshape(-1, n_outputs, total.size)
            total += ((predicted - Y[some, :, None]) ** 2).sum(axis=(0, 1))
    return [total / Y.size for total in squares]


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
    default = np.logspace(*settings.FOREST_ALPHAS)
    grid = np.unique(np.asarray(default if alphas is None else alphas, float))
    wanted = None if lifetimes is None else np.unique(np.asarray(lifetimes, dtype=float))
    s = np.ones(rows.shape[0]) if sample_weight is None else sample_weight
    budget = rows.shape[0] * n_estimators
    if wanted is None:
        budget = min(budget, max(2 * n_estimators, settings.CHOICE_PATH_CELLS))

    def score(trees: Trees, leaf: IntArray, lifetimes: FloatArray) -> Iterator[list[Point]]:
        for lifetime in lifetimes.tolist():
            cells = trees.cells(lifetime)
            data = cells.column[leaf], cells.total, Y, s, grid
            left_out = loo_predictions(*data, fit_intercept=fit_intercept)
            error = np.average(((left_out - Y) ** 2).sum(axis=2), axis=1, weights=s)
            yield [Point(lifetime, cells.total, {"loo_error": error})]

    plan = Plan(n_lifetimes, budget, settings.FOREST_PATIENCE, lifetimes=wanted)
    growth = Growth(rows, n_estimators, seed, n_jobs)
    return follow(growth, score, plan, grid, "loo", callback)[0]


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
    inverse = [1.0 / np.where(others > 0, others + alpha, np.inf) for alpha in alphas]
    out = np.empty((alphas.size, *Y.shape))
    for t in range(Y.shape[1]):
        totals = np.bincount(flat, np.repeat(sY[:, t], n_trees), n_cells)
        sums = totals[cells] - (sY[:, t : t + 1] + b[:, t : t + 1] * others)
        for a in range(alphas.size):
            out[a, :, t] = np.einsum("nm,nm->n", sums, inverse[a])
    out /= n_trees
    out += b
    return out
