"""Trees of a stream in the few numbers that all others follow from, for files.

Boxes and numbers of rows follow from the rows and their leaves, as long as these are kept. Then the
box of a node is that of its two nodes together, and so is its number of rows. So a file holds those
of the leaves, and the upper side of a box only where it is not the lower one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._trees.checks import require
from mondrian_kernel._trees.online import KeptRows, OnlineTrees
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray, RowArray


@dataclass(frozen=True, eq=False)
class PackedTrees:
    """What :class:`Trees` follow from.

    Attributes
    ----------
    lifetime : float
        Lifetime of the trees.
    root : ndarray of shape (M,), int32
        Root of each tree.
    dim : ndarray of shape (n,), int32
        Column of the cut of each node, -1 for a leaf.
    left, right : ndarrays of shape (n_cuts,), int32
        The two nodes below each cut.
    loc, time : ndarrays of shape (n_cuts,)
        Places and times of the cuts.
    count : ndarray of shape (n_leaves,), int32
        Number of rows of each leaf.
    lower : ndarray of shape (n_leaves, D)
        Lower sides of the boxes of the leaves.
    is_wide : ndarray of shape (n_leaves, D), bool
        Where the upper side is another.
    upper : ndarray of shape (any,)
        The upper sides there, leaf by leaf.
    """

    lifetime: float
    root: IntArray
    dim: IntArray
    left: IntArray
    right: IntArray
    loc: FloatArray
    time: FloatArray
    count: IntArray
    lower: RowArray
    is_wide: NDArray[np.bool_]
    upper: RowArray

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays of the nodes, once they are unpacked."""
        return int(self.dim.size * (2 * self.lower.itemsize * self.lower.shape[-1] + 40))

    def unpacked(self) -> Trees:
        """Return the trees, not checked as such; the arrays must have passed :meth:`check`."""
        from mondrian_kernel._kernels.grow import join_leaves

        n, is_cut = self.dim.size, self.dim >= 0
        left, right, parent = (np.full(n, -1, np.int32) for _ in range(3))
        left[is_cut], right[is_cut] = self.left, self.right
        parent[self.left] = parent[self.right] = np.flatnonzero(is_cut)
        loc, time = np.full(n, np.inf), np.full(n, np.inf)
        loc[is_cut], time[is_cut] = self.loc, self.time
        tree, count, order = (np.zeros(n, np.int32) for _ in range(3))
        lower, upper = (np.empty((n, self.lower.shape[1]), self.lower.dtype) for _ in range(2))
        high = self.lower.copy()
        high[self.is_wide] = self.upper
        lower[~is_cut], upper[~is_cut], count[~is_cut] = self.lower, high, self.count
        join_leaves(self.root, left, right, tree, lower, upper, count, order)
        nodes = self.root, tree, parent, left, right, self.dim, loc, time, lower, upper, count
        return Trees(self.lifetime, *nodes)

    def check(self) -> None:
        """Raise ValueError unless every node is a root or hangs below one cut."""
        n, n_cuts = self.dim.size, int((self.dim >= 0).sum())
        n_leaves, flat = n - n_cuts, (self.left, self.right, self.loc, self.time)
        fits = self.dim.ndim == 1 and all(array.shape == (n_cuts,) for array in flat)
        require(fits, "There are other cuts than nodes that are cut.")
        fits = self.count.shape == (n_leaves,) == self.lower.shape[:1]
        require(fits, "There are other leaves than nodes that are not cut.")
        fits = self.lower.ndim == 2 and self.is_wide.shape == self.lower.shape
        fits = fits and self.lower.dtype == self.upper.dtype
        fits = fits and self.upper.shape == (self.is_wide.sum(),)
        require(fits, "There are other upper sides of boxes than lower ones.")
        numbers = [self.root.dtype, self.count.dtype, *(a.dtype for a in flat[:2]), self.dim.dtype]
        fits = {*numbers} == {np.dtype(np.int32)} and self.root.ndim == 1
        require(fits, "The nodes are numbers of another type.")
        _check_below(np.concatenate([self.root, self.left, self.right]), n)


