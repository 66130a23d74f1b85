"""Where on the way of the trees the learner is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._typing import FloatArray

_GROUP = 8
_CLEARLY = 0.03


def in_groups(n: int) -> list[slice]:
    """Part so many lifetimes into groups of eight, which cost as much as one.

    The group that is left with fewer is the first, whose cells are the fewest.
    """
    edges = [0, *range(n % _GROUP or _GROUP, n + 1, _GROUP)]
    return [slice(begin, end) for begin, end in pairwise(edges)]


def cell_targets(n_trees: int, last: int, n_lifetimes: int) -> list[int]:
    """Numbers of cells in geometric progression from just above M to ``last``."""
    steps = np.arange(1, n_lifetimes + 1) / n_lifetimes
    return sorted({round(n_trees * (last / n_trees) ** s) for s in steps})


def lifetimes_between(
    cut_times: FloatArray, end: float, n_trees: int, n_lifetimes: int
) -> FloatArray:
    """Lifetimes up to ``end``, placed by the growth of the number of cells."""
    cut_times = cut_times[cut_times <= end]
    if not np.isfinite(end):
        end = float(cut_times[-1]) if cut_times.size else 0.0
    if cut_times.size == 0:
        return np.array([end])
    targets = cell_targets(n_trees, n_trees + cut_times.size, n_lifetimes)
    cuts = np.maximum(np.array(targets) - n_trees, 1)
    return np.unique(np.append(cut_times[cuts[:-1] - 1], end))


def growing(growth: Growth, n_lifetimes: int, max_cells: int) -> Iterator[FloatArray]:
    """Yield groups of lifetimes, the trees growing just as far as the next group needs.

    Ends when every row has a cell of its own or at ``max_cells``.
    """
    seen = 0.0
    targets = cell_targets(growth.n_trees, max_cells, n_lifetimes)
    for part in in_groups(len(targets)):
        group = targets[part]
        growth.advance_within(np.inf, group[-1])
        times = growth.cut_times
        if times.size == 0:
            yield np.zeros(1)
            return
        wanted = np.minimum(np.array(group) - growth.n_trees, times.size)
        lifetimes = np.unique(times[wanted[wanted > 0] - 1])
        lifetimes = lifetimes[lifetimes > seen]
        if lifetimes.size:
            yield lifetimes
            seen = lifetimes[-1]
        if growth.done and seen == times[-1]:
            return


def passed_its_best(best: FloatArray, patience: int, clearly: float | None = None) -> bool:
    """Whether the best of a path lies ``patience`` lifetimes back and the last is clearly worse.

    ``best`` (L,) is the best score at each lifetime. Clearly is by more than ``clearly``, or by 3 %
    of an error.
    """
    if int(np.argmin(best)) > best.size - 1 - patience:
        return False
    margin = _CLEARLY * best.min() if clearly is None else clearly
    return bool(best[-1] > best.min() + margin)
