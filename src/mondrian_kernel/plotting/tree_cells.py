"""The cells of one tree of fitted features, as a partition that can be drawn."""

from __future__ import annotations

import numpy as np

from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import MondrianFeatures
from mondrian_kernel.partition import MondrianPartition
from mondrian_kernel.partition.tree import Generation, split


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
    node = trees.root[[tree]]
    lower, upper = trees.lower[node] * factor, trees.upper[node] * factor
    generations: list[Generation] = []
    while node.size:
        cut = trees.time[node] <= lifetime
        dim = np.where(cut, trees.dim[node], np.int32(-1))
        loc = np.where(cut, trees.loc[node] * factor[dim], np.nan)
        time = np.where(cut, trees.time[node], np.inf)
        generations.append((dim, loc, time, lower, upper))
        lower, upper = split(lower[cut], upper[cut], dim[cut], loc[cut])
        node = np.stack((trees.left[node[cut]], trees.right[node[cut]]), axis=1).ravel()
    return MondrianPartition._of_generations(lifetime, generations)
