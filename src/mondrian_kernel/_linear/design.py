"""The rows of a ridge problem as cells, at several levels of coarseness at once."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._trees.runs import NO_GROUPS, Runs, join_trees
from mondrian_kernel._typing import FloatArray, IntArray


class Design:
    r"""Indicator features Φ of rows at nested levels, scaled and centred.

    Row i has the value :math:`\sqrt{s_i / M}` in each of its M cells, with s its sample weight.
    Level l joins cells into coarser ones, :math:`\Phi_l = \Phi S_l`. With ``centre`` all products
    are those of :math:`H \Phi_l` with :math:`H = I - u u^\top`, :math:`u \propto \sqrt{s}`: ridge
    regression with an intercept that is not penalised.

    Parameters
    ----------
    cells : ndarray of shape (N, M), int32
        Finest cell of each row in each tree, numbered over all trees.
    groups : ndarray of shape (C, L), int32
        Cell at level l in which a finest cell lies, ascending: those of a coarser cell stand side
        by side.
    sample_weight : ndarray of shape (N,) or None
        Positive weights s.
    centre : bool
        Whether there is an intercept.
    n_jobs : int or None
        Threads; no result depends on it.
    """

    def __init__(
        self,
        cells: IntArray,
        groups: IntArray,
        sample_weight: FloatArray | None = None,
        *,
        centre: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.cells, self.groups, self.centre, self.n_jobs = cells, groups, centre, n_jobs
        if np.any(groups[1:] < groups[:-1]):
            raise ValueError("groups must ascend from cell to cell.")
        n_rows, n_trees = cells.shape
        self.sample_weight = np.ones(n_rows) if sample_weight is None else sample_weight
        self.root_weight: FloatArray = np.sqrt(self.sample_weight)
        self.scale: FloatArray = self.root_weight / np.sqrt(n_trees)
        self.total_weight = float(self.sample_weight.sum())
        self._bits: dict[int, NDArray[np.uint8]] = {}
        self.mean_direction: FloatArray = self.root_weight / np.sqrt(self.total_weight)

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return int(self.cells.shape[0])

    @property
    def n_levels(self) -> int:
        """Number of levels L."""
        return int(self.groups.shape[1])

    @cached_property
    def n_cells(self) -> NDArray[np.int64]:
        """Number of cells at each level."""
        n: NDArray[np.int64] = self.groups.max(axis=0).astype(np.int64) + 1
        return n

    @cached_property
    def _runs(self) -> Runs:
        return join_trees(self.cells, self.groups.shape[0], self.scale)

    def level(self, index: int) -> Design:
        """Return the one level alone."""
        return flat_design(
            self.groups[:, index][self.cells], int(self.n_cells[index]), self.sample_weight,
            centre=self.centre, n_jobs=self.n_jobs,
        )  # fmt: skip

    def centred(self, V: FloatArray) -> FloatArray:
        """Apply H to the columns of V, in place."""
        from mondrian_kernel._kernels.cells import centre

        if self.centre:
            centre(self.mean_direction, V)
        return V

    def gather(self, W: FloatArray) -> FloatArray:
        """Product with the finest features, ``Φ W``, not centred."""
        return self._runs.gather(W, self.n_jobs)

    def scatter(self, V: FloatArray) -> FloatArray:
        """Product with the finest features, ``Φᵀ V``, not centred."""
        return self._runs.scatter(V, self.n_jobs)

    def gram(self, V: FloatArray) -> FloatArray:
        """``K_l V_l`` for all levels; columns ``l·k .. l·k + k - 1`` of V belong to level l."""
        same = self._same(V.shape[1] // self.n_levels)
        return self.centred(self._runs.gram(self.centred(V.copy()), self.n_jobs, same))

    def _same(self, per_level: int) -> NDArray[np.uint8]:
        """Which cells lie in one group with the cell before, for the columns of a product."""
        if self._joined is None:
            return NO_GROUPS
        if per_level not in self._bits:
            columns = np.repeat(self._joined, per_level, axis=1)
            bits = np.packbits(columns, axis=1, bitorder="little")
            self._bits[per_level] = np.ascontiguousarray(bits.T)
        return self._bits[per_level]

    @cached_property
    def _joined(self) -> NDArray[np.bool_] | None:
        """Whether a cell is in one group with the cell before it (C, L), in the runs' order."""
        groups = self.groups
        if self.n_levels == 1 and np.array_equal(groups[:, 0], np.arange(groups.shape[0])):
            return None
        joined: NDArray[np.bool_] = np.diff(groups[self._runs.original], axis=0, prepend=-1) == 0
        return joined

    def coef(self, dual: FloatArray) -> FloatArray:
        """Weights ``w = Φᵀ H a`` of dual coefficients a, at the finest level."""
        return self.scatter(self.centred(dual.copy()))


def flat_design(
    cells: IntArray,
    n_cells: int,
    sample_weight: FloatArray | None = None,
    *,
    centre: bool = True,
    n_jobs: int | None = None,
) -> Design:
    """Return a design of one level."""
    fine = np.arange(n_cells, dtype=np.int32)[:, None]
    return Design(cells, fine, sample_weight, centre=centre, n_jobs=n_jobs)
