"""A Mondrian process on a smaller box: the cuts that cross it."""

from __future__ import annotations

import numpy as np

from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.partition.tree import BoxTree, Generation, split


def restricted(tree: BoxTree, lower: FloatArray, upper: FloatArray) -> list[Generation]:
    """Nodes of [lower, upper] by the cuts of ``tree`` that cross it."""
    generations = []
    lower, upper = lower[None], upper[None]
    node = np.zeros(1, dtype=np.int32)
    while node.size:
        node = first_crossing(tree, node, lower, upper)
        dim, loc, time = tree.dim[node], tree.loc[node], tree.time[node]
        generations.append((dim, loc, time, lower, upper))
        cut = np.flatnonzero(dim >= 0)
        lower, upper = split(lower[cut], upper[cut], dim[cut], loc[cut])
        node = np.stack((tree.left[node[cut]], tree.right[node[cut]]), axis=1).ravel()
    return generations


def first_crossing(tree: BoxTree, node: IntArray, lower: FloatArray, upper: FloatArray) -> IntArray:
    """Descend from each node to the first whose cut crosses the box [lower, upper], or to a cell.

    A cut crosses if lower <= loc < upper, that is if it parts two points of the box.
    """
    node = node.copy()
    moving = np.arange(node.size)
    while moving.size:
        here = node[moving]
        edge = moving, tree.dim[here]
        loc = tree.loc[here]  # NaN at a cell, where both comparisons are false
        goes_left = upper[edge] <= loc
        goes_right = loc < lower[edge]
        below = np.where(goes_left, tree.left[here], tree.right[here])
        moves = goes_left | goes_right
        moving = moving[moves]
        node[moving] = below[moves]
    return node
