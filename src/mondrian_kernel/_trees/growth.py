"""Grow Mondrian trees on rows, forward in time, in one go or in steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._kernels.tables import Clocks, GrowingTrees, NodeTable
from mondrian_kernel._trees.threads import Tell, in_threads, no_one
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray


class Growth:
    """M trees in growth on the rows of ``X`` (N, D): mutable, until :meth:`freeze` is called.

    The trees depend on the rows and on ``seed``, below 2**64, alone: not on ``n_jobs``, nor on the
    steps in which time advances. They are those from ``first_tree`` on of a larger forest.
    """

    # Expected cuts per cell in a step of ``advance_within``.
    _step = settings.GROWTH_STEP
    _keeps_clocks = True

    def __init__(
        self,
        X: FloatArray,
        n_trees: int,
        seed: int,
        n_jobs: int | None = None,
        first_tree: int = 0,
    ) -> None:
        self._points, self._columns = np.require(X, None, ("C", "W")), np.ascontiguousarray(X.T)
        self._n_jobs = n_jobs
        self.n_trees = n_trees = int(n_trees)
        self.lifetime = 0.0
        box, step = np.concatenate([X.min(axis=0), X.max(axis=0)]), settings.GROWTH_TREES
        self._blocks = [
            Block.plant(seed, first_tree + k, min(step, n_trees - k), X.shape[0], box)
            for k in range(0, n_trees, step)
        ]

    @property
    def cut_times(self) -> FloatArray:
        """Times of all cuts so far, sorted."""
        times = np.concatenate([block.cut[: block.n_nodes, 1] for block in self._blocks])
        return np.sort(times[np.isfinite(times)])

    @property
    def n_cells(self) -> int:
        """Number of cells so far, of all trees."""
        return sum((block.n_nodes + block.order.shape[0]) // 2 for block in self._blocks)

    @property
    def done(self) -> bool:
        """Whether every cell holds only equal rows, so that no cut is left to come."""
        return all(block.open.node.size == 0 for block in self._blocks)

    def advance(self, lifetime: float, tell: Tell = no_one) -> None:
        """Let time run on to ``lifetime``; a time in the past changes nothing."""
        if lifetime <= self.lifetime:
            return
        grown = 0

        def run(begin: int, end: int) -> None:
            nonlocal grown
            for k in range(begin, end):
                self._grow(k, k + 1, lifetime)
                grown += 1
                tell(grown / len(self._blocks))

        in_threads(run, len(self._blocks), self._n_jobs)
        self.lifetime = lifetime

    def _grow(self, begin: int, end: int, lifetime: float) -> None:
        for block in self._blocks[begin:end]:
            block.grow(self._columns, lifetime)
            if not self._keeps_clocks:
                block.open = Clocks._make(a[:0].copy() for a in block.open)

    def advance_within(self, lifetime: float, max_cells: int) -> float:
        """Advance to ``lifetime``, or until ``max_cells`` are exceeded.

        Returns the time up to which the sample has at most ``max_cells`` cells: ``lifetime``, or
        the last moment before the first cut too many.
        """
        while self.lifetime < lifetime and self.n_cells <= max_cells and not self.done:
            rate = self._mean_rate()
            step = self._step / rate if rate > 0 else np.inf
            self.advance(min(lifetime, self.lifetime + step))
        times = self.cut_times
        n_allowed = max_cells - self.n_trees
        if times.size <= n_allowed:
            self.lifetime = max(self.lifetime, lifetime)
            return lifetime
        return float(np.nextafter(times[n_allowed], 0.0))

    def _mean_rate(self) -> float:
        """Mean rate of the clocks, a bound on the rate of cuts per cell; the sum may overflow."""
        n_cells, boxes = self.n_cells, [block.open.box for block in self._blocks]
        n_dims = boxes[0].shape[1] // 2
        rates = [(box[:, n_dims:] - box[:, :n_dims]).sum(axis=1) for box in boxes]
        with np.errstate(over="ignore"):  # by rounding, where a range is the largest number
            return float(min(sum((r / n_cells).sum() for r in rates), np.finfo(float).max))

    def finish(self, lifetime: float, tell: Tell = no_one) -> tuple[Trees, IntArray]:
        """Advance for the last time, and return the same as :meth:`freeze`.

        Clocks are dropped, which take about as much memory as the boxes of the trees.
        """
        self._keeps_clocks = False
        self.advance(lifetime, tell)
        return self.freeze(lifetime)

    def freeze(self, lifetime: float | None = None) -> tuple[Trees, IntArray]:
        """Return the trees stopped at ``lifetime`` and the leaf of each row in each tree."""
        from mondrian_kernel._kernels.grow import freeze

        lifetime = self.lifetime if lifetime is None else lifetime
        counts = [block.count_nodes(lifetime) for block in self._blocks]
        sizes = np.concatenate(counts)
        first_node = np.cumsum([0, *(count.sum() for count in counts)]).tolist()
        first_tree = np.cumsum([0, *(count.size for count in counts)]).tolist()
        n, (n_rows, n_dims) = first_node[-1], self._points.shape
        root = (np.cumsum(sizes) - sizes).astype(np.int32)
        tree = np.repeat(np.arange(self.n_trees, dtype=np.int32), sizes)
        parent, left, right, dim, count = (np.empty(n, np.int32) for _ in range(5))
        loc, time = np.empty(n), np.empty(n)
        lower, upper = (np.empty((n, n_dims), self._points.dtype) for _ in range(2))
        leaf = np.empty((self.n_trees, n_rows), np.int32).T
        nodes = NodeTable(root, tree, parent, left, right, dim, loc, time, lower, upper, count)

        def run(begin: int, end: int) -> None:
            for k in range(begin, end):
                block, own = self._blocks[k], slice(first_node[k], first_node[k + 1])
                part = NodeTable._make([root, *(array[own] for array in nodes[1:])])
                own_leaf = leaf[:, first_tree[k] : first_tree[k + 1]]
                stack = np.empty((block.n_nodes + 1, 2), np.int32)
                grown = block.order, block.links, block.cut, lifetime
                freeze(self._points, *grown, part, own.start, own_leaf, stack)

        in_threads(run, len(self._blocks), self._n_jobs)
        return Trees(lifetime, *nodes), leaf


class Block:
    """Some consecutive trees in growth.

    See :class:`mondrian_kernel._kernels.tables.GrowingTrees` for ``order``, ``links`` and ``cut``;
    ``n_nodes`` rows of the two tables are in use. ``open`` are the leaves whose clocks still run.
    """

    def __init__(self, order: IntArray, links: IntArray, cut: FloatArray, open_: Clocks) -> None:
        self.order, self.links, self.cut = order, links, cut
        self.n_nodes: int = links.shape[0]
        self.open = open_

    @classmethod
    def plant(cls, seed: int, first_tree: int, n_trees: int, n_rows: int, box: FloatArray) -> Block:
        """Trees at time 0: one root each, on the ``box``, the lower sides first."""
        from mondrian_kernel._kernels.grow import START, STOP, TREE
        from mondrian_kernel._kernels.streams import root_keys

        node = np.arange(n_trees, dtype=np.int32)
        links = np.full((n_trees, 7), -1, np.int32)
        links[:, TREE], links[:, START], links[:, STOP] = node, 0, n_rows
        clocks = Clocks(
            node,
            root_keys(seed, first_tree, n_trees),
            np.zeros(n_trees, np.int32),
            np.zeros(n_trees),
            np.tile(box, (n_trees, 1)),
        )
        order = np.tile(np.arange(n_rows, dtype=np.int32), (n_trees, 1))
        return cls(order, links, np.full((n_trees, 2), np.inf), clocks)

    def outline(self) -> Block:
        """Return the block without the order of its rows and its links: cuts and open leaves."""
        outline = Block(self.order[:, :0], self.links[:0], self.cut[: self.n_nodes], self.open)
        outline.n_nodes = self.n_nodes
        return outline

    def grow(self, columns: FloatArray, lifetime: float) -> None:
        """Let all clocks run on to ``lifetime``; ``columns`` (D, N) are the rows transposed."""
        from mondrian_kernel._kernels.grow import grow

        n_open = self.open.node.size
        trees = GrowingTrees(
            self.order,
            self.links,
            self.cut,
            stack=Clocks._make(longer(a[::-1], settings.SPARE_NODES) for a in self.open),
            rest=Clocks._make(longer(a[:0], n_open + settings.SPARE_NODES) for a in self.open),
            size=np.array([self.n_nodes, n_open, 0], np.int64),
            spare=np.empty(self.order.shape[1], np.int32),
        )
        while not grow(columns, trees, lifetime):
            trees = _with_room(trees)
        n_nodes, _, n_rest = trees.size.tolist()
        self.links, self.cut, self.n_nodes = trees.links, trees.cut, n_nodes
        self.open = Clocks._make(a[:n_rest] for a in trees.rest)

    def count_nodes(self, lifetime: float) -> NDArray[np.int64]:
        """Count the nodes of each tree that are born by ``lifetime``."""
        from mondrian_kernel._kernels.grow import TIME, TREE

        time = self.cut[: self.n_nodes, TIME]
        tree = self.links[np.flatnonzero((time <= lifetime) & (time < np.inf)), TREE]
        return 1 + 2 * np.bincount(tree, minlength=self.order.shape[0])


def longer(array: NDArray[Any], room: int) -> NDArray[Any]:
    """Return a copy with ``room`` more entries, which are not set."""
    longer = np.empty((array.shape[0] + room, *array.shape[1:]), array.dtype)
    longer[: array.shape[0]] = array
    return longer


def _with_room(trees: GrowingTrees) -> GrowingTrees:
    """Double the tables that are full."""
    n_nodes, n_stacked, n_resting = trees.size.tolist()
    if n_nodes + 2 > trees.links.shape[0]:
        room = n_nodes + settings.SPARE_NODES
        trees = trees._replace(links=longer(trees.links, room), cut=longer(trees.cut, room))
    if n_stacked + 1 > trees.stack.node.size:
        trees = trees._replace(stack=Clocks._make(longer(a, n_stacked) for a in trees.stack))
    if n_resting + 1 > trees.rest.node.size:
        trees = trees._replace(rest=Clocks._make(longer(a, n_resting) for a in trees.rest))
    return trees
