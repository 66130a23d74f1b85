"""Rows as a tree of small differences, so that a product with their features touches few cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]

# Neighbours are sought in this many sorted orders of the rows, by this many partitions each.
_ORDERS, _KEYS = 8, 48


@dataclass(frozen=True, eq=False)
class RowTree:
    """Rows in an order in which each differs little from one before it.

    Similar rows share most of their cells: with N rows in M partitions, Φ Y takes as many
    additions a column as rows differ from their parents, instead of N M. Cells only ever get
    finer, so that a tree made for the final cells serves all earlier ones.
    """

    visit: IntArray
    parent: IntArray
    ptr: IntArray
    plus: IntArray
    minus: IntArray

    def product(self, Y: FloatArray, stage: IntArray) -> FloatArray:
        """Φ Y for the 0-1 features Φ of the rows; ``stage`` maps final cells to rows of Y."""
        from mondrian_kernel._kernels.cut_rows import spread

        R = np.empty((self.visit.size, Y.shape[1]))
        spread(Y, self.visit, self.parent, self.ptr, self.plus, self.minus, stage, R)
        return R


def row_tree(cells: IntArray) -> RowTree:
    """Build the tree for rows in ``cells`` int32 (N, M): a light spanning tree of differences.

    The candidates for an edge are rows next to each other in a few sorted orders, so the tree is
    close to the lightest one, not always the lightest; only the speed depends on it.
    """
    n = cells.shape[0]
    pairs = _neighbours(cells)
    distance = np.empty(pairs.shape[0])
    for begin in range(0, distance.size, 4096):
        i, j = pairs[begin : begin + 4096].T
        distance[begin : begin + 4096] = (cells[i] != cells[j]).sum(axis=1)
    # Edges of weight 0 are no edges to scipy; equal rows must stay connected.
    graph = coo_array((distance + 1.0, (pairs[:, 0], pairs[:, 1])), shape=(n, n)).tocsr()
    visit, parent = breadth_first_order(minimum_spanning_tree(graph), 0, directed=False)
    parent = np.where(parent < 0, -1, parent).astype(np.int32)
    differ = cells != cells[parent]
    differ[visit[0]] = True
    ptr = np.concatenate([[0], np.cumsum(differ.sum(axis=1))]).astype(np.int32)
    return RowTree(visit.astype(np.int32), parent, ptr, cells[differ], cells[parent][differ])


def _neighbours(cells: IntArray) -> NDArray[np.int64]:
    """Pairs of rows (i < j), each once, that are near in one of several sorted orders."""
    n, n_partitions = cells.shape
    found = [np.empty(0, np.int64)]
    for shift in range(min(_ORDERS, n_partitions)):
        first = shift * n_partitions // _ORDERS
        keys = np.roll(cells, -first, axis=1)[:, :_KEYS]
        order = np.lexsort(keys.T[::-1])
        for lag in (1, 2):
            i, j = order[:-lag], order[lag:]
            found.append(np.minimum(i, j) * n + np.maximum(i, j))
    code = np.unique(np.concatenate(found))
    return np.stack([code // n, code % n], axis=1)
