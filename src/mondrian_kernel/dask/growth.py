"""Grow Mondrian trees on rows in blocks: the trees that would grow on all rows in one place."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._kernels.tables import Clocks
from mondrian_kernel._trees.checks import check_ranges
from mondrian_kernel._trees.growth import Block, Growth
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.dask.blocks import Blocks, Rows
from mondrian_kernel.dask.cluster import (
    compute,
    delayed_call,
    in_steps,
    is_room_for,
    joined,
    persist,
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


class Places(NamedTuple):
    """Where some rows of a block are: the rows of each tree in the order of its open nodes.

    Node k owns the slice from ``begin[k]`` to ``end[k]`` of a row of ``order`` (M, n).
    """

    order: IntArray
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

    ``keep`` says whether workers remember between rounds where their rows are, 4 M bytes a row. If
    not, rows go through all rounds again in each. None: where there is room for it. ``n_rounds``
    counts the passes over all rows.
    """

    _step = settings.ROUND_STEP

    def __init__(
        self, blocks: Blocks, n_trees: int, seed: int, *, keep: bool | None = None
    ) -> None:
        box, n_rows = blocks.box, blocks.n_rows
        check_ranges(box)
        self.n_trees, self.lifetime, self._n_jobs = n_trees, 0.0, 1
        self.n_rounds = 0
        self._rows = blocks.without_targets()
        self._blocks = [Block.plant(seed, 0, n_trees, 0, box.ravel())]
        lower, upper = (np.tile(side, (n_trees, 1)) for side in box)
        root = Bounds(lower, upper, np.full(n_trees, n_rows))
        self._bounds = [root]  # of all nodes, in their order
        self._open_bounds = root
        self._numbers = np.arange(n_trees, dtype=np.int32)  # of open nodes, as blocks count them
        self._keep = is_room_for(4 * n_rows * n_trees) if keep is None else keep
        self._kept: list[Delayed | None] = [None] * blocks.n_blocks
        self._rounds: list[Round] = []  # so far, where blocks remember nothing

    def _grow(self, begin: int, end: int, lifetime: float) -> None:
        from mondrian_kernel._kernels.grow import TREE
        from mondrian_kernel._kernels.rounds import next_cuts
        from mondrian_kernel._kernels.streams import child_keys

        trees, n_columns = self._blocks[0], self._open_bounds.lower.shape[1]
        node, key, draw, clock, box = Clocks._make(a.copy() for a in trees.open)
        number, bounds, waiting = self._numbers, self._open_bounds, np.empty(0, np.int32)
        resting: list[Any] = []
        while node.size:
            dim, loc = np.empty(node.size, np.int32), np.empty(node.size)
            tight, count = np.hstack(bounds[:2]), bounds.n_rows
            next_cuts(Clocks(node, key, draw, clock, box), tight, count, lifetime, dim, loc)
            waits = (dim < 0) & (count > 1) & (box[:, n_columns:] > box[:, :n_columns]).any(axis=1)
            resting.append([a[waits] for a in (node, key, draw, clock, box, *bounds)])
            waiting = np.append(waiting, number[waits])
            cut = dim >= 0
            if not cut.any():
                break
            node, key, clock, dim = node[cut], key[cut], np.repeat(clock[cut], 2), dim[cut]
            children = self._cut(node, dim, loc[cut], clock[::2])
            tree = trees.links[node, TREE].copy()
            bounds = self._bound(Round(number[cut], waiting, tree, dim, loc[cut]))
            number = np.arange(waiting.size + children.size, dtype=np.int32)
            waiting, number = number[: waiting.size], number[waiting.size :]
            node, key, draw = children, child_keys(key), np.zeros(children.size, np.int32)
            box = np.repeat(box[cut], 2, axis=0)
            child, dim = np.arange(children.size), np.repeat(dim, 2)
            box[child, dim], box[child, n_columns + dim] = (b[child, dim] for b in bounds[:2])
        if resting:
            parts = [np.concatenate(part) for part in zip(*resting, strict=True)]
            trees.open, self._open_bounds = Clocks._make(parts[:-3]), Bounds._make(parts[-3:])
        self._numbers = waiting

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

    def _bound(self, cuts: Round) -> Bounds:
        """Send the cuts of a round to the blocks; returns the bounds of the new nodes."""
        rounds = [*self._rounds, cuts]
        if self._keep:
            kept = self._rows.map(_next_places, self.n_trees, rounds, each=self._kept)
            joint = joined(delayed_call(kept, itemgetter(1)), merge_bounds)
            *self._kept, joint = persist([*kept, joint])
        else:
            self._rounds = rounds
            joint = joined(self._rows.map(_bounds_after, self.n_trees, rounds), merge_bounds)
        answer: Bounds = compute([joint])[0]
        self._bounds.append(answer)
        self.n_rounds += 1
        return answer

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


