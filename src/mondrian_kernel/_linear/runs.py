"""Trees joined into runs: rows that share their cells in several trees are summed only once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray, IntArray

LANES = 8  # numbers of a cache line, and columns of a product that go through together
NONE: NDArray[np.uint8] = np.empty(0, np.uint8)


class RunTable(NamedTuple):
    """Runs of trees as kernels take them; see :mod:`mondrian_kernel._kernels.joint`.

    ``joint`` (N · R,) are the entries of each row; ``before`` and ``cell`` (E,) are the parts of
    each entry; ``edges``, ``first`` and ``first_cell`` (B + 1,) are the first run, entry and cell
    of each block.
    """

    joint: IntArray
    edges: NDArray[np.int64]
    first: NDArray[np.int64]
    first_cell: NDArray[np.int64]
    before: IntArray
    cell: IntArray


class Runs:
    """Indicator features Φ of rows in a table of cells (N, M) as entries of runs of trees.

    ``original`` is the number that each cell has in that table, which has ``n_cells``.
    """

    def __init__(self, cells: IntArray, n_cells: int) -> None:
        from mondrian_kernel._kernels.joint import join

        self.n_cells, (self.n_rows, n_trees) = n_cells, cells.shape
        limit = max(1, int(settings.RUN_ROW_SHARE * self.n_rows))
        joint, first = np.empty((n_trees, self.n_rows), np.int32), np.empty(n_trees + 1, np.int64)
        before, cell = np.empty((2, self.n_rows * (n_trees + 1)), np.int32)  # mostly not touched
        original = np.empty(n_cells, np.int32)
        n_runs, n_own = join(cells, n_cells, limit, joint, first, before, cell, original)
        if n_own < 0:
            raise ValueError("Two trees share a cell.")
        self.original, first, joint = original[:n_own].copy(), first[: n_runs + 1], joint[:n_runs]
        before, cell = before[: first[-1]].copy(), cell[: first[-1]].copy()
        block = first[:-1] // settings.RUN_BLOCK_ENTRIES
        edges = np.append(np.flatnonzero(np.diff(block, prepend=-1)), n_runs)
        first_cell = np.append(cell[first[edges[:-1]]], n_own)
        # Entries and cells are counted from the first of their block.
        sizes = np.diff(first[edges])
        joint -= np.repeat(first[edges[:-1]], np.diff(edges)).astype(np.int32)[:, None]
        before = np.maximum(before - np.repeat(first[edges[:-1]], sizes), -1).astype(np.int32)
        cell -= np.repeat(first_cell[:-1], sizes).astype(np.int32)
        side_by_side = np.concatenate([joint[a:b].T.ravel() for a, b in pairwise(edges)])
        self.table = RunTable(side_by_side, edges, first[edges], first_cell, before, cell)
        # Most entries and most cells of a block.
        self._rooms = int(sizes.max()), int(np.diff(first_cell).max())

    def scatter(self, V: FloatArray, n_jobs: int | None) -> FloatArray:
        """Return Φᵀ V for V (N, k): sums over the rows of each cell."""
        from mondrian_kernel._kernels.joint import scatter

        def product(panel: FloatArray) -> FloatArray:
            W = rows_of_eight(self.original.size)
            self._added(lambda a, b, sums, *_: scatter(self.table, a, b, panel, sums, W), n_jobs)
            return W

        out = np.zeros((self.n_cells, V.shape[1]))
        out[self.original] = _by_eight(product, V, self.original.size)
        return out

    def gather(self, W: FloatArray, n_jobs: int | None) -> FloatArray:
        """Return Φ W for W (C, k): sums over the cells of each row."""
        from mondrian_kernel._kernels.joint import gather

        def product(panel: FloatArray) -> FloatArray:
            return self._added(
                lambda a, b, sums, _, part: gather(self.table, a, b, panel, sums, part), n_jobs
            )

        return _by_eight(product, W[self.original], self.n_rows)

    def gram(
        self, V: FloatArray, n_jobs: int | None, n_levels: int = 1, same: NDArray[np.uint8] = NONE
    ) -> FloatArray:
        """Return ``Φ S Sᵀ Φᵀ V`` for V (N, k).

        S joins cells, numbered as in ``original``, for each of up to eight levels in its own way:
        bit l of ``same`` (C,) is set where, at level l, a cell is in one group with the cell
        before it. Each level has k / n_levels columns of V, one after another.
        """
        from mondrian_kernel._kernels.joint import gram

        # Some columns of each level go through together.
        same = same * np.uint8(sum(1 << n_levels * j for j in range(LANES // n_levels)))

        def product(panel: FloatArray) -> FloatArray:
            return self._added(
                lambda a, b, sums, T, part: gram(self.table, a, b, same, panel, sums, T, part),
                n_jobs,
            )

        return _by_eight(product, V, self.n_rows, n_levels)

    def _added(
        self,
        product: Callable[[int, int, FloatArray, FloatArray, FloatArray], None],
        n_jobs: int | None,
    ) -> FloatArray:
        """Add up a product (N, 8) over the blocks, which also takes room for entries and cells."""

        def run(begin: int, end: int, part: FloatArray) -> None:
            sums, T = map(rows_of_eight, self._rooms)
            product(begin, end, sums, T, part)

        work = 2 * (self.table.joint.size + self.table.cell.size)
        n_blocks = self.table.edges.size - 1
        return add_in_shares(run, n_blocks, (self.n_rows, LANES), n_jobs, work)


def add_in_shares(
    product: Callable[[int, int, FloatArray], None],
    n: int,
    shape: tuple[int, ...],
    n_jobs: int | None,
    work: float,
    dtype: Any = np.float64,
) -> FloatArray:
    """Add up ``product(begin, end, part)`` over fixed shares of ``range(n)``.

    A product adds to its ``part``, of the given shape, which is 0 at first. Parts are added in
    order, so that threads change nothing.
    """
    edges = np.unique(np.linspace(0, n, settings.OPERATOR_SHARES + 1).astype(int))
    shares = list(pairwise(edges.tolist()))
    parts = _zeros((len(shares), *shape), dtype)

    def run(begin: int, end: int) -> None:
        for share, part in zip(shares[begin:end], parts[begin:end], strict=True):
            product(*share, part)

    in_threads(run, len(shares), n_jobs, work=work)
    total: FloatArray = parts[0]
    for part in parts[1:]:
        total += part
    return total


def _by_eight(
    product: Callable[[FloatArray], FloatArray], V: FloatArray, n_rows: int, n_levels: int = 1
) -> FloatArray:
    """Return a product (n_rows, k) with V, of up to eight columns at a time, as many a level."""
    k, step = V.shape[1] // n_levels, LANES // n_levels
    out = np.empty((n_rows, n_levels, k)).transpose(0, 2, 1)
    V = V.reshape(V.shape[0], n_levels, k).transpose(0, 2, 1)
    for begin in range(0, k, step):
        part, panel = V[:, begin : begin + step], rows_of_eight(V.shape[0])
        width = part.shape[1] * n_levels
        panel[:, :width], panel[:, width:] = part.reshape(-1, width), 0.0
        out[:, begin : begin + step] = product(panel)[:, :width].reshape(-1, *part.shape[1:])
    return out.transpose(0, 2, 1).reshape(n_rows, n_levels * k)


def rows_of_eight(n: int) -> FloatArray:
    """Return room for n rows of eight numbers, each of which is one cache line."""
    return _zeros((n, LANES))


def _zeros(shape: tuple[int, ...], dtype: Any = np.float64) -> FloatArray:
    """Return zeros that begin with a cache line."""
    n = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(n + 64, np.uint8)
    skipped = -room.ctypes.data % 64
    zeros: FloatArray = room[skipped : skipped + n].view(dtype).reshape(shape)
    return zeros
