"""Trees of a stream in the few numbers that all others follow from, for files.

The box of a node is that of its two nodes together, and so is its number of rows. So a file holds
those of the leaves, and the upper side of a box only where it is not the lower one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
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
        count[~is_cut] = self.count
        leaves = self.lower, self.is_wide, self.upper
        join_leaves(self.root, left, right, tree, *leaves, lower, upper, count, order)
        nodes = self.root, tree, parent, left, right, self.dim, loc, time, lower, upper, count
        return Trees(self.lifetime, *nodes)

    def check(self) -> None:
        """Raise ValueError unless every node is a root or hangs below one cut."""
        n, n_cuts = self.dim.size, int((self.dim >= 0).sum())
        n_leaves, flat = n - n_cuts, (self.left, self.right, self.loc, self.time)
        if self.dim.ndim != 1 or any(array.shape != (n_cuts,) for array in flat):
            raise ValueError("There are other cuts than nodes that are cut.")
        if self.count.shape != (n_leaves,) or self.lower.shape[:1] != (n_leaves,):
            raise ValueError("There are other leaves than nodes that are not cut.")
        fits = self.lower.ndim == 2 and self.is_wide.shape == self.lower.shape
        fits = fits and self.lower.dtype == self.upper.dtype
        if not fits or self.upper.shape != (self.is_wide.sum(),):
            raise ValueError("There are other upper sides of boxes than lower ones.")
        numbers = [self.root.dtype, self.count.dtype, *(a.dtype for a in flat[:2]), self.dim.dtype]
        if {*numbers} != {np.dtype(np.int32)} or self.root.ndim != 1:
            raise ValueError("The nodes are numbers of another type.")
        below = np.concatenate([self.root, self.left, self.right])
        if below.size != n or not ((below >= 0) & (below < n)).all():
            raise ValueError("The nodes are not those of trees.")
        is_met = np.zeros(n, bool)
        is_met[below] = True
        if not is_met.all():
            raise ValueError("A node belongs to two others.")


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
