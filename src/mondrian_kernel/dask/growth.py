"""Grow Mondrian trees on rows in blocks: the trees that would grow on all rows in one place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._kernels.tables import Clocks
from mondrian_kernel._trees.growth import Block, Growth
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.dask.blocks import Blocks, Rows


class Cuts(NamedTuple):
    """The cuts of trees, which is all that a block needs to know: tables over the nodes."""

    root: IntArray
    left: IntArray
    right: IntArray
    dim: IntArray
    loc: FloatArray

    def leaves(self, X: FloatArray) -> IntArray:
        """Leaf of each row in each tree, of shape (n, M)."""
        from mondrian_kernel._kernels.rounds import find_leaves

        leaf = np.empty((X.shape[0], self.root.size), np.int32)
        find_leaves(X, self, leaf)
        return leaf


class Bounds(NamedTuple):
    """Bounding boxes of the rows in some nodes, and how many they are."""

    lower: FloatArray
    upper: FloatArray
    n_rows: NDArray[np.int64]


class BlockGrowth(Growth):
    """M trees in growth on rows in blocks; the rows never move.

    In a round every open node of every tree is cut once. The cuts so far go to the blocks; each
    sends its rows down them and answers with the bounds and the number of its rows in every new
    node. From the joint answer follow the rings of all clocks up to the next cut of each node,
    those that miss the rows included. There are as many rounds as the deepest tree has levels.

    Draws belong to nodes, and least, greatest and number do not depend on the order of rows: the
    trees are, bit for bit, those of :class:`mondrian_kernel._trees.growth.Growth`, whatever the
    blocks. (There a clock rings with the range of one dim at a time. Here that would take a pass
    over the rows for every ring, and the bounds of all dims are needed in the end.)

    Parameters
    ----------
    blocks : Blocks
        The rows.
    n_rows : int
        Number of rows.
    box : ndarray of shape (2 D,)
        Their bounding box, lower then upper sides.
    n_trees : int
        Number of trees, M.
    seed : int
        Seed of all node streams.

    Attributes
    ----------
    n_rounds : int
        Rounds so far, each of them a pass over all rows.
    n_bytes : int
        Bytes sent to a worker in all rounds so far, and the same for the answers of a block.
    """

    _step = 1.5  # a step costs a pass over the rows, or several

    def __init__(
        self, blocks: Blocks, n_rows: int, box: FloatArray, n_trees: int, seed: int
    ) -> None:
        self.n_trees, self.lifetime, self._n_jobs = n_trees, 0.0, None
        self.n_rounds, self.n_bytes = 0, (0, 0)
        self._rows = blocks.without_targets()
        self._blocks = [Block.plant(seed, 0, n_trees, 0, box)]
        self._tight = np.tile(box, (n_trees, 1))
        self._count = np.full(n_trees, n_rows, np.int64)

    def _grow(self, begin: int, end: int, lifetime: float) -> None:
        from mondrian_kernel._kernels.rounds import child_keys, next_cuts

        trees, n_dims = self._blocks[0], self._tight.shape[1] // 2
        node, key, draw, clock, box = Clocks._make(a.copy() for a in trees.open)
        resting: list[Any] = []
        while node.size:
            dim, loc = np.empty(node.size, np.int32), np.empty(node.size)
            tight, count = self._tight[node], self._count[node]
            clocks = Clocks(node, key, draw, clock, box)
            next_cuts(clocks, tight, count, lifetime, dim, loc)
            waits = (dim < 0) & (count > 1) & (box[:, n_dims:] > box[:, :n_dims]).any(axis=1)
            resting.append([a[waits] for a in (node, key, draw, clock, box)])
            cut = dim >= 0
            if not cut.any():
                break
            node, key, clock, dim = node[cut], key[cut], np.repeat(clock[cut], 2), dim[cut]
            children = self._cut(node, dim, loc[cut], clock[::2])
            self._bound(children)
            node, key, draw = children, child_keys(key), np.zeros(children.size, np.int32)
            box = np.repeat(box[cut], 2, axis=0)
            child, dim = np.arange(children.size), np.repeat(dim, 2)
            for side in dim, n_dims + dim:
                box[child, side] = self._tight[children, side]
        trees.open = Clocks._make(np.concatenate(parts) for parts in zip(*resting, strict=True))

    def _cut(
        self, node: IntArray, dim: IntArray, loc: FloatArray, time: FloatArray
    ) -> NDArray[np.int32]:
        """Cut nodes; returns their children, which are appended, left and right alternating."""
        from mondrian_kernel._kernels.grow import DIM, LEFT, LOC, PARENT, RIGHT, TIME, TREE

        trees = self._blocks[0]
        children = np.arange(trees.n_nodes, trees.n_nodes + 2 * node.size, dtype=np.int32)
        trees.links[node, LEFT], trees.links[node, RIGHT] = children[::2], children[1::2]
        trees.links[node, DIM], trees.cut[node, LOC], trees.cut[node, TIME] = dim, loc, time
        links = np.full((children.size, trees.links.shape[1]), -1, np.int32)
        links[:, TREE], links[:, PARENT] = np.repeat(trees.links[node, TREE], 2), node.repeat(2)
        trees.links = np.concatenate([trees.links, links])
        trees.cut = np.concatenate([trees.cut, np.full((children.size, 2), np.inf)])
        trees.n_nodes += children.size
        return children

    def _bound(self, children: IntArray) -> None:
        """Ask the blocks for the bounds of new leaves."""
        cuts = self._cuts_above(children)
        first = cuts.left.size - children.size
        answer: Bounds = self._rows.total(bound_leaves, merge_bounds, cuts, first)
        self._tight = np.concatenate([self._tight, np.hstack(answer[:2])])
        self._count = np.concatenate([self._count, answer.n_rows])
        self.n_rounds += 1
        sent, answered = self.n_bytes
        self.n_bytes = sent + _size(cuts), answered + _size(answer)

    def _cuts_above(self, children: IntArray) -> Cuts:
        """Cuts on the way to new leaves; rows that take another way stop there.

        Nodes are numbered anew, the new leaves last.
        """
        from mondrian_kernel._kernels.grow import DIM, LEFT, LOC, PARENT, RIGHT

        trees = self._blocks[0]
        parent = trees.links[:, PARENT]
        on_way = np.zeros(trees.n_nodes, np.bool_)
        above = np.unique(parent[children])
        while above.size:
            on_way[above] = True
            above = np.unique(parent[above])
            above = above[above >= 0]
        told = on_way | ((parent >= 0) & on_way[parent])
        number = (np.cumsum(told) - 1).astype(np.int32)
        links, is_cut = trees.links[told], on_way[told]
        left, right = (np.where(is_cut, number[links[:, c]], np.int32(-1)) for c in (LEFT, RIGHT))
        root = number[np.flatnonzero(on_way[: self.n_trees])]
        return Cuts(root, left, right, links[:, DIM].copy(), trees.cut[told, LOC])

    def freeze(self, lifetime: float | None = None) -> tuple[Trees, IntArray]:
        """Return the trees stopped at ``lifetime``; of the rows none is here, so no leaves."""
        from mondrian_kernel._kernels.grow import DIM, LEFT, LOC, PARENT, RIGHT, TIME, TREE
        from mondrian_kernel._kernels.rounds import preorder

        lifetime = self.lifetime if lifetime is None else lifetime
        trees, n_dims = self._blocks[0], self._tight.shape[1] // 2
        left, right = (np.ascontiguousarray(trees.links[:, c]) for c in (LEFT, RIGHT))
        time = np.ascontiguousarray(trees.cut[:, TIME])
        nodes = np.empty(trees.n_nodes, np.int32)
        sizes = preorder(left, right, time, self.n_trees, lifetime, nodes)
        nodes = nodes[: sizes.sum()]
        # New numbers of nodes; -1, which is none, stays.
        number = np.full(trees.n_nodes + 1, -1, np.int32)
        number[nodes] = np.arange(nodes.size, dtype=np.int32)
        links, tight = trees.links[nodes], self._tight[nodes]
        is_cut = (time[nodes] <= lifetime) & np.isfinite(time[nodes])

        def if_cut(values: Any, other: Any) -> Any:
            return np.where(is_cut, values, other)

        none = np.int32(-1)
        frozen = Trees(
            lifetime=lifetime,
            root=number[: self.n_trees],
            tree=links[:, TREE].copy(),
            parent=number[links[:, PARENT]],
            left=if_cut(number[links[:, LEFT]], none),
            right=if_cut(number[links[:, RIGHT]], none),
            dim=if_cut(links[:, DIM], none),
            loc=if_cut(trees.cut[nodes, LOC], np.inf),
            time=if_cut(time[nodes], np.inf),
            lower=tight[:, :n_dims].copy(),
            upper=tight[:, n_dims:].copy(),
            count=self._count[nodes].astype(np.int32),
        )
        return frozen, np.empty((0, self.n_trees), np.int32)


def bound_leaves(rows: Rows, cuts: Cuts, first: int) -> Bounds:
    """Bounds and numbers of the rows of a block in the nodes from ``first`` on."""
    from mondrian_kernel._kernels import rounds

    n, n_dims = cuts.left.size - first, rows.X.shape[1]
    bounds = Bounds(
        np.full((n, n_dims), np.inf), np.full((n, n_dims), -np.inf), np.zeros(n, np.int64)
    )
    rounds.bound_leaves(rows.X, cuts, first, bounds)
    return bounds


def merge_bounds(a: Bounds, b: Bounds) -> Bounds:
    """Bounds and numbers of the rows of two blocks."""
    return Bounds(np.minimum(a.lower, b.lower), np.maximum(a.upper, b.upper), a.n_rows + b.n_rows)


def _size(arrays: tuple[Any, ...]) -> int:
    return sum(a.nbytes for a in arrays)
