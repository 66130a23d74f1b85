"""The lifetime path of ridge regression on rows in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mondrian_kernel._path.best import BestOfGrid
from mondrian_kernel._path.checks import check_alphas, check_lifetimes
from mondrian_kernel._path.grid_path import cell_budget
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.blocks import Blocks, Rows, add
from mondrian_kernel.dask.cells import CellBlocks
from mondrian_kernel.dask.features import plant
from mondrian_kernel.dask.inputs import beside, row_array
from mondrian_kernel.dask.products import Levels
from mondrian_kernel.dask.ridge import is_dense
from mondrian_kernel.dask.room import slabs
from mondrian_kernel.dask.summary import summarise
from mondrian_kernel.dask.sums import sum_rows, sum_totals
from mondrian_kernel.dask.targets import Centred, numbers
from mondrian_kernel.features import MondrianFeatures, draw_seed, features_at

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


def lifetime_path(
    X: Any,
    y: Any,
    *,
    validation: tuple[Any, Any],
    lifetimes: ArrayLike,
    alphas: ArrayLike | None = None,
    n_estimators: int = 350,
    solver: str = "auto",
    keep_cells: bool | str = "auto",
    sample_weight: Any = None,
    random_state: Any = None,
) -> BlockPath:
    """Fit at all lifetimes and alphas: one set of trees, and one pass over the rows, or a few.

    The path is that of :func:`mondrian_kernel.lifetime_path` with the same arguments: where the
    cells are few, ΦᵀΦ and Φᵀy are summed over the blocks once, at the last lifetime, and coarsened
    for all others; else every step of Lanczos is a pass, for all lifetimes and alphas at once.

    Parameters
    ----------
    X : dask array or dataframe of shape (n_samples, n_features)
        Rows, used as they are: scale the columns first.
    y : dask array, series or dataframe of shape (n_samples,) or (n_samples, n_outputs)
        Targets.
    validation : tuple (X, y)
        Rows held out, collections as well; their error decides.
    lifetimes : array-like
        The lifetimes to look at. They end where the trees no longer fit into memory.
    alphas : array-like or None, default=None
        Penalties; None for those of :func:`mondrian_kernel.lifetime_path`.
    n_estimators : int, default=350
        Number of trees M.
    solver : {"auto", "dense", "lanczos"}, default="auto"
        Whether to sum up a square matrix or to multiply with it.
    keep_cells : bool or "auto", default="auto"
        Whether Lanczos keeps the cells of rows in the memory of the workers.
    sample_weight : dask array or series of shape (n_samples,) or None, default=None
        Weights.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees.

    Returns
    -------
    path : BlockPath
        Errors at every (lifetime, alpha).

    Examples
    --------
    >>> import dask.array as da
    >>> from mondrian_kernel.dask import lifetime_path
    >>> X = da.random.default_rng(0).uniform(size=(400, 2), chunks=(100, 2))
    >>> new = da.random.default_rng(1).uniform(size=(100, 2), chunks=(100, 2))
    >>> path = lifetime_path(
    ...     X, X[:, 0], validation=(new, new[:, 0]), lifetimes=[0.5, 1.0], n_estimators=20,
    ...     random_state=0,
    ... )
    >>> path.score.shape == (2, path.alphas.size)
    True
    """
    grid, penalties = check_lifetimes(lifetimes), check_alphas(alphas)
    fitted, held_out = (_blocks(*rows) for rows in ((X, y, sample_weight), (*validation, None)))
    if held_out.n_dims != fitted.n_dims:
        raise ValueError(f"X has {fitted.n_dims} columns and validation has {held_out.n_dims}.")
    seed = draw_seed(random_state)
    summary = summarise(fitted, numeric=True)
    assert summary.targets is not None
    growth = plant(fitted, summary, np.ones(fitted.n_dims), n_estimators, seed)
    budget = cell_budget((summary.n_rows, fitted.n_dims), n_estimators)
    end = growth.advance_within(float(grid[-1]), budget)
    grid = np.unique(np.minimum(grid, end))
    trees, _ = growth.freeze(end)
    features = features_at(trees, end)
    node = cell_nodes(features)
    groups = np.stack([trees.cells(float(t)).column[node] for t in grid], axis=1)
    n_cells = groups.max(axis=0).astype(np.int64) + 1

    shape = grid.size, penalties.size
    train, evidence, evidence_paper = (np.full(shape, np.nan) for _ in range(3))
    target = Centred(summary.targets.mean)
    coefs: list[FloatArray] = []
    if is_dense(solver, features.n_cells_):
        sums = sum_rows(CellBlocks(fitted, features, target, keep=False))
        phi, total, mean = sums.phi, sums.total_weight, sums.mean
        for k in range(grid.size):
            coef, *scores = sums.coarsened(groups[:, k]).scores(penalties)
            train[k], evidence[k], evidence_paper[k] = scores
            coefs.append(coef)
    else:
        blocks = CellBlocks(fitted, features, target, keep=keep_cells)
        totals = sum_totals(blocks)
        phi, total, mean = totals.phi, totals.total_weight, totals.mean
        levels = Levels(blocks, totals, groups)
        W, starts = levels.solve(penalties, _TOL), levels.starts.reshape(*groups.shape, -1)
        explained = np.einsum("clt,clta->lta", starts, W) + penalties * (W**2).sum(axis=0)
        train[:] = (totals.square[:, None] - explained).mean(axis=1) / total
        coefs = [W[: n_cells[k], k] for k in range(grid.size)]
    models = []
    for k, coef in enumerate(coefs):
        mean_phi = np.bincount(groups[:, k], phi) / total
        intercept = (target.mean + mean)[:, None] - np.einsum("c,cta->ta", mean_phi, coef)
        models.append((float(grid[k]), coef, intercept))
    errors, n = held_out.total(_validate, add, trees, models)
    return BlockPath(grid, n_cells, penalties, train, errors / n, evidence, evidence_paper)


def _blocks(X: Any, y: Any, sample_weight: Any) -> Blocks:
    rows, _ = row_array(X)
    return Blocks(rows, beside(y, rows, "y"), sample_weight)


def cell_nodes(features: MondrianFeatures) -> NDArray[np.int64]:
    """Node of each cell."""
    column = features._cells.column
    top = np.flatnonzero(features.trees_.top_nodes(column))
    node = np.empty(features.n_cells_, np.int64)
    node[column[top]] = top
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
