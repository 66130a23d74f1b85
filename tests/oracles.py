"""Slow, literal transcriptions of the paper's process and formulas, to test the library against.

Nothing here is shared with the library: plain Python over numpy, numpy's random generator, one
clock for every dimension, the bounding box of the rows at hand computed anew at every node.
"""

from typing import NamedTuple

import numpy as np


class Node(NamedTuple):
    """A node of a Mondrian tree on rows: its life, its cut (None: a cell) and its children."""

    rows: np.ndarray
    birth: float
    time: float
    dim: int | None = None
    loc: float | None = None
    left: "Node | None" = None
    right: "Node | None" = None


def mondrian_tree(X, lifetime, rng, rows=None, birth=0.0):
    """Sample the Mondrian process on the rows of ``X`` until ``lifetime`` (paper §2.2, §2.3).

    By projectivity the process on a node needs only the bounding box of the node's rows. Each
    dimension of that box has an exponential clock whose rate is its side; the first to ring is cut
    at a uniform location, and the process starts again in both halves.
    """
    rows = np.arange(len(X)) if rows is None else rows
    lower, upper = X[rows].min(axis=0), X[rows].max(axis=0)
    clocks = [birth + rng.exponential(1.0 / s) if s > 0 else np.inf for s in upper - lower]
    dim = int(np.argmin(clocks))
    time = clocks[dim]
    if time > lifetime or time == np.inf:
        return Node(rows, birth, np.inf)
    loc = rng.uniform(lower[dim], upper[dim])
    goes_left = X[rows, dim] <= loc
    left = mondrian_tree(X, lifetime, rng, rows[goes_left], time)
    right = mondrian_tree(X, lifetime, rng, rows[~goes_left], time)
    return Node(rows, birth, time, dim, loc, left, right)


def nodes(tree):
    """Return all nodes of a sampled tree, parents before children."""
    found = [tree]
    for node in found:
        if node.dim is not None:
            found += [node.left, node.right]
    return found


def n_cells(tree, lifetime):
    """Return the number of cells of a tree at a lifetime: one more than the cuts by then."""
    return 1 + sum(node.time <= lifetime for node in nodes(tree))


def path_to(tree, row):
    """Return the nodes that hold a row, from the root down."""
    path = [tree]
    while path[-1].dim is not None:
        node = path[-1]
        path.append(node.left if row in node.left.rows else node.right)
    return path


def path_down(trees, m, x):
    """Return the frozen nodes that a point meets in tree ``m``, from the root to its leaf."""
    path = [int(trees.root[m])]
    while trees.left[path[-1]] >= 0:
        node = path[-1]
        goes_left = x[trees.dim[node]] <= trees.loc[node]
        path.append(int(trees.left[node] if goes_left else trees.right[node]))
    return path


def stay_probability(trees, m, x, lifetime):
    r"""Return :math:`\prod \exp(-\Delta (t_1 - t_0))`: no cut parts ``x`` from its cell."""
    probability, birth = 1.0, 0.0
    for node in path_down(trees, m, x):
        death = min(trees.time[node], lifetime)
        outside = np.maximum(trees.lower[node] - x, 0.0) + np.maximum(x - trees.upper[node], 0.0)
        if outside.any():
            probability *= np.exp(-outside.sum() * (death - birth))
        birth = death
        if trees.time[node] > lifetime:
            break
    return probability


def stays_in_a_sampled_extension(trees, m, x, lifetime, rng):
    """Extend tree ``m`` to the point ``x`` once (conditional Mondrian): is ``x`` still in its cell?

    In a node with box A, extended to the least box that holds ``x`` as well, each dimension has a
    clock for cuts that miss A, whose rate is the length added. Where one rings in the node's life,
    the cut falls on the added length, hence between A and ``x``.
    """
    birth = 0.0
    for node in path_down(trees, m, x):
        death = min(trees.time[node], lifetime)
        lower, upper = trees.lower[node], trees.upper[node]
        below, above = np.maximum(lower - x, 0.0), np.maximum(x - upper, 0.0)
        for side in (below, above):
            for length in side:
                if length > 0 and birth + rng.exponential(1.0 / length) <= death:
                    return False
        birth = death
        if trees.time[node] > lifetime:
            break
    return True


def splitmix64(state):
    """Yield the numbers of Steele, Lea and Flood's generator, in unbounded integers."""
    mask = 2**64 - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield z ^ (z >> 31)


def objective(loss, Y, F, W, alpha, sample_weight=None):
    """Weighted sum of the losses of scores ``F`` plus the penalty, each by its definition."""
    if loss == "squared":
        losses = ((Y - F) ** 2).sum(axis=1)
    elif loss == "hinge":
        losses = np.maximum(1.0 - Y * F, 0.0).sum(axis=1)
    elif Y.shape[1] == 1:
        losses = np.log1p(np.exp(-Y * F)).sum(axis=1)
    else:
        losses = np.log(np.exp(F).sum(axis=1)) - (Y * F).sum(axis=1)
    s = np.ones(len(Y)) if sample_weight is None else sample_weight
    return s @ losses + alpha * (W**2).sum()
