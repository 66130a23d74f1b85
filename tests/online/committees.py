"""Learners by themselves: a batch whose cells are given, and the way back."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from mondrian_kernel._kernels import committee as kernels


class Cells(NamedTuple):
    """Leaves of rows, cells of each node at each rung, their numbers, and which have been cut."""

    leaf: np.ndarray
    column: np.ndarray
    n_cells: np.ndarray
    origin: np.ndarray = np.empty((3, 0), np.int32)


def learn(committee, cells, Y, weight):
    """Let learners learn from rows; return what they said of them before."""
    n_cells, (leaf, column, _, origin) = np.array(cells.n_cells), cells
    committee.commit()
    if not kernels.has_room(n_cells, committee.arrays):
        committee.grow(n_cells)
    *state, said = committee.batch(*leaf.shape)
    kernels.learn(np.empty((0, 0)), Y, weight, (leaf, column, n_cells, origin), *state, said)
    return SimpleNamespace(scores=said[0].copy(), variance=said[1].copy())
