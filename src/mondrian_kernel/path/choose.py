"""Choose the width and the penalty of a regression: roughly on a sample, then on all rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mondrian_kernel.partition.trees import FloatArray
from mondrian_kernel.path.checks import DEFAULT_ALPHAS
from mondrian_kernel.path.result import LifetimePath
from mondrian_kernel.path.ridge_path import lifetime_path

# Up to so many rows the whole path is solved at once. Errors as a function of the lifetime hardly
# depend on the number of trees once there are some hundreds.
_FEW_ROWS, _FEW_TREES = 1200, 600
_SAMPLE_ROWS, _SAMPLE_TREES = 1000, 200
_TREES = 400
# Up to so many rows eigendecompositions are worth their time on a short path.
_DENSE_ROWS = 2000
_WINDOW = np.geomspace(0.5, 1.6, 8)
_ROUGH_ALPHA = 1e-3
_NEAR_ALPHAS = np.logspace(-0.5, 0.5, 3)
_MOVES = 3
_HELD_OUT = 0.2


def choose_width(
    rows: FloatArray,
    Y: FloatArray,
    weight: FloatArray | None,
    seed: int,
    *,
    lifetime: float | str,
    alpha: float | str,
    n_estimators: int,
    criterion: str,
    solver: str,
    n_jobs: int | None,
    verbose: int,
) -> tuple[float, float, LifetimePath | None]:
    """Return a lifetime and an alpha, and the path they were chosen on.

    Where there are many rows a path on some of them, with few trees, tells where to look; a short
    path on all rows, with more trees, decides, moving on while its best lies at an end. Leaving
    out one row at a time is exact only where the path is; beyond, a fifth of the rows is held out.
    """
    if lifetime != "auto" and alpha != "auto":
        return float(lifetime), float(alpha), None
    rng = np.random.default_rng(seed)
    alphas = DEFAULT_ALPHAS if alpha == "auto" else np.array([float(alpha)])
    order = rng.permutation(rows.shape[0])
    if criterion == "loo" and solver != "dense" and order.size > _DENSE_ROWS:
        criterion = "holdout"
    fitted, held_out = order, None
    if criterion == "holdout":
        n_out = max(1, int(_HELD_OUT * order.size))
        fitted = order[n_out:] if order.size > 1 else order
        held_out = rows[order[:n_out]], Y[order[:n_out]]

    n_trees = min(n_estimators, _TREES)

    def path(some: Any, n_trees: int, **options: Any) -> LifetimePath:
        return lifetime_path(
            rows[some], Y[some], n_estimators=n_trees, criterion=criterion, validation=held_out,
            solver="dense" if solver == "auto" and len(some) <= _DENSE_ROWS else solver,
            tol=1e-3, random_state=seed % 2**32, n_jobs=n_jobs,
            sample_weight=None if weight is None else weight[some],
            callback=report if verbose else None, **options,
        )  # fmt: skip

    if lifetime != "auto":
        found = path(fitted, n_trees, lifetimes=[float(lifetime)], alphas=alphas)
        return float(lifetime), found.best_alpha, found
    if fitted.size <= _FEW_ROWS:
        found = path(fitted, min(n_estimators, _FEW_TREES), n_lifetimes=30, alphas=alphas)
        return found.best_lifetime, found.best_alpha, found

    some = alphas[alphas >= _ROUGH_ALPHA] if alpha == "auto" else alphas
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that its best lies at an end, say
        rough = path(
            fitted[:_SAMPLE_ROWS], min(n_estimators, _SAMPLE_TREES), n_lifetimes=30, alphas=some
        )
    centre, penalty = rough.best_lifetime, rough.best_alpha
    for _ in range(_MOVES):
        near = alphas if alpha != "auto" else penalty * _NEAR_ALPHAS
        found = path(fitted, n_trees, lifetimes=centre * _WINDOW, alphas=near)
        k, a = found.best_index
        inside = 0 < k < found.lifetimes.size - 1 and (alpha != "auto" or 0 < a < near.size - 1)
        if inside:
            break
        centre, penalty = found.best_lifetime, found.best_alpha
    return found.best_lifetime, found.best_alpha, found


def report(done: int, total: int, info: dict[str, Any]) -> None:
    """Print how far a path has come."""
    print(f"lifetime path {done}/{total}: lifetime {info['lifetime']:.4g}, best {info['best']:.4g}")
