"""Ridge regression after every cut of nested partitions, exactly.

A block of cuts is one low-rank update of a factor. Errors and evidence are known after each cut;
drift is checked at the end of each block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._linear.cut_factor import CutBlock, Dual, Nested, Primal, cut_block, row_tree
from mondrian_kernel._settings import (
    CELLS_PER_CUT,
    CUT_BLOCK_LEAST,
    CUT_BLOCK_MOST,
    FRESH_DRIFT,
    LEVERAGE_SAMPLE,
    SWEEP_CUTS,
)
from mondrian_kernel._typing import FloatArray, IntArray

Callback = Callable[[int, int, dict[str, float]], object]


class HeldOut(NamedTuple):
    r"""Rows to predict: final cells (V, M), targets (V,), and how their features fade.

    ``fade`` holds five arrays, sorted by the first three: row, partition, start, level, slope. From
    the time ``start`` until the next entry of the same row and partition the feature is
    :math:`\exp(\text{level} - \text{slope}\,(t - \text{start}))/\sqrt M`, else :math:`1/\sqrt M`.
    """

    cells: IntArray
    y: FloatArray
    fade: tuple[IntArray, IntArray, FloatArray, FloatArray, FloatArray] | None = None


@dataclass(frozen=True, eq=False)
class EveryCut:
    r"""Ridge regression before any cut (index 0) and after each of J cuts (index 1 to J).

    Attributes
    ----------
    n_cells : ndarray of shape (J + 1,)
        Number of features C.
    train_error, loo_error : ndarray of shape (J + 1,)
        Mean squared residual, and mean squared leave-one-out residual r_i / (1 - h_i).
    validation_error : ndarray of shape (J + 1,) or None
        Mean squared error on the held-out rows, at the time of the cut.
    log_det : ndarray of shape (J + 1,)
        :math:`\ln\det(\Phi\Phi^\top + \alpha I)`.
    misfit : ndarray of shape (J + 1,)
        :math:`y^\top(\Phi\Phi^\top + \alpha I)^{-1}y`, which is
        :math:`\lVert y-\Phi w\rVert^2/\alpha + \lVert w\rVert^2`.
    weight_norm2 : ndarray of shape (J + 1,)
        :math:`\lVert w\rVert^2`.
    coef : ndarray of shape (C,)
        Weights after the last cut.
    complete : bool
        False if the run was interrupted; the arrays then end with the last block of cuts done.
    solver : list of str
        ``"primal"`` or ``"dual"`` for each block.
    n_factorizations, n_repeats : int
        Cholesky factors computed, one a block; blocks repeated with fewer cuts, and leverages
        computed afresh, because of drift.
    max_drift : float
        Largest drift of a state kept, relative; see :func:`every_cut`.
    """

    n_rows: int
    n_cells: IntArray
    train_error: FloatArray
    loo_error: FloatArray
    validation_error: FloatArray | None
    log_det: FloatArray
    misfit: FloatArray
    weight_norm2: FloatArray
    coef: FloatArray
    complete: bool
    solver: list[str]
    n_factorizations: int
    n_repeats: int
    max_drift: float

    @property
    def log_marginal_likelihood(self) -> FloatArray:
        r""":math:`\ln N(y; 0, \Phi\Phi^\top + \alpha I)`: σ_w = 1 and σ_y² = α, as in the paper."""
        constant = self.n_rows * np.log(2 * np.pi)
        value: FloatArray = -0.5 * (self.misfit + self.log_det + constant)
        return value

    @property
    def log_marginal_likelihood_profiled(self) -> FloatArray:
        r""":math:`\max_s \ln N(y; 0, s\,(\Phi\Phi^\top + \alpha I))`, at s = misfit / N."""
        n = self.n_rows
        with np.errstate(divide="ignore"):
            scale = np.log(2 * np.pi * self.misfit / n)
        value: FloatArray = -0.5 * (n + n * scale + self.log_det)
        return value


def every_cut(
    cells: IntArray,
    splits: IntArray,
    y: FloatArray,
    alpha: float,
    *,
    times: FloatArray | None = None,
    validation: HeldOut | None = None,
    block: int | None = None,
    drift_tolerance: float = 1e-8,
    callback: Callback | None = None,
) -> EveryCut:
    r"""Minimise :math:`\lVert y - \Phi w\rVert^2 + \alpha\lVert w\rVert^2` after every cut.

    Φ has a column for each cell of M partitions of the rows, :math:`1/\sqrt M` on the rows in the
    cell. At first each partition is one cell; a cut splits one cell in two. A block of cuts is one
    low-rank update of a Cholesky factor of size min(C, N), see
    :mod:`mondrian_kernel._linear.cut_factor`; the next block has a fresh one. O(C²) or O(N²) a cut.

    Parameters
    ----------
    cells : ndarray of shape (N, M), int32
        Final cell of each row in each partition. Partition m begins as the cell m.
    splits : ndarray of shape (J,), int32
        Cut j takes the rows of the new cell M + j from the cell ``splits[j]``; their order is that
        of the cuts. Fewest rows move, and it is fastest, if the new cell is the smaller part.
    y : ndarray of shape (N,)
        Targets, centred by the caller where there is an intercept.
    alpha : float
        Ridge δ², positive.
    times : ndarray of shape (J,), optional
        Time of each cut; needed if features of ``validation`` fade.
    validation : HeldOut, optional
        Rows on which the error is measured after every cut.
    block : int, optional
        Cuts a factor; by default a quarter of its size, within bounds.
    drift_tolerance : float
        At the end of a block the error of the residuals, relative to ‖y‖, is bounded by what is
        left of the normal equations. Where the bound exceeds the tolerance and a fresh factor does
        much better, the block is repeated with half the cuts. Where the leverages of a sample of
        rows differ by more than that from those of the next factor, all are computed afresh.
    callback : callable, optional
        Called as ``callback(done, total, info)`` after each block. If it raises
        ``KeyboardInterrupt`` (or the user does) the cuts done so far are returned.

    Returns
    -------
    result : EveryCut
        Errors and evidence after every cut, and the last weights.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._linear.every_cut import every_cut
    >>> cells = np.array([[0, 1], [0, 3], [2, 3]], np.int32)  # 3 rows, 2 partitions
    >>> splits = np.array([0, 1], np.int32)  # cell 0 loses row 2 to cell 2, cell 1 two rows to 3
    >>> every_cut(cells, splits, np.array([1.0, 0.0, -1.0]), alpha=0.1).train_error.round(4)
    array([0.6667, 0.1758, 0.0055])
    """
    if validation is not None and validation.fade is not None and times is None:
        raise ValueError("The features of the validation rows fade with time: pass times.")
    cells, splits = (np.ascontiguousarray(a, np.int32) for a in (cells, splits))
    sweep = CutSweep(cells, splits, y, alpha, times, validation, drift_tolerance)
    total = splits.size
    complete = True
    try:
        sweep.begin()
        while sweep.done < total:
            sweep.advance(block)
            if callback is not None:
                callback(sweep.done, total, sweep.info())
    except KeyboardInterrupt:
        complete = False
    return _freeze(sweep, complete)


def _freeze(sweep: CutSweep, complete: bool) -> EveryCut:
    """Gather what is known after the cuts done."""
    n, kept = sweep.y.size, slice(sweep.done + 1)
    weight_norm2 = sweep.cross[kept] / sweep.alpha
    return EveryCut(
        n_rows=n,
        n_cells=np.arange(sweep.m, sweep.m + sweep.done + 1, dtype=np.int32),
        train_error=sweep.train[kept],
        loo_error=sweep.loo[kept],
        validation_error=None if sweep.validation is None else sweep.held_out[kept],
        log_det=sweep.log_det[kept],
        misfit=weight_norm2 + n * sweep.train[kept] / sweep.alpha,
        weight_norm2=weight_norm2,
        coef=sweep.coef,
        complete=complete,
        solver=sweep.solver,
        n_factorizations=len(sweep.solver),
        n_repeats=sweep.n_repeats,
        max_drift=sweep.max_drift,
    )


class Fading(NamedTuple):
    """Features of rows to predict that fade: row, cell, and pieces ``ptr[e]`` to ``ptr[e + 1]``."""

    row: IntArray
    cell: IntArray
    ptr: NDArray[np.int64]
    start: FloatArray
    level: FloatArray
    slope: FloatArray


class CutSweep:
    """State after ``done`` cuts; see :func:`every_cut`."""

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
            row, cell = np.empty((2, 0), np.int32)
            self.fading = Fading(row, cell, np.zeros(1, np.int64), *np.empty((3, 0)))
            return
        row, partition, *pieces = self.validation.fade
        key = row.astype(np.int64) * self.m + partition
        first = np.flatnonzero(np.diff(key, prepend=-1))
        cell = self.validation.cells[row[first], partition[first]]
        self.fading = Fading(row[first], cell, np.append(first, row.size), *pieces)

    def advance(self, block: int | None) -> None:
        """Do the next block of cuts."""
        n, n_cells = self.cells.shape[0], self.m + self.done
        if n_cells > n and isinstance(self.factor, Primal):
            self.factor = Dual(self.nested, self.alpha, self.done)
        self.factor.factor()
        self._refresh()
        size = min(n, n_cells) // CELLS_PER_CUT
        k = block or min(max(size, CUT_BLOCK_LEAST), CUT_BLOCK_MOST)
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
        sample = slice(len(self.solver) % n, None, max(n // LEVERAGE_SAMPLE, 1))
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
        if not drift <= max(self.tolerance, FRESH_DRIFT * self.fresh_drift) and k > 1:
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
        from mondrian_kernel._kernels.every_cut import fade, sweep_new, sweep_rows

        n, k = self.y.size, low_rank.step.size // 2
        stage = self.nested.stage(self.done + k)
        sums, held_out = np.empty((k, 3)), np.full(k, np.nan)
        bend = 1.0 / (self.alpha * low_rank.d)
        if self.validation is not None:
            level = self.tree.product(low_rank.coef[:, None] * self.m**-0.5, stage)[n:, 0].copy()
            fading = self.fading._replace(cell=stage[self.fading.cell])
            weight = low_rank.coef[fading.cell] * self.m**-0.5
        for begin in range(0, k, SWEEP_CUTS):
            end = min(begin + SWEEP_CUTS, k)
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
                fade(Y, step, times, fading, weight, P)
                held_out[begin:end] = np.mean((P - self.validation.y[:, None]) ** 2, axis=0)
        return sums, held_out

    def _drift(self, coef: FloatArray, residual: FloatArray, stage: IntArray) -> float:
        """Bound on the error of ``residual`` relative to y: the better of two.

        Weights with gradient g = Φᵀr - αw are off by A⁻¹g, and ‖ΦA⁻¹g‖ <= ‖g‖ / (2√α). Residuals r
        miss (ΦΦᵀ + αI) r = αy by αρ, hence are off by αGρ, and ‖αGρ‖ <= ‖ρ‖.
        """
        from mondrian_kernel._kernels.every_cut import collect

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
