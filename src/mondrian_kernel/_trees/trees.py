"""Mondrian trees on data, frozen: flat arrays, and what can be read off them at any lifetime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray, IntArray


class Cuts(NamedTuple):
    """Cuts in time order: when, in which tree, along which dim, where, and at which node."""

    time: FloatArray
    tree: IntArray
    dim: IntArray
    loc: FloatArray
    node: IntArray


class Cells(NamedTuple):
    """Cells at one lifetime.

    ``column[node]`` is the number of the cell that the node is, or lies in, and -1 for a node
    that has been cut by then; ``per_tree`` counts the cells of each tree.
    """

    column: IntArray
    per_tree: NDArray[np.int64]

    @property
    def total(self) -> int:
        """Number of cells of all trees, C."""
        return int(self.per_tree.sum())


@dataclass(frozen=True, eq=False)
class Trees:
    """M Mondrian trees run to the time ``lifetime`` on the bounding boxes of their rows.

    One table holds the nodes of all trees. A node belongs to ``tree`` and is cut at ``time`` (inf:
    not by ``lifetime``) along ``dim`` at ``loc``; rows with ``x[dim] <= loc`` go left. ``lower``
    and ``upper`` bound the rows of the node tightly, ``count`` says how many they are.
    """

    lifetime: float
    root: IntArray
    tree: IntArray
    parent: IntArray
    left: IntArray
    right: IntArray
    dim: IntArray
    loc: FloatArray
    time: FloatArray
    lower: FloatArray
    upper: FloatArray
    count: IntArray

    @property
    def n_trees(self) -> int:
        """Number of trees, M."""
        return int(self.root.size)

    @property
    def n_dims(self) -> int:
        """Number of input coordinates, D."""
        return int(self.lower.shape[1])

    @property
    def cuts(self) -> Cuts:
        """All cuts of all trees in the order of their times."""
        node = np.flatnonzero(np.isfinite(self.time)).astype(np.int32)
        node = node[np.argsort(self.time[node], kind="stable")]
        return Cuts(self.time[node], self.tree[node], self.dim[node], self.loc[node], node)

    def cells(self, lifetime: float) -> Cells:
        """Cells at a lifetime, numbered from left to right, tree by tree."""
        from mondrian_kernel._kernels.walk import label_cells

        column = np.empty(self.time.size, np.int32)
        per_tree = np.empty(self.n_trees, np.int64)
        label_cells(self.root, self.left, self.right, self.time, lifetime, column, per_tree)
        return Cells(column, per_tree)

    def walk(
        self, X: FloatArray, lifetime: float, n_jobs: int | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Node of each row's cell in each tree, and the log-probability that the row is in it.

        The second array is 0 where the row lies in the box of every node on its way, as rows the
        trees were grown on do. See :func:`mondrian_kernel._kernels.walk.walk` for the formula.
        """
        node, log_stay = self.walk_through(X, np.array([float(lifetime)]), n_jobs)
        return node, log_stay[:, :, 0]

    def walk_through(
        self, X: FloatArray, lifetimes: FloatArray, n_jobs: int | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Return the same for several ascending lifetimes: nodes at the last, (N, M, L).

        The node of the last lifetime lies in the cells of all before it.
        """
        from mondrian_kernel._kernels.walk import walk

        shape = (X.shape[0], self.n_trees)
        node, log_stay = np.empty(shape, np.int32), np.empty((*shape, lifetimes.size))

        def run(begin: int, end: int) -> None:
            walk(
                X[begin:end], self.root, self.parent, self.left, self.right, self.dim, self.loc,
                self.time, self.lower, self.upper, lifetimes, node[begin:end], log_stay[begin:end],
            )  # fmt: skip

        in_threads(run, X.shape[0], n_jobs, work=10 * node.size)
        return node, log_stay
