"""Trees joined into runs, so that rows which share their cells go through several at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel.partition.threads import in_threads
from mondrian_kernel.partition.trees import FloatArray, IntArray

_PANEL = 8
# A run of trees grows until it has this share of N different rows.
_SHARE = 0.06
# So many entries go through side by side: with their eight numbers they stay in the cache.
_SIDE_BY_SIDE = 4000
# Sums over this many shares of the runs are added in order, so that threads change nothing; nor do
# more threads than that help.
_SHARES = 4

Edges = NDArray[np.int64]


class Levels(NamedTuple):
    """Coarser cells.

    ``groups`` (C, L) in which each cell lies, ascending, and ``level`` (k,) of each column of a
    product.
    """

    groups: IntArray
    level: NDArray[np.int64]


ONE_LEVEL = Levels(np.empty((0, 0), np.int32), np.empty(0, np.int64))


@dataclass(frozen=True, eq=False)
class Runs:
    """Cells of rows as entries of runs of trees; see :mod:`mondrian_kernel._core.joint`.

    ``joint`` (R, N) is the entry of each row in each run, ``first`` and ``first_cell`` (R + 1,) the
    first entry and cell of each run, ``before`` and ``cell`` (E,) what an entry is made of,
    ``original`` the number of each cell in the table that it comes from, which had ``n_cells``.
    """

    joint: IntArray
    first: NDArray[np.int64]
    first_cell: NDArray[np.int64]
    before: IntArray
    cell: IntArray
    original: IntArray
    n_cells: int

    def gather(self, W: FloatArray, n_jobs: int | None) -> FloatArray:
        """Return the sums of W (C, k) over the cells of each row, ``Φ W``."""
        from mondrian_kernel._core.joint import gather

        def product(edges: Edges, panel: FloatArray, columns: slice, out: FloatArray) -> None:
            gather(*self._table, edges, panel, self._room(edges), out)

        return self._added(product, W[self.original], n_jobs)

    def scatter(self, V: FloatArray, n_jobs: int | None) -> FloatArray:
        """Return the sums of V (N, k) over the rows of each cell, ``Φᵀ V``."""
        from mondrian_kernel._core.joint import scatter

        def product(panel: FloatArray, columns: slice) -> FloatArray:
            W = np.empty((self.original.size, _PANEL))

            def run(begin: int, end: int) -> None:
                for edges in self._edges[begin:end]:
                    scatter(*self._table, edges, panel, self._room(edges), W)

            in_threads(run, len(self._edges), n_jobs, work=self._work)
            return W

        result = np.zeros((self.n_cells, V.shape[1]))
        result[self.original] = _by_panels(product, V, self.original.size)
        return result

    def gram(self, V: FloatArray, n_jobs: int | None, levels: Levels = ONE_LEVEL) -> FloatArray:
        """Return ``Φ S Sᵀ Φᵀ V`` for V (N, k), where S joins cells as ``levels`` says."""
        from mondrian_kernel._core.joint import gram

        if V.shape[1] == 1 and levels is ONE_LEVEL:
            return self._gram_of_one(np.ascontiguousarray(V[:, 0]), n_jobs)[:, None]

        def product(edges: Edges, panel: FloatArray, columns: slice, out: FloatArray) -> None:
            level = np.zeros(_PANEL, np.int64)
            level[: levels.level[columns].size] = levels.level[columns]
            T = np.empty((int(np.diff(self.first_cell[edges]).max()), _PANEL))
            gram(*self._table, edges, levels.groups, level, panel, self._room(edges), T, out)

        return self._added(product, V, n_jobs)

    def _gram_of_one(self, v: FloatArray, n_jobs: int | None) -> FloatArray:
        """Return ``Φ Φᵀ v`` for one vector, which needs no panel."""
        from mondrian_kernel._core.joint import gram_of_one

        parts = np.zeros((len(self._edges), v.size))
        n_entries, n_cells = np.diff(self.first).max(), np.diff(self.first_cell).max()

        def run(begin: int, end: int) -> None:
            sums, T = np.empty(n_entries), np.empty(n_cells)
            for edges, part in zip(self._edges[begin:end], parts[begin:end], strict=True):
                gram_of_one(*self._table, edges[0], edges[-1], v, sums, T, part)

        in_threads(run, len(self._edges), n_jobs, work=self._work)
        total: FloatArray = parts.sum(axis=0)
        return total

    def _added(self, product: Callable[..., None], V: FloatArray, n_jobs: int | None) -> FloatArray:
        """Apply a product that adds to its result, share by share of the runs."""
        n_rows = self.joint.shape[1]

        def whole(panel: FloatArray, columns: slice) -> FloatArray:
            parts = np.zeros((len(self._edges), n_rows, _PANEL))

            def run(begin: int, end: int) -> None:
                for k in range(begin, end):
                    product(self._edges[k], panel, columns, parts[k])

            in_threads(run, len(self._edges), n_jobs, work=2 * self._work)
            total: FloatArray = parts.sum(axis=0)
            return total

        return _by_panels(whole, V, n_rows)

    @property
    def _table(self) -> tuple[NDArray[np.integer], ...]:
        return self.joint, self.first, self.first_cell, self.before, self.cell

    @property
    def _work(self) -> int:
        return self.joint.size + self.cell.size

    def _room(self, edges: NDArray[np.int64]) -> FloatArray:
        return np.empty((int(np.diff(self.first[edges]).max()), _PANEL))

    @cached_property
    def _edges(self) -> list[NDArray[np.int64]]:
        """Runs to take side by side, for each share of the runs."""
        shares = np.unique(np.linspace(0, self.joint.shape[0], _SHARES + 1).astype(np.int64))
        edges = []
        for begin, end in pairwise(shares):
            block = (self.first[begin:end] - self.first[begin]) // _SIDE_BY_SIDE
            starts = begin + np.flatnonzero(np.diff(block, prepend=-1))
            edges.append(np.append(starts, end))
        return edges


def join_trees(cells: IntArray, n_cells: int) -> Runs:
    """Join the trees of a table of cells (N, M)."""
    from mondrian_kernel._core.joint import join

    n_rows, n_trees = cells.shape
    limit = max(1, int(_SHARE * n_rows))
    joint, original = np.empty((n_trees, n_rows), np.int32), np.empty(n_cells, np.int32)
    first, first_cell = np.empty(n_trees + 1, np.int64), np.empty(n_trees + 1, np.int64)
    size = -1
    room = 4 * n_rows
    while size == -1:
        room = min(4 * room, n_rows * (n_trees + 1))
        before, cell = np.empty(room, np.int32), np.empty(room, np.int32)
        n_runs, size = join(cells, n_cells, limit, joint, first, first_cell, before, cell, original)
    if size == -2:
        raise ValueError("Two trees share a cell.")
    return Runs(
        joint[:n_runs].copy(), first[: n_runs + 1].copy(), first_cell[: n_runs + 1].copy(),
        before[:size].copy(), cell[:size].copy(), original[: first_cell[n_runs]].copy(), n_cells,
    )  # fmt: skip


def _by_panels(
    product: Callable[[FloatArray, slice], FloatArray], V: FloatArray, n_out: int
) -> FloatArray:
    """Apply a product to eight columns at a time, the last ones filled up with zeros."""
    k = V.shape[1]
    if k == _PANEL:
        return product(np.ascontiguousarray(V), slice(0, k))
    result = np.empty((n_out, k))
    for begin in range(0, k, _PANEL):
        width = min(_PANEL, k - begin)
        panel = np.zeros((V.shape[0], _PANEL))
        panel[:, :width] = V[:, begin : begin + width]
        columns = slice(begin, begin + width)
        result[:, columns] = product(panel, columns)[:, :width]
    return result
