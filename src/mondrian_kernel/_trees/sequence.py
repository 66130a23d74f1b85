"""Trees as a sequence of cuts: which cell each cut splits, and how features of new rows fade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray


class Decay(NamedTuple):
    r"""Features of rows as functions of time, piece by piece.

    From ``start`` until the next piece of the same row and tree the feature is
    :math:`\exp(\text{level} - \text{slope}\,(t - \text{start}))/\sqrt{M}`; before the first piece,
    and where there is none, it is :math:`1/\sqrt{M}`. Sorted by row, tree and start.
    """

    row: IntArray
    tree: IntArray
    start: FloatArray
    level: FloatArray
    slope: FloatArray

    def first(self, n: int) -> Decay:
        """Return the first n pieces."""
        return Decay(self.row[:n], self.tree[:n], self.start[:n], self.level[:n], self.slope[:n])


@dataclass(frozen=True, eq=False)
class CutSequence:
    """Cuts in time order on cells with lasting numbers.

    At time 0 tree m is the cell m. Cut j, at ``times[j]``, takes rows from the cell ``splits[j]``
    and makes of them the new cell M + j. A cell that is split keeps its number and the larger
    part of its rows, so that few rows change cell.

    Attributes
    ----------
    times : ndarray of shape (J,)
        Times τ of the cuts, sorted.
    splits : ndarray of shape (J,), int32
        The cell that each cut splits.
    cell : ndarray of shape (n_nodes,), int32
        Number of the cell that each node of the trees is while it lives.
    cells : ndarray of shape (N, M), int32
        Final cell of each row in each tree.
    """

    trees: Trees
    times: FloatArray
    splits: IntArray
    cell: IntArray
    cells: IntArray

    def new_rows(self, X: FloatArray) -> tuple[IntArray, Decay]:
        """Return final cells of rows the trees were not grown on, and how their features fade."""
        from mondrian_kernel._kernels.walk import decay

        trees, X = self.trees, np.ascontiguousarray(X)
        node, _ = trees.walk(X, trees.lifetime)
        pieces = _empty(X.shape[0] * trees.n_trees // 4)
        n = decay(X, trees.nodes, pieces)
        if n > pieces.row.size:
            pieces = _empty(n)
            decay(X, trees.nodes, pieces)
        return self.cell[node], pieces.first(n)


def cut_sequence(trees: Trees, leaf: IntArray) -> CutSequence:
    """Give the cells of trees the numbers of the cuts that make them.

    Parameters
    ----------
    trees : Trees
        M trees.
    leaf : ndarray of shape (N, M), int32
        Leaf of each row in each tree, as :meth:`Growth.freeze` returns it.

    Returns
    -------
    sequence : CutSequence
        The cuts, and the final cells of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._trees.growth import Growth
    >>> growth = Growth(np.random.default_rng(0).uniform(size=(20, 2)), n_trees=3, seed=1)
    >>> growth.advance(2.0)
    >>> sequence = cut_sequence(*growth.freeze())
    >>> bool((np.diff(sequence.times) >= 0).all()), sequence.cells.shape
    (True, (20, 3))
    """
    cuts = trees.cuts
    left, right = trees.left[cuts.node], trees.right[cuts.node]
    swap = trees.count[left] < trees.count[right]
    large, small = np.where(swap, right, left), np.where(swap, left, right)
    cell = np.full(trees.time.size, -1, np.int32)
    cell[trees.root] = np.arange(trees.n_trees)
    n_trees = trees.n_trees
    for j, (node, a, b) in enumerate(zip(cuts.node, large, small, strict=True)):
        cell[a] = cell[node]
        cell[b] = n_trees + j
    return CutSequence(trees, cuts.time, cell[cuts.node], cell, cell[leaf])


def _empty(n: int) -> Decay:
    return Decay(
        np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n), np.empty(n), np.empty(n)
    )
