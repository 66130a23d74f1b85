"""Mondrian trees on data, frozen as flat arrays: their cells at any lifetime, and their cuts."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._kernels.tables import STEP, NodeTable
from mondrian_kernel._trees.checks import require
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray, IntArray, RowArray

_arrays = attrgetter(*NodeTable._fields)


class Cuts(NamedTuple):
    """Cuts in time order: their times, trees, columns, locations and nodes."""

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
    not by ``lifetime``) along the column ``dim`` at ``loc``; rows with ``x[dim] <= loc`` go left.
    ``lower`` and ``upper`` bound the rows of the node tightly, ``count`` is their number. The
    index -1 means none. Arrays over nodes are int32 or float64, and boxes float32 where rows are;
    see :meth:`check` for all that holds.
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
    lower: RowArray
    upper: RowArray
    count: IntArray

    @property
    def n_trees(self) -> int:
        """Number of trees, M."""
        return int(self.root.size)

    @property
    def n_dims(self) -> int:
        """Number of input columns, D."""
        return int(self.lower.shape[1])

    @property
    def nodes(self) -> NodeTable:
        """The arrays in the form that kernels take."""
        return NodeTable(*_arrays(self))

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
        stack = np.empty((self.time.size + 1, 2), np.int32)
        label_cells(self.root, self.left, self.right, self.time, lifetime, column, per_tree, stack)
        return Cells(column, per_tree)

    def steps(self, lifetime: float) -> NDArray[np.void]:
        """Return the ``STEP`` records of walks down the trees as they are at a lifetime."""
        steps = np.empty(self.time.size, STEP)
        for name in ("loc", "left", "right", "dim"):
            steps[name] = getattr(self, name)
        end = np.flatnonzero(~(self.time <= lifetime) | (self.left < 0))
        steps["left"][end], steps["right"][end], steps["dim"][end] = end, end, 0
        return steps

    def top_nodes(self, column: IntArray) -> NDArray[np.bool_]:
        """Mark the nodes that are cells, not parts of one: one node for every cell.

        ``column`` (..., n_nodes) is the cell of each node, as in :class:`Cells`, at one lifetime or
        at several. A node is marked if it is in a cell and its parent is not.
        """
        is_top: NDArray[np.bool_] = column >= 0
        is_top &= (self.parent < 0) | (column[..., self.parent] < 0)
        return is_top

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
        nodes = _arrays(self)

        def run(begin: int, end: int) -> None:
            walk(X[begin:end], nodes, lifetimes, node[begin:end], log_stay[begin:end])

        in_threads(run, X.shape[0], n_jobs, work=10 * node.size)
        return node, log_stay

    def check(self) -> None:
        """Raise ``ValueError`` unless the arrays are those of M trees.

        Shapes and types fit together. Every node hangs once below the root of its own tree. Cuts
        follow each other in time up to the lifetime. Boxes lie in those of their parents, and
        counts add up. Trees without rows, whose roots are -1, are refused too.
        """
        self._check_arrays()
        n, cut = self.time.size, np.flatnonzero(self.left >= 0)
        is_leaf = self.left < 0
        left, right = self.left[cut], self.right[cut]
        child, above = np.concatenate([left, right]), np.concatenate([cut, cut])
        require(_in_range(self.root, 0, n - 1), "roots out of range")
        require(_in_range(child, 0, n - 1), "children out of range")
        none = (self.left[is_leaf] == -1) & (self.right[is_leaf] == -1)
        require(none.all(), "a node with one child")
        require((self.parent[self.root] == -1).all(), "a root with a parent")
        one_parent = (self.parent[child] == above).all() and (left != right).all()
        require(one_parent and n == self.n_trees + child.size, "children of other parents")
        own = np.array_equal(self.tree[self.root], np.arange(self.n_trees))
        require(own and (self.tree[child] == self.tree[above]).all(), "mixed trees")
        require(self._n_reached() == n, "nodes that no root leads to")
        in_dims = self.n_dims > 0 and _in_range(self.dim[cut], 0, self.n_dims - 1)
        require(in_dims, "a cut along no column")
        require(np.isfinite(self.loc[cut]).all(), "a cut at no place")
        in_time = _in_range(self.time[cut], 0, self.lifetime) and np.isfinite(self.time[cut]).all()
        require(in_time, "a cut out of time")
        require(np.isposinf(self.time[is_leaf]).all(), "a leaf that is cut")
        require((self.time[child] >= self.time[above]).all(), "cuts out of order")
        self._check_boxes()
        count = self.count.astype(np.int64)
        adds_up = (count >= 0).all() and (count[self.root] >= 1).all()
        adds_up = adds_up and (count[cut] == count[left] + count[right]).all()
        require(adds_up, "counts that do not add up")

    def check_leaves(self, leaf: IntArray) -> None:
        """Raise ValueError unless ``leaf`` (N, M) can be the leaf of each row in each tree."""
        fits = leaf.ndim == 2 and leaf.shape[1] == self.n_trees
        require(fits and _in_range(leaf, 0, self.time.size - 1), "leaves of rows that are no nodes")
        own = self.tree[leaf] == np.arange(self.n_trees)
        require((own & (self.left[leaf] < 0)).all(), "leaves of rows in other trees")

    def _check_arrays(self) -> None:
        require(type(self.lifetime) is float, "a lifetime that is no float")
        n = self.time.shape[:1] if isinstance(self.time, np.ndarray) else ()
        for name, array in self.nodes._asdict().items():
            real = name in ("loc", "time", "lower", "upper")
            is_box = name in ("lower", "upper")
            types = (np.float64, np.float32)[: 1 + is_box] if real else (np.int32,)
            fits = isinstance(array, np.ndarray) and array.dtype in types
            fits = fits and array.ndim == 1 + is_box and (name == "root" or array.shape[:1] == n)
            require(fits, f"an array {name} of another type or shape")
        alike = self.lower.shape == self.upper.shape and self.lower.dtype == self.upper.dtype
        require(alike, "an array upper of another type or shape")

    def _check_boxes(self) -> None:
        lower, upper = self.lower, self.upper
        require(_is_finite(lower) and _is_finite(upper), "an impossible box")
        for begin in range(0, self.parent.size, settings.CHECK_NODES):
            some = slice(begin, begin + settings.CHECK_NODES)
            low, high, above = lower[some], upper[some], self.parent[some]
            require((low <= high).all(), "an impossible box")
            above = np.where(above < 0, np.arange(begin, begin + above.size), above)
            nested = (low >= lower.take(above, axis=0)).all()
            nested = nested and (high <= upper.take(above, axis=0)).all()
            require(nested, "a box outside its parent's")

    def _n_reached(self) -> int:
        """Count the nodes below the roots. Each is met once, as it has one parent."""
        level, n = self.root, 0
        while level.size:
            n += level.size
            level = level[self.left[level] >= 0]
            level = np.concatenate([self.left[level], self.right[level]])
        return n


def _is_finite(array: RowArray) -> bool:
    """Whether no entry is NaN or infinite; the extremes tell, without an array of truth values."""
    return bool(np.isfinite(array.min(initial=0.0)) and np.isfinite(array.max(initial=0.0)))


def _in_range(array: IntArray | FloatArray, low: float, high: float) -> bool:
    """Whether all entries lie in [low, high]; NaN does not."""
    return bool(((array >= low) & (array <= high)).all())


class Fading(NamedTuple):
    r"""Features of new rows that fade with time, sorted by ``row``, each in one final ``cell``.

    Feature e has the pieces ``ptr[e]`` to ``ptr[e + 1]``. From ``start`` until the next piece it is
    :math:`\exp(\text{level} - \text{slope}\,(t - \text{start}))/\sqrt{M}`, before the first piece
    :math:`1/\sqrt{M}`.
    """

    row: IntArray
    cell: IntArray
    ptr: NDArray[np.int64]
    start: FloatArray
    level: FloatArray
    slope: FloatArray


def join_trees(parts: list[Trees]) -> Trees:
    """Return the trees of all parts, of one lifetime, in one table."""
    sizes, counts = ([getattr(p, name).size for p in parts] for name in ("time", "root"))
    first_node, first_tree = (np.cumsum([0, *n[:-1]]).tolist() for n in (sizes, counts))

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    tables = {name: joined(name) for name in NodeTable._fields}
    tables["tree"] += np.repeat(first_tree, sizes).astype(np.int32)
    tables["root"] += np.repeat(first_node, counts).astype(np.int32)
    for name in "parent", "left", "right":
        table = tables[name]
        table += np.where(table < 0, 0, np.repeat(first_node, sizes)).astype(np.int32)
    return Trees(parts[0].lifetime, **tables)


class CutSequence:
    """Cuts in time order on cells with lasting numbers.

    At time 0 tree m is the cell m. Cut j, at ``times[j]`` in ``tree[j]``, takes rows from the cell
    ``splits[j]`` and makes of them the new cell M + j. A cell that is split keeps its number and
    the larger part of its rows. ``cell`` (n_nodes,) is the cell that each node is while it lives,
    ``cells`` (N, M) the final cell of each row in each tree. Final cells stand side by side at
    ``place``, from left to right. The cell that cut j splits is then made of the places from
    ``first[j, 0]`` to ``last[j, 0]``, the new one of those in ``[j, 1]``. ``leaf`` (N, M) are the
    leaves of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._trees.growth import Growth
    >>> growth = Growth(np.random.default_rng(0).uniform(size=(20, 2)), n_trees=3, seed=1)
    >>> growth.advance(2.0)
    >>> sequence = CutSequence(*growth.freeze())
    >>> bool((np.diff(sequence.times) >= 0).all()), sequence.cells.shape
    (True, (20, 3))
    """

    def __init__(self, trees: Trees, leaf: IntArray) -> None:
        cuts, n_trees = trees.cuts, trees.n_trees
        left, right = trees.left[cuts.node], trees.right[cuts.node]
        swap = trees.count[left] < trees.count[right]
        large, small = np.where(swap, right, left), np.where(swap, left, right)
        cell = np.full(trees.time.size, -1, np.int32)
        cell[trees.root] = np.arange(n_trees)
        for j, (node, a, b) in enumerate(zip(cuts.node, large, small, strict=True)):
            cell[a] = cell[node]
            cell[b] = n_trees + j
        is_leaf = trees.left < 0
        first = trees.cells(trees.lifetime).column
        self.place = np.empty(n_trees + cuts.node.size, np.int32)
        self.place[cell[is_leaf]] = first[is_leaf]
        last = first + np.int32(1)
        for node, a, b in zip(cuts.node[::-1], left[::-1], right[::-1], strict=True):
            first[node], last[node] = first[a], last[b]
        pair = np.stack([cuts.node, small], axis=1)
        self.trees, self.times, self.tree = trees, cuts.time, cuts.tree
        self.splits, self.cell, self.cells = cell[cuts.node], cell, cell[leaf]
        self.first, self.last = first[pair], last[pair]

    def new_rows(self, X: FloatArray) -> tuple[IntArray, Fading]:
        """Return final cells of rows the trees were not grown on, and how their features fade."""
        from mondrian_kernel._kernels.walk import decay

        trees, X = self.trees, np.ascontiguousarray(X)
        cells = self.cell[trees.walk(X, trees.lifetime)[0]]
        n, size = -1, X.shape[0] * trees.n_trees // 4
        while n < 0 or n > size:
            size = max(size, n)
            whole, real = np.empty((2, size), np.int32), np.empty((3, size))
            n = decay(X, trees.nodes, whole, real)
        row, tree = whole[:, :n]
        begin = np.flatnonzero(np.diff(row.astype(np.int64) * trees.n_trees + tree, prepend=-1))
        row, tree = row[begin], tree[begin]
        return cells, Fading(row, cells[row, tree], np.append(begin, n), *real[:, :n])
