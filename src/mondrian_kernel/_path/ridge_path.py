"""Ridge regression along the lifetimes, for all alphas at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mondrian_kernel._linear.cell_operator import CellOperator
from mondrian_kernel._linear.cholesky import dense_cost, dense_scores
from mondrian_kernel._linear.lanczos import lanczos_cost, lanczos_scores
from mondrian_kernel._linear.scores import Scores, centred_targets, weights
from mondrian_kernel._path.driver import Callback, Grown, Plan, Point, follow
from mondrian_kernel._path.result import LifetimePath, RidgeRows
from mondrian_kernel._settings import (
    EVIDENCE_MARGIN,
    HELD_OUT_ENTRIES,
    PATH_DENSE_COST,
    PATH_PATIENCE,
)
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.levels import features_through
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
    margin = EVIDENCE_MARGIN if criterion.startswith("evidence") else None
    plan = Plan(n_lifetimes, budget, PATH_PATIENCE, margin, max_lifetime, lifetimes, warns=True)
    path, trees, leaf = follow(grown, learner, plan, alphas, criterion, callback)
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
        curves = [_curves(scores) for scores, _ in fits]
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
        fine = trees.cells(float(lifetimes[-1]))
        is_cell = np.flatnonzero(trees.left < 0)
        node = np.empty(fine.total, np.int64)
        node[fine.column[is_cell]] = is_cell
        groups = np.stack([trees.cells(float(t)).column[node] for t in lifetimes], axis=1)
        return CellOperator(
            fine.column[leaf],
            fine.total,
            groups=groups,
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
            # What random vectors estimate is worth a longer computation without them.
            work = operator.cells.size, operator.total_weight
            limit = PATH_DENSE_COST if by_probes else lanczos_cost(*work, self.alphas)
            cost = dense_cost(operator.n_rows, int(operator.n_cells[-1]))
            solver = "dense" if cost <= limit else "lanczos"
        if solver == "dense":
            return solver, dense_scores(operator, target, self.alphas)
        # the same random vectors at every lifetime
        rng = np.random.default_rng([self.seed, 1]) if by_probes else None
        return solver, lanczos_scores(operator, target, self.alphas, self.tol, rng)


def _curves(scores: Scores) -> dict[str, FloatArray]:
    """Scores of one lifetime by the names that a path has for them."""
    return {
        "train_error": scores.train_error,
        "loo_error": scores.loo_error,
        "loo_error_std": scores.loo_std,
        "log_marginal_likelihood": scores.evidence,
        "log_marginal_likelihood_paper": scores.evidence_paper,
        "log_marginal_likelihood_std": scores.evidence_std,
    }


def held_out_errors(
    trees: Trees,
    lifetimes: FloatArray,
    models: list[tuple[FloatArray, FloatArray]],
    X: FloatArray,
    Y: FloatArray,
    n_jobs: int | None,
    *,
    at_once: int = HELD_OUT_ENTRIES,
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
