"""Cells of the same trees at several lifetimes: a kernel that is a mixture of widths."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mondrian_kernel import _settings as settings
from mondrian_kernel._trees.checks import check_budget, check_vectors, naming, require
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel._trees.threads import Tell, no_one
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Levels:
    r"""Cells of M trees at L lifetimes, and a weight for each lifetime.

    .. math::
        k_M(x, x') = \sum_l w_l \frac1M \sum_m 1[c_{lm}(x) = c_{lm}(x')], \qquad
        \mathrm{E}\, k_M(x, x') = \sum_l w_l \exp(-\lambda_l \lVert x - x' \rVert_1)

    ``lifetimes`` (L,) increase, ``weights`` (L,) are positive. ``column`` (L, n_nodes) is the cell
    that a node is or lies in at each lifetime, numbered within the level, and -1 for a node that
    has been cut by then. ``per_tree`` (L, M) counts the cells of each tree.
    """

    lifetimes: FloatArray
    weights: FloatArray
    column: IntArray
    per_tree: NDArray[np.int64]

    @classmethod
    def of(cls, trees: Trees, lifetimes: FloatArray, weights: FloatArray | None = None) -> Levels:
        """Return the cells of trees at increasing lifetimes; equal weights by default."""
        found = [trees.cells(float(lifetime)) for lifetime in lifetimes]
        if weights is None:
            weights = np.full(len(found), 1.0 / len(found))
        return cls(
            np.array(lifetimes, dtype=np.float64),
            np.array(weights, dtype=np.float64),
            np.stack([cells.column for cells in found]),
            np.stack([cells.per_tree for cells in found]),
        )

    @property
    def n_levels(self) -> int:
        """Number of lifetimes, L."""
        return int(self.lifetimes.size)

    @property
    def n_trees(self) -> int:
        """Number of trees, M."""
        return int(self.per_tree.shape[1])

    @cached_property
    def offset(self) -> NDArray[np.int64]:
        """First feature of each level, and last the number of all features, (L + 1,)."""
        if self.n_levels == 1:  # a record of a stream is made for every row
            return np.array([0, self.per_tree.sum()])
        return np.concatenate([[0], np.cumsum(self.per_tree.sum(axis=1))])

    @property
    def n_features(self) -> int:
        """Number of cells of all trees at all lifetimes."""
        return int(self.offset[-1])

    @cached_property
    def cells(self) -> IntArray:
        """Cells of each node, numbered through all levels and side by side, (n_nodes, L)."""
        cells = np.empty(self.column.shape[::-1], np.int32)
        for level, offset in enumerate(self.offset[:-1]):
            np.add(self.column[level], np.int32(offset), out=cells[:, level])
        return cells

    @property
    def values(self) -> FloatArray:
        """Feature of a fitted row in its cells, √(w_l / M), (L,)."""
        values: FloatArray = np.sqrt(self.weights / self.n_trees)
        return values

    def features(self, node: IntArray, log_stay: FloatArray | None) -> sparse.csr_matrix:
        """Sparse features Φ of rows, level after level.

        ``node`` (N, M) is the node of each row in each tree at the last lifetime, or below it.
        ``log_stay`` (N, M, L) is the log-probability that the row lies in its cell, 0 where None.
        """
        (n_rows, n_trees), n_levels = node.shape, self.n_levels
        _check_number(n_rows, n_levels * n_trees)
        column = np.empty((n_rows, n_levels, n_trees), np.int32)
        data = np.empty((n_rows, n_levels, n_trees))
        for level, value in enumerate(self.values):
            column[:, level] = self.column[level][node]
            column[:, level] += np.int32(self.offset[level])
            data[:, level] = value
            if log_stay is not None:
                # Of a view, numpy 1.26 rounds exponentials by where it lies in memory.
                data[:, level] *= np.exp(np.ascontiguousarray(log_stay[:, :, level]))
        return sparse_rows(column.reshape(n_rows, -1), data.reshape(n_rows, -1), self.n_features)

    def log_shares(self, trees: Trees, rows: FloatArray, n_jobs: int | None) -> FloatArray:
        """Mean logarithm of the share of all rows in the cells of each row, (n,)."""
        log_rows = np.zeros(rows.shape[0])
        for lifetime, weight in zip(self.lifetimes, self.weights, strict=True):
            node, log_stay = trees.walk(rows, float(lifetime), n_jobs)
            # Cells that a stream cut without their rows may have a count of 0.
            log_count = np.log(np.maximum(trees.count[node], 1))
            log_rows += weight * (log_stay + log_count).mean(axis=1)
        scores: FloatArray = log_rows / self.weights.sum() - np.log(trees.count[trees.root[0]])
        return scores

    def check(self, trees: Trees) -> None:
        """Raise ValueError unless these can be the cells of ``trees``."""
        n_levels, (n_nodes, n_trees) = self.n_levels, (trees.time.size, trees.n_trees)
        shapes = (self.lifetimes.shape, self.weights.shape, self.column.shape, self.per_tree.shape)
        wanted = ((n_levels,), (n_levels,), (n_levels, n_nodes), (n_levels, n_trees))
        require(shapes == wanted, f"arrays of the shapes {shapes}")
        lifetimes = self.lifetimes
        check_level_lifetimes(lifetimes, self.weights, trees.lifetime)
        roots = trees.root[trees.root >= 0]
        for lifetime, column, per_tree in zip(lifetimes, self.column, self.per_tree, strict=True):
            cut = (trees.time <= lifetime) & np.isfinite(trees.time)
            agree = (column >= -1).all() and ((column < 0) == cut).all()
            require(agree, "cells and cuts that disagree")
            inside = np.flatnonzero((column >= 0) & (trees.parent >= 0))
            parent = column[trees.parent[inside]]
            nested = (parent < 0) | (parent == column[inside])
            require(nested.all(), "a node in another cell than its parent")
            top = np.concatenate([roots[column[roots] >= 0], inside[parent < 0]])
            numbered = np.array_equal(np.sort(column[top]), np.arange(top.size))
            require(numbered, "cells that are not numbered one by one")
            counts = np.bincount(trees.tree[top], minlength=n_trees)
            require(np.array_equal(counts, per_tree), "a wrong number of cells of a tree")


def check_level_lifetimes(lifetimes: FloatArray, weights: FloatArray, end: float) -> None:
    """Raise ValueError unless these can be lifetimes and weights of levels of trees up to ``end``.

    Both have the shape (L,).
    """
    require(lifetimes.size and (np.diff(lifetimes) > 0).all(), "lifetimes that do not increase")
    in_time = 0 <= lifetimes[0] <= lifetimes[-1] <= end
    require(in_time, "a lifetime that is negative or beyond that of the trees")
    require((np.isfinite(weights) & (weights > 0)).all(), "weights that are not positive")


def check_lifetimes(lifetime: Any, weights: Any) -> tuple[FloatArray, FloatArray]:
    """Return increasing lifetimes and their weights of sum 1.

    ``lifetime`` is a number, several, or a frozen scipy distribution, of which quantiles are taken.
    """
    if hasattr(lifetime, "ppf"):
        if weights is not None:
            raise ValueError("A distribution of lifetimes has its own weights: pass weights=None.")
        lifetime = lifetime.ppf(
            (np.arange(settings.DISTRIBUTION_LEVELS) + 0.5) / settings.DISTRIBUTION_LEVELS
        )
    with naming("lifetime"):
        lifetimes = np.atleast_1d(np.asarray(lifetime, dtype=np.float64))
    if lifetimes.ndim != 1 or lifetimes.size == 0 or not (lifetimes >= 0).all():
        raise ValueError(f"lifetime must be one or more numbers, not negative, got {lifetime!r}.")
    if not (np.diff(lifetimes) > 0).all():
        raise ValueError(f"Several lifetimes must increase, got {lifetime!r}.")
    if weights is None:
        return lifetimes, np.full(lifetimes.size, 1.0 / lifetimes.size)
    with naming("weights"):
        w = np.asarray(weights, dtype=np.float64)
    if w.shape != lifetimes.shape or not (np.isfinite(w) & (w > 0)).all():
        raise ValueError(
            f"weights must be {lifetimes.size} positive numbers, one for each lifetime, got "
            f"{weights!r}."
        )
    return lifetimes, w / w.sum()


def grow_trees(
    rows: FloatArray,
    lifetime: float,
    n_trees: int,
    seed: int,
    max_cells: int | None,
    n_jobs: int | None,
    tell: Tell = no_one,
) -> tuple[Trees, IntArray]:
    """Grow trees to a lifetime, or to the bound on cells; return them and the leaf of each row."""
    check_budget(max_cells, n_trees)
    return run_growth(Growth(rows, n_trees, seed, n_jobs), lifetime, max_cells, tell)


def run_growth(
    growth: Growth, lifetime: float, max_cells: int | None, tell: Tell = no_one
) -> tuple[Trees, IntArray]:
    """Let trees grow to a lifetime, or to the bound on cells; return them and the leaves."""
    if max_cells is None:
        return growth.finish(lifetime, tell)
    end = growth.advance_within(lifetime, max_cells)
    if end < lifetime:
        warnings.warn(
            f"max_cells={max_cells} was reached before lifetime={lifetime}: the trees stop at "
            f"lifetime_={end:.6g} and their kernel is that much wider. Raise max_cells, or lower "
            "lifetime or n_estimators.",
            UserWarning,
            stacklevel=6,
        )
    return growth.freeze(end)


def reached_levels(trees: Trees, lifetimes: FloatArray, weights: FloatArray) -> Levels:
    """Return the levels of lifetimes; those that the trees did not reach are put at their end."""
    reached, place = np.unique(np.minimum(lifetimes, trees.lifetime), return_inverse=True)
    joined: FloatArray = np.bincount(place, weights).astype(np.float64)
    return Levels.of(trees, reached, joined)


def continue_trees(trees: Trees, levels: Levels, seed: int) -> OnlineTrees:
    """Return online trees that continue ``trees``, with a rung for each level and for their end."""
    rungs, column, per_tree = levels.lifetimes, levels.column, levels.per_tree
    if rungs[-1] < trees.lifetime:
        cells, rungs = trees.cells(trees.lifetime), np.append(rungs, trees.lifetime)
        column, per_tree = np.vstack([column, cells.column]), np.vstack([per_tree, cells.per_tree])
    return OnlineTrees.from_trees(trees, seed, rungs, column, per_tree=per_tree)


def check_online(online: OnlineTrees) -> None:
    """Raise ValueError unless cells and clocks are those of the trees, which check themselves."""
    trees, stop = online.freeze(), online.stop
    online_levels(online, slice(None)).check(trees)
    check_vectors(stop=stop)
    clock = stop[trees.left < 0]
    in_time = (clock >= 0) & (clock <= online.lifetime)
    require(in_time.all(), "The clock of a leaf is out of range.")


def online_levels(online: OnlineTrees, rungs: slice, weights: FloatArray | None = None) -> Levels:
    """Return the present cells of online trees at some of their rungs, equally weighted by default.

    The arrays are views: they stay valid until the next rows come.
    """
    lifetimes = online.rungs[rungs]
    if weights is None:
        weights = np.full(lifetimes.size, 1.0 / lifetimes.size)
    return Levels(lifetimes, weights, online.column[rungs], online.n_cells_per_tree[rungs])


def _check_number(n_rows: int, n_each: int) -> None:
    if n_rows * n_each > np.iinfo(np.int32).max:
        raise ValueError(
            f"{n_rows} rows with {n_each} cells each are more non-zeros than int32 indices can "
            "count. Transform in batches of rows."
        )


def sparse_rows(column: IntArray, data: FloatArray, n_features: int) -> sparse.csr_matrix:
    """Return the matrix with the values ``data`` (N, m) in the columns ``column`` (N, m)."""
    _check_number(*column.shape)
    indptr = np.arange(0, column.size + 1, column.shape[1], dtype=np.int32)
    shape = column.shape[0], n_features
    Phi = sparse.csr_matrix((data.ravel(), column.ravel(), indptr), shape=shape)
    if not Phi.data.all():
        Phi.eliminate_zeros()
    return Phi


def cell_features(column: IntArray, log_stay: FloatArray | None, n_cells: int) -> sparse.csr_matrix:
    """Φ from the cells of rows (N, M) and the logarithms of √M times their values, 0 where None."""
    value = column.shape[1] ** -0.5
    stay = np.full(column.shape, value) if log_stay is None else value * np.exp(log_stay)
    return sparse_rows(column, stay, n_cells)


def features_through(
    trees: Trees, X: FloatArray, lifetimes: FloatArray, n_jobs: int | None = None
) -> Iterator[sparse.csr_matrix]:
    """Yield Φ of valid rows at each of ascending lifetimes, from one walk down the trees."""
    node, log_stay = trees.walk_through(X, lifetimes, n_jobs)
    for k, lifetime in enumerate(lifetimes):
        cells = trees.cells(float(lifetime))
        column, stay = cells.column[node], np.ascontiguousarray(log_stay[:, :, k])
        yield cell_features(column, stay, cells.total)
