"""The tree of cuts of a box as flat arrays: build it, restrict it, extend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._trees.checks import naming
from mondrian_kernel._typing import FloatArray, IntArray

Seed = int | np.random.Generator | np.random.RandomState | None

# Marks a new cell that holds no node of the tree being extended. Used as an index it selects the
# last row, which belongs to the last level and is therefore a cell: never cut.
_NO_NODE = -1


class Level(NamedTuple):
    """Nodes of one depth from left to right: their cuts (``dim`` -1 for a cell) and their boxes."""

    dim: IntArray
    loc: FloatArray
    time: FloatArray
    lower: FloatArray
    upper: FloatArray

    def children(self) -> tuple[FloatArray, FloatArray]:
        """Boxes of the children of the nodes that are cut: left and right in turn."""
        cut = np.flatnonzero(self.dim >= 0)
        dim, loc = self.dim[cut], self.loc[cut]
        pair = 2 * np.arange(cut.size)
        lower, upper = self.lower[cut].repeat(2, axis=0), self.upper[cut].repeat(2, axis=0)
        upper[pair, dim] = loc
        lower[pair + 1, dim] = loc
        return lower, upper


@dataclass(frozen=True, eq=False, repr=False)
class BoxTree:
    """Nodes as rows, level after level; the two children of a node are neighbours.

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
    def from_levels(cls, lifetime: float, levels: list[Level]) -> Self:
        """Join levels and link them: the children of the j-th cut are rows 2j + 1 and 2j + 2."""
        dim, loc, time, lower, upper = map(np.concatenate, zip(*levels, strict=True))
        cut = np.flatnonzero(dim >= 0).astype(np.int32)
        parent = np.full(dim.size, -1, dtype=np.int32)
        left, right = parent.copy(), parent.copy()
        parent[1:] = cut.repeat(2)
        left[cut] = np.arange(1, dim.size, 2)
        right[cut] = left[cut] + 1
        arrays = (parent, left, right, dim, loc, time, lower, upper)
        for array in arrays:
            array.flags.writeable = False
        return cls(lifetime, *arrays)


def restricted_levels(tree: BoxTree, lower: FloatArray, upper: FloatArray) -> list[Level]:
    """Levels of [lower, upper], divided by the cuts of ``tree`` that cross it."""
    levels = []
    lower, upper = lower[None], upper[None]
    node = np.zeros(1, dtype=np.int32)
    while node.size:
        node = first_crossing(tree, node, lower, upper)
        levels.append(Level(tree.dim[node], tree.loc[node], tree.time[node], lower, upper))
        lower, upper = levels[-1].children()
        cut = node[tree.dim[node] >= 0]
        node = np.stack((tree.left[cut], tree.right[cut]), axis=1).ravel()
    return levels


def first_crossing(tree: BoxTree, node: IntArray, lower: FloatArray, upper: FloatArray) -> IntArray:
    """Descend from each node to the first one whose cut crosses [lower, upper], or to a cell.

    A cut crosses a box if lower <= loc < upper, that is if it separates two points of the box.
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


def extended_levels(
    tree: BoxTree, lower: FloatArray, upper: FloatArray, random_state: Seed
) -> list[Level]:
    """Sample the conditional Mondrian on [lower, upper] given ``tree``, one level at a time.

    Each new cell has a box, the time ``birth`` at which it appears, and the ``node`` of ``tree``
    that it holds, or `_NO_NODE`.
    """
    with naming("random_state"):
        rng = _generator(random_state, tree.lower[0], tree.upper[0])
    levels = []
    lower, upper = lower[None], upper[None]
    node, birth = np.zeros(1, dtype=np.int32), np.zeros(1)
    while node.size:
        level, node = _first_cuts(tree, node, birth, lower, upper, rng)
        levels.append(level)
        lower, upper = level.children()
        birth = level.time[level.dim >= 0].repeat(2)
    return levels


def _first_cuts(
    tree: BoxTree,
    node: IntArray,
    birth: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    rng: np.random.Generator,
) -> tuple[Level, IntArray]:
    """First cut of each new cell, and the nodes of ``tree`` that its two halves hold.

    A cell without a node is treated as one that holds its own lower corner: all of it is new.
    """
    is_empty = (node == _NO_NODE)[:, None]
    inner_lower = np.where(is_empty, lower, tree.lower[node])
    inner_upper = np.where(is_empty, lower, tree.upper[node])

    rate = (inner_lower - lower) + (upper - inner_upper)
    clocks = np.full(rate.shape, np.inf)
    with np.errstate(over="ignore"):
        np.divide(rng.standard_exponential(rate.shape), rate, out=clocks, where=rate > 0)
    new_dim = clocks.argmin(axis=1)
    new_time = birth + clocks[np.arange(node.size), new_dim]

    dim, loc, time = tree.dim[node], tree.loc[node], tree.time[node]
    halves = np.stack((tree.left[node], tree.right[node]), axis=1)
    new = np.flatnonzero((new_time < time) & (new_time <= tree.lifetime))
    edge = new, new_dim[new]
    dim[new], time[new] = new_dim[new], new_time[new]
    loc[new], holder = _uniform_outside(
        lower[edge], inner_lower[edge], inner_upper[edge], upper[edge], rng
    )
    halves[new, holder] = node[new]
    halves[new, 1 - holder] = _NO_NODE
    return Level(dim, loc, time, lower, upper), halves[dim >= 0].ravel()


def _uniform_outside(
    lower: FloatArray,
    inner_lower: FloatArray,
    inner_upper: FloatArray,
    upper: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Draw a location uniform on [lower, inner_lower) and [inner_upper, upper) together.

    Also return which side of the cut holds the inner interval: 0 for left, 1 for right.
    """
    below = inner_lower - lower
    offset = rng.random(lower.size) * (below + (upper - inner_upper))
    is_below = (offset < below) | (inner_upper == upper)
    loc = np.where(is_below, lower + offset, inner_upper + (offset - below))
    end = np.where(is_below, inner_lower, upper)
    # Rounding may reach the open end, where the cut would be on the wrong side of the interval.
    return np.minimum(loc, np.nextafter(end, -np.inf)), is_below.astype(np.intp)


