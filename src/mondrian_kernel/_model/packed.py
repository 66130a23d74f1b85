"""A fitted model in the few numbers that all others follow from, for files.

A node's box is that of its rows, and cells follow from the cuts. So a file holds the rows, the leaf
of each row in each tree, and for each node only its cut. It is some ten times smaller than the
arrays that predictions need.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._model.fitted import FittedModel, TrainingRows
from mondrian_kernel._trees.levels import Levels, check_level_lifetimes
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray, RowArray

_FOLLOWS = ("trees", "levels", "rows")


@dataclass(frozen=True, eq=False)
class PackedModel:
    """What a :class:`FittedModel` follows from.

    Attributes
    ----------
    lifetime : float
        Lifetime of the trees.
    n_nodes : ndarray of shape (M,), int64
        Number of nodes of each tree.
    dim : ndarray of shape (n,), int32
        Column of the cut of each node, -1 for a leaf. A node comes before all nodes on its left,
        and these before those on its right.
    loc, time : ndarrays of shape (n_cuts,)
        Places and times of the cuts.
    leaf : ndarray of shape (N, M), int32
        Leaf of each row in each tree, counted from the first node of the tree.
    X, Y, weight, held_out
        The same of :class:`TrainingRows`.
    level_lifetimes, level_weights : ndarrays of shape (L,)
        Lifetimes of the levels, and their weights.
    others : dict
        The other attributes of the model, by name.
    """

    lifetime: float
    n_nodes: NDArray[np.int64]
    dim: IntArray
    loc: FloatArray
    time: FloatArray
    leaf: IntArray
    X: RowArray
    Y: FloatArray
    weight: FloatArray
    held_out: FloatArray | None
    level_lifetimes: FloatArray
    level_weights: FloatArray
    others: dict[str, Any]

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays of the nodes, once they are unpacked."""
        each = 2 * self.X.itemsize * self.X.shape[1] + 44 + 4 * self.level_lifetimes.size
        return int(self.dim.size * each)

    def unpacked(self) -> FittedModel:
        """Return the model, whose trees and levels are right if the arrays pass :meth:`check`."""
        from mondrian_kernel._kernels.grow import join_boxes, link_nodes

        n, root = self.dim.size, (np.cumsum(self.n_nodes) - self.n_nodes).astype(np.int32)
        tree = np.repeat(np.arange(self.n_nodes.size, dtype=np.int32), self.n_nodes)
        parent, left, right, count = (np.empty(n, np.int32) for _ in range(4))
        link_nodes(self.dim, parent, left, right, np.empty(n, np.int32))
        leaf = self.leaf + root
        lower, upper = (np.empty((n, self.X.shape[1]), self.X.dtype) for _ in range(2))
        join_boxes(self.X, leaf, parent, lower, upper, count)
        is_cut = self.dim >= 0
        loc, time = np.full(n, np.inf), np.full(n, np.inf)
        loc[is_cut], time[is_cut] = self.loc, self.time
        if (time < np.where(parent < 0, 0.0, time[parent])).any():
            raise ValueError("A cut comes before the one above it.")
        nodes = root, tree, parent, left, right, self.dim, loc, time, lower, upper, count
        trees = Trees(self.lifetime, *nodes)
        levels = Levels.of(trees, self.level_lifetimes, self.level_weights)
        rows = TrainingRows(leaf, self.Y, self.weight, self.X, self.held_out)
        return FittedModel(trees=trees, levels=levels, rows=rows, **self.others)

    def check(self) -> None:
        """Raise ValueError unless the arrays are those of trees with rows in every leaf.

        What follows from them needs no further check; :meth:`unpacked` checks the order of times.
        """
        (n_rows, n_trees), n, is_cut = self.leaf.shape, self.dim.size, self.dim >= 0
        if self.X.ndim != 2 or self.X.shape[0] != n_rows or not n_rows or not n_trees:
            raise ValueError(f"{n_rows} rows have leaves, but X has the shape {self.X.shape}.")
        if self.X.dtype not in (np.float32, np.float64) or not np.isfinite(self.X).all():
            raise ValueError("X is not of finite numbers, or of another type.")
        in_range = ((self.n_nodes >= 1) & (self.n_nodes <= n)).all()  # so that the sum is right
        if self.n_nodes.shape != (n_trees,) or not in_range or self.n_nodes.sum() != n:
            raise ValueError("The numbers of nodes are not those of the trees.")
        if self.loc.shape != (is_cut.sum(),) or self.time.shape != self.loc.shape:
            raise ValueError("There are other cuts than nodes that are cut.")
        if not self.X.shape[1] or not (self.dim < self.X.shape[1]).all():
            raise ValueError("A cut along no column.")
        in_time = self.time.min(initial=0.0) >= 0 and self.time.max(initial=0.0) <= self.lifetime
        if not (in_time and self.lifetime < np.inf and np.isfinite(self.loc).all()):
            raise ValueError("A cut out of time, or at no place.")
        if self.level_lifetimes.ndim != 1 or self.level_weights.shape != self.level_lifetimes.shape:
            raise ValueError("There are other weights than levels.")
        check_level_lifetimes(self.level_lifetimes, self.level_weights, self.lifetime)
        if set(self.others) != {field.name for field in fields(FittedModel)} - {*_FOLLOWS}:
            raise ValueError("The other attributes are not those of a model.")
        open_after = np.cumsum(np.where(is_cut, 1, -1))  # falls by one from tree to tree
        last = np.cumsum(self.n_nodes) - 1
        before = np.repeat(np.arange(n_trees), self.n_nodes)
        is_last = np.zeros(n, bool)
        is_last[last] = True
        if ((open_after + before < 0) != is_last).any():
            raise ValueError("The nodes are not those of trees.")
        if (self.leaf < 0).any() or (self.leaf >= self.n_nodes).any():
            raise ValueError("The leaf of a row is not a node of its tree.")
        held = np.zeros(n, bool)
        for end, n_own, leaf in zip(last + 1, self.n_nodes, self.leaf.T, strict=True):
            held[end - n_own : end][leaf] = True  # tree by tree, in little memory
        if (held != ~is_cut).any():
            raise ValueError("A leaf without rows, or rows in a node that is cut.")


def pack(model: FittedModel) -> PackedModel | None:
    """Return what a model follows from; None where it does not follow, as from trees of streams.

    A model that holds the rows its trees were grown on follows from them. One without a trend has
    one width, and may share its trees with the path of its fit. It is not packed, so that these
    stay one.
    """
    rows, trees, levels = model.rows, model.trees, model.levels
    if rows is None or rows.X is None or model.trend is None:
        return None
    is_cut = trees.left >= 0
    return PackedModel(
        lifetime=trees.lifetime,
        n_nodes=np.bincount(trees.tree, minlength=trees.n_trees),
        dim=trees.dim,
        loc=trees.loc[is_cut],
        time=trees.time[is_cut],
        leaf=rows.leaf - trees.root,
        X=rows.X,
        Y=rows.Y,
        weight=rows.weight,
        held_out=rows.held_out,
        level_lifetimes=levels.lifetimes,
        level_weights=levels.weights,
        others={f.name: getattr(model, f.name) for f in fields(model) if f.name not in _FOLLOWS},
    )
