"""The lifetime path of ridge regression on rows in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel import _settings as settings
from mondrian_kernel._path.checks import check_alphas, check_lifetimes, checked_options
from mondrian_kernel._path.driver import advance, cell_budget
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._path.ridge_path import held_out_errors
from mondrian_kernel._trees.checks import check_penalty, draw_seed
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.blocks import Blocks, Rows, numbers
from mondrian_kernel.dask.cells import CellBlocks, CellProducts, join_matrix, sum_rows, sum_totals
from mondrian_kernel.dask.cluster import add, beside, row_array
from mondrian_kernel.dask.regressor import Centred, is_dense
from mondrian_kernel.dask.shares import start_growth


@checked_options
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
) -> LifetimePath:
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
        Lifetimes to evaluate. They end where the trees no longer fit into memory.
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
    path : LifetimePath
        ``train_error``, ``validation_error`` and, with a square matrix, both log-likelihoods at
        every (lifetime, alpha). It holds scores only.

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
    fitted = _blocks(X, y, sample_weight, numeric=True)
    fitted.check_numbers()
    check_penalty(penalties[0], fitted.summary.weight)
    held_out = _blocks(*validation, None)
    if held_out.n_columns != fitted.n_columns:
        raise ValueError(
            f"X has {fitted.n_columns} columns and validation has {held_out.n_columns}."
        )
    growth = start_growth(fitted, n_estimators, draw_seed(random_state))
    budget = cell_budget((fitted.n_rows, fitted.n_columns), n_estimators)
    end = advance(growth, float(grid[-1]), budget)
    grid = np.unique(np.minimum(grid, end))
    trees, _ = growth.freeze(end)
    levels = [Levels.of(trees, np.array([lifetime])) for lifetime in grid]
    n_cells = np.array([level.n_features for level in levels])

    offset = fitted.target_mean
    dense = is_dense(solver, int(n_cells[-1]))
    keep = False if dense else keep_cells
    cells = CellBlocks(fitted, trees, levels[-1], Centred(offset), keep=keep)
    joins = [join_matrix(level, cells.node) for level in levels]
    fine = sum_rows(cells) if dense else sum_totals(cells)
    found = (
        None
        if dense
        else CellProducts(cells, fine, joins).solve(penalties, settings.BLOCK_PATH_TOL)
    )
    train, models = [], []
    likelihoods = np.full((2, grid.size, penalties.size), np.nan)
    for k, J in enumerate(joins):
        sums = fine.joined(J)
        if found is None:
            W, likelihoods[:, k] = sums.solutions(penalties)
        else:
            W = found[k]
        train.append(sums.train_error(W, penalties))
        intercept = sums.intercept(W) + offset[:, None]
        models.append((W.reshape(W.shape[0], -1), intercept.ravel()))
    errors, n = held_out.total(_validate, add, trees, grid, models)
    curves = {
        "train_error": np.array(train),
        "validation_error": errors / n,
        "log_marginal_likelihood": likelihoods[0],
        "log_marginal_likelihood_paper": likelihoods[1],
    }
    return LifetimePath(grid, n_cells, penalties, curves, "holdout")


def _blocks(X: Any, y: Any, sample_weight: Any, *, numeric: bool = False) -> Blocks:
    rows, _ = row_array(X)
    return Blocks(rows, beside(y, rows, "y"), sample_weight, numeric=numeric)


def _validate(
    rows: Rows, trees: Trees, lifetimes: FloatArray, models: list[tuple[FloatArray, FloatArray]]
) -> tuple[FloatArray, int]:
    """Add up squared errors (L, A) of new rows, and how many errors they are."""
    assert rows.Y is not None
    Y = numbers(rows.Y)
    n_alphas = models[0][1].size // Y.shape[1]
    if Y.size == 0:
        return np.zeros((lifetimes.size, n_alphas)), 0
    errors = held_out_errors(
        trees, lifetimes, models, rows.X, Y, None, at_once=settings.SLAB_NUMBERS
    )
    return np.array(errors) * Y.size, Y.size
