"""The conditional Mondrian on a box cuts at the right times and uniformly on the gaps.

Each new cut is compared with the law it was drawn from, given everything before it. The transformed
values are independent and uniform, or exponential, whatever the tree looks like. Only the first
`N_CUTS` of a kind are used: a random number of them would depend on their values.
"""

from collections import defaultdict
from functools import cache

import numpy as np
import pytest
from scipy.stats import expon, uniform

from laws.level import assert_law
from mondrian_kernel.partition import MondrianPartition

INNER = ([0.3, 0.2], [0.7, 0.8])
OUTER = ([0.0, 0.0], [1.0, 1.0])
LIFETIME = 4.0
N_CUTS = 10_000
N_WAITS = 40_000  # a rate that is 5 % off shifts the law of the waits by 2 % only


def cells_with_old_nodes(old, new):
    """Nodes of the extension ``new``, each with the node of ``old`` that it holds, or None."""
    stack = [(0, 0)]
    while stack:
        i, j = stack.pop()
        yield i, j
        dim, loc = new["dim"][i], new["loc"][i]
        if dim < 0:
            continue
        if j is not None and new["time"][i] == old["time"][j]:
            halves = (old["left"][j], old["right"][j])
        elif j is not None:
            halves = (None, j) if loc < old["lower"][j][dim] else (j, None)
        else:
            halves = (None, None)
        stack += [(new["left"][i], halves[0]), (new["right"][i], halves[1])]


def plain(partition):
    """Arrays of a partition as lists, which plain loops read faster."""
    names = ("left", "right", "dim", "loc", "time", "birth", "lower", "upper")
    return {name: getattr(partition, name).tolist() for name in names}


@cache
def cuts():
    """Transformed times and locations of the new cuts of many extensions, by kind.

    A "wait" is the time between two cuts, measured in gap length times duration summed over all
    cells in turn. Measured like this the cuts of all cells are one Poisson process of rate 1.
    """
    rng = np.random.default_rng(20)
    found = defaultdict(list)
    wait = 0.0
    while len(found) < 7 or min(map(len, found.values())) < N_CUTS:
        partition = MondrianPartition.sample(*INNER, LIFETIME, random_state=rng)
        old, new = plain(partition), plain(partition.extend(*OUTER, random_state=rng))
        for i, j in cells_with_old_nodes(old, new):
            lower, upper = new["lower"][i], new["upper"][i]
            inner_lower, inner_upper = (
                (lower, lower) if j is None else (old["lower"][j], old["upper"][j])
            )
            gaps = [
                (b - a, d - c)
                for a, b, c, d in zip(lower, inner_lower, inner_upper, upper, strict=True)
            ]
            rate = sum(map(sum, gaps))
            end = LIFETIME if j is None else min(old["time"][j], LIFETIME)
            lived = min(new["time"][i], end) - new["birth"][i]
            wait += rate * lived
            if new["time"][i] >= end:  # an old cut, or none
                continue
            found["wait"].append(wait)
            wait = 0.0
            kind = "time before the lifetime" if end == LIFETIME else "time before an old cut"
            found[kind].append(np.expm1(-rate * lived) / np.expm1(-rate * (end - new["birth"][i])))
            dim, loc = new["dim"][i], new["loc"][i]
            side = 0 if loc < inner_lower[dim] else 1
            offset = loc - (lower, inner_upper)[side][dim]
            before = sum(map(sum, gaps[:dim])) + side * gaps[dim][0]
            found["all gaps"].append((before + offset) / rate)
            kind = "new cell" if j is None else ("gap below", "gap above")[side]
            found[kind].append(offset / gaps[dim][side])
    assert len(found["wait"]) >= N_WAITS
    waits = found.pop("wait")[:N_WAITS]
    return {"wait": waits, **{kind: values[:N_CUTS] for kind, values in found.items()}}


@pytest.mark.parametrize("kind", ["gap below", "gap above", "new cell"])
def test_cuts_are_uniform_on_their_gap(kind):
    assert_law(cuts()[kind], uniform.cdf)


def test_column_and_location_are_uniform_on_all_gaps_together():
    assert_law(cuts()["all gaps"], uniform.cdf)


@pytest.mark.parametrize("kind", ["time before the lifetime", "time before an old cut"])
def test_times_of_new_cuts_fill_the_life_of_the_cell(kind):
    assert_law(cuts()[kind], uniform.cdf)


def test_new_cuts_come_at_the_rate_of_the_gaps():
    assert_law(cuts()["wait"], expon.cdf)
