"""The lifetime path of ridge regression on rows in blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel.dask.blocks import Blocks, Rows, add
from mondrian_kernel.dask.cells import CellBlocks
from mondrian_kernel.dask.features import plant
from mondrian_kernel.dask.products import Levels
from mondrian_kernel.dask.ridge import is_dense
from mondrian_kernel.dask.room import slabs
from mondrian_kernel.dask.summary import summarise
from mondrian_kernel.dask.sums import sum_rows, sum_totals
from mondrian_kernel.dask.targets import Centred, numbers
from mondrian_kernel.features import MondrianFeatures, features_at
from mondrian_kernel.partition.trees import FloatArray, Trees
from mondrian_kernel.path.best import BestOfGrid
from mondrian_kernel.path.grid_path import cell_budget

_TOL = 1e-4  # of Lanczos; ranks widths as well as an exact solution


@dataclass(frozen=True, eq=False)
class BlockPath(BestOfGrid):
    """Ridge regression at every (lifetime, alpha) of a grid, on rows in blocks.

    Attributes
    ----------
    lifetimes : ndarray of shape (L,)
        Lifetimes λ, increasing.
    n_cells : ndarray of shape (L,)
        Number of cells C at each lifetime.
    alphas : ndarray of shape (A,)
        Ridge penalties δ², increasing.
    train_error, validation_error : ndarray of shape (L, A)
        Mean squared error on the rows that were fitted, and on those held out.
    log_marginal_likelihood, log_marginal_likelihood_paper : ndarray of shape (L, A)
        Log-likelihood of y, as in :class:`mondrian_kernel.LifetimePath`; NaN without a square
        matrix.
    """

    lifetimes: FloatArray
    n_cells: NDArray[np.int64]
    alphas: FloatArray
    train_error: FloatArray
    validation_error: FloatArray
    log_marginal_likelihood: FloatArray
    log_marginal_likelihood_paper: FloatArray

    @property
    def score(self) -> FloatArray:
        """What decides, lower is better: the error on the rows held out, of shape (L, A)."""
        return self.validation_error


def block_path(
    fitted: Blocks,
    held_out: Blocks,
    seed: int,
    *,
    lifetimes: FloatArray,
    alphas: FloatArray,
    n_estimators: int,
    solver: str,
    keep_cells: bool | str,
) -> BlockPath:
    """Fit at all lifetimes and alphas: one set of trees, and one pass over the rows, or a few.

    Parameters
    ----------
    fitted, held_out : Blocks
        Rows to fit and rows to score, scaled, with numeric targets.
    seed : int
        Seed of the trees.
    lifetimes, alphas : ndarray of shape (L,) and (A,)
        The grid, increasing. Lifetimes end where the trees no longer fit into memory.
    n_estimators : int
        Number of trees M.
    solver : {"auto", "dense", "lanczos"}
        Whether to sum up a square matrix or to multiply with it.
    keep_cells : bool or "auto"
        Whether Lanczos keeps the cells of rows in memory.

    Returns
    -------
    path : BlockPath
        Errors at every (lifetime, alpha).
    """
    summary = summarise(fitted, numeric=True)
    assert summary.targets is not None
    growth = plant(fitted, summary, np.ones(fitted.n_dims), n_estimators, seed)
    budget = cell_budget((summary.n_rows, fitted.n_dims), n_estimators)
    end = growth.advance_within(float(lifetimes[-1]), budget)
    lifetimes = np.unique(np.minimum(lifetimes, end))
    trees, _ = growth.freeze(end)
    features = features_at(trees, end)
    node = cell_nodes(features)
    groups = np.stack([trees.cells(float(t)).column[node] for t in lifetimes], axis=1)
    n_cells = groups.max(axis=0).astype(np.int64) + 1

    shape = lifetimes.size, alphas.size
    train, evidence, evidence_paper = (np.full(shape, np.nan) for _ in range(3))
    target = Centred(summary.targets.mean)
    coefs: list[FloatArray] = []
    if is_dense(solver, features.n_cells_):
        sums = sum_rows(CellBlocks(fitted, features, target, keep=False))
        phi, total, mean = sums.phi, sums.total_weight, sums.mean
        for k in range(lifetimes.size):
            coef, *scores = sums.coarsened(groups[:, k]).scores(alphas)
            train[k], evidence[k], evidence_paper[k] = scores
            coefs.append(coef)
    else:
        blocks = CellBlocks(fitted, features, target, keep=keep_cells)
        totals = sum_totals(blocks)
        phi, total, mean = totals.phi, totals.total_weight, totals.mean
        levels = Levels(blocks, totals, groups)
        W, starts = levels.solve(alphas, _TOL), levels.starts.reshape(*groups.shape, -1)
        explained = np.einsum("clt,clta->lta", starts, W) + alphas * (W**2).sum(axis=0)
        train[:] = (totals.square[:, None] - explained).mean(axis=1) / total
        coefs = [W[: n_cells[k], k] for k in range(lifetimes.size)]
    models = []
    for k, coef in enumerate(coefs):
        mean_phi = np.bincount(groups[:, k], phi) / total
        intercept = (target.mean + mean)[:, None] - np.einsum("c,cta->ta", mean_phi, coef)
        models.append((float(lifetimes[k]), coef, intercept))
    errors, n = held_out.total(_validate, add, trees, models)
    return BlockPath(lifetimes, n_cells, alphas, train, errors / n, evidence, evidence_paper)


def cell_nodes(features: MondrianFeatures) -> NDArray[np.int64]:
    """Node of each cell."""
    column, time = features._cells.column, features.trees_.time
    born = np.where(features.trees_.parent < 0, 0.0, time[features.trees_.parent])
    alive = np.flatnonzero((born <= features.lifetime_) & (column >= 0))
    node = np.empty(features.n_cells_, np.int64)
    node[column[alive]] = alive
    return node


def _validate(
    rows: Rows, trees: Trees, models: list[tuple[float, FloatArray, FloatArray]]
) -> tuple[FloatArray, int]:
    """Add up squared errors (L, A) of new rows, and how many errors they are."""
    n_outputs, n_alphas = models[0][2].shape
    errors = np.zeros((len(models), n_alphas))
    if rows.X.shape[0] == 0:
        return errors, 0
    assert rows.Y is not None
    Y = numbers(rows.Y)[:, :, None]
    for k, (lifetime, coef, intercept) in enumerate(models):
        features, W = features_at(trees, lifetime), coef.reshape(coef.shape[0], -1)
        for s in slabs(rows.X.shape[0], trees.n_trees):
            scores = (features.transform(rows.X[s]) @ W).reshape(-1, n_outputs, n_alphas)
            errors[k] += ((scores + intercept - Y[s]) ** 2).sum(axis=(0, 1))
    return errors, Y.size