@dataclass(frozen=True, eq=False)
class PackedOnline:
    """What :class:`OnlineTrees` follow from that hold all their rows since a fit.

    The nodes of the fit come first, as in a :class:`PackedModel`, and keep their cuts and cells. A
    new cut stands between an old node and the one above it, so a file holds only the links that
    are not those of the fit, and of the rest the cells. Boxes are those of the rows.

    Attributes
    ----------
    lifetime : float
        Lifetime of the trees.
    seed : int
        Seed of the trees.
    rungs : ndarray of shape (R,)
        Lifetimes at which cells are numbered.
    n_nodes : ndarray of shape (M,), int64
        Number of nodes of each tree of the fit, n in all.
    root : ndarray of shape (M,), int32
        Root of each tree.
    dim : ndarray of shape (n + n_new,), int32
        Column of the cut of each node, -1 for a leaf.
    loc, time : ndarrays of shape (n_cuts,)
        Places and times of the cuts.
    linked, left, right : ndarrays of shape (any,), int32
        Cuts with new nodes below them, and the two nodes below each.
    column : ndarray of shape (R, n_new), int32
        Cells of the new nodes.
    X : ndarray of shape (N, D)
        All rows as the trees see them.
    fit_leaf, leaf : ndarrays of shapes (N_fit, M) and (N - N_fit, M), int32
        Leaves of the rows of the fit, counted from the first node of the tree, and of the others.
    """

    lifetime: float
    seed: int
    rungs: FloatArray
    n_nodes: NDArray[np.int64]
    root: IntArray
    dim: IntArray
    loc: FloatArray
    time: FloatArray
    linked: IntArray
    left: IntArray
    right: IntArray
    column: IntArray
    X: RowArray
    fit_leaf: IntArray
    leaf: IntArray

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays of the nodes, once they are unpacked."""
        each = 2 * self.X.itemsize * self.X.shape[-1] + 44 + 4 * self.rungs.size
        return int(self.dim.size * each)

    def unpacked(self) -> OnlineTrees:
        """Return the trees; raise ValueError unless the arrays, which pass :meth:`check`, fit."""
        from mondrian_kernel._kernels.grow import join_leaves, join_rows, link_nodes
        from mondrian_kernel._kernels.walk import label_cells

        n, n_fit, is_cut = self.dim.size, int(self.n_nodes.sum()), self.dim >= 0
        parent, left, right = (np.full(n, -1, np.int32) for _ in range(3))
        tree, count, order = (np.zeros(n, np.int32) for _ in range(3))
        loc, time = np.full(n, np.inf), np.full(n, np.inf)
        loc[is_cut], time[is_cut] = self.loc, self.time
        # Links and cells of the fit.
        first = (np.cumsum(self.n_nodes) - self.n_nodes).astype(np.int32)
        link_nodes(self.dim[:n_fit], parent[:n_fit], left[:n_fit], right[:n_fit], order)
        column = np.empty((self.rungs.size, n), np.int32)
        column[:, n_fit:] = self.column
        per_tree, stack = np.empty(first.size, np.int64), np.empty((n_fit + 1, 2), np.int32)
        for cells, rung in zip(column[:, :n_fit], self.rungs.tolist(), strict=True):
            label_cells(first, left[:n_fit], right[:n_fit], time, rung, cells, per_tree, stack)
        # Those of now.
        left[self.linked], right[self.linked] = self.left, self.right
        cut = np.flatnonzero(left >= 0)
        require(((left >= 0) == is_cut).all(), "The nodes are not those of trees.")
        _check_below(np.concatenate([self.root, left[cut], right[cut]]), n)
        parent[left[cut]] = parent[right[cut]] = cut
        parent[self.root] = -1
        leaf = self.fit_leaf + first, self.leaf
        lower, upper = (np.empty((n, self.X.shape[1]), self.X.dtype) for _ in range(2))
        join_rows(self.X, np.concatenate(leaf), lower, upper, count)
        join_leaves(self.root, left, right, tree, lower, upper, count, order)
        nodes = self.root, tree, parent, left, right, self.dim, loc, time, lower, upper, count
        trees = Trees(self.lifetime, *nodes)
        trees.check()
        for part in leaf:
            trees.check_leaves(part)
        parts: list[Any] = np.split(self.X, [len(self.fit_leaf)])
        rows = KeptRows(self.n_nodes, parts, list(leaf))
        return OnlineTrees.from_trees(trees, self.seed, self.rungs, column, rows=rows)

    def check(self) -> None:
        """Raise ValueError unless shapes fit and no number of a node or leaf is out of range."""
        n, n_cuts, n_trees = self.dim.size, int((self.dim >= 0).sum()), self.root.size
        n_fit = int(self.n_nodes.sum())
        flat = self.dim, self.root, self.n_nodes, self.linked, self.left, self.right, self.rungs
        fits = all(array.ndim == 1 for array in flat) and 0 <= self.seed < 2**64
        fits = fits and bool(((self.n_nodes >= 1) & (self.n_nodes <= n)).all())
        fits = fits and 0 < n_trees == self.n_nodes.size and n_fit <= n
        require(fits, "The numbers of nodes are not those of the trees.")
        fits = self.loc.shape == (n_cuts,) == self.time.shape
        require(fits, "There are other cuts than nodes that are cut.")
        fits = self.left.shape == self.linked.shape == self.right.shape
        fits = fits and self.column.shape == (self.rungs.size, n - n_fit)
        require(fits, "There are other links, or cells, than new nodes.")
        for nodes in (self.root, self.linked, self.left, self.right, self.leaf):
            require(((nodes >= 0) & (nodes < n)).all(), "A node is out of range.")
        n_rows = len(self.fit_leaf) + len(self.leaf)
        fits = self.fit_leaf.shape[1:] == (n_trees,) == self.leaf.shape[1:]
        fits = fits and self.X.ndim == 2 and len(self.X) == n_rows
        require(fits, "There are other leaves than rows.")
        own = ((self.fit_leaf >= 0) & (self.fit_leaf < self.n_nodes)).all()
        require(own, "The leaf of a row is not a node of its tree.")
        numbers = self.X.dtype in (np.float32, np.float64) and np.isfinite(self.X).all()
        require(numbers, "X is not of finite numbers, or of another type.")
        open_after = np.cumsum(np.where(self.dim[:n_fit] >= 0, 1, -1))  # as in a PackedModel
        is_last = np.zeros(n_fit, bool)
        is_last[np.cumsum(self.n_nodes) - 1] = True
        before = np.repeat(np.arange(n_trees), self.n_nodes)
        in_order = ((open_after + before < 0) == is_last).all()
        require(in_order, "The nodes of the fit are not those of trees.")


def _check_below(below: IntArray, n: int) -> None:
    """Raise ValueError unless each of n nodes is a root or hangs below one cut."""
    in_range = below.size == n and ((below >= 0) & (below < n)).all()
    require(in_range, "The nodes are not those of trees.")
    is_met = np.zeros(n, bool)
    is_met[below] = True
    require(is_met.all(), "A node belongs to two others.")


def pack_online(online: OnlineTrees) -> PackedOnline | tuple[Any, ...]:
    """Return what online trees follow from; or, where rows are forgotten, their state, packed."""
    trees, seed, rungs, column, stop, rows = online.state
    plain = trees, seed, rungs, column, stop, None
    if rows is None:
        return pack_trees(trees), *plain[1:]
    cut, n_fit = np.flatnonzero(trees.left >= 0), int(rows.n_nodes.sum())
    left, right = trees.left[cut], trees.right[cut]
    linked = (left >= n_fit) | (right >= n_fit) | (cut >= n_fit)
    first = (np.cumsum(rows.n_nodes) - rows.n_nodes).astype(np.int32)
    packed = PackedOnline(
        lifetime=trees.lifetime,
        seed=seed,
        rungs=rungs,
        n_nodes=rows.n_nodes,
        root=trees.root,
        dim=trees.dim,
        loc=trees.loc[cut],
        time=trees.time[cut],
        linked=cut[linked].astype(np.int32),
        left=left[linked],
        right=right[linked],
        column=column[:, n_fit:],
        X=np.concatenate(rows.X),
        fit_leaf=rows.leaf[0] - first,
        leaf=np.concatenate([rows.leaf[0][:0], *rows.leaf[1:]]),
    )
    is_small = packed.n_bytes <= settings.FILE_UNPACKED * packed.loc.nbytes
    return packed if is_small else plain


def pack_trees(trees: Trees) -> Trees | PackedTrees:
    """Return what trees follow from, or the trees where they do not follow or have few cuts."""
    cut, leaf = np.flatnonzero(trees.left >= 0), np.flatnonzero(trees.left < 0)
    lower, upper, loc = trees.lower[leaf], trees.upper[leaf], trees.loc[cut]
    is_wide = lower != upper
    packed = PackedTrees(
        trees.lifetime,
        trees.root,
        trees.dim,
        trees.left[cut],
        trees.right[cut],
        loc,
        trees.time[cut],
        trees.count[leaf],
        lower,
        is_wide,
        upper[is_wide],
    )
    is_small = packed.n_bytes <= settings.FILE_UNPACKED * loc.nbytes
    return packed if is_small and _follows(trees, cut) else trees


def _follows(trees: Trees, cut: NDArray[np.intp]) -> bool:
    """Whether the box of each node that is cut is that of its two nodes together."""
    for begin in range(0, cut.size, settings.CHECK_NODES):
        some = cut[begin : begin + settings.CHECK_NODES]
        left, right = trees.left[some], trees.right[some]
        for box, join in ((trees.lower, np.minimum), (trees.upper, np.maximum)):
            joined = join(box.take(left, axis=0), box.take(right, axis=0))
            if (joined != box.take(some, axis=0)).any():
                return False
    return True