def cells_on_blocks(blocks: Blocks, lifetime: float, seed: int, n_trees: int) -> int:
    """Return the number of cells of a few trees at a lifetime."""
    few = BlockGrowth(blocks, n_trees, seed)
    few.advance_within(lifetime, n_trees * blocks.n_rows)
    return few.n_cells


_Kept = tuple[list[Places], Bounds]


def _next_places(rows: Rows, before: _Kept | None, n_trees: int, rounds: list[Round]) -> _Kept:
    """Return where the rows are after some rounds, and the bounds of the nodes of the last.

    ``before`` is what was returned in the round before these.
    """
    slabs = _slabs(*rows.X.shape)
    places = before[0] if before else [_at_roots(s.stop - s.start, n_trees) for s in slabs]
    bounds = _no_bounds(2 * rounds[-1].cut.size, rows.X.shape[1])
    after = [
        _advance(rows.X[s], place, rounds, bounds) for s, place in zip(slabs, places, strict=True)
    ]
    return after, bounds


def _bounds_after(rows: Rows, n_trees: int, rounds: list[Round]) -> Bounds:
    """Return the bounds of the nodes of the last round; nothing is remembered."""
    bounds = _no_bounds(2 * rounds[-1].cut.size, rows.X.shape[1])
    for s in _slabs(*rows.X.shape):
        _advance(rows.X[s], _at_roots(s.stop - s.start, n_trees), rounds, bounds)
    return bounds


def _advance(X: FloatArray, places: Places, rounds: list[Round], bounds: Bounds) -> Places:
    """Take rows through rounds, and widen the bounds of the nodes of the last by them."""
    from mondrian_kernel._kernels.rounds import bound_nodes, part_nodes

    order, begin, end = places
    order = order.copy()  # a task may be run again on the same places
    spare = np.empty(X.shape[0], np.int32)
    for cuts in rounds:
        edge = np.empty(2 * cuts.cut.size, np.int32)
        stop = end[cuts.cut]
        part_nodes(X, order, cuts, begin[cuts.cut], stop, edge, spare)
        stops = np.append(edge[1:], np.int32(0))
        stops[1::2] = stop
        begin = np.concatenate([begin[cuts.waits], edge])
        end = np.concatenate([end[cuts.waits], stops])
    first = cuts.waits.size
    bound_nodes(X, order, np.repeat(cuts.tree, 2), begin[first:], end[first:], bounds)
    return Places(order, begin, end)


def _appended(table: NDArray[Any], n_used: int, rows: NDArray[Any]) -> NDArray[Any]:
    """Write rows after those of a table that are in use; a table that is too short is doubled."""
    n = n_used + rows.shape[0]
    if n > table.shape[0]:
        longer = np.empty((2 * n, *table.shape[1:]), table.dtype)
        longer[:n_used] = table[:n_used]
        table = longer
    table[n_used:n] = rows
    return table


def _at_roots(n_rows: int, n_trees: int) -> Places:
    order = np.tile(np.arange(n_rows, dtype=np.int32), (n_trees, 1))
    return Places(order, np.zeros(n_trees, np.int32), np.full(n_trees, n_rows, np.int32))


def _slabs(n_rows: int, n_columns: int) -> list[slice]:
    return in_steps(n_rows, max(settings.ROUND_ROWS_LEAST, settings.ROUND_NUMBERS // n_columns))


def _no_bounds(n: int, n_columns: int) -> Bounds:
    shape = n, n_columns
    return Bounds(np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(n, np.int64))


def merge_bounds(a: Bounds, b: Bounds) -> Bounds:
    """Bounds and numbers of the rows of two blocks."""
    return Bounds(np.minimum(a.lower, b.lower), np.maximum(a.upper, b.upper), a.n_rows + b.n_rows)