def _generator(random_state: Seed, lower: FloatArray, upper: FloatArray) -> np.random.Generator:
    """Random generator of the extension from [lower, upper].

    An integer seed is mixed with the box. Otherwise a partition sampled and extended with the
    same seed would use the same random numbers twice, and new cuts would depend on old ones.
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    if isinstance(random_state, int | np.integer):
        box = np.concatenate((lower, upper)).view(np.uint32)
        return np.random.default_rng([int(random_state), *box.tolist()])
    return np.random.default_rng(random_state)


def _check_numbers(values: ArrayLike, name: str, ndim: int) -> FloatArray:
    """Copy ``values`` to float64; refuse text, objects, complex numbers and the wrong shape."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    with np.errstate(over="ignore"):  # a long double may become infinite, and is then refused
        return array.astype(np.float64)


def check_box(lower: ArrayLike, upper: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Bounds of a box as new float64 arrays; a ValueError names the first bad column."""
    low, high = _check_numbers(lower, "lower", 1), _check_numbers(upper, "upper", 1)
    if low.shape != high.shape or low.size == 0:
        raise ValueError(
            "lower and upper must have the same, non-zero length, "
            f"got shapes {low.shape} and {high.shape}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        twice_side = 2.0 * (high - low)  # rounded parts of a side may add up to more than the side
    for bad, message in (
        (~np.isfinite(low), "lower[{d}] must be finite, got {low}"),
        (~np.isfinite(high), "upper[{d}] must be finite, got {high}"),
        (low > high, "lower[{d}]={low} is greater than upper[{d}]={high}"),
        (
            ~np.isfinite(twice_side),
            "upper[{d}] - lower[{d}] overflows: {high} - {low}; rescale column {d}",
        ),
    ):
        if bad.any():
            d = bad.argmax()
            raise ValueError(message.format(d=d, low=low[d], high=high[d]))
    return low, high


def check_nested(
    inner: tuple[FloatArray, FloatArray], outer: tuple[FloatArray, FloatArray], action: str
) -> None:
    """Refuse ``action`` unless the inner box (lower, upper) lies within the outer box."""
    (lower, upper), (outer_lower, outer_upper) = inner, outer
    if lower.size != outer_lower.size:
        raise ValueError(
            f"cannot {action}: the smaller box has {lower.size} column(s), "
            f"the larger box {outer_lower.size}"
        )
    if (bad := (lower < outer_lower) | (outer_upper < upper)).any():
        d = bad.argmax()
        raise ValueError(
            f"cannot {action}: in column {d}, [{lower[d]}, {upper[d]}] does not lie within "
            f"[{outer_lower[d]}, {outer_upper[d]}]"
        )


def check_size(lower: FloatArray, upper: FloatArray, lifetime: float) -> None:
    """Refuse a box whose partition is expected to exceed `PARTITION_MAX_BYTES`."""
    side = upper - lower
    with np.errstate(over="ignore"):
        expected = float(np.prod(1.0 + lifetime * side[side > 0]))
    bytes_per_cell = 2 * (2 * 8 * side.size + 2 * 8 + 4 * 4)  # about two nodes per cell
    if expected * bytes_per_cell > settings.PARTITION_MAX_BYTES:
        raise ValueError(
            f"a Mondrian process on this box until lifetime={lifetime!r} has {expected:.3g} cells "
            f"on average (the product of 1 + lifetime * side over {side.size} column(s)), more "
            f"than the {settings.PARTITION_MAX_BYTES // bytes_per_cell:,} that are allowed; "
            "choose a smaller lifetime or a smaller box"
        )


def check_points(X: ArrayLike, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Rows as float64; a ValueError names the first row that is not in [lower, upper]."""
    points = _check_numbers(X, "X", 2)
    if points.shape[1] != lower.size:
        raise ValueError(f"X has {points.shape[1]} column(s), but the box has {lower.size}")
    if (bad := ~((lower <= points) & (points <= upper))).any():
        row, d = np.argwhere(bad)[0]
        raise ValueError(
            f"row {row} of X is outside the box: in column {d}, {points[row, d]} is not in "
            f"[{lower[d]}, {upper[d]}]; extend the partition to a box that contains it"
        )
    return points
