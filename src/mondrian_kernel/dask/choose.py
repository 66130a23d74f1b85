"""Choose the width and the penalty of a regression on rows in blocks."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.path import BlockPath, block_path
from mondrian_kernel.dask.summary import Summary
from mondrian_kernel.dask.targets import numbers
from mondrian_kernel.partition.growth import Growth
from mondrian_kernel.partition.trees import FloatArray
from mondrian_kernel.path import choose as one_place
from mondrian_kernel.path.checks import DEFAULT_ALPHAS
from mondrian_kernel.path.grid_path import cell_budget, grid_path
from mondrian_kernel.path.result import LifetimePath

# Up to so many rows the choice is made in one place.
GATHERED_ROWS = 10_000
# Beyond, so many of the rows held out go with the sample that tells where to look.
_HELD_OUT_ROWS = 20_000


def choose_block_width(
    blocks: Blocks,
    summary: Summary,
    seed: int,
    *,
    lifetime: float | str,
    alpha: float | str,
    n_estimators: int,
    solver: str,
    keep_cells: bool | str,
) -> tuple[float, float, LifetimePath | BlockPath | None]:
    """Return a lifetime and an alpha, and the path they were chosen on.

    The procedure is that of :func:`mondrian_kernel.path.choose.choose_width`. Few rows are fetched
    for it. Of many, only the sample that tells where to look is; the short paths that decide, by
    the error on a fifth of the rows held out, go through the blocks. Which rows are which depends
    on the seed and on their numbers, not on the blocks.
    """
    if lifetime != "auto" and alpha != "auto":
        return float(lifetime), float(alpha), None
    n = summary.n_rows
    if n <= GATHERED_ROWS:
        rows, Y, weight = _fetch(blocks, summary, np.arange(n))
        return one_place.choose_width(
            rows, Y, weight, seed,
            lifetime=lifetime, alpha=alpha, n_estimators=n_estimators, criterion="loo",
            solver=solver, n_jobs=None, verbose=0,
        )  # fmt: skip
    order = np.random.default_rng(seed).permutation(n)
    held_out, fitted = np.split(order, [int(one_place.HELD_OUT * n)])
    is_out = np.zeros(n, np.bool_)
    is_out[held_out] = True
    masks = np.split(is_out, np.cumsum(summary.lengths)[:-1])
    rows_in, rows_out = blocks.some([~mask for mask in masks]), blocks.some(masks)

    def path(lifetimes: FloatArray, alphas: FloatArray) -> BlockPath:
        return block_path(
            rows_in, rows_out, seed, lifetimes=lifetimes, alphas=alphas,
            n_estimators=min(n_estimators, one_place.TREES), solver=solver, keep_cells=keep_cells,
        )  # fmt: skip

    alphas = DEFAULT_ALPHAS if alpha == "auto" else np.array([float(alpha)])
    if lifetime != "auto":
        decided = path(np.array([float(lifetime)]), alphas)
        return float(lifetime), decided.best_alpha, decided
    few = min(n_estimators, one_place.SAMPLE_TREES)
    found = _rough_path(blocks, summary, fitted, held_out, alphas, few, seed)
    decided = one_place.settle(found, path, None if alpha == "auto" else alphas)
    return decided.best_lifetime, decided.best_alpha, decided


def _rough_path(
    blocks: Blocks,
    summary: Summary,
    fitted: NDArray[np.integer],
    held_out: NDArray[np.integer],
    alphas: FloatArray,
    n_trees: int,
    seed: int,
) -> LifetimePath:
    """Path of a sample, in one place."""
    rows, Y, weight = _fetch(blocks, summary, fitted[: one_place.SAMPLE_ROWS])
    validation = _fetch(blocks, summary, held_out[:_HELD_OUT_ROWS])[:2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that its best lies at an end, say
        return grid_path(
            Growth(rows, n_trees, seed), Y, weight, budget=cell_budget(rows.shape, n_trees),
            alphas=alphas, criterion="holdout", held_out=validation, tol=one_place.TOL, seed=seed,
            n_lifetimes=one_place.SAMPLE_LIFETIMES, solver="dense", n_jobs=None, callback=None,
        )  # fmt: skip


def _fetch(
    blocks: Blocks, summary: Summary, some: NDArray[np.integer]
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Rows, targets (n, T) and weights, None where all are 1."""
    X, y, weight = blocks.take(some, summary.lengths)
    assert y is not None
    return X, numbers(y), None if (weight == 1.0).all() else weight
