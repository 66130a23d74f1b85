"""The tree of cuts of a box, as flat read-only arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from mondrian_kernel._typing import FloatArray, IntArray

Generation = tuple[IntArray, FloatArray, FloatArray, FloatArray, FloatArray]
"""Nodes of one depth, left to right: dim, loc and time of their cuts, lower and upper."""


@dataclass(frozen=True, eq=False, repr=False)
class BoxTree:
    """Nodes as rows, generation after generation; the children of a node are neighbours.

    The attributes are those of :class:`MondrianPartition`.
    """

    lifetime: float
    parent: IntArray
    left: IntArray
    right: IntArray
    dim: IntArray
    loc: FloatArray
    time: FloatArray
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def _of_point(cls, point: FloatArray, lifetime: float) -> Self:
        """Tree of a single point, which is never cut."""
        uncut = np.full(1, -1, dtype=np.int32), np.full(1, np.nan), np.full(1, np.inf)
        return cls._of_generations(lifetime, [(*uncut, point[None], point[None])])

    @classmethod
    def _of_generations(cls, lifetime: float, generations: list[Generation]) -> Self:
        """Join generations and link them: the children of the j-th cut are rows 2j+1 and 2j+2."""
        dim, loc, time, lower, upper = map(np.concatenate, zip(*generations, strict=True))
        cut = np.flatnonzero(dim >= 0).astype(np.int32)
        parent = np.full(dim.size, -1, dtype=np.int32)
        left, right = parent.copy(), parent.copy()
        parent[1:] = cut.repeat(2)
        left[cut] = np.arange(1, dim.size, 2)
        right[cut] = left[cut] + 1
        columns = (parent, left, right, dim, loc, time, lower, upper)
        for column in columns:
            column.flags.writeable = False
        return cls(lifetime, *columns)


def split(
    lower: FloatArray, upper: FloatArray, dim: IntArray, loc: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Cut each box at ``loc`` of ``dim``: left and right halves in turn, two rows a box."""
    box = np.arange(dim.size)
    lower, upper = lower.repeat(2, axis=0), upper.repeat(2, axis=0)
    upper[2 * box, dim] = loc
    lower[2 * box + 1, dim] = loc
    return lower, upper
