"""Ridge regression on a grid of lifetimes and alphas, on trees that grow or are grown."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._linear.cell_operator import CellOperator
from mondrian_kernel._linear.cholesky import dense_cost, dense_scores
from mondrian_kernel._linear.lanczos import lanczos_cost, lanczos_scores
from mondrian_kernel._linear.scores import Scores, centred_targets, weights
from mondrian_kernel._path.held_out import held_out_errors
from mondrian_kernel._path.plan import growing, in_groups, lifetimes_between, passed_its_best
from mondrian_kernel._path.result import LifetimePath, criterion_values
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features import MondrianFeatures, features_at

_DENSE_COST = 25.0 * 1200**3
_MEMORY = 2e9
_PATIENCE = 6
_NATS = 10.0


def grid_path(
    grown: Growth | Grown,
    Y: FloatArray,
    weight: FloatArray | None,
    *,
    budget: int,
    alphas: FloatArray,
    criterion: str,
    held_out: tuple[FloatArray, FloatArray] | None,
    max_lifetime: float | None = None,
    n_lifetimes: int = 50,
    lifetimes: FloatArray | None = None,
    solver: str,
    tol: float,
    fit_intercept: bool = True,
    seed: int,
    n_jobs: int | None,
    callback: Callable[[int, int, dict[str, Any]], None] | None,
    names_of: Any = None,
) -> LifetimePath:
    """Return the path of valid rows, on trees that grow or are grown; see :func:`lifetime_path`."""
    if lifetimes is not None:
        max_lifetime, n_lifetimes = float(lifetimes[-1]), lifetimes.size
    steps: Iterable[FloatArray]
    if max_lifetime is None:
        assert isinstance(grown, Growth)
        steps = growing(grown, n_lifetimes, budget)
    else:
        end = advance(grown, max_lifetime, budget)
        trees, leaf = grown.freeze(end)
        wanted = lifetimes
        if wanted is None:
            wanted = lifetimes_between(grown.cut_times, end, grown.n_trees, n_lifetimes)
        wanted = np.unique(np.minimum(wanted, end))
        steps = [wanted[part] for part in in_groups(wanted.size)]

    run = _Run(alphas, criterion, held_out, solver, tol, seed, n_jobs)
    complete = True
    try:
        for group in steps:
            if max_lifetime is None:
                trees, leaf = grown.freeze(float(group[-1]))
            run.advance(trees, leaf, group, Y, weight, fit_intercept)
            if callback is not None:
                info = {"lifetime": run.lifetimes[-1], "best": float(np.min(run.score()))}
                callback(len(run.lifetimes), n_lifetimes, info)
            if max_lifetime is None and run.passed_its_best():
                break
    except KeyboardInterrupt:
        if not run.lifetimes:
            raise
        complete = False
        if max_lifetime is None:
            trees, leaf = grown.freeze(run.lifetimes[-1])
    if complete and max_lifetime is None and grown.n_cells >= budget and not grown.done:
        _warn_budget(run.lifetimes[-1])
    at_end = int(np.argmin(run.score().min(axis=1))) == len(run.lifetimes) - 1
    if complete and at_end and lifetimes is None and not grown.done:
        warnings.warn(
            f"The best lifetime, {run.lifetimes[-1]:.4g}, is the last of the path: a larger one "
            "may be better. Raise max_lifetime.",
            UserWarning,
            stacklevel=3,
        )
    end_features = features_at(trees, trees.lifetime, n_jobs, seed=seed, names_of=names_of)
    return run.result(end_features, leaf, Y, weight, fit_intercept, complete)


def advance(grown: Growth | Grown, max_lifetime: float, budget: int) -> float:
    """Let the trees grow to a lifetime, or as far as memory goes; return how far that was."""
    end = grown.advance_within(max_lifetime, budget)
    if end < max_lifetime:
        _warn_budget(end)
    return end


class Grown:
    """Trees that exist already, in the place of trees in growth."""

    def __init__(self, features: MondrianFeatures, rows: FloatArray) -> None:
        check_is_fitted(features)
        self._trees, self.n_trees = features.trees_, features.trees_.n_trees
        self._lifetime, self.n_cells = features.lifetime_, features.n_cells_
        self._leaf, log_stay = self._trees.walk(rows, self._lifetime, features.n_jobs)
        if log_stay.any():
            row = int(np.flatnonzero(log_stay.any(axis=1))[0])
            raise ValueError(
                f"features were not fitted on these rows: row {row} of X is new to them."
            )
        self.cut_times = self._trees.cuts.time
        self.done = False

    def advance_within(self, lifetime: float, max_cells: int) -> float:
        """Return a lifetime that the trees have reached; others are refused."""
        if lifetime > self._lifetime:
            raise ValueError(
                f"The features end at lifetime_={self._lifetime:.6g}, before {lifetime:.6g}. Fit "
                "them with a larger lifetime."
            )
        return lifetime

    def freeze(self, lifetime: float) -> tuple[Trees, IntArray]:
        """Return the trees as they are, and the leaf of each row in each."""
        return self._trees, self._leaf


class _Run:
    """Scores collected so far."""

    def __init__(
        self,
        alphas: FloatArray,
        criterion: str,
        held_out: tuple[FloatArray, FloatArray] | None,
        solver: str,
        tol: float,
        seed: int,
        n_jobs: int | None,
    ) -> None:
        self.alphas, self.criterion, self.held_out = alphas, criterion, held_out
        self.solver, self.tol, self.seed, self.n_jobs = solver, tol, seed, n_jobs
        self.lifetimes: list[float] = []
        self.n_cells: list[int] = []
        self.scores: list[Scores] = []
        self.validation: list[FloatArray] = []
        self.solvers: list[str] = []

    def advance(
        self,
        trees: Trees,
        leaf: IntArray,
        lifetimes: FloatArray,
        Y: FloatArray,
        weight: FloatArray | None,
        fit_intercept: bool,
    ) -> None:
        fine = trees.cells(float(lifetimes[-1]))
        is_cell = np.flatnonzero(trees.left < 0)
        node = np.empty(fine.total, np.int64)
        node[fine.column[is_cell]] = is_cell
        levels = [trees.cells(float(t)) for t in lifetimes]
        groups = np.stack([cells.column[node] for cells in levels], axis=1)
        design = CellOperator(
            fine.column[leaf],
            fine.total,
            groups=groups,
            sample_weight=weight,
            centre=fit_intercept,
            n_jobs=self.n_jobs,
        )
        target, mean = centred_targets(design, Y)
        solver, by_probes = self.solver, self.criterion != "holdout"
        if solver == "auto":
            # What random vectors estimate is worth a longer computation without them.
            limit = _DENSE_COST if by_probes else lanczos_cost(design, self.alphas)
            cost = dense_cost(design.n_rows, int(design.n_cells[-1]))
            solver = "dense" if cost <= limit else "lanczos"
        if solver == "dense":
            fits = dense_scores(design, target, self.alphas)
        else:
            # the same random vectors at every lifetime
            rng = np.random.default_rng([self.seed, 1]) if by_probes else None
            fits = lanczos_scores(design, target, self.alphas, self.tol, rng)
        if self.held_out is not None:
            means = np.repeat(mean, self.alphas.size)
            models = [
                weights(design, dual.reshape(design.n_rows, -1), means, k)
                for k, (_, dual) in enumerate(fits)
            ]
            self.validation += held_out_errors(
                trees, lifetimes, models, *self.held_out, self.n_jobs
            )
        self.scores += [scores for scores, _ in fits]
        self.lifetimes += [float(t) for t in lifetimes]
        self.n_cells += [cells.total for cells in levels]
        self.solvers += [solver] * lifetimes.size

    def score(self) -> FloatArray:
        return criterion_values(
            self.criterion,
            np.array([s.loo_error for s in self.scores]),
            np.array(self.validation) if self.held_out is not None else None,
            np.array([s.evidence for s in self.scores]),
            np.array([s.evidence_paper for s in self.scores]),
        )

    def passed_its_best(self) -> bool:
        clearly = _NATS if self.criterion.startswith("evidence") else None
        return passed_its_best(self.score().min(axis=1), _PATIENCE, clearly)

    def result(
        self,
        features: MondrianFeatures,
        leaf: IntArray,
        Y: FloatArray,
        weight: FloatArray | None,
        fit_intercept: bool,
        complete: bool,
    ) -> LifetimePath:
        columns = [np.array(c) for c in zip(*self.scores, strict=True)]
        train, loo, loo_std, evidence, evidence_paper, std = columns
        return LifetimePath(
            np.array(self.lifetimes), np.array(self.n_cells), self.alphas, train, loo, loo_std,
            np.array(self.validation) if self.held_out is not None else None,
            evidence, evidence_paper, std, np.array(self.solvers), self.criterion, complete,
            features, leaf, Y, weight, fit_intercept, np.zeros(Y.shape[1]),
        )  # fmt: skip


def cell_budget(shape: tuple[int, ...], n_trees: int) -> int:
    """Cells that fit into memory: two boxes of D sides for every node."""
    n_rows, n_dims = shape
    return int(min(n_rows * n_trees, max(2 * n_trees, _MEMORY / (64 * n_dims + 200))))


def _warn_budget(lifetime: float) -> None:
    warnings.warn(
        f"The trees have as many cells as fit into memory at lifetime {lifetime:.4g}; the path "
        "ends there. Fewer trees (n_estimators) get further.",
        UserWarning,
        stacklevel=3,
    )
