"""The cells of one tree of fitted features, as a partition that can be drawn."""

from __future__ import annotations

import numpy as np

from mondrian_kernel.features import MondrianFeatures
from mondrian_kernel.partition.box import MondrianPartition
from mondrian_kernel.partition.trees import FloatArray


def tree_partition(
    features: MondrianFeatures, tree: int = 0, scale: FloatArray | None = None
) -> MondrianPartition:
    """Draw the cuts of one tree across the bounding box of the rows.

    A tree knows the cuts that part rows. Each is drawn across the whole cell it cuts, up to the
    box of all rows; cuts in the empty space between rows, which no feature depends on, are not
    known and not drawn. ``scale`` is what inputs were divided by, to have the cells in their units.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import MondrianFeatures
    >>> from mondrian_kernel.plotting.tree_cells import tree_partition
    >>> X = np.random.default_rng(0).uniform(size=(100, 2))
    >>> features = MondrianFeatures(3.0, 10, random_state=0).fit(X)
    >>> bool(tree_partition(features, 4).n_cells == features.n_cells_per_tree_[4])
    True
    """
    trees, lifetime = features.trees_, features.lifetime_
    factor = np.ones(trees.n_dims) if scale is None else scale
    order = [int(trees.root[tree])]
    for node in order:  # which grows as it is gone through: generation after generation
        if trees.time[node] <= lifetime:
            order += [int(trees.left[node]), int(trees.right[node])]
    nodes = np.array(order)
    cut = trees.time[nodes] <= lifetime
    place = np.empty(trees.time.size, np.int32)
    place[nodes] = np.arange(nodes.size)
    parent = place[trees.parent[nodes]]
    parent[0] = -1
    left = np.where(cut, place[trees.left[nodes]], np.int32(-1))
    right = np.where(cut, place[trees.right[nodes]], np.int32(-1))
    dim = np.where(cut, trees.dim[nodes], np.int32(-1))
    loc = np.where(cut, trees.loc[nodes] * factor[dim], np.nan)
    time = np.where(cut, trees.time[nodes], np.inf)
    lower = np.tile(trees.lower[order[0]] * factor, (nodes.size, 1))
    upper = np.tile(trees.upper[order[0]] * factor, (nodes.size, 1))
    for p in np.flatnonzero(cut):
        for child, side in (left[p], upper), (right[p], lower):
            lower[child], upper[child] = lower[p], upper[p]
            side[child, dim[p]] = loc[p]
    return MondrianPartition(lifetime, parent, left, right, dim, loc, time, lower, upper)
