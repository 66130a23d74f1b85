"""Go through cuts block by block: errors and evidence after each, drift checked at the ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mondrian_kernel._linear.cut_block import CutBlock, cut_block
from mondrian_kernel._linear.cut_factor import Dual, FloatArray, IntArray, Nested, Primal
from mondrian_kernel._linear.row_tree import row_tree

# Cuts whose columns stand together while rows are swept: 64 columns of 5000 cells fill a cache.
_WIDTH = 32
_SMALLEST_BLOCK, _LARGEST_BLOCK, _CELLS_PER_CUT = 16, 1024, 4
_SAMPLE = 4
# A block may drift this many times as far as the solution by its fresh factor.
_FRESH = 4.0


class HeldOut(NamedTuple):
    r"""Rows to predict: final cells (V, M), targets (V,), and how their features fade.

    ``fade`` holds five arrays, sorted by the first three: row, partition, start, level, slope. From
    the time ``start`` until the next entry of the same row and partition the feature is
    :math:`\exp(\text{level} - \text{slope}\,(t - \text{start}))/\sqrt M`, else :math:`1/\sqrt M`.
    """

    cells: IntArray
    y: FloatArray
    fade: tuple[IntArray, IntArray, FloatArray, FloatArray, FloatArray] | None = None


class CutSweep:
    """State after ``done`` cuts; see :func:`mondrian_kernel._linear.every_cut.every_cut`."""

    def __init__(
        self,
        cells: IntArray,
        splits: IntArray,
        y: FloatArray,
        alpha: float,
        times: FloatArray | None,
        validation: HeldOut | None,
        tolerance: float,
    ) -> None:
        n, m = cells.shape
        self.y, self.alpha, self.tolerance, self.done = y, alpha, tolerance, 0
        self.validation = validation
        self.times = np.zeros(splits.size) if times is None else times
        self.splits, self.m = splits, m
        self.cells = cells
        # Before any cut K = 11ᵀ.
        self.coef = np.full(m, y.sum() / ((n + alpha) * m**0.5))
        self.residual = y - y.sum() / (n + alpha)
        self.slack = np.full(n, 1.0 - 1.0 / (n + alpha))
        self.train, self.loo, self.cross, self.log_det, self.held_out = (
            np.full(splits.size + 1, np.nan) for _ in range(5)
        )
        r = self.residual
        self.train[0], self.loo[0] = r @ r / n, np.mean((r / self.slack) ** 2)
        self.cross[0] = (y - r) @ r
        self.log_det[0] = n * np.log(alpha) + np.log1p(n / alpha)
        if validation is not None:
            self.held_out[0] = np.mean((validation.y - y.sum() / (n + alpha)) ** 2)
        self.solver: list[str] = []
        self.n_repeats, self.max_drift, self.fresh_drift = 0, 0.0, 0.0

    def begin(self) -> None:
        """Sort the rows and set up the primal."""
        self.nested = Nested.of(self.cells, self.splits)
        self.factor: Primal | Dual = Primal(self.nested, self.alpha)
        rows = self.cells
        if self.validation is not None:
            rows = np.concatenate([rows, self.validation.cells])
            self._group_fading()
        self.tree = row_tree(rows)

    def _group_fading(self) -> None:
        """Group the pieces of fading features by row and partition."""
        assert self.validation is not None
        if self.validation.fade is None:
            none = np.empty(0, np.int32)
            self.pieces = (np.empty(0), np.empty(0), np.empty(0))
            self.fading, self.fading_ptr = (none, none), np.zeros(1, np.int64)
            return
        row, partition, *pieces = self.validation.fade
        key = row.astype(np.int64) * self.m + partition
        first = np.flatnonzero(np.diff(key, prepend=-1))
        self.pieces = (pieces[0], pieces[1], pieces[2])
        self.fading = (row[first], self.validation.cells[row[first], partition[first]])
        self.fading_ptr = np.append(first, row.size)

    def advance(self, block: int | None) -> None:
        """Do the next block of cuts."""
        n, n_cells = self.cells.shape[0], self.m + self.done
        if n_cells > n and isinstance(self.factor, Primal):
            self.factor = Dual(self.nested, self.alpha, self.done)
        self.factor.factor()
        self._refresh()
        size = min(n, n_cells) // _CELLS_PER_CUT
        k = block or min(max(size, _SMALLEST_BLOCK), _LARGEST_BLOCK)
        k = min(k, self.splits.size - self.done)
        while not self._try(k):
            self.n_repeats += 1
            k = (k + 1) // 2
        self.factor.advance(k)
        self.solver.append("primal" if isinstance(self.factor, Primal) else "dual")

    def _refresh(self) -> None:
        """Take weights, residuals and log-determinant from the factor; check the leverages."""
        n = self.y.size
        log_det, stage = self.factor.log_det(), self.nested.stage(self.done)
        self.coef, residual = self.factor.fit(self.y)
        if residual is None:
            residual = self._residual(self.coef, stage)
        self.fresh_drift = self._drift(self.coef, residual, stage)
        jump = np.linalg.norm(residual - self.residual) / (np.linalg.norm(self.y) or 1.0)
        self.residual = residual
        self.log_det[self.done] = log_det
        sample = slice(len(self.solver) % n, None, max(n // _SAMPLE, 1))
        slack = self.factor.slack(sample)
        drift = float(np.abs(self.slack[sample] / slack - 1.0).max())
        if drift > self.tolerance:
            self.n_repeats += 1
            for begin in range(0, n, 512):
                self.slack[begin : begin + 512] = self.factor.slack(slice(begin, begin + 512))
        self.max_drift = max(self.max_drift, float(jump), drift)

    def _residual(self, coef: FloatArray, stage: IntArray) -> FloatArray:
        fitted = self.tree.product(coef[:, None] * self.m**-0.5, stage)[: self.y.size, 0]
        residual: FloatArray = self.y - fitted
        return residual

    def _try(self, k: int) -> bool:
        """Do k cuts and keep them, unless they have drifted and can be fewer."""
        low_rank = cut_block(self.factor, k, self.coef, self.residual)
        residual, slack = self.residual.copy(), self.slack.copy()
        sums, held_out = self._sweep(low_rank, residual, slack)
        coef = low_rank.last_coef
        drift = self._drift(coef, residual, self.nested.stage(self.done + k))
        if not drift <= max(self.tolerance, _FRESH * self.fresh_drift) and k > 1:
            return False
        n, at = self.y.size, slice(self.done + 1, self.done + k + 1)
        self.train[at], self.loo[at], self.cross[at] = sums[:, 0] / n, sums[:, 1] / n, sums[:, 2]
        self.log_det[at] = self.log_det[self.done] + np.cumsum(
            np.log(-low_rank.d[0::2]) + np.log(low_rank.d[1::2])
        )
        self.held_out[at] = held_out
        self.max_drift = max(self.max_drift, drift)
        self.coef, self.residual, self.slack, self.done = coef, residual, slack, self.done + k
        return True

    def _sweep(
        self, low_rank: CutBlock, residual: FloatArray, slack: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Carry rows through the cuts of a block; residual and slack are changed in place."""
        from mondrian_kernel._kernels.cut_rows import fade, sweep_new, sweep_rows

        n, k = self.y.size, low_rank.step.size // 2
        stage = self.nested.stage(self.done + k)
        sums, held_out = np.empty((k, 3)), np.full(k, np.nan)
        bend = 1.0 / (self.alpha * low_rank.d)
        if self.validation is not None:
            level = self.tree.product(low_rank.coef[:, None] * self.m**-0.5, stage)[n:, 0].copy()
            entry_row, entry_cell = self.fading[0], stage[self.fading[1]]
            weight = low_rank.coef[entry_cell] * self.m**-0.5
        for begin in range(0, k, _WIDTH):
            end = min(begin + _WIDTH, k)
            columns = slice(2 * begin, 2 * end)
            Y = np.multiply(low_rank.Y[:, columns], self.m**-0.5, order="C")
            R = self.tree.product(Y, stage)
            if low_rank.R is not None:
                R[:n] = low_rank.R[:, columns]
            step = low_rank.step[columns]
            sweep_rows(R, self.y, step, bend[columns], residual, slack, sums[begin:end])
            if self.validation is not None:
                P = np.empty((level.size, end - begin))
                sweep_new(R, n, step, level, P)
                times = self.times[self.done + begin : self.done + end]
                fade(
                    Y, step, times, entry_row, entry_cell, self.fading_ptr, *self.pieces, weight, P
                )
                held_out[begin:end] = np.mean((P - self.validation.y[:, None]) ** 2, axis=0)
        return sums, held_out

    def _drift(self, coef: FloatArray, residual: FloatArray, stage: IntArray) -> float:
        """Bound on the error of ``residual`` relative to y: the better of two.

        Weights with gradient g = Φᵀr - αw are off by A⁻¹g, and ‖ΦA⁻¹g‖ <= ‖g‖ / (2√α). Residuals r
        miss (ΦΦᵀ + αI) r = αy by αρ, hence are off by αGρ, and ‖αGρ‖ <= ‖ρ‖.
        """
        from mondrian_kernel._kernels.cut_rows import collect

        true, gradient = self._residual(coef, stage), np.empty(coef.size)
        collect(self.cells, stage, true, gradient)
        gradient = gradient * self.m**-0.5 - self.alpha * coef
        by_weights = np.linalg.norm(gradient) / (2.0 * self.alpha**0.5)
        by_weights += np.linalg.norm(residual - true)
        collect(self.cells, stage, residual, gradient)
        rho = self._residual(gradient / (self.alpha * self.m**0.5), stage) - residual
        by_rows = np.linalg.norm(rho)
        return float(min(by_weights, by_rows) / (np.linalg.norm(self.y) or 1.0))

    def info(self) -> dict[str, float]:
        """Tell the callback where the path stands."""
        return {
            "n_cells": self.m + self.done,
            "train_error": float(self.train[self.done]),
            "loo_error": float(self.loo[self.done]),
            "validation_error": float(self.held_out[self.done]),
            "max_drift": self.max_drift,
        }
