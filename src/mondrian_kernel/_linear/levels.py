"""The operator of a kernel that is a weighted sum over several lifetimes of the same trees."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from mondrian_kernel._settings import LEVEL_SHARES, WORK_A_THREAD
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray


class LevelOperator:
    r"""Products with the features Φ of fitted rows at several lifetimes.

    Row i has the value :math:`\sqrt{s_i w_l / M}` in its cell of each tree at level l, with s its
    sample weight and w the weight of the level. With ``centre`` all products with K are those of
    :math:`H \Phi \Phi^\top H`, :math:`H = I - u u^\top`, :math:`u \propto \sqrt{s}`: ridge
    regression with an intercept that is not penalised.

    Parameters
    ----------
    trees : Trees
        The trees.
    leaf : ndarray of shape (N, M), int32
        Leaf of each row in each tree.
    levels : Levels
        Lifetimes and their weights.
    sample_weight : ndarray of shape (N,) or None
        Positive weights s.
    rows : ndarray of shape (N, D)
        The rows that the trees were grown on. Only :meth:`kernel_columns` reads them.
    n_jobs : int or None
        Threads; no result depends on it.
    """

    def __init__(
        self,
        trees: Trees,
        leaf: IntArray,
        levels: Levels,
        sample_weight: FloatArray | None,
        rows: FloatArray,
        *,
        centre: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.levels, self.centre, self.n_jobs, self._rows = levels, centre, n_jobs, rows
        n_rows = leaf.shape[0]
        self.sample_weight = np.ones(n_rows) if sample_weight is None else sample_weight
        self.root_weight: FloatArray = np.sqrt(self.sample_weight)
        self.total_weight = float(self.sample_weight.sum())
        self.mean_direction: FloatArray = self.root_weight / np.sqrt(self.total_weight)
        finest, per_tree = levels.column[-1], levels.per_tree[-1]
        self._first = np.concatenate([[0], np.cumsum(per_tree)])
        # Finest cells are renumbered from left to right, tree by tree: coarser ones are runs.
        order = trees.left_to_right()
        top = order[finest[order] >= 0]
        top = top[np.diff(finest[top], prepend=-1) != 0]
        place = np.empty(top.size, np.int32)
        place[finest[top]] = np.arange(top.size, dtype=np.int32)
        self._original = finest[top]
        self._group = np.ascontiguousarray(levels.column[:, top])
        small = per_tree.max() <= np.iinfo(np.uint16).max
        local = place[finest[leaf]].T - self._first[:-1, None]
        self._cells = np.ascontiguousarray(local, dtype=np.uint16 if small else np.int32)
        self._weight = levels.weights / trees.n_trees

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return int(self._cells.shape[1])

    @property
    def n_cells(self) -> int:
        """Number of cells of all levels, the number of features."""
        return self.levels.n_features

    def with_weights(self, weights: FloatArray) -> LevelOperator:
        """Return the same cells with other weights of the levels, which need not sum to 1."""
        other = object.__new__(LevelOperator)
        for name, value in vars(self).items():
            setattr(other, name, value)
        other._weight = weights / self._cells.shape[0]
        return other
