"""Ridge regression after every cut of nested partitions, exactly.

A block of cuts is one low-rank update of a factor. Errors and evidence are known after each cut;
drift is checked at the end of each block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.cholesky import evidences
from mondrian_kernel._linear.cut_factor import CutBlock, Dual, Nested, Primal, cut_block
from mondrian_kernel._linear.operator import CellOperator, gather_cells, scatter_cells
from mondrian_kernel._trees.trees import CutSequence, Decay
from mondrian_kernel._typing import FloatArray, IntArray

Callback = Callable[[int, int, dict[str, float]], object]


class Fading(NamedTuple):
    """Features of rows to predict that fade: row, cell, and pieces ``ptr[e]`` to ``ptr[e + 1]``."""

    row: IntArray
    cell: IntArray
    ptr: NDArray[np.int64]
    start: FloatArray
    level: FloatArray
    slope: FloatArray

    @classmethod
    def of(cls, decay: Decay, cells: IntArray) -> Fading:
        """Group the pieces of rows in ``cells`` (V, M) by row and tree."""
        key = decay.row.astype(np.int64) * cells.shape[1] + decay.tree
        first = np.flatnonzero(np.diff(key, prepend=-1))
        row, tree = decay.row[first], decay.tree[first]
        return cls(row, cells[row, tree], np.append(first, key.size), *decay[2:])


class EveryCut:
    r"""Minimise :math:`\lVert y - \Phi w\rVert^2 + \alpha\lVert w\rVert^2` after every cut.

    Φ has a column for each cell of M partitions of the rows, :math:`1/\sqrt M` on the rows in the
    cell. At first each partition is one cell; a cut splits one cell in two. A block of cuts is one
    low-rank update of a Cholesky factor of size min(C, N), see :func:`cut_block`; the next block
    has a fresh one. O(C²) or O(N²) a cut.

    At the end of a block the error of the residuals, relative to ‖y‖, is bounded by the residual of
    the normal equations. Where the bound exceeds ``tolerance`` and a fresh factor does much better,
    the block is repeated with half the cuts. Where the leverages of a sample of rows differ by more
    than that from those of the next factor, all are computed afresh.

    ``y`` (N,) is centred by the caller where there is an intercept. ``held_out`` are rows (V, D)
    and targets (V,). ``train_error``, ``loo_error``, ``held_out_error``, ``log_det`` (of
    :math:`\Phi\Phi^\top + \alpha I`) and ``weight_norm2`` are of shape (J + 1,), before any cut
    and after each; after an interrupt they end with the last block done. ``coef`` (C,) are the
    weights after the ``done`` cuts, ``solver`` is "primal" or "dual" for each block. ``n_repeats``
    counts what was repeated because of drift, of which ``max_drift`` is the largest that was kept.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._trees.growth import Growth
    >>> from mondrian_kernel._trees.trees import cut_sequence
    >>> growth = Growth(np.arange(4.0)[:, None], n_trees=2, seed=0)
    >>> growth.advance(9.0)
    >>> cuts = EveryCut(cut_sequence(*growth.freeze()), np.array([-1.0, 0.0, 0.0, 1.0]), 0.1)
    >>> cuts.run()
    True
    >>> bool(cuts.train_error[0] == 0.5 and cuts.train_error[-1] < 0.01)
    True
    """

    def __init__(
        self,
        sequence: CutSequence,
        y: FloatArray,
        alpha: float,
        held_out: tuple[FloatArray, FloatArray] | None = None,
        *,
        tolerance: float = 1e-8,
    ) -> None:
        self.cells, self.splits, self.times = sequence.cells, sequence.splits, sequence.times
        n, m = self.cells.shape
        self.n_rows, self.total_weight, self.centre = n, float(n), False
        self.y, self.alpha, self.tolerance, self.m, self.done = y, alpha, tolerance, m, 0
        self._new: tuple[CellOperator, FloatArray, Fading] | None = None
        # Before any cut K = 11ᵀ.
        mean = y.sum() / (n + alpha)
        self.coef, self.residual = np.full(m, mean / m**0.5), y - mean
        self.slack = np.full(n, 1.0 - 1.0 / (n + alpha))
        shape = self.splits.size + 1
        self.train_error, self.loo_error, self.held_out_error = np.full((3, shape), np.nan)
        self.log_det, self.weight_norm2 = np.full((2, shape), np.nan)
        r = self.residual
        self.train_error[0], self.loo_error[0] = r @ r / n, np.mean((r / self.slack) ** 2)
        self.weight_norm2[0] = (y - r) @ r / alpha
        self.log_det[0] = n * np.log(alpha) + np.log1p(n / alpha)
        if held_out is not None:
            cells, decay = sequence.new_rows(held_out[0])
            new = CellOperator(cells, m + self.splits.size, centre=False)
            self._new = new, held_out[1], Fading.of(decay, cells)
            self.held_out_error[0] = np.mean((held_out[1] - mean) ** 2)
        self.solver: list[str] = []
        self.n_repeats, self.max_drift, self.fresh_drift = 0, 0.0, 0.0

    @property
    def n_cells(self) -> NDArray[np.int64]:
        """Number of features C before any cut and after each."""
        return np.arange(self.m, self.m + self.done + 1)

    @property
    def misfit(self) -> FloatArray:
        """Value of yᵀ(ΦΦᵀ + αI)⁻¹y, which is ‖y - Φw‖²/α + ‖w‖²."""
        return self.weight_norm2 + self.y.size * self.train_error / self.alpha

    @property
    def evidences(self) -> tuple[FloatArray, FloatArray]:
        """Log marginal likelihoods, with the signal variance at its best and with variance 1."""
        alphas = np.full(self.done + 1, self.alpha)
        return evidences(self.misfit[None, :], self.log_det, alphas, self)

    def curves(self) -> dict[str, FloatArray]:
        """Return what is known after each cut, by the names that it has in a path."""
        best, paper = self.evidences
        curves = {
            "train_error": self.train_error,
            "loo_error": self.loo_error,
            "loo_error_std": np.zeros_like(best),
            "log_marginal_likelihood": best,
            "log_marginal_likelihood_paper": paper,
            "log_marginal_likelihood_std": np.zeros_like(best),
        }
        return curves if self._new is None else curves | {"validation_error": self.held_out_error}

    def run(self, callback: Callback | None = None, block: int | None = None) -> bool:
        """Go over all cuts; returns False after a KeyboardInterrupt, with the cuts done so far.

        ``callback(done, total, info)`` is called after each block. A block has so many cuts, by
        default a quarter of the size of the factor, within bounds.
        """
        total, complete = self.splits.size, True
        try:
            self.begin()
            while self.done < total:
                self.advance(block)
                if callback is not None:
                    callback(self.done, total, self.info())
        except KeyboardInterrupt:
            complete = False
        for name in ("train_error", "loo_error", "held_out_error", "log_det", "weight_norm2"):
            setattr(self, name, getattr(self, name)[: self.done + 1])
        return complete

    def begin(self) -> None:
        """Sort the rows and set up the primal."""
        self.nested = Nested.of(self.cells, self.splits)
        # On the cells after the last cut, of which all earlier ones are unions.
        self.rows = CellOperator(self.cells, self.nested.n_cells, centre=False)
        self.factor: Primal | Dual = Primal(self.nested, self.alpha)

    def advance(self, block: int | None) -> None:
        """Do the next block of cuts."""
        n, n_cells = self.cells.shape[0], self.m + self.done
        if n_cells > n and isinstance(self.factor, Primal):
            self.factor = Dual(self.nested, self.alpha, self.done)
        self.factor.factor()
        self._refresh()
        size = min(n, n_cells) // settings.CELLS_PER_CUT
        k = block or min(max(size, settings.CUT_BLOCK_LEAST), settings.CUT_BLOCK_MOST)
        k = min(k, self.splits.size - self.done)
        while not self._try(k):
            self.n_repeats += 1
            k = (k + 1) // 2
        self.factor.advance(k)
        self.solver.append("primal" if isinstance(self.factor, Primal) else "dual")

    def _refresh(self) -> None:
        """Take weights, residuals and log-determinant from the factor; check the leverages."""
        n, stage = self.y.size, self.nested.stage(self.done)
        self.log_det[self.done] = self.factor.log_det()
        self.coef, residual = self.factor.fit(self.y)
        if residual is None:
            residual = self._residual(self.coef, stage)
        self.fresh_drift = self._drift(self.coef, residual, stage)
        jump = np.linalg.norm(residual - self.residual) / (np.linalg.norm(self.y) or 1.0)
        self.residual = residual
        sample = slice(len(self.solver) % n, None, max(n // settings.LEVERAGE_SAMPLE, 1))
        drift = float(np.abs(self.slack[sample] / self.factor.slack(sample) - 1.0).max())
        if drift > self.tolerance:
            self.n_repeats += 1
            for begin in range(0, n, 512):
                self.slack[begin : begin + 512] = self.factor.slack(slice(begin, begin + 512))
        self.max_drift = max(self.max_drift, float(jump), drift)

    def _residual(self, coef: FloatArray, stage: IntArray) -> FloatArray:
        residual: FloatArray = self.y - gather_cells(stage[self.cells], coef[:, None])[:, 0]
        return residual

    def _try(self, k: int) -> bool:
        """Do k cuts and keep them, unless they have drifted and can be fewer."""
        low_rank = cut_block(self.factor, k, self.coef, self.residual)
        residual, slack = self.residual.copy(), self.slack.copy()
        sums, held_out = self._sweep(low_rank, residual, slack)
        coef = low_rank.last_coef
        drift = self._drift(coef, residual, self.nested.stage(self.done + k))
        if not drift <= max(self.tolerance, settings.FRESH_DRIFT * self.fresh_drift) and k > 1:
            return False
        n, at = self.y.size, slice(self.done + 1, self.done + k + 1)
        self.train_error[at], self.loo_error[at] = sums[:, 0] / n, sums[:, 1] / n
        self.weight_norm2[at], self.held_out_error[at] = sums[:, 2] / self.alpha, held_out
        steps = np.log(-low_rank.d[0::2]) + np.log(low_rank.d[1::2])
        self.log_det[at] = self.log_det[self.done] + np.cumsum(steps)
        self.max_drift = max(self.max_drift, drift)
        self.coef, self.residual, self.slack, self.done = coef, residual, slack, self.done + k
        return True

    def _sweep(
        self, low_rank: CutBlock, residual: FloatArray, slack: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Carry rows through the cuts of a block; residual and slack are changed in place."""
        from mondrian_kernel._kernels.every_cut import fade, sweep_new, sweep_rows

        k = low_rank.step.size // 2
        stage = self.nested.stage(self.done + k)
        sums, held_out = np.empty((k, 3)), np.full(k, np.nan)
        bend = 1.0 / (self.alpha * low_rank.d)
        if self._new is not None:
            new, y_new, fading = self._new
            level = gather_cells(stage[new.cells], low_rank.coef[:, None])[:, 0]
            fading = fading._replace(cell=stage[fading.cell])
            weight = low_rank.coef[fading.cell] * self.m**-0.5
        for begin in range(0, k, settings.SWEEP_CUTS):
            end = min(begin + settings.SWEEP_CUTS, k)
            columns = slice(2 * begin, 2 * end)
            Y, step = np.ascontiguousarray(low_rank.Y[:, columns]), low_rank.step[columns]
            R = self.rows.gather(Y[stage]) if low_rank.R is None else low_rank.R[:, columns]
            sweep_rows(R, self.y, step, bend[columns], residual, slack, sums[begin:end])
            if self._new is not None:
                P = np.empty((level.size, end - begin))
                sweep_new(new.gather(Y[stage]), step, level, P)
                times = self.times[self.done + begin : self.done + end]
                fade(Y * self.m**-0.5, step, times, fading, weight, P)
                held_out[begin:end] = np.mean((P - y_new[:, None]) ** 2, axis=0)
        return sums, held_out

    def _drift(self, coef: FloatArray, residual: FloatArray, stage: IntArray) -> float:
        """Bound on the error of ``residual`` relative to y: the better of two.

        Weights with gradient g = Φᵀr - αw are off by A⁻¹g, and ‖ΦA⁻¹g‖ <= ‖g‖ / (2√α). Residuals r
        miss (ΦΦᵀ + αI) r = αy by αρ, hence are off by αGρ, and ‖αGρ‖ <= ‖ρ‖.
        """
        true, cells = self._residual(coef, stage), stage[self.cells]
        sums = scatter_cells(cells, np.stack([true, residual], axis=1), coef.size)
        gradient = sums[:, 0] - self.alpha * coef
        by_weights = np.linalg.norm(gradient) / (2.0 * self.alpha**0.5)
        by_weights += np.linalg.norm(residual - true)
        by_rows = np.linalg.norm(self._residual(sums[:, 1] / self.alpha, stage) - residual)
        return float(min(by_weights, by_rows) / (np.linalg.norm(self.y) or 1.0))

    def info(self) -> dict[str, float]:
        """Tell the callback where the path stands."""
        return {
            "n_cells": self.m + self.done,
            "train_error": float(self.train_error[self.done]),
            "loo_error": float(self.loo_error[self.done]),
            "validation_error": float(self.held_out_error[self.done]),
            "max_drift": self.max_drift,
        }
