"""Choose the width and the penalty of a model, and its number of trees."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel import _settings as settings
from mondrian_kernel._path.checks import default_alphas, join_copies, join_equal
from mondrian_kernel._path.driver import Verbose, cell_budget, listener
from mondrian_kernel._path.loss_path import loss_path
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._path.ridge_path import RidgeLearner, forest_path, ridge_path
from mondrian_kernel._trees.checks import check_budget
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._typing import FloatArray

Choice = tuple[float, float, LifetimePath | None]


class Wanted(NamedTuple):
    """What an estimator was asked for; any text as lifetime or alpha asks for a choice."""

    lifetime: float | str
    alpha: float | str
    n_estimators: int | str
    n_jobs: int | None
    verbose: Verbose

    def n_trees(self, most: int) -> int:
        """Return the number of trees of a path, at most ``most``."""
        return most if isinstance(self.n_estimators, str) else min(self.n_estimators, most)

    def how(self, most: int) -> dict[str, Any]:
        """Return options of a path of at most so many trees."""
        told = listener(self.verbose)
        return {"n_estimators": self.n_trees(most), "n_jobs": self.n_jobs, "callback": told}


def choose(wanted: Wanted, evaluate: Callable[..., LifetimePath]) -> Choice:
    """Return a lifetime and an alpha, and the path they were chosen on.

    ``evaluate`` returns the path at given ``lifetimes`` and ``alphas``, where None leaves them to
    it. It is not called where both are numbers.
    """
    lifetime, alpha, *_ = wanted
    lifetimes = None if isinstance(lifetime, str) else np.array([float(lifetime)])
    alphas = None if isinstance(alpha, str) else np.array([float(alpha)])
    if lifetimes is not None and alphas is not None:
        return float(lifetime), float(alpha), None
    path = evaluate(lifetimes=lifetimes, alphas=alphas)
    return path.best_lifetime if lifetimes is None else float(lifetime), path.best_alpha, path


def choose_width(
    rows: FloatArray,
    Y: FloatArray,
    weight: FloatArray | None,
    seed: int,
    wanted: Wanted,
    criterion: str,
    solver: str,
) -> Choice:
    """Choose for ridge regression.

    A path on a few rows and trees finds the region. A window of lifetimes there decides, on at most
    10 000 rows; it moves while its best lies at an end. Leave-one-out errors decide only where they
    are exact. With more rows a fifth of them is held out, whether or not copies of these are
    fitted.
    """

    def evaluate(lifetimes: FloatArray | None, alphas: FloatArray | None) -> LifetimePath:
        some = sample_rows(rows.shape[0], seed)
        data = rows[some], Y[some], None if weight is None else weight[some]
        return _ridge_choice(data, seed, wanted, criterion, solver, lifetimes, alphas)

    return choose(wanted, evaluate)


def _ridge_choice(
    data: tuple[FloatArray, FloatArray, FloatArray | None],
    seed: int,
    wanted: Wanted,
    criterion: str,
    solver: str,
    lifetimes: FloatArray | None,
    alphas: FloatArray | None,
) -> LifetimePath:
    """Return the path that decides, at the given lifetimes and alphas where there are any."""
    joined = join_copies(*data)
    exact = joined[0].shape[0] <= settings.EXACT_ROWS
    if criterion == "loo" and solver != "dense" and not exact:
        criterion = "holdout"
    if criterion != "holdout":  # a row is left out with its copies
        data = joined
        solver = "dense" if solver == "auto" and exact else solver
    rows, Y, weight = data
    order, held_out = np.random.default_rng(seed).permutation(rows.shape[0]), None
    if criterion == "holdout":
        n_out = max(1, int(settings.HELD_OUT_SHARE * order.size))
        held_out = rows[order[:n_out]], Y[order[:n_out]]
        order = order[n_out:] if order.size > 1 else order

    def path(
        some: NDArray[np.intp],
        n_trees: int,
        alphas: FloatArray,
        lifetimes: FloatArray | None = None,
    ) -> LifetimePath:
        X, targets, s = join_copies(rows[some], Y[some], None if weight is None else weight[some])
        how = criterion, held_out, solver, settings.CHOICE_TOL, seed, wanted.n_jobs
        with warnings.catch_warnings():
            # Of the first path also that its best lies at an end. Solutions are good enough.
            warnings.simplefilter(
                "ignore", UserWarning if lifetimes is None else ConvergenceWarning
            )
            return ridge_path(
                Growth(X, n_trees, seed, wanted.n_jobs),
                RidgeLearner(targets, s, alphas, *how),
                cell_budget(X.shape, n_trees),
                n_lifetimes=settings.SAMPLE_LIFETIMES,
                lifetimes=lifetimes,
                callback=listener(wanted.verbose),
            )

    n_trees = wanted.n_trees(settings.EXACT_TREES if exact else settings.CHOICE_TREES)
    grid = default_alphas() if alphas is None else alphas
    fitted = np.sort(order)  # so that the trees are those of the model
    if lifetimes is not None:
        return path(fitted, n_trees, grid, lifetimes)
    evidence = criterion.startswith("evidence")
    window = np.geomspace(*(settings.EVIDENCE_WINDOW if evidence else settings.WINDOW))
    rough = path(order[: settings.SAMPLE_ROWS], min(n_trees, settings.SAMPLE_TREES), grid)
    if not exact and alphas is None:  # small penalties take most of the steps of Lanczos
        scores = rough.score[rough.best_index[0]]
        good = np.flatnonzero(scores <= scores.min() + settings.ALPHA_SLACK * abs(scores.min()))
        grid = grid[max(0, good[-1] - 1) :]
    centre, least = rough.best_lifetime or 1.0, np.inf
    for _ in range(settings.WINDOW_MOVES):
        found = path(fitted, n_trees, grid, centre * window)
        k, score = found.best_index[0], found.score[found.best_index]
        if 0 < k < window.size - 1 or score > least - settings.MOVE_WORTH * abs(least):
            break
        centre, least = found.lifetimes[k], score
    return found if evidence else replace(found, slack=settings.LIFETIME_SLACK)


def sample_rows(n_rows: int, seed: int) -> NDArray[np.intp]:
    """Return the rows, in order, that a choice is made on: all, or 10 000 at random.

    The best lifetime and alpha depend on kernel and noise, not on the number of rows.
    """
    if n_rows <= settings.CHOICE_ROWS:
        return np.arange(n_rows)
    some: NDArray[np.intp] = np.random.default_rng(seed).permutation(n_rows)[: settings.CHOICE_ROWS]
    return np.sort(some)


def choose_loss_width(
    rows: FloatArray,
    labels: NDArray[np.integer],
    n_classes: int,
    loss: str,
    sample_weight: FloatArray | None,
    seed: int,
    wanted: Wanted,
) -> Choice:
    """Choose for a classifier, on some rows and trees."""
    most = np.clip(settings.LOSS_SAMPLE_TARGETS // n_classes, *settings.LOSS_SAMPLE_ROWS)
    how: dict[str, Any] = {"max_rows": int(most), "sample_weight": sample_weight, "seed": seed}
    how |= wanted.how(settings.LOSS_SAMPLE_TREES)
    return choose(wanted, partial(loss_path, rows, labels, n_classes, loss, **how))


def choose_forest_width(
    rows: FloatArray,
    Y: FloatArray,
    sample_weight: FloatArray | None,
    seed: int,
    wanted: Wanted,
    fit_intercept: bool,
) -> Choice:
    """Choose for a forest, on some rows and trees."""

    def evaluate(**grid: Any) -> LifetimePath:
        first, weight = join_equal(rows, Y, sample_weight)
        some = np.random.default_rng(seed).permutation(first.size)[: settings.FOREST_SAMPLE_ROWS]
        how = grid | wanted.how(settings.FOREST_SAMPLE_TREES)
        how |= {"sample_weight": weight[some], "fit_intercept": fit_intercept, "seed": seed}
        return forest_path(rows[first[some]], Y[first[some]], **how)

    return choose(wanted, evaluate)


def enough_trees(
    n_estimators: int | str,
    shape: tuple[int, ...],
    max_cells: int | None,
    cells_of_a_few: Callable[[int], int],
    n_classes: int = 0,
) -> int:
    """Return the number of trees asked for, or as many as are worth it and fit in memory.

    ``shape`` is that of the rows; ``cells_of_a_few`` tells how many cells so many trees have;
    ``n_classes`` is 0 where numbers are predicted.
    """
    if isinstance(n_estimators, str):
        n_rows, n_dims = shape
        most, pairs = settings.TREES_MOST, settings.PAIRS_MOST / n_rows
        if n_classes:
            most = settings.TREES_MOST_OF_CLASSES
            pairs = settings.PAIRS_MOST_OF_CLASSES / (n_rows * (n_classes if n_classes > 2 else 1))
        cells = cells_of_a_few(settings.PILOT_TREES) / settings.PILOT_TREES
        bounds = [pairs, settings.MODEL_BYTES / (2 * cells * (16 * n_dims + 44))]
        if max_cells is not None:
            bounds.append(max_cells / cells)
        n_estimators = int(np.clip(min(bounds), settings.TREES_LEAST, most))
    check_budget(max_cells, n_estimators)
    return n_estimators


def cells_of_trees(
    rows: FloatArray, lifetime: float, seed: int, n_trees: int = settings.PILOT_TREES
) -> int:
    """Return the number of cells of a few trees at a lifetime."""
    growth = Growth(rows, n_trees, seed, 1)
    growth.advance_within(lifetime, n_trees * rows.shape[0])
    return growth.n_cells
