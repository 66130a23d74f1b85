"""The named tuples of arrays that the tree kernels take.

This module does not import numba, so that classes can build the tuples before numba is needed.
Kernels change the arrays in place; they never replace one. Kernels that are called for single rows
(``walk``, ``extend``, ``refine``) take the arrays as a plain tuple and name them inside: numba
takes 1 to 3 µs to recognise a named tuple, and next to nothing for a plain one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._settings import SPARE_NODES
from mondrian_kernel._typing import FloatArray, IntArray, RowArray


class NodeTable(NamedTuple):
    """The nodes of M trees, in the order of the fields of :class:`_trees.trees.Trees`.

    ``root`` has shape (M,), ``lower`` and ``upper`` (n, D), all others (n,). ``parent`` is -1 for
    a root; ``left``, ``right`` and ``dim`` are -1, ``loc`` and ``time`` inf for a leaf.
    """

    root: IntArray
    tree: IntArray
    parent: IntArray
    left: IntArray
    right: IntArray
    dim: IntArray
    loc: FloatArray
    time: FloatArray
    lower: RowArray
    upper: RowArray
    count: IntArray  # type: ignore[assignment]  # it hides tuple.count


# What a step down a tree needs, in one place of memory. A node that is not cut leads to itself.
STEP = np.dtype([("loc", "f8"), ("left", "i4"), ("right", "i4"), ("dim", "i4")], align=True)


# What learners of a stream do with a row: filters of a loss, and means, shrunk to 0 or to the mean.
SQUARED, LOGISTIC, SOFTMAX, HINGE, MEANS, CENTRED_MEANS = range(6)
# The numbers of a learner in ``state``: the weight of the last row in units of the first one's, in
# which the table is; the variance of the intercept, or, of means, the weight of all rows; and the
# number of rows. From ``FIRST`` on there are K offsets, which are subtracted from all targets, and
# K intercepts. The numbers of a cell in ``table`` are, of filters, K weights and the share of their
# prior variance that the rows have left; of means, Σ s p y (K), Σ s p and Σ s p² over its rows,
# with p the probability that a row lies in it.
GROWTH, KNOWN, N_ROWS, FIRST = range(4)


class LearnerTable(NamedTuple):
    """J learners on trees and S linear ones, and how they predict together.

    ``rung`` int64 (J,), ``begin`` int64 (J L + 1,), ``n_table`` int64 (J L,), ``value`` (L,),
    ``table`` and ``state`` are those of :class:`_online.committee.Committee`, ``keep`` (J,) the
    shares that rows keep of their weight. ``ends``, ``factor``, ``coef`` and ``P`` are those of
    :class:`_online.linear.Linear`, the others those of :class:`_online.mixture.Mixture`.
    """

    rung: NDArray[np.int64]
    begin: NDArray[np.int64]
    n_table: NDArray[np.int64]
    value: FloatArray
    keep: FloatArray
    table: FloatArray
    state: FloatArray
    ends: FloatArray
    factor: FloatArray
    coef: FloatArray
    P: FloatArray
    gram: FloatArray
    moment: FloatArray
    error: FloatArray
    recent: FloatArray
    counts: FloatArray
    weights: FloatArray
    shares: FloatArray


# Those that a batch changes, but for the table.
LEARNER_SUMS = (
    *("state", "coef", "P"),
    *("gram", "moment", "error", "recent", "counts", "weights", "shares"),
)


class Clocks(NamedTuple):
    """Leaves whose clocks still run, one entry a leaf.

    ``node`` int32 (K,); ``key`` uint64 (K,) of its random stream; ``draw`` int32 (K,), the number
    of draws used; ``clock`` (K,), the time on the clock; ``box`` (K, 2D), the inherited box, the
    lower sides first.
    """

    node: IntArray
    key: NDArray[np.uint64]
    draw: IntArray
    clock: FloatArray
    box: FloatArray


class GrowingTrees(NamedTuple):
    """A block of T trees in growth.

    ``order`` int32 (T, N) holds the row indices of each tree; a node owns the slice
    ``[start, stop)`` of its tree's order. ``links`` int32 (capacity, 7) and ``cut`` (capacity, 2)
    are the nodes, with columns named in :mod:`mondrian_kernel._kernels.grow`; ``cut[:, TIME]`` is
    inf for a leaf. ``stack`` are the leaves still to grow, the next one last; ``rest`` are the
    leaves whose next ring lies beyond the lifetime. ``size`` int64 (3,) is the number of nodes, of
    entries on the stack and of entries at rest. ``spare`` int32 (N,) is working memory.
    """

    order: IntArray
    links: IntArray
    cut: FloatArray
    stack: Clocks
    rest: Clocks
    size: NDArray[np.int64]
    spare: IntArray


class OnlineTable(NamedTuple):
    """The nodes of M trees that new rows extend, with room for more nodes than are in use.

    The first eleven fields are those of :class:`NodeTable`. A root of -1 is a tree without rows.

    ``column`` int32 (R, capacity), ``n_cells`` int64 (R, M + 1)
        At each rung: the cell that a node is or lies in (-1 if it is cut by then), and the number
        of cells of each tree and, last, of all trees. Old nodes keep their cells' numbers.
    ``stop`` (capacity,)
        Time to which the clock of a leaf has run.
    ``touched`` bool (capacity,)
        Marks old leaves whose boxes the batch at hand has saved.
    ``tally`` int64 (2,)
        Number of nodes in use, and number of rows in the trees.
    """

    root: IntArray
    tree: IntArray
    parent: IntArray
    left: IntArray
    right: IntArray
    dim: IntArray
    loc: FloatArray
    time: FloatArray
    lower: RowArray
    upper: RowArray
    count: IntArray  # type: ignore[assignment]  # it hides tuple.count
    column: IntArray
    n_cells: NDArray[np.int64]
    stop: FloatArray
    touched: NDArray[np.bool_]
    tally: NDArray[np.int64]

    @property
    def nodes(self) -> tuple[NDArray[Any], ...]:
        """The fields of a :class:`NodeTable`."""
        return self[: len(NodeTable._fields)]

    def doubled(self) -> OnlineTable:
        """Return a table with room for twice the nodes in use."""
        return self.with_room(2 * int(self.tally[0]))

    def with_room(self, room: int) -> OnlineTable:
        """Return a table with room for so many nodes and some more; those in use are copied."""
        n, capacity = int(self.tally[0]), room + SPARE_NODES

        def copied(array: NDArray[Any]) -> NDArray[Any]:
            longer = np.empty((capacity, *array.shape[1:]), array.dtype)
            longer[:n] = array[:n]
            return longer

        column = np.empty((self.column.shape[0], capacity), np.int32)
        column[:, :n] = self.column[:, :n]
        touched = np.zeros(capacity, np.bool_)
        touched[:n] = self.touched[:n]
        nodes = (copied(array) for array in self[1 : len(NodeTable._fields)])
        rest = column, self.n_cells, copied(self.stop), touched, self.tally
        return OnlineTable._make([self.root.copy(), *nodes, *rest])


class Batch(NamedTuple):
    """A batch of n rows that extends trees, and what it takes to undo it.

    ``tally`` and ``n_cells`` are those of the table before the batch. ``progress`` int64 (5,): how
    many of the n·M insertions were seen by clocks that run on, and how many old leaves these have
    changed; how many nodes there were after that; how many insertions are done, and how many boxes
    are saved.

    ``leaf`` int32 (n, M) is the leaf of each row. ``saved_node`` int32 (S,) and ``saved_box``
    (S, 2D) are the leaves that were enlarged and their boxes before, the lower sides first; S is at
    least the number of insertions. ``origin`` int32 (R, capacity): the k-th new cell of a rung was
    part of the cell ``origin[rung, k]``; -1 behind the last. ``n_origin`` int64 (R,) counts them.
    ``cut_node`` int32 (n·M,) and ``cut_stop`` (n·M,) are the old leaves whose clocks ran on, and
    the times to which they had run.
    """

    tally: NDArray[np.int64]
    n_cells: NDArray[np.int64]
    progress: NDArray[np.int64]
    leaf: IntArray
    saved_node: IntArray
    saved_box: FloatArray
    origin: IntArray
    n_origin: NDArray[np.int64]
    cut_node: IntArray
    cut_stop: FloatArray

    @staticmethod
    def start(n_rows: int, table: OnlineTable, *, refines: bool = False) -> Batch:
        """Return a batch of which no row is inserted yet; clocks may run on if it ``refines``."""
        n, n_rungs = n_rows * table.root.size, len(table.column)
        n_cut = n if refines else 0
        return Batch(
            table.tally.copy(),
            table.n_cells.copy(),
            np.zeros(5, np.int64),
            np.empty((n_rows, table.root.size), np.int32),
            np.empty(n, np.int32),
            np.empty((n, 2 * table.lower.shape[1])),
            np.full((n_rungs, n_cut + SPARE_NODES if refines else 0), -1, np.int32),
            np.zeros(n_rungs, np.int64),
            np.empty(n_cut, np.int32),
            np.empty(n_cut),
        )
