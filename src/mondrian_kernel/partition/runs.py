"""Trees joined into runs, so that rows which share their cells go through several at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel.partition.trees import FloatArray, IntArray, in_threads

_PANEL = 8
# A run of trees grows until it has this share of N different rows.
_SHARE = 0.06


class Runs(NamedTuple):
    """Cells of rows as entries of runs of trees; see :mod:`mondrian_kernel._core.joint`.

    ``joint`` (R, N) is the entry of each row in each run, ``first`` (R + 1,) the first entry of
    each run, ``before`` and ``cell`` (E,) what an entry is made of.
    """

    joint: IntArray
    first: NDArray[np.int64]
    before: IntArray
    cell: IntArray

    def gather(self, W: FloatArray, scale: FloatArray, n_jobs: int | None) -> FloatArray:
        """Return the sums of W (C, k) over the cells of each row, times its scale, (N, k)."""
        from mondrian_kernel._core.joint import add_up, gather

        n_runs, n_rows = self.joint.shape
        sums = np.empty((self.cell.size, _PANEL))

        def product(panel: FloatArray, out: FloatArray) -> None:
            in_threads(
                lambda a, b: add_up(*self[1:], panel, a, b, sums),
                n_runs, n_jobs, work=self.cell.size,
            )  # fmt: skip
            in_threads(
                lambda a, b: gather(self.joint, scale, sums, a, b, out),
                n_rows, n_jobs, work=self.joint.size,
            )  # fmt: skip

        return _by_panels(product, W, n_rows)

    def scatter(self, V: FloatArray, n_cells: int, n_jobs: int | None) -> FloatArray:
        """Return the sums of V (N, k) over the rows of each cell, (C, k)."""
        from mondrian_kernel._core.joint import scatter

        sums = np.empty((self.cell.size, _PANEL))

        def product(panel: FloatArray, out: FloatArray) -> None:
            out[:] = 0.0
            in_threads(
                lambda a, b: scatter(*self, panel, a, b, sums, out),
                self.joint.shape[0], n_jobs, work=self.joint.size + self.cell.size,
            )  # fmt: skip

        return _by_panels(product, V, n_cells)


def join_trees(cells: IntArray, n_cells: int) -> Runs:
    """Join the trees of a table of cells (N, M)."""
    from mondrian_kernel._core.joint import join

    n_rows, n_trees = cells.shape
    limit = max(1, int(_SHARE * n_rows))
    joint, first = np.empty((n_trees, n_rows), np.int32), np.empty(n_trees + 1, np.int64)
    size = -1
    room = 4 * n_rows
    while size == -1:
        room = min(4 * room, n_rows * (n_trees + 1))
        before, cell = np.empty(room, np.int32), np.empty(room, np.int32)
        n_runs, size = join(cells, n_cells, limit, joint, first, before, cell)
    if size == -2:
        raise ValueError("Two trees share a cell.")
    return Runs(
        joint[:n_runs].copy(), first[: n_runs + 1].copy(), before[:size].copy(), cell[:size].copy()
    )


def _by_panels(
    product: Callable[[FloatArray, FloatArray], None], V: FloatArray, n_out: int
) -> FloatArray:
    """Apply a product to eight columns at a time, the last ones filled up with zeros."""
    k = V.shape[1]
    out = np.empty((n_out, _PANEL))
    if k == _PANEL:
        product(np.ascontiguousarray(V), out)
        return out
    result = np.empty((n_out, k))
    for begin in range(0, k, _PANEL):
        width = min(_PANEL, k - begin)
        panel = np.zeros((V.shape[0], _PANEL))
        panel[:, :width] = V[:, begin : begin + width]
        product(panel, out)
        result[:, begin : begin + width] = out[:, :width]
    return result
