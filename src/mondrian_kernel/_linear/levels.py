"""The operator of a kernel that is a weighted sum over several lifetimes of the same trees."""

from __future__ import annotations

from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.operator import Operator, gather_cells, panels, scatter_cells
from mondrian_kernel._linear.runs import add_in_shares
from mondrian_kernel._trees.levels import Levels, sparse_rows
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray, RowArray


class LevelOperator(Operator):
    r"""Products with the features Φ of fitted rows at several lifetimes.

    Row i has the value :math:`\sqrt{s_i w_l / M}` in its cell of each tree at level l, with s its
    sample weight and w the weight of the level. With ``centre`` all products with K are those of
    :math:`H \Phi \Phi^\top H`, :math:`H = I - u u^\top`, :math:`u \propto \sqrt{s}`: ridge
    regression with an intercept that is not penalised.

    Parameters
    ----------
    trees : Trees
        The trees.
    leaf : ndarray of shape (N, M), int32
        Leaf of each row in each tree.
    levels : Levels
        Lifetimes and weights; cells are numbered from left to right, as by :meth:`Levels.of`.
    sample_weight : ndarray of shape (N,)
        Positive weights s.
    rows : ndarray of shape (N, D) or None
        The rows that the trees were grown on, for :meth:`kernel_columns` alone.
    centre : bool
        Whether there is an intercept.
    n_jobs : int or None
        Threads; no result depends on it.
    """

    def __init__(
        self,
        trees: Trees,
        leaf: IntArray,
        levels: Levels,
        sample_weight: FloatArray,
        rows: RowArray | None = None,
        *,
        centre: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.sample_weight, self.centre, self.n_jobs = sample_weight, centre, n_jobs
        self._points, self._levels, self._level_weights = rows, levels, levels.weights
        finest, per_tree = levels.column[-1], levels.per_tree[-1]
        self._group = cells_above(trees, levels)
        if not is_in_order(self._group):
            raise ValueError("The cells of a level are not numbered from left to right.")
        n_each, zero = levels.per_tree, np.zeros((1, levels.n_trees), np.int64)
        firsts = np.cumsum(n_each, axis=1) - n_each
        self._first = np.append(firsts[-1], n_each[-1].sum())
        self._start = np.concatenate([zero, np.cumsum(n_each, axis=0)])
        self._number = levels.offset[:-1, None] + firsts - self._start[:-1]
        # One finest cell of each cell of a level leads to the cell of the level before.
        above = [np.repeat(self._start[-1], n_each[0])]
        for level, (before, own) in enumerate(pairwise(self._group)):
            place = np.repeat(self._start[level] - firsts[level], n_each[level + 1])
            above.append(place + before[np.flatnonzero(np.diff(own, prepend=-1))])
        self._above = np.concatenate(above).astype(np.int32)
        small = per_tree.max() <= np.iinfo(np.uint16).max
        self._cells: NDArray[Any] = np.empty(
            (trees.n_trees, leaf.shape[0]), np.uint16 if small else np.int32
        )
        for own, leaves, first in zip(self._cells, leaf.T, self._first[:-1], strict=True):
            own[:] = finest[leaves] - first

    @property
    def n_cells(self) -> NDArray[np.int64]:
        """Number of cells of all lifetimes together, (1,): they make one kernel."""
        return np.array([self._levels.n_features])

    def features(self, some: NDArray[np.intp]) -> sparse.csr_matrix:
        """Φ of some rows, all lifetimes of a tree side by side, without sample weights."""
        values = np.repeat(np.sqrt(self._level_weights / self.n_trees), self.n_trees)
        values = np.tile(values, (some.size, 1))
        return sparse_rows(self._columns(some), values, self._levels.n_features)

    def _columns(self, some: NDArray[np.intp]) -> IntArray:
        """Return the features of some rows (n, L M), level after level."""
        fine, offset = self._finest(some).T, self._levels.offset[:-1, None, None]
        columns = self._group[:, fine] + offset.astype(np.int32)
        return columns.reshape(-1, some.size).T

    @property
    def n_trees(self) -> int:
        """Number of trees in use."""
        return int(self._cells.shape[0])

    @property
    def table(self) -> tuple[NDArray[Any], ...]:
        """Cells of rows, and how those of the levels lie; see ``_kernels/levels.py``."""
        return self._cells, self._above, self._start, self._number

    def n_lanes(self, n_columns: int, most: int) -> int:
        """Return how many columns are held side by side, for at most ``most`` of them."""
        # Many rows take the time of memory, so that unused columns would cost something.
        few = self.n_rows <= settings.LANE_ROWS
        return most if few else 1 << int(n_columns - 1).bit_length()

    def with_weights(self, weights: FloatArray) -> LevelOperator:
        """Return the same cells with other weights of the levels, which need not sum to 1."""
        return self._changed(_level_weights=weights)

    def with_trees(self, n_trees: int) -> LevelOperator:
        """Return the operator of the first trees alone, for :meth:`products`."""
        return self._changed(_cells=self._cells[:n_trees])

    def _changed(self, **changes: Any) -> LevelOperator:
        """Return a copy with other arrays; nothing that was derived from the old weights stays."""
        other = copy(self)
        for name in ("root_weight", "total_weight", "mean_direction"):
            vars(other).pop(name, None)
        vars(other).update(changes)
        return other

    def gram(self, V: FloatArray) -> FloatArray:
        """Product with the centred kernel matrix, ``K V``."""
        weights = np.repeat(self._level_weights[:, None], V.shape[1], axis=1)
        out = self.products(self.root_weight[:, None] * self.centred(V.copy()), weights)
        out *= self.root_weight[:, None]
        return self.centred(out)

    def products(self, V: NDArray[Any], weights: FloatArray) -> NDArray[Any]:
        """Return Σ_l weights[l, j] Φ_l Φ_lᵀ v_j for each column of V (N, k).

        ``weights`` (L, k) are those of the levels, and Φ_l has the values 1/√M, without sample
        weights. The result has the type of V, float64 or float32.
        """
        from mondrian_kernel._kernels.levels import gram

        table = self.table
        each, out = weights / self.n_trees, np.empty_like(V)
        how = self.n_jobs, 2 * self._cells.size

        def product(begin: int, end: int, part: FloatArray) -> None:
            room = np.empty((self._start[-1].max() + 1, lanes), V.dtype)
            gram(*table, own, begin, end, right, room, part, (0,) * lanes)

        for first in range(0, V.shape[1], settings.LEVEL_LANES):
            some = slice(first, min(first + settings.LEVEL_LANES, V.shape[1]))
            width = some.stop - first
            lanes = self.n_lanes(width, settings.LEVEL_LANES)
            right, own = (np.zeros((len(a), lanes), V.dtype) for a in (V, each))
            right[:, :width], own[:, :width] = V[:, some], each[:, some]
            total = add_in_shares(product, self.n_trees, right.shape, *how, V.dtype)
            out[:, some] = total[:, :width]
        return out

    def scatter(self, V: FloatArray) -> FloatArray:
        """Product Φᵀ V for V (N, k), without sample weights, (F, k)."""
        fine = np.zeros((int(self._first[-1]), V.shape[1]))
        for some in self._slabs:
            fine += scatter_cells(self._finest(some), V[some], len(fine))
        # The finest cells in a coarser one are neighbours: their numbers ascend one by one.
        starts = [np.flatnonzero(np.diff(group, prepend=-1)) for group in self._group]
        sums = [np.add.reduceat(fine, start, axis=0) for start in starts]
        roots = np.sqrt(self._level_weights)
        return np.concatenate([root * part for root, part in zip(roots, sums, strict=True)])

    def gather(self, W: FloatArray) -> FloatArray:
        """Product Φ W for W (F, k), without sample weights, (N, k)."""
        roots, edges = np.sqrt(self._level_weights), pairwise(self._levels.offset)
        each = zip(roots, self._group, edges, strict=True)
        fine = np.sum([root * W[a:b][group] for root, group, (a, b) in each], axis=0)
        return np.concatenate([gather_cells(self._finest(some), fine) for some in self._slabs])

    def _finest(self, some: slice | NDArray[np.intp]) -> IntArray:
        """Return the finest cells of some rows (n, M)."""
        cells: IntArray = (self._first[: self.n_trees, None] + self._cells[:, some]).T
        return cells

    @property
    def _slabs(self) -> list[slice]:
        """Rows whose cells are listed at once: of the four numbers for each one is the cell."""
        return panels(self.n_rows, 4 * self.n_trees)

    def kernel_matrix(self) -> FloatArray:
        """Dense centred kernel matrix, (N, N)."""
        share = self._level_weights / self.n_trees
        return self._kernel_of(self._columns(np.arange(self.n_rows)), share)

    def take(self, some: NDArray[np.intp]) -> LevelOperator:
        """Return the operator of some of the rows."""
        return self._changed(
            sample_weight=self.sample_weight[some],
            _cells=np.ascontiguousarray(self._cells[:, some]),
            _points=None if self._points is None else self._points[some],
        )

    def kernel_columns(self, some: NDArray[np.intp]) -> FloatArray:
        """Columns of the expected kernel Σ_l w_l exp(-λ_l d), not centred, (N, len(some)).

        They stand for those of the trees in a preconditioner, at a cost that does not grow with
        the number of trees.
        """
        if self._points is None:
            return super().kernel_columns(some)
        distance = cdist(self._points, self._points[some], "cityblock")
        K = np.zeros_like(distance)
        for lifetime, weight in zip(self._levels.lifetimes, self._level_weights, strict=True):
            K += weight * np.exp(-lifetime * distance)
        K *= self.root_weight[some]
        K *= self.root_weight[:, None]
        return K


def cells_above(trees: Trees, levels: Levels) -> IntArray:
    """Return the cell of each level in which each cell of the last level lies, (L, C)."""
    return np.ascontiguousarray(levels.column[:, cell_nodes(trees, levels.column[-1])])


def cell_nodes(trees: Trees, column: IntArray) -> NDArray[np.int64]:
    """Return the node of each cell, (C,); ``column`` is the cell of each node at a lifetime."""
    top = np.flatnonzero(trees.top_nodes(column))
    node = np.empty(top.size, np.int64)
    node[column[top]] = top
    return node


def is_in_order(group: IntArray) -> bool:
    """Whether cells are numbered from left to right; those of a stream are not, new ones follow."""
    return not np.any(group[:, 1:] < group[:, :-1])
