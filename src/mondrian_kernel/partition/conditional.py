"""A Mondrian process on a larger box, given the one on a smaller: the conditional Mondrian."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.partition.tree import BoxTree, Generation, split

Seed = int | np.random.Generator | np.random.RandomState | None

# Node of an open cell that holds nothing of the tree being extended. Read as an index it is the
# last row, of the last generation, hence a cell: never cut.
_FRESH = -1


def extended(
    old: BoxTree, lower: FloatArray, upper: FloatArray, random_state: Seed
) -> list[Generation]:
    """Conditional Mondrian on [lower, upper] given ``old``, all open cells of a generation at once.

    An open cell is a box of the result, the time of its ``birth`` and the ``node`` of ``old`` that
    it holds, or `_FRESH`.
    """
    rng = _generator(random_state, old.lower[0], old.upper[0])
    generations = []
    lower, upper = lower[None], upper[None]
    node, birth = np.zeros(1, dtype=np.int32), np.zeros(1)
    while node.size:
        dim, loc, time, node = _first_cuts(old, node, birth, lower, upper, rng)
        generations.append((dim, loc, time, lower, upper))
        cut = np.flatnonzero(dim >= 0)
        lower, upper = split(lower[cut], upper[cut], dim[cut], loc[cut])
        birth = time[cut].repeat(2)
    return generations


def _first_cuts(
    old: BoxTree,
    node: IntArray,
    birth: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray, FloatArray, IntArray]:
    """First cut of each open cell: dim, loc, time, and the nodes of ``old`` in the cells it makes.

    The inner box A of a fresh cell is its lower corner, which leaves the whole cell outside A.
    """
    fresh = (node == _FRESH)[:, None]
    inner_lower = np.where(fresh, lower, old.lower[node])
    inner_upper = np.where(fresh, lower, old.upper[node])
    outside = (inner_lower - lower) + (upper - inner_upper)

    clocks = _clocks(outside, rng)
    new_dim = clocks.argmin(axis=1)
    new_time = birth + clocks[np.arange(node.size), new_dim]

    dim, loc, time = old.dim[node], old.loc[node], old.time[node]
    sides = np.stack((old.left[node], old.right[node]), axis=1)
    new = np.flatnonzero((new_time < time) & (new_time <= old.lifetime))
    edge = new, new_dim[new]
    dim[new], time[new] = new_dim[new], new_time[new]
    loc[new], holder = _uniform_outside(
        lower[edge], inner_lower[edge], inner_upper[edge], upper[edge], rng
    )
    sides[new, holder] = node[new]
    sides[new, 1 - holder] = _FRESH
    return dim, loc, time, sides[dim >= 0].ravel()


def _clocks(rate: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Independent Exp(rate) times; a clock of rate 0 never rings."""
    clocks = np.full(rate.shape, np.inf)
    with np.errstate(over="ignore"):
        np.divide(rng.standard_exponential(rate.shape), rate, out=clocks, where=rate > 0)
    return clocks


def _uniform_outside(
    lower: FloatArray,
    inner_lower: FloatArray,
    inner_upper: FloatArray,
    upper: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Uniform on [lower, inner_lower) and [inner_upper, upper) together, which are not both empty.

    Also says which side of the cut holds the inner interval: 0 for the left, 1 for the right.
    """
    below = inner_lower - lower
    offset = rng.random(lower.size) * (below + (upper - inner_upper))
    is_below = (offset < below) | (inner_upper == upper)
    loc = np.where(is_below, lower + offset, inner_upper + (offset - below))
    end = np.where(is_below, inner_lower, upper)
    # Rounding may reach the open end, and a cut there would be on the wrong side of it.
    return np.minimum(loc, np.nextafter(end, -np.inf)), is_below.astype(np.intp)


def _generator(random_state: Seed, lower: FloatArray, upper: FloatArray) -> np.random.Generator:
    """Source of the extension from [lower, upper].

    A seed is mixed with that box: had the partition been sampled with the same seed and drawn from
    the same stream, the new cuts would depend on the old ones.
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    if isinstance(random_state, int | np.integer):
        box = np.concatenate((lower, upper)).view(np.uint32)
        return np.random.default_rng([int(random_state), *box.tolist()])
    return np.random.default_rng(random_state)
