"""What must hold in saved trees and their features."""

from __future__ import annotations

from typing import Any

import numpy as np

from mondrian_kernel._trees.trees import Cells, Trees
from mondrian_kernel._typing import IntArray
from mondrian_kernel.persistence.forms import check_arrays, in_range, require


def check_trees(trees: Trees) -> None:
    """Every node hangs once below the root of its own tree, and cuts follow each other in time."""
    n, inner = trees.time.size, trees.left >= 0
    require(in_range(trees.root, 0, n - 1), trees, "roots out of range")
    cut = np.flatnonzero(inner)
    left, right = trees.left[cut], trees.right[cut]
    both = np.concatenate([left, right])
    require(in_range(both, 0, n - 1), trees, "children out of range")
    require((trees.right[~inner] < 0).all(), trees, "a node with one child")
    require((trees.parent[trees.root] == -1).all(), trees, "a root with a parent")
    above = np.concatenate([cut, cut])
    hangs = (trees.parent[both] == above).all() and (left != right).all()
    require(hangs and n == trees.n_trees + both.size, trees, "children of other parents")
    require(np.array_equal(trees.tree[trees.root], np.arange(trees.n_trees)), trees, "mixed trees")
    require((trees.tree[both] == trees.tree[above]).all(), trees, "mixed trees")
    require(_n_reached(trees) == n, trees, "nodes that no root leads to")

    require(
        trees.n_dims > 0 and in_range(trees.dim[cut], 0, trees.n_dims - 1),
        trees,
        "a cut along no dim",
    )
    require(np.isfinite(trees.loc[cut]).all(), trees, "a cut at no place")
    known = type(trees.lifetime) is float and in_range(trees.time[cut], 0, trees.lifetime)
    require(known and np.isfinite(trees.time[cut]).all(), trees, "a cut out of time")
    require(np.isposinf(trees.time[~inner]).all(), trees, "a leaf that is cut")
    require((trees.time[both] >= trees.time[above]).all(), trees, "cuts out of order")
    boxes = np.isfinite(trees.lower) & np.isfinite(trees.upper) & (trees.lower <= trees.upper)
    require(boxes.all(), trees, "an impossible box")
    held = trees.lower[both] >= trees.lower[above], trees.upper[both] <= trees.upper[above]
    require(held[0].all() and held[1].all(), trees, "a box outside its parent's")
    counts = trees.count.astype(np.int64)
    adds_up = (
        (counts >= 0).all()
        and (counts[trees.root] >= 1).all()
        and (counts[cut] == counts[left] + counts[right]).all()
    )
    require(adds_up, trees, "counts that do not add up")


def _n_reached(trees: Trees) -> int:
    """Nodes below the roots; each is met once, as it has one parent."""
    front, n = trees.root, 0
    while front.size:
        n += front.size
        front = front[trees.left[front] >= 0]
        front = np.concatenate([trees.left[front], trees.right[front]])
    return n


def check_cells(cells: Cells) -> None:
    """Every tree has cells, and every node a number that is one or none."""
    require((cells.per_tree >= 1).all(), cells, "a tree without cells")
    require(in_range(cells.column, -1, cells.total - 1), cells, "cells out of range")


def check_features(features: Any) -> None:
    """Cells are those of the trees at the lifetime, each with a column."""
    trees, cells, lifetime = features.trees_, features._cells, features.lifetime_
    require(type(trees) is Trees and type(cells) is Cells, features, "no trees")
    check_arrays(cells, {"M": trees.n_trees, "n": trees.time.size})
    known = type(lifetime) is float and 0 <= lifetime <= trees.lifetime
    require(known, features, "a lifetime that its trees have not reached")
    whole = np.isinf(trees.time) | (trees.time > lifetime)
    require((cells.column[whole] >= 0).all(), features, "a cell without a column")
    same = features.n_cells_ == cells.total
    same = same and np.array_equal(features.n_cells_per_tree_, cells.per_tree)
    require(same, features, "two numbers of cells")
    require(features.n_features_in_ == trees.n_dims, features, "trees of other dims")


def check_leaf(value: Any, leaf: IntArray, trees: Trees) -> None:
    """Row i lies in tree m in a leaf of tree m."""
    require(leaf.ndim == 2 and leaf.shape[1] == trees.n_trees, value, "leaves of other trees")
    require(in_range(leaf, 0, trees.time.size - 1), value, "leaves out of range")
    require((trees.left < 0)[leaf].all(), value, "rows in a node that is cut")
    own = (trees.tree[leaf] == np.arange(trees.n_trees)).all()
    require(own, value, "rows in leaves of another tree")
