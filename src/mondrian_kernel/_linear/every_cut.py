"""Ridge regression after every cut of nested partitions, exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mondrian_kernel._linear.cut_factor import Dual, FloatArray, IntArray, Nested, Primal
from mondrian_kernel._linear.cut_sweep import CutSweep, HeldOut

__all__ = ["EveryCut", "HeldOut", "coef_after", "every_cut"]

Callback = Callable[[int, int, dict[str, float]], object]


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
    :mod:`mondrian_kernel._linear.cut_block`; the next block has a fresh one. O(C²) or O(N²) a cut.

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


def coef_after(
    cells: IntArray, splits: IntArray, y: FloatArray, alpha: float, cuts: int
) -> FloatArray:
    r"""Weights :math:`w = \Phi^\top(\Phi\Phi^\top + \alpha I)^{-1}y` after some cuts, from scratch.

    Parameters are those of :func:`every_cut`; ``cuts`` is the number of cuts, 0 to J. The result
    has a weight for each of the M + ``cuts`` cells.
    """
    cells, splits = (np.ascontiguousarray(a, np.int32) for a in (cells, splits))
    nested = Nested.of(cells, splits)
    few = cells.shape[1] + cuts <= cells.shape[0]
    factor = Primal(nested, alpha, cuts) if few else Dual(nested, alpha, cuts)
    factor.factor()
    return factor.fit(y)[0]
