"""Trees joined into runs: rows that share their cells in several trees are summed only once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray, IntArray

LANES = 8  # numbers of a cache line, and columns of a product that go through together

Share = tuple[int, int]  # blocks from, to

NO_GROUPS: NDArray[np.uint8] = np.empty((0, 0), np.uint8)


class RunTable(NamedTuple):
    """Runs of trees as kernels take them; see :mod:`mondrian_kernel._kernels.joint`.

    ``joint`` (R · N,) is the entry of each row in each run; ``before`` and ``cell`` (E,) are the
    parts of each entry; ``edges``, ``first`` and ``first_cell`` (B + 1,) are the first run, entry
    and cell of each block.
    """

    joint: IntArray
    edges: NDArray[np.int64]
    first: NDArray[np.int64]
    first_cell: NDArray[np.int64]
    before: IntArray
    cell: IntArray


@dataclass(frozen=True, eq=False)
class Runs:
    """Indicator features Φ of rows as entries of runs of trees.

    ``shares`` is the first block of each share of the runs; ``original`` is the number of each
    cell in the table of cells that the runs were made of, which had ``n_cells``. In products a row
    i has the value ``scale[i]`` in each of its cells.
    """

    table: RunTable
    shares: NDArray[np.int64]
    original: IntArray
    n_cells: int
    n_rows: int

    def gather(self, W: FloatArray, scale: FloatArray, n_jobs: int | None) -> FloatArray:
        """Return Φ W for W (C, k): scaled sums over the cells of each row."""
        from mondrian_kernel._kernels.joint import gather, leave

        out = np.empty((self.n_rows, W.shape[1]))
        for begin in range(0, W.shape[1], LANES):
            some = W[:, begin : begin + LANES]
            panel = rows_of_eight(self.original.size)
            panel[:, : some.shape[1]], panel[:, some.shape[1] :] = some[self.original], 0.0

            def product(share: Share, part: FloatArray, panel: FloatArray = panel) -> None:
                gather(self.table, *share, panel, rows_of_eight(self._most_entries), part)

            leave(self._added(product, LANES, n_jobs), begin, scale, out)
        return out

    def scatter(self, V: FloatArray, scale: FloatArray, n_jobs: int | None) -> FloatArray:
        """Return Φᵀ V for V (N, k): scaled sums over the rows of each cell."""
        from mondrian_kernel._kernels.joint import enter, scatter

        V, out = np.ascontiguousarray(V), np.zeros((self.n_cells, V.shape[1]))
        for begin in range(0, V.shape[1], LANES):
            panel, W = rows_of_eight(self.n_rows), rows_of_eight(self.original.size)
            enter(V, begin, scale, panel)

            def run(first: int, last: int, panel: FloatArray = panel, W: FloatArray = W) -> None:
                for share in self._shares[first:last]:
                    scatter(self.table, *share, panel, rows_of_eight(self._most_entries), W)

            in_threads(run, len(self._shares), n_jobs, work=self._work)
            out[self.original, begin : begin + LANES] = W[:, : V.shape[1] - begin]
        return out

    def gram(
        self,
        V: FloatArray,
        scale: FloatArray,
        n_jobs: int | None,
        same: NDArray[np.uint8] = NO_GROUPS,
    ) -> FloatArray:
        """Return ``Φ S Sᵀ Φᵀ V`` for V (N, k).

        S joins cells, numbered as in ``original``: bit j of ``same`` (⌈k/8⌉, C) is set where, for
        column j of a panel of eight, a cell is in one group with the cell before it.
        """
        from mondrian_kernel._kernels.joint import enter, gram, gram_of_one, leave

        V, out = np.ascontiguousarray(V), np.empty(V.shape)
        alone = V.shape[1] == 1 and same is NO_GROUPS  # eight would cost as much
        for index, begin in enumerate(range(0, V.shape[1], LANES)):
            panel = np.empty((self.n_rows, 1)) if alone else rows_of_eight(self.n_rows)
            enter(V, begin, scale, panel)
            joined = same[index] if same.size else same.ravel()

            def product(
                share: Share,
                part: FloatArray,
                panel: FloatArray = panel,
                joined: NDArray[np.uint8] = joined,
            ) -> None:
                n_entries, n_cells = self._most_entries, self._most_cells
                if alone:
                    room = np.empty(n_entries), np.empty(n_cells)
                    gram_of_one(self.table, *share, panel[:, 0], *room, part[:, 0])
                else:
                    rooms = rows_of_eight(n_entries), rows_of_eight(n_cells)
                    gram(self.table, *share, joined, panel, *rooms, part)

            leave(self._added(product, panel.shape[1], n_jobs), begin, scale, out)
        return out

    def _added(
        self, product: Callable[[Share, FloatArray], None], width: int, n_jobs: int | None
    ) -> FloatArray:
        """Run a product for each share of the runs and add up the results, (N, width)."""
        from mondrian_kernel._kernels.joint import add_up

        n = len(self._shares)
        rows = np.empty((n * self.n_rows, 1)) if width == 1 else rows_of_eight(n * self.n_rows)
        parts = rows.reshape(n, self.n_rows, width)

        def run(begin: int, end: int) -> None:
            for share, part in zip(self._shares[begin:end], parts[begin:end], strict=True):
                part[:] = 0.0
                product(share, part)

        in_threads(run, n, n_jobs, work=2 * self._work)
        if width == 1:
            total: FloatArray = parts.sum(axis=0)
            return total
        add_up(rows, self.n_rows)
        return rows[: self.n_rows]

    @property
    def _work(self) -> int:
        return self.table.joint.size + self.table.cell.size

    @cached_property
    def _shares(self) -> list[Share]:
        return list(pairwise(self.shares.tolist()))

    @cached_property
    def _most_entries(self) -> int:
        return int(np.diff(self.table.first).max())

    @cached_property
    def _most_cells(self) -> int:
        return int(np.diff(self.table.first_cell).max())


def join_trees(cells: IntArray, n_cells: int) -> Runs:
    """Join the trees of a table of cells (N, M); see :class:`Runs`."""
    from mondrian_kernel._kernels.joint import join, lay_out

    n_rows, n_trees = cells.shape
    limit = max(1, int(settings.RUN_ROW_SHARE * n_rows))
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
    first, first_cell = first[: n_runs + 1], first_cell[: n_runs + 1]
    edges, shares = _blocks(first)
    before, cell = before[:size].copy(), cell[:size].copy()
    side_by_side = np.empty(n_runs * n_rows, np.int32)
    lay_out(joint, edges, first, first_cell, before, cell, side_by_side)
    table = RunTable(side_by_side, edges, first[edges], first_cell[edges], before, cell)
    return Runs(table, shares, original[: first_cell[-1]].copy(), n_cells, n_rows)


def _blocks(first: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first run of each block, and the first block of each share of the runs."""
    n_runs = first.size - 1
    starts: list[int] = []
    shares: list[int] = []
    for begin, end in pairwise(
        np.unique(np.linspace(0, n_runs, settings.RUN_SHARES + 1).astype(int))
    ):
        block = (first[begin:end] - first[begin]) // settings.RUN_BLOCK_ENTRIES
        shares.append(len(starts))
        starts += (begin + np.flatnonzero(np.diff(block, prepend=-1))).tolist()
    return np.array([*starts, n_runs]), np.array([*shares, len(starts)])


def rows_of_eight(n: int) -> FloatArray:
    """Return room for n rows of eight numbers, each of which is one cache line."""
    room = np.empty(n * LANES + LANES)
    skipped = -room.ctypes.data % 64 // 8
    rows: FloatArray = room[skipped : skipped + n * LANES].reshape(n, LANES)
    return rows
