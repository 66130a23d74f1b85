"""Ridge regression after every cut of nested partitions, exactly.

A block of cuts is one low-rank update of a Cholesky factor. Errors and evidence are known after
each cut; drift is checked at the end of each block.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_solve, solve_triangular

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.cholesky import evidences, lower_factor
from mondrian_kernel._linear.operator import CellOperator, gather_cells, scatter_cells
from mondrian_kernel._trees.levels import cell_features, sparse_rows
from mondrian_kernel._trees.trees import CutSequence, Fading
from mondrian_kernel._typing import FloatArray, IntArray

Callback = Callable[[int, int, dict[str, float]], object]


class LowRank(NamedTuple):
    """What k cuts change: for each of 2k columns the cells ``Y`` (C, 2k), pivot ``d``, ``step``.

    ``R`` (N, 2k) is Φ Y of the fitted rows, if it is known more exactly than by the product.
    ``coef`` (C,) are the weights before the cuts, on the cells after them.
    """

    Y: FloatArray
    R: FloatArray | None
    d: FloatArray
    step: FloatArray
    coef: FloatArray


class EveryCut:
    r"""Minimise :math:`\lVert y - \Phi w\rVert^2 + \alpha\lVert w\rVert^2` after every cut.

    Φ has a column for each cell of M partitions of the rows, :math:`1/\sqrt M` on the rows in the
    cell. At first each partition is one cell; a cut splits one cell in two. A block of cuts is one
    low-rank update, see :meth:`_low_rank`, of a Cholesky factor of size min(C, N); the next block
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
    >>> from mondrian_kernel._trees.trees import CutSequence
    >>> growth = Growth(np.arange(4.0)[:, None], n_trees=2, seed=0)
    >>> growth.advance(9.0)
    >>> cuts = EveryCut(CutSequence(*growth.freeze()), np.array([-1.0, 0.0, 0.0, 1.0]), 0.1)
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
        self.sequence, self.splits = sequence, sequence.splits
        self.cells = np.ascontiguousarray(sequence.cells)
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
        # On the cells after the last cut, of which all earlier ones are unions.
        self.rows = CellOperator(self.cells, m + self.splits.size, centre=False)
        if held_out is not None:
            cells, fading = sequence.new_rows(held_out[0])
            new = CellOperator(cells, m + self.splits.size, centre=False)
            self._new = new, held_out[1], fading
            self.held_out_error[0] = np.mean((held_out[1] - mean) ** 2)
        # Rows that cells share now, and after the next block; of primal blocks.
        self._gram = self._next_gram = np.full((m, m), float(n))
        self.solver: list[str] = []
        self.n_repeats, self.max_drift = 0, 0.0

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
            while self.done < total:
                size = min(self.y.size, self.m + self.done) // settings.CELLS_PER_CUT
                k = block or min(max(size, settings.CUT_BLOCK_LEAST), settings.CUT_BLOCK_MOST)
                k = min(k, total - self.done)
                while not self._try(k):
                    self.n_repeats += 1
                    k = (k + 1) // 2
                if callback is not None:
                    error = float(self.loo_error[self.done])
                    info = {"n_cells": self.m + self.done, "loo_error": error}
                    callback(self.done, total, info)
        except KeyboardInterrupt:
            complete = False
        for name in ("train_error", "loo_error", "held_out_error", "log_det", "weight_norm2"):
            setattr(self, name, getattr(self, name)[: self.done + 1])
        return complete

    def _stage(self, cuts: int) -> IntArray:
        """Map each final cell to the cell it lies in after that many cuts."""
        n_cells, stage = self.m + cuts, np.arange(self.m + self.splits.size, dtype=np.int32)
        late = np.arange(n_cells, stage.size)
        while late.size:
            stage[late] = self.splits[stage[late] - self.m]
            late = late[stage[late] >= n_cells]
        return stage

    def _try(self, k: int) -> bool:
        """Do k cuts and keep them, unless they have drifted and can be fewer."""
        self._factor(k)
        allowed = max(self.tolerance, settings.FRESH_DRIFT * self._refresh())
        low_rank = self._low_rank()
        residual, slack = self.residual.copy(), self.slack.copy()
        sums, held_out = self._sweep(low_rank, residual, slack)
        coef: FloatArray = low_rank.coef + low_rank.Y @ low_rank.step
        drift = self._drift(coef, residual, self._cells_then)
        if not drift <= allowed and k > 1:
            return False
        n, at = self.y.size, slice(self.done + 1, self.done + k + 1)
        self.train_error[at], self.loo_error[at] = sums[0] / n, sums[1] / n
        self.weight_norm2[at], self.held_out_error[at] = sums[2] / self.alpha, held_out
        steps = np.log(-low_rank.d[0::2]) + np.log(low_rank.d[1::2])
        self.log_det[at] = self.log_det[self.done] + np.cumsum(steps)
        self.max_drift = max(self.max_drift, drift)
        self.coef, self.residual, self.slack, self.done = coef, residual, slack, self.done + k
        self._gram = self._next_gram
        self.solver.append("primal" if self._primal else "dual")
        return True

    def _factor(self, k: int) -> None:
        """Factor A = ΦᵀΦ + αI, or ΦΦᵀ + αI if it is smaller, and note F = [φ_c φ_b] of k cuts.

        F = Φ' E for the features Φ' after the cuts, and Φ has sums of these: all products of Φ and
        F follow from Φ'ᵀΦ'.
        """
        self._now, self._then = self._stage(self.done), self._stage(self.done + k)
        self._cells_now, self._cells_then = self._now[self.cells], self._then[self.cells]
        size, cuts = self.m + self.done, slice(self.done, self.done + k)
        place = self.sequence.place[: size + k, None]
        first, last = self.sequence.first[cuts].ravel(), self.sequence.last[cuts].ravel()
        self._E = sparse.csr_array((first <= place) & (place < last), dtype=float)
        self._primal = size <= self.y.size
        if self._primal:
            up = self._now[size : size + k]
            self._next_gram = self._split_gram(up)
            fine_E = np.ascontiguousarray((self._E.T @ self._next_gram).T) / self.m
            self._FF, self._PhiF = self._E.T @ fine_E, _joined(fine_E, up)
            A = self._gram / self.m
        else:
            self._gram = self._next_gram = np.empty((0, 0))
            at = self.sequence.place[self.cells[:, np.repeat(self.sequence.tree[cuts], 2)]]
            self._F = np.where((first <= at) & (at < last), self.m**-0.5, 0.0)
            A = CellOperator(self._cells_now, size, centre=False).kernel_matrix()
        A.flat[:: A.shape[0] + 1] += self.alpha
        self._L = lower_factor(A.T, self.alpha)

    def _split_gram(self, up: IntArray) -> FloatArray:
        """Rows that cells share after the cuts, by counting those of the new cells, of ``up``."""
        cells, n_old = self._cells_then, self._gram.shape[0]
        Phi = sparse_rows(cells, np.ones(cells.shape), n_old + up.size)
        shared = (Phi.T @ Phi[:, n_old:]).toarray()
        fine = np.block([[self._gram, shared[:n_old]], [shared.T]])
        for j, (cell, before) in enumerate(zip(up.tolist(), _joined(shared, up).T, strict=True)):
            fine[cell, :n_old] -= before
            fine[:n_old, cell] -= shared[:n_old, j]
        return fine

    def _refresh(self) -> float:
        """Take weights, residuals and log-determinant from the factor; return their drift.

        Leverages are checked too.
        """
        n, size, cells = self.y.size, self._L.shape[0], self._cells_now
        rest = (n - size) * np.log(self.alpha)
        self.log_det[self.done] = 2.0 * np.log(self._L.diagonal()).sum() + rest
        if self._primal:
            self.coef = cho_solve(
                (self._L, True), scatter_cells(cells, self.y[:, None], size)[:, 0]
            )
            residual = self._residual(self.coef, cells)
        else:
            dual = cho_solve((self._L, True), self.y)
            self.coef = scatter_cells(cells, dual[:, None], self.m + self.done)[:, 0]
            residual = self.alpha * dual
        jump = np.linalg.norm(residual - self.residual) / (np.linalg.norm(self.y) or 1.0)
        self.residual = residual
        sample = slice(len(self.solver) % n, None, max(n // settings.LEVERAGE_SAMPLE, 1))
        drift = float(np.abs(self.slack[sample] / self._slack(sample) - 1.0).max())
        if drift > self.tolerance:
            self.n_repeats += 1
            for begin in range(0, n, 512):
                self.slack[begin : begin + 512] = self._slack(slice(begin, begin + 512))
        self.max_drift = max(self.max_drift, float(jump), drift)
        return self._drift(self.coef, residual, cells)

    def _slack(self, rows: slice) -> FloatArray:
        """Leverages of some rows, taken from 1: 1 - h = α G_ii."""
        if self._primal:
            V = cell_features(self._cells_now[rows], None, self._L.shape[0]).toarray().T
        else:
            V = np.eye(self.y.size)[:, rows]
        Z = solve_triangular(self._L, V, lower=True, check_finite=False)
        squares: FloatArray = np.einsum("ci,ci->i", Z, Z)
        return 1.0 - squares if self._primal else self.alpha * squares

    def _low_rank(self) -> LowRank:
        r"""Prepare the next k cuts from weights and residuals before them.

        Cut j parts b off the cell c. With F = [φ_c φ_b] it changes the kernel matrix by

        .. math::
            K_j - K_{j-1} = F D F^\top, \quad D = \begin{pmatrix} 0 & -1 \\ -1 & 2 \end{pmatrix}.

        Stack the F of k cuts and let :math:`G = (K_0 + \alpha I)^{-1}`. By Woodbury's formula all k
        states follow from
        :math:`H = \mathrm{diag}(D^{-1}) + F^\top G F = L\,\mathrm{diag}(d)\,L^\top`, for leading
        blocks of H have leading blocks of L and d. Each cut has one pivot :math:`d \le -1` and one
        :math:`d > 0`, so that no pivoting is needed. With :math:`\beta = L^{-1} F^\top G y`, column
        q of :math:`R = \alpha G F L^{-\top}` takes :math:`\beta_q R_q / d_q` from the residuals αGy
        and :math:`R_q^2 / (\alpha d_q)` from αG_ii = 1 - h_i, and adds ln|d_q| to the
        log-determinant. R = Φ Y is a function of cells too, and holds for new rows as well.
        """
        E, n_cells = self._E, self._E.shape[0]
        n_now, R = self.m + self.done, None
        if self._primal:
            U = cho_solve((self._L, True), self._PhiF, check_finite=False)  # ΦᵀGF
            H = (self._FF - self._PhiF.T @ U) / self.alpha
        else:
            X = cho_solve((self._L, True), self._F, check_finite=False)
            U, H = scatter_cells(self._cells_now, X, n_now), self._F.T @ X
        i = np.arange(0, H.shape[0], 2)
        H[i, i] -= 2.0
        H[i, i + 1] -= 1.0
        H[i + 1, i] -= 1.0
        d = _ldl(H)
        sums = scatter_cells(self._cells_then, self.residual[:, None], n_cells)
        solve = partial(solve_triangular, H, trans=1, unit_diagonal=True, check_finite=False)
        beta = solve(E.T @ sums[:, 0]) / self.alpha
        if not self._primal:
            R = solve(self.alpha * X.T, overwrite_b=True).T
        up = self._now[:n_cells]
        Y = solve((E - U[up]).T, overwrite_b=True).T
        return LowRank(Y, R, d, beta / d, self.coef[up])

    def _sweep(
        self, low_rank: LowRank, residual: FloatArray, slack: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Carry rows through the cuts of a block; residual and slack are changed in place.

        Returns Σ r², Σ (r / slack)² and Σ (y - r) r after each cut, and the error of new rows.
        """
        from mondrian_kernel._kernels.dense import fade

        k = low_rank.step.size // 2
        sums, held_out = np.empty((3, k)), np.full(k, np.nan)
        bend = 1.0 / (self.alpha * low_rank.d)
        if self._new is not None:
            new, y_new, fading = self._new
            level = gather_cells(self._then[new.cells], low_rank.coef[:, None])
            fading = fading._replace(cell=self._then[fading.cell])
            weight = low_rank.coef[fading.cell] * self.m**-0.5
        for begin in range(0, k, settings.SWEEP_CUTS):
            at = slice(begin, min(begin + settings.SWEEP_CUTS, k))
            columns = slice(2 * at.start, 2 * at.stop)
            Y, step = np.ascontiguousarray(low_rank.Y[:, columns]), low_rank.step[columns]
            fine = Y[self._then]
            R = self.rows.gather(fine) if low_rank.R is None else low_rank.R[:, columns]
            r = residual[:, None] - _running(R * step)
            t = slack[:, None] - _running(R * R * bend[columns])
            residual[:], slack[:] = r[:, -1], t[:, -1]
            e = r / t
            for row, (a, b) in enumerate([(r, r), (e, e), (self.y[:, None] - r, r)]):
                sums[row, at] = np.einsum("nj,nj->j", a, b)
            if self._new is not None:
                P = level + _running(new.gather(fine) * step)
                level = P[:, -1:].copy()
                fade(
                    Y * self.m**-0.5, step, self.sequence.times[self.done :][at], fading, weight, P
                )
                held_out[at] = np.mean((P - y_new[:, None]) ** 2, axis=0)
        return sums, held_out

    def _residual(self, coef: FloatArray, cells: IntArray) -> FloatArray:
        residual: FloatArray = self.y - gather_cells(cells, coef[:, None])[:, 0]
        return residual

    def _drift(self, coef: FloatArray, residual: FloatArray, cells: IntArray) -> float:
        """Bound on the error of ``residual`` relative to y: the better of two.

        Weights with gradient g = Φᵀr - αw are off by A⁻¹g, and ‖ΦA⁻¹g‖ <= ‖g‖ / (2√α). Residuals r
        miss (ΦΦᵀ + αI) r = αy by αρ, hence are off by αGρ, and ‖αGρ‖ <= ‖ρ‖.
        """
        true = self._residual(coef, cells)
        sums = scatter_cells(cells, np.stack([true, residual], axis=1), coef.size)
        gradient = sums[:, 0] - self.alpha * coef
        by_weights = np.linalg.norm(gradient) / (2.0 * self.alpha**0.5)
        by_weights += np.linalg.norm(residual - true)
        by_rows = np.linalg.norm(self._residual(sums[:, 1] / self.alpha, cells) - residual)
        return float(min(by_weights, by_rows) / (np.linalg.norm(self.y) or 1.0))


def _running(V: FloatArray) -> FloatArray:
    """Add up columns (n, 2k), two for each cut, from cut to cut, (n, k)."""
    sums: FloatArray = np.cumsum(V[:, 0::2] + V[:, 1::2], axis=1)
    return sums


def _joined(W: FloatArray, up: IntArray) -> FloatArray:
    """Add the last rows of W to the rows ``up``."""
    out = W[: -up.size].copy()
    for row, more in zip(up.tolist(), W[-up.size :], strict=True):
        out[row] += more
    return out


def _ldl(H: FloatArray) -> FloatArray:
    """Overwrite the upper triangle of H with unit upper Lᵀ where H = L diag(d) Lᵀ; return d."""
    for begin in range(0, H.shape[0], settings.LDL_PANEL):
        end = min(begin + settings.LDL_PANEL, H.shape[0])
        for j in range(begin, end):
            row = H[j, j + 1 :].copy()
            H[j, j + 1 :] /= H[j, j]
            H[j + 1 : end, j + 1 :] -= H[j, j + 1 : end, None] * row
        beside, d = H[begin:end, end:], H.diagonal()[begin:end]
        H[end:, end:] -= beside.T @ (d[:, None] * beside)
    return H.diagonal().copy()
