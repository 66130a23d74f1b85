"""Choose the width and the penalty of a regression: roughly on a sample, then on all rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel._path.checks import ALPHAS, join_copies
from mondrian_kernel._path.grid_path import cell_budget, grid_path
from mondrian_kernel._path.progress import Verbose, listener
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._path.tree_number import cells_of_trees
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._typing import FloatArray

# A path on a sample of rows, with few trees, tells where to look.
_SAMPLE_ROWS, _SAMPLE_TREES, _SAMPLE_LIFETIMES = 800, 200, 20
# A window about that place decides: by leaving out each row, exactly, up to so many rows; beyond,
# on rows held out, of at most so many. The best lifetime and alpha hardly depend on the number of
# trees once there are some hundreds; the fewer, the more cells they have.
_EXACT_ROWS, _EXACT_TREES = 2000, 1500
_ROWS, _TREES, _FEWER_TREES, _CELLS = 10_000, 400, 200, 200_000
_WINDOW = np.geomspace(0.5, 2.0, 8)
# There a lifetime takes an eigendecomposition, and all penalties come with it.
_EXACT_WINDOW = np.geomspace(0.5, 2.0, 7)
# As wide as the posterior of a width may be.
_WIDE = np.geomspace(0.3, 3.0, 16)
_NEAR_ALPHAS = np.logspace(-0.5, 1.5, 5)  # of one Krylov space the larger ones come for nothing
_MOVES = 5
_HELD_OUT = 0.2
# Of the penalties that do about as well on the sample the largest is the fastest to solve with.
_SLACK = 0.01
# Of lifetimes that do about as well the smallest is taken: the fewer the trees, the narrower the
# kernel that their noise makes look best.
_ABOUT = 0.005
# What a move must gain for another one.
_WORTH = 0.002
_TOL = 2e-3


def choose_width(
    rows: FloatArray,
    Y: FloatArray,
    weight: FloatArray | None,
    seed: int,
    *,
    lifetime: float | str,
    alpha: float | str,
    n_estimators: int | str,
    criterion: str,
    solver: str,
    n_jobs: int | None,
    verbose: Verbose,
) -> tuple[float, float, LifetimePath | None]:
    """Return a lifetime and an alpha, and the path they were chosen on.

    A path on some of the rows, with few trees, tells where to look; a short path on all of at most
    10 000 rows, with more trees, decides, moving on while its best lies at an end. Leaving out one
    row at a time is exact only where the path is; beyond, a fifth of the rows is held out, whether
    or not copies of them remain.
    """
    if lifetime != "auto" and alpha != "auto":
        return float(lifetime), float(alpha), None
    some = looked_at(rows.shape[0], seed)
    rows, Y, weight = rows[some], Y[some], None if weight is None else weight[some]
    joined = join_copies(rows, Y, weight)
    exact = joined[0].shape[0] <= _EXACT_ROWS
    if criterion == "loo" and solver != "dense" and not exact:
        criterion = "holdout"
    if criterion != "holdout":  # a row is left out with its copies
        rows, Y, weight = joined
    order = np.random.default_rng(seed).permutation(rows.shape[0])
    fitted, held_out = order, None
    if criterion == "holdout":
        n_out = max(1, int(_HELD_OUT * order.size))
        fitted = order[n_out:] if order.size > 1 else order
        held_out = rows[order[:n_out]], Y[order[:n_out]]

    def path(some: Any, n_trees: int, alphas: FloatArray, **where: Any) -> LifetimePath:
        X, targets, weights = join_copies(
            rows[some], Y[some], None if weight is None else weight[some]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is good enough to choose by
            return grid_path(
                Growth(X, n_trees, seed, n_jobs), targets, weights,
                budget=cell_budget(X.shape, n_trees),
                alphas=alphas, criterion=criterion, held_out=held_out, tol=_TOL, seed=seed,
                solver="dense" if solver == "auto" and criterion != "holdout" and exact else solver,
                n_jobs=n_jobs, callback=listener(verbose), **where,
            )  # fmt: skip

    # In their own order the rows give the very trees of the model.
    all_rows = np.sort(fitted)
    most = _EXACT_TREES if exact else _TREES
    n_trees = most if isinstance(n_estimators, str) else min(n_estimators, most)
    alphas = ALPHAS if alpha == "auto" else np.array([float(alpha)])
    if lifetime != "auto":
        found = path(all_rows, n_trees, alphas, lifetimes=np.array([float(lifetime)]))
        return float(lifetime), found.best_alpha, found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that its best lies at an end, say
        few = min(n_trees, _SAMPLE_TREES)
        found = path(fitted[:_SAMPLE_ROWS], few, alphas, n_lifetimes=_SAMPLE_LIFETIMES)
    window = _WIDE if criterion.startswith("evidence") else _EXACT_WINDOW if exact else _WINDOW
    if not exact:
        cells = cells_of_trees(rows[all_rows], found.best_lifetime * window[-1], seed, 10) / 10
        n_trees = min(n_trees, max(_FEWER_TREES, int(_CELLS / cells)))
    found = _settle(
        found, lambda lifetimes, near: path(all_rows, n_trees, near, lifetimes=lifetimes),
        alphas if exact or alpha != "auto" else None, window,
    )  # fmt: skip
    if not criterion.startswith("evidence"):
        found = replace(found, slack=_ABOUT)
    return found.best_lifetime, found.best_alpha, found


def looked_at(n_rows: int, seed: int) -> NDArray[np.intp]:
    """Return the rows, in order, that a choice is made on: all, or so many at random.

    In the model lifetime and alpha are those of the kernel and the noise, whatever the number of
    rows.
    """
    if n_rows <= _ROWS:
        return np.arange(n_rows)
    some: NDArray[np.intp] = np.random.default_rng(seed).permutation(n_rows)[:_ROWS]
    return np.sort(some)


def _settle(
    rough: LifetimePath,
    look: Callable[[FloatArray, FloatArray], LifetimePath],
    alphas: FloatArray | None,
    window: FloatArray,
) -> LifetimePath:
    """Look about the best of a rough path, and move on while the best lies at an end and that pays.

    ``look`` returns the path at given lifetimes and alphas; ``alphas`` fixes the latter, which else
    are those near the best so far.
    """
    k, a = rough.best_index
    good = rough.score[k] <= rough.score[k, a] + _SLACK * abs(rough.score[k, a])
    centre, penalty, least = rough.lifetimes[k], rough.alphas[good][-1], np.inf
    for _ in range(_MOVES):
        near = penalty * _NEAR_ALPHAS if alphas is None else alphas
        found = look((centre or 1.0) * window, near)
        k, a = found.best_index
        inside = 0 < k < found.lifetimes.size - 1 and (alphas is not None or 0 < a < near.size - 1)
        if inside or found.score[k, a] > least - _WORTH * abs(least):
            break
        centre, penalty, least = found.lifetimes[k], found.alphas[a], found.score[k, a]
    return found
