r"""Factors of ridge regression on nested cells, and the next k cuts as one low-rank update.

A factor is primal, in cells, or dual, in rows. Both answer the same four questions about
:math:`G = (\Phi\Phi^\top + \alpha I)^{-1}`. The primal one uses
:math:`\Phi^\top G = A^{-1}\Phi^\top` with :math:`A = \Phi^\top\Phi + \alpha I`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.operator import scatter_cells
from mondrian_kernel._trees.levels import cell_features
from mondrian_kernel._typing import FloatArray, IntArray


class Nested(NamedTuple):
    """Final cells of the rows, the splits that made them, and rows sorted into runs.

    Kernels take it as it is; see :func:`mondrian_kernel._kernels.every_cut.nest` for the arrays.
    """

    cells: IntArray
    splits: IntArray
    owner: IntArray
    start: IntArray
    stop: IntArray
    order: IntArray

    @classmethod
    def of(cls, cells: IntArray, splits: IntArray) -> Nested:
        """Sort the rows of every partition; see :func:`mondrian_kernel._kernels.every_cut.nest`."""
        from mondrian_kernel._kernels.every_cut import nest

        (n, m), n_cells = cells.shape, cells.shape[1] + splits.size
        owner, start, stop = (np.empty(n_cells, np.int32) for _ in range(3))
        order = np.empty((m, n), np.int32)
        nest(cells, splits, owner, start, stop, order)
        return cls(cells, splits, owner, start, stop, order)

    @property
    def n_partitions(self) -> int:
        """Number of partitions, M."""
        return int(self.cells.shape[1])

    @property
    def n_cells(self) -> int:
        """Number of final cells, M + J."""
        return int(self.n_partitions + self.splits.size)

    def stage(self, cuts: int) -> IntArray:
        """Map each final cell to the cell it lies in after that many cuts."""
        n_cells = self.n_partitions + cuts
        stage = np.arange(self.n_cells, dtype=np.int32)
        late = np.flatnonzero(stage >= n_cells)
        while late.size:
            stage[late] = self.splits[stage[late] - self.n_partitions]
            late = late[stage[late] >= n_cells]
        return stage

    def present(self, cuts: int, rows: slice = slice(None)) -> IntArray:
        """Cells of some rows after that many cuts."""
        return self.stage(cuts)[self.cells[rows]]

    def features(self, cuts: int, rows: slice = slice(None)) -> sparse.csr_matrix:
        """Φ of some rows after that many cuts."""
        return cell_features(self.present(cuts, rows), None, self.n_partitions + cuts)


class _Factor:
    """Cholesky factor of counts / M + αI, renewed before each block of cuts.

    The lower triangle of ``counts`` (int32) says what cells, or rows, share after ``cuts`` cuts.
    """

    def __init__(self, nested: Nested, alpha: float, cuts: int, counts: IntArray) -> None:
        self.nested, self.alpha, self.cuts, self._counts = nested, alpha, cuts, counts

    def _factor(self, size: int) -> None:
        A = self._counts[:size, :size] * (1.0 / self.nested.n_partitions)
        A.flat[:: size + 1] += self.alpha
        # The lower triangle of A is the upper one of its transpose, which LAPACK overwrites.
        self._R, info = dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
        if info:
            raise ValueError(
                "ΦΦᵀ + alpha I is not positive definite in floating point: alpha is too small for "
                "features of this size. Raise alpha."
            )

    def log_det(self) -> float:
        """Log-determinant of ΦΦᵀ + αI."""
        n, size = self.nested.cells.shape[0], self._R.shape[0]
        return float(2.0 * np.log(self._R.diagonal()).sum() + (n - size) * np.log(self.alpha))


class Primal(_Factor):
    """Factor of A, of size C: the rows that two cells share are carried from cut to cut."""

    def __init__(self, nested: Nested, alpha: float) -> None:
        n, m = nested.cells.shape
        shared = np.empty((nested.n_cells, nested.n_cells), np.int32)
        shared[:m, :m] = n
        super().__init__(nested, alpha, 0, shared)

    def factor(self) -> None:
        """Factor the present A."""
        self._factor(self.nested.n_partitions + self.cuts)

    def fit(self, y: FloatArray) -> tuple[FloatArray, None]:
        """Weights Φᵀ G y; residuals are left to the caller."""
        b = scatter_cells(self.nested.present(self.cuts), y[:, None], self._R.shape[0])
        return dpotrs(self._R, b[:, 0])[0], None

    def respond(self, k: int, old: IntArray) -> tuple[FloatArray, FloatArray, None]:
        """Return [E 0]ᵀ - VᵀGΦ and VᵀGV, where V = [ΦE, features that the next k cuts make].

        ΦE are the features ``old``. The third value, αVᵀG, is left to the caller.
        """
        from mondrian_kernel._kernels.every_cut import count_shared, fold

        t, m, alpha = self.nested, self.nested.n_partitions, self.alpha
        size = m + self.cuts
        counts, shared = np.empty((k, t.n_cells), np.int32), np.empty((k, k), np.int32)
        count_shared(t, self.cuts, counts)
        fold(counts, t.splits, m, self.cuts, shared, self._counts)
        V = np.zeros((old.size + k, size))
        V[np.arange(old.size), old] = 1.0
        g = counts[:, :size] / m
        V[old.size :] = g
        U: FloatArray = dpotrs(self._R, V.T, overwrite_b=True)[0].T
        S = np.empty((V.shape[0], V.shape[0]))
        e = old.size
        S[:e, :e] = np.eye(e) - alpha * U[:e, old]
        S[e:, :e] = U[e:, old]
        S[:e, e:] = S[e:, :e].T
        S[e:, e:] = (shared / m - U[e:] @ g.T) / alpha
        # Of an old feature Φᵀφ = Ae - αe, hence e - A⁻¹Φᵀφ = αA⁻¹e without cancellation.
        U[:e] *= alpha
        U[e:] *= -1.0
        return U, S, None

    def slack(self, rows: slice) -> FloatArray:
        """Leverages of some rows, taken from 1: 1 - h = α G_ii."""
        Phi = np.asfortranarray(self.nested.features(self.cuts, rows).toarray().T)
        Z = dtrsm(1.0, self._R, Phi, trans_a=1, overwrite_b=True)
        slack: FloatArray = 1.0 - np.einsum("ci,ci->i", Z, Z)
        return slack

    def advance(self, k: int) -> None:
        """Go over k cuts, the last that :meth:`respond` was asked about or fewer."""
        from mondrian_kernel._kernels.every_cut import split_gram

        split_gram(self._counts, self.nested.splits, self.nested.n_partitions, self.cuts, k)
        self.cuts += k


class Dual(_Factor):
    """Factor of ΦΦᵀ + αI, of size N; a cut a|b takes 1/M from the pairs of rows it parts."""

    def __init__(self, nested: Nested, alpha: float, cuts: int) -> None:
        from mondrian_kernel._kernels.dense import matches

        n = nested.cells.shape[0]
        agreed = np.empty((n, n), np.int32)
        matches(nested.present(cuts), 0, n, agreed)
        super().__init__(nested, alpha, cuts, agreed)

    def factor(self) -> None:
        """Factor the present ΦΦᵀ + αI."""
        self._factor(self.nested.cells.shape[0])

    def fit(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights Φᵀ G y, and residuals α G y."""
        x = dpotrs(self._R, y)[0]
        return self.nested.features(self.cuts).T @ x, self.alpha * x

    def respond(self, k: int, old: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return [E 0]ᵀ - VᵀGΦ, VᵀGV and αVᵀG, where V = [ΦE, features that k cuts make].

        ΦE are the features ``old``. V - ΦΦᵀGV would lose in αGV the digits of small α.
        """
        t, m = self.nested, self.nested.n_partitions
        Phi = t.features(self.cuts)
        V = np.zeros((t.cells.shape[0], old.size + k), order="F")
        V[:, : old.size] = Phi[:, old].toarray()
        for j in range(k):
            made = m + self.cuts + j
            V[t.order[t.owner[made], t.start[made] : t.stop[made]], old.size + j] = m**-0.5
        X = dpotrs(self._R, V)[0]
        U = np.ascontiguousarray(-(Phi.T @ np.ascontiguousarray(X)).T)
        U[np.arange(old.size), old] += 1.0
        return U, V.T @ X, self.alpha * X.T

    def slack(self, rows: slice) -> FloatArray:
        """Leverages of some rows, taken from 1: 1 - h = α G_ii."""
        I = np.asfortranarray(np.eye(self.nested.cells.shape[0])[:, rows])
        Z = dtrsm(1.0, self._R, I, trans_a=1, overwrite_b=True)
        slack: FloatArray = self.alpha * np.einsum("ci,ci->i", Z, Z)
        return slack

    def advance(self, k: int) -> None:
        """Go over k cuts."""
        from mondrian_kernel._kernels.every_cut import split_agreement

        split_agreement(self._counts, self.nested, self.cuts, k)
        self.cuts += k


@dataclass(frozen=True, eq=False)
class CutBlock:
    """Low-rank update over k cuts: per column ``step`` β/d, pivot ``d`` and cells ``Y`` (C, 2k).

    ``R`` (N, 2k) is Φ Y of the fitted rows, if it is known more exactly than by the product.
    ``coef`` are the weights before the cuts, on the cells after them: a new cell begins with the
    weight of the cell it comes from, and Y changes it.
    """

    Y: FloatArray
    R: FloatArray | None
    d: FloatArray
    step: FloatArray
    coef: FloatArray

    @property
    def last_coef(self) -> FloatArray:
        """Weights after the last cut."""
        w: FloatArray = self.coef + self.Y @ self.step
        return w


def cut_block(factor: Primal | Dual, k: int, coef: FloatArray, residual: FloatArray) -> CutBlock:
    r"""Prepare the next k cuts, given weights and residuals before them.

    Cut j parts b off the cell c. With F = [φ_c φ_b] it changes the kernel matrix by

    .. math:: K_j - K_{j-1} = F D F^\top, \quad D = \begin{pmatrix} 0 & -1 \\ -1 & 2 \end{pmatrix}.

    Stack the F of k cuts and let :math:`G = (K_0 + \alpha I)^{-1}`. By Woodbury's formula all k
    states follow from :math:`H = \mathrm{diag}(D^{-1}) + F^\top G F = L\,\mathrm{diag}(d)\,L^\top`,
    for leading blocks of H have leading blocks of L and d. Each cut has one pivot :math:`d \le -1`
    and one :math:`d > 0`, so that no pivoting is needed. With :math:`\beta = L^{-1} F^\top G y`,
    column q of :math:`R = \alpha G F L^{-\top}` takes :math:`\beta_q R_q / d_q` from the residuals
    αGy and :math:`R_q^2 / (\alpha d_q)` from αG_ii = 1 - h_i, and adds ln|d_q| to the
    log-determinant. R = Φ Y is a function of cells too, and holds for new rows as well.
    """
    from mondrian_kernel._kernels.every_cut import compose, sum_runs

    nested, cuts = factor.nested, factor.cuts
    m = nested.n_partitions
    old, source = _sources(nested.splits[cuts : cuts + k], m + cuts)
    e = old.size
    U, S, rows = factor.respond(k, old)

    def of_cuts(V: FloatArray) -> FloatArray:
        F = np.empty((2 * k, V.shape[1]))
        compose(V[:e], V[e:], source, F)
        return F

    H = of_cuts(np.ascontiguousarray(of_cuts(S).T))
    i = np.arange(0, 2 * k, 2)
    H[i, i] -= 2.0
    H[i, i + 1] -= 1.0
    H[i + 1, i] -= 1.0
    d = _ldl(H)

    new_y = np.empty(k)
    sum_runs(nested, cuts, residual, new_y)
    new_y /= factor.alpha * m**0.5
    beta = of_cuts(np.concatenate([coef[old], new_y])[:, None])[:, 0]
    beta = solve_triangular(H, beta, lower=True, unit_diagonal=True)
    U = _refine(U, nested.splits[cuts : cuts + k], nested.stage(cuts), m + cuts)

    def eliminate(F: FloatArray) -> FloatArray:
        FL: FloatArray = dtrsm(1.0, H.T, F.T, side=1, lower=0, diag=1, overwrite_b=1)
        return FL

    Y = eliminate(of_cuts(U))
    R = None if rows is None else eliminate(of_cuts(rows))
    return CutBlock(Y, R, d, beta / d, coef[nested.stage(cuts)[: m + cuts + k]])


def _sources(splits: IntArray, n_cells: int) -> tuple[IntArray, NDArray[np.int32]]:
    """Cells among the present ``n_cells`` that are split, and what each cut finds there.

    See :func:`mondrian_kernel._kernels.every_cut.compose`.
    """
    old = np.unique(splits[splits < n_cells])
    found = {int(c): (0, i) for i, c in enumerate(old)}
    source = np.empty((splits.size, 2), np.int32)
    for j, c in enumerate(splits.tolist()):
        source[j] = found[c]
        found[c], found[n_cells + j] = (2, j), (1, j)
    return old, source


def _refine(U: FloatArray, splits: IntArray, stage: IntArray, n_cells: int) -> FloatArray:
    """Extend rows of U over the present cells to the cells that the cuts will make.

    A new cell takes the value of the one it comes from; the rows of features that the cuts make,
    the last of U, gain 1 on the cells inside.
    """
    k, e = splits.size, U.shape[0] - splits.size
    fine = np.empty((U.shape[0], n_cells + k))
    fine[:, :n_cells] = U
    fine[:, n_cells:] = U[:, stage[n_cells : n_cells + k]]
    inside = np.eye(k)
    for j, c in enumerate(splits.tolist()):
        if c >= n_cells:
            inside[:, j] += inside[:, c - n_cells]
    fine[e:, n_cells:] += inside
    return fine


def _ldl(H: FloatArray) -> FloatArray:
    """Overwrite the lower triangle of H with unit lower L where H = L diag(d) Lᵀ; return d."""
    from mondrian_kernel._kernels.every_cut import ldl_panel

    n = H.shape[0]
    d = np.empty(n)
    for begin in range(0, n, settings.LDL_PANEL):
        end = min(begin + settings.LDL_PANEL, n)
        ldl_panel(H, begin, end, d)
        below = H[end:, begin:end]
        H[end:, end:] -= (below * d[begin:end]) @ below.T
    return d
