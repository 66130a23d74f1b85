"""Grow Mondrian trees on rows in blocks: the trees that would grow on all rows in one place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any, NamedTuple

import dask
import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._kernels.tables import STEP, Clocks
from mondrian_kernel._trees.checks import check_ranges
from mondrian_kernel._trees.growth import Block, Growth, longer
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.dask.blocks import Blocks, Rows
from mondrian_kernel.dask.cluster import (
    by_worker,
    free_bytes,
    in_steps,
    persist,
    send,
    total,
)


class Round(NamedTuple):
    """The cuts of one round, in the order of the nodes that are cut.

    Blocks and client number the open nodes alike: ``cut`` (K,) are the numbers of the nodes that
    are cut, at ``loc`` along ``dim``, and ``waits`` of those that may be cut later. After the round
    the latter come first, then the 2K children; all others are closed.
    """

    cut: IntArray
    waits: IntArray
    tree: IntArray
    dim: IntArray
    loc: FloatArray


class Bounds(NamedTuple):
    """Bounding boxes of the rows in some nodes, and how many they are."""

    lower: FloatArray
    upper: FloatArray
    n_rows: NDArray[np.int64]


class Start(NamedTuple):
    """Where growth begins: ``steps`` down the trees from each ``root`` (M,), and the open nodes.

    ``number`` (n_nodes,) is the number of an open node, as in a round, and -1 for others; ``tree``
    (K,) that of the tree of each of them.
    """

    root: IntArray
    steps: NDArray[np.void]
    number: IntArray
    tree: IntArray


class Places(NamedTuple):
    """Where some rows of a block are: the rows of each tree in the order of its open nodes.

    Node k owns the slice from ``begin[k]`` to ``end[k]`` of a row of ``order`` (M, n).
    """

    order: NDArray[np.uint16]
    begin: IntArray
    end: IntArray


class BlockGrowth(Growth):
    """M trees in growth on rows in blocks; the rows never move.

    In a round every open node of every tree is cut once. The cuts go to the blocks. Each block
    sorts its rows into the new nodes and answers with the bounds and the number of rows of each.
    From the joint bounds the client draws the next cut of every node; draws that miss the bounds
    are made and passed over, as in a local growth. There are as many rounds as the deepest tree has
    levels.

    Every node has its own random numbers, and bounds do not depend on the order of rows. So the
    trees are, bit for bit, those of :class:`mondrian_kernel._trees.growth.Growth`, whatever the
    blocks. (A local growth reads the range of one column at a time. Here that would take a pass
    over the rows for each draw, and the bounds of all columns are needed in the end.)

    Between rounds workers remember where their rows are, 2 bytes for each row and tree. As many
    trees grow at once as there is room for, ``at_once``. If these are too few to be worth their
    passes over the rows, 0, nothing is remembered: rows go down all trees in every round.
    ``n_rounds`` counts the passes.
    """

    _step = settings.ROUND_STEP

    def __init__(
        self, blocks: Blocks, n_trees: int, seed: int, *, at_once: int | None = None
    ) -> None:
        box, n_rows = blocks.box, blocks.n_rows
        check_ranges(box)
        self.n_trees, self.lifetime, self._n_jobs = n_trees, 0.0, 1
        self.n_rounds = 0
        if at_once is None:
            at_once = int(free_bytes() / (4 * n_rows))  # half of the memory stays free
        too_few = at_once < min(n_trees, settings.ROUND_TREES_LEAST)
        self._at_once, self._keeps_places = (n_trees, False) if too_few else (at_once, True)
        self._rows = blocks.without_targets()
        self._blocks = [Block.plant(seed, 0, n_trees, 0, box.ravel())]
        lower, upper = (np.tile(side, (n_trees, 1)) for side in box)
        root = Bounds(lower, upper, np.full(n_trees, n_rows))
        self._bounds = [root]  # of all nodes, in their order
        self._open_bounds = root

    def _grow(self, begin: int, end: int, lifetime: float) -> None:
        from mondrian_kernel._kernels.grow import TREE

        trees = self._blocks[0]
        tree = trees.links[trees.open.node, TREE]
        resting: list[Any] = []
        for first in range(0, self.n_trees, self._at_once):
            own = np.flatnonzero((first <= tree) & (tree < first + self._at_once))
            clocks = Clocks._make(a[own] for a in trees.open)
            bounds = Bounds._make(a[own] for a in self._open_bounds)
            resting += self._grow_some(first, clocks, bounds, lifetime)
        parts = [np.concatenate(part) for part in zip(*resting, strict=True)]
        trees.open, self._open_bounds = Clocks._make(parts[:-3]), Bounds._make(parts[-3:])

    def _grow_some(self, first: int, clocks: Clocks, bounds: Bounds, lifetime: float) -> list[Any]:
        """Let the open nodes of trees from the ``first`` on grow; returns those that rest."""
        from mondrian_kernel._kernels.grow import TREE
        from mondrian_kernel._kernels.rounds import next_cuts
        from mondrian_kernel._kernels.streams import child_keys

        trees, n_columns = self._blocks[0], bounds.lower.shape[1]
        node, key, draw, clock, box = clocks
        number, waiting = np.arange(node.size, dtype=np.int32), np.empty(0, np.int32)
        start = send(self._start(first, node)) if self._keeps_places else None
        kept: list[Any] = [start] * self._rows.n_blocks
        resting: list[Any] = []
        while True:
            dim, loc = np.empty(node.size, np.int32), np.empty(node.size)
            tight, count = np.hstack(bounds[:2]), bounds.n_rows
            next_cuts(Clocks(node, key, draw, clock, box), tight, count, lifetime, dim, loc)
            waits = (dim < 0) & (count > 1) & (box[:, n_columns:] > box[:, :n_columns]).any(axis=1)
            resting.append([a[waits] for a in (node, key, draw, clock, box, *bounds)])
            waiting = np.append(waiting, number[waits])
            cut = dim >= 0
            if not cut.any():
                return resting
            node, key, clock, dim = node[cut], key[cut], np.repeat(clock[cut], 2), dim[cut]
            children = self._cut(node, dim, loc[cut], clock[::2])
            if self._keeps_places:
                tree = trees.links[node, TREE] - np.int32(first)
                cuts = Round(number[cut], waiting, tree, dim, loc[cut])
                kept = persist(self._rows.map(_next_places, cuts, each=kept))
                near = dask.delayed(_joint_bounds, pure=False)
                bounds = total([near(*own) for own in by_worker(kept)], merge_bounds)
            else:
                bounds = self._rows.total(_bounds_at, merge_bounds, self._start(first, children))
            self._bounds.append(bounds)
            self.n_rounds += 1
            number = np.arange(waiting.size + children.size, dtype=np.int32)
            waiting, number = number[: waiting.size], number[waiting.size :]
            node, key, draw = children, child_keys(key), np.zeros(children.size, np.int32)
            box = np.repeat(box[cut], 2, axis=0)
            child, dim = np.arange(children.size), np.repeat(dim, 2)
            box[child, dim], box[child, n_columns + dim] = (b[child, dim] for b in bounds[:2])

    def _start(self, first: int, node: IntArray) -> Start:
        """Return where the trees from the ``first`` on are, of which these nodes are open."""
        from mondrian_kernel._kernels.grow import DIM, LEFT, LOC, RIGHT, TREE

        trees = self._blocks[0]
        links, ends = trees.links[: trees.n_nodes], np.arange(trees.n_nodes)
        steps, is_leaf = np.empty(trees.n_nodes, STEP), links[:, LEFT] < 0
        for name, column in ("left", LEFT), ("right", RIGHT), ("dim", DIM):
            steps[name] = np.where(is_leaf, 0 if name == "dim" else ends, links[:, column])
        steps["loc"] = trees.cut[: trees.n_nodes, LOC]
        number = np.full(trees.n_nodes, -1, np.int32)
        number[node] = np.arange(node.size)
        root = np.arange(first, min(first + self._at_once, self.n_trees), dtype=np.int32)
        return Start(root, steps, number, links[node, TREE] - np.int32(first))

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
        trees.links = _appended(trees.links, trees.n_nodes, links)
        trees.cut = _appended(trees.cut, trees.n_nodes, np.full((children.size, 2), np.inf))
        trees.n_nodes += children.size
        return children

    def freeze(self, lifetime: float | None = None) -> tuple[Trees, IntArray]:
        """Return the trees stopped at ``lifetime``; of the rows none is here, so no leaves."""
        from mondrian_kernel._kernels.grow import DIM, LEFT, LOC, PARENT, RIGHT, TIME, TREE
        from mondrian_kernel._kernels.rounds import preorder

        lifetime = self.lifetime if lifetime is None else lifetime
        trees = self._blocks[0]
        left, right = (trees.links[: trees.n_nodes, c].copy() for c in (LEFT, RIGHT))
        time = trees.cut[: trees.n_nodes, TIME].copy()
        nodes = np.empty(trees.n_nodes, np.int32)
        sizes = preorder(left, right, time, self.n_trees, lifetime, nodes)
        nodes = nodes[: sizes.sum()]
        # New numbers of nodes. The number -1 means no node, also as an index.
        number = np.full(trees.n_nodes + 1, -1, np.int32)
        number[nodes] = np.arange(nodes.size, dtype=np.int32)
        links = trees.links[nodes]
        is_cut = (time[nodes] <= lifetime) & np.isfinite(time[nodes])

        def if_cut(values: Any, other: Any) -> Any:
            return np.where(is_cut, values, other)

        none = np.int32(-1)
        lower, upper, count = (
            np.concatenate(parts)[nodes] for parts in zip(*self._bounds, strict=True)
        )
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
            lower=lower,
            upper=upper,
            count=count.astype(np.int32),
        )
        return frozen, np.empty((0, self.n_trees), np.int32)


_Kept = tuple[list[Places], Bounds]


def _next_places(rows: Rows, before: Start | _Kept, cuts: Round) -> _Kept:
    """Return where the rows of each slab are after a round, and the bounds of its new nodes.

    ``before`` is what was returned in the round before, or where growth begins.
    """
    slabs = [rows.X[s] for s in in_steps(len(rows.X), settings.ROUND_ROWS)]
    bounds = _no_bounds(2 * cuts.cut.size, rows.X.shape[1])
    places = [_places_at(X, before) for X in slabs] if isinstance(before, Start) else before[0]
    return [_advance(X, at, cuts, bounds) for X, at in zip(slabs, places, strict=True)], bounds


def _joint_bounds(*kept: _Kept) -> Bounds:
    return reduce(merge_bounds, (bounds for _, bounds in kept))


def _bounds_at(rows: Rows, start: Start) -> Bounds:
    """Return the bounds of open nodes, from rows that go down the trees; none is remembered."""
    from mondrian_kernel._kernels.rounds import bound_ends

    bounds = _no_bounds(start.tree.size, rows.X.shape[1])
    for s in in_steps(len(rows.X), settings.ROUND_ROWS):
        for node in _ends(rows.X[s], start):
            bound_ends(rows.X[s], start.number, node, bounds)
    return bounds


def _ends(X: FloatArray, start: Start) -> Iterator[NDArray[np.uint32]]:
    """Send rows down the trees; yields the ends that they come to, tree by tree."""
    from mondrian_kernel._kernels.walk import descend

    node, at = np.empty(X.shape[0], np.uint32), np.empty(settings.WALK_LANES, np.uint64)
    for root in start.root:
        descend(X, root, start.steps, node, at)
        yield node


def _places_at(X: FloatArray, start: Start) -> Places:
    """Send rows down the trees and sort them by open nodes; rows of others come first."""
    order = np.empty((start.root.size, X.shape[0]), np.uint16)
    begin, end = np.empty((2, start.tree.size), np.int32)
    for tree, node in enumerate(_ends(X, start)):
        number, own = start.number[node], np.flatnonzero(start.tree == tree)
        order[tree] = np.argsort(number, kind="stable")
        number = number[order[tree]]
        begin[own], end[own] = (np.searchsorted(number, own, side) for side in ("left", "right"))
    return Places(order, begin, end)


def _advance(X: FloatArray, places: Places, cuts: Round, bounds: Bounds) -> Places:
    """Take rows through a round, and widen the bounds of its new nodes by them."""
    from mondrian_kernel._kernels.rounds import bound_nodes, part_nodes

    # Rows that are parted already stay as they are, so a task that is run again does no harm.
    order = np.require(places.order, None, "W")
    stop, edge = places.end[cuts.cut], np.empty(2 * cuts.cut.size, np.int32)
    part_nodes(
        X, order, cuts, places.begin[cuts.cut], stop, edge, np.empty(X.shape[0], order.dtype)
    )
    stops = np.append(edge[1:], np.int32(0))
    stops[1::2] = stop
    bound_nodes(X, order, np.repeat(cuts.tree, 2), edge, stops, bounds)
    begin = np.concatenate([places.begin[cuts.waits], edge])
    end = np.concatenate([places.end[cuts.waits], stops])
    return Places(order, begin, end)


def _appended(table: NDArray[Any], n_used: int, rows: NDArray[Any]) -> NDArray[Any]:
    """Write rows after those of a table that are in use; a table that is too short is doubled."""
    n = n_used + rows.shape[0]
    if n > table.shape[0]:
        table = longer(table[:n_used], 2 * n - n_used)
    table[n_used:n] = rows
    return table


def _no_bounds(n: int, n_columns: int) -> Bounds:
    shape = n, n_columns
    return Bounds(np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(n, np.int64))


def merge_bounds(a: Bounds, b: Bounds) -> Bounds:
    """Bounds and numbers of the rows of two blocks. It widens ``a``, which twice does no harm."""
    lower, upper = (np.require(side, None, "W") for side in a[:2])
    np.minimum(lower, b.lower, out=lower)
    np.maximum(upper, b.upper, out=upper)
    return Bounds(lower, upper, a.n_rows + b.n_rows)
