"""The sparse feature matrix Φ of some rows, as an operator."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._trees.runs import Runs, join_trees
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray, IntArray

# Partial sums over this many groups of slots are added in order, so that threads change nothing.
_GROUPS = 8
_NO_VALUES = np.empty((0, 0))

_Slots = tuple[IntArray, FloatArray, NDArray[np.int64]]


class Design:
    """Φ of shape (N, C) with M non-zeros a row, one in each slot, never formed.

    Parameters
    ----------
    cells : ndarray of shape (N, M), int32
        Column of each non-zero.
    values : ndarray of shape (N, M) or None
        Value of each non-zero; where None all are :math:`1/√M`.
    n_cells : int
        Number of columns, C.
    n_jobs : int or None
        Threads. No product depends on it.
    """

    def __init__(
        self, cells: IntArray, values: FloatArray | None, n_cells: int, n_jobs: int | None = None
    ) -> None:
        self.cells = np.ascontiguousarray(cells, dtype=np.int32)
        self.values = _NO_VALUES if values is None else np.ascontiguousarray(values, dtype=float)
        if values is not None and self.values.shape != self.cells.shape:
            raise ValueError(f"values {self.values.shape} and cells {self.cells.shape} differ.")
        if self.cells.size and not 0 <= self.cells.min() <= self.cells.max() < n_cells:
            raise ValueError(f"cells has columns outside [0, {n_cells}).")
        self.n_rows, self.n_slots = self.cells.shape
        self.n_cells = n_cells
        self.n_jobs = n_jobs
        self.constant = self.n_slots**-0.5
        self._slots: _Slots | None = None

    @property
    def square(self) -> FloatArray:
        """Squared length ‖φ_i‖² of each row, shape (N,)."""
        if self.values is _NO_VALUES:
            return np.ones(self.n_rows)
        return np.asarray((self.values**2).sum(axis=1))

    def scores(self, W: FloatArray) -> FloatArray:
        """Return Φ W, shape (N, K)."""
        from mondrian_kernel._kernels.dual import gather

        F = np.empty((self.n_rows, W.shape[1]))
        W = np.ascontiguousarray(W)

        def run(begin: int, end: int) -> None:
            gather(self.cells, self.values, self.constant, W, begin, end, F)

        in_threads(run, self.n_rows, self.n_jobs)
        return F

    def weights(self, R: FloatArray) -> FloatArray:
        """Return Φᵀ R, shape (C, K)."""
        from mondrian_kernel._kernels.dual import scatter

        W = np.zeros((self.n_cells, R.shape[1]))
        scatter(self.cells, self.values, self.constant, np.ascontiguousarray(R), W)
        return W

    def gram(self, V: FloatArray) -> FloatArray:
        """Return Φ Φᵀ V, shape (N, K); no two slots may share a column."""
        from mondrian_kernel._kernels.dual import gram

        if self.values is _NO_VALUES:
            return self._runs.gram(V, self.n_jobs)
        local, values, sizes = self._by_slot()
        edges = np.linspace(0, self.n_slots, _GROUPS + 1).astype(int)
        V = np.ascontiguousarray(V)

        def run(begin: int, end: int) -> list[FloatArray]:
            parts = []
            for g in range(begin, end):
                part = np.zeros_like(V)
                gram(local, values, sizes, V, edges[g], edges[g + 1], part)
                parts.append(part)
            return parts

        first, *rest = [part for parts in in_threads(run, _GROUPS, self.n_jobs) for part in parts]
        for part in rest:
            first += part
        out: FloatArray = first
        return out

    @cached_property
    def _runs(self) -> Runs:
        return join_trees(self.cells, self.n_cells, np.full(self.n_rows, self.constant))

    def _by_slot(self) -> _Slots:
        from mondrian_kernel._kernels.dual import localise

        if self._slots is None:
            local = np.empty((self.n_slots, self.n_rows), np.int32)
            sizes = np.empty(self.n_slots, np.int64)
            owner = np.full(self.n_cells, -1, np.int32)
            if not localise(self.cells, owner, local, sizes):
                raise ValueError("Two slots of cells share a column.")
            self._slots = local, np.ascontiguousarray(self.values.T), sizes
        return self._slots
