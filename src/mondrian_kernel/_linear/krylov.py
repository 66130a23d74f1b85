r"""Krylov spaces of kernel matrices: one serves every shift :math:`K + \alpha I`."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel._linear.design import Design
from mondrian_kernel._linear.log_quadrature import first_log
from mondrian_kernel._typing import FloatArray

MAX_STEPS = 1000
_AT_ONCE = 32
_SINGLE = 1e-5  # tolerance from which on single precision is enough for what is kept


class Krylov(NamedTuple):
    """What Lanczos from several columns comes to.

    ``solution`` (columns, N, A) is ``(K + αI)⁻¹`` applied to the starts, T has the diagonals ``a``
    and ``b`` (steps, columns), ``norm`` are the lengths of the starts and ``residual``
    (columns, A) what is left of them, relative to that.
    """

    solution: FloatArray
    a: FloatArray
    b: FloatArray
    norm: FloatArray
    residual: FloatArray

    def warn_of_residuals(self, alphas: FloatArray, tol: float) -> None:
        """Warn where ``MAX_STEPS`` were not enough for the smallest alphas."""
        left = self.residual.max(axis=0)
        if left.max() > tol:
            warnings.warn(
                f"Lanczos stopped after {MAX_STEPS} steps, before its residual was below "
                f"tol={tol:.1g} at alpha={alphas[left.argmax()]:.3g}, which is therefore judged "
                "inexactly. Leave so small alphas out.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def log_quadratic(self, column: int, alphas: FloatArray) -> FloatArray:
        """``zᵀ ln(K + αI) z`` for the start z of a column, by Gauss quadrature, (A,)."""
        square: float = self.norm[column] ** 2
        return square * first_log(self.a[:, column], self.b[:-1, column], alphas)


def krylov(design: Design, starts: FloatArray, alphas: FloatArray, tol: float) -> Krylov:
    r"""Lanczos from the columns of ``starts`` (N, L·k) until every shift is solved.

    The residual of the shift α relative to the start is the product of :math:`b_j / d_j` over the
    steps, d the pivots of :math:`T + \alpha I`; the iteration ends when all are below ``tol``.
    """
    from mondrian_kernel._kernels.cells import lanczos_step, next_vectors

    KV: FloatArray = np.array(starts)
    V = np.zeros_like(KV)
    norm = np.linalg.norm(starts, axis=0)
    length, b = norm, np.zeros(norm.size)
    tiny = np.finfo(float).eps * design.total_weight
    kind = np.float64 if tol < _SINGLE else np.float32
    sums = _Sums(norm, alphas, KV.shape[0], kind)
    a_all: list[FloatArray] = []
    b_all: list[FloatArray] = []
    residual = np.where(norm > 0, 1.0, 0.0)[:, None] * np.ones(alphas.size)
    for _ in range(MAX_STEPS):  # rounding makes it more than N steps where N is small
        next_vectors(KV, length, sums.room())
        V_old, V = V, KV
        KV, a = design.gram(V), np.empty(norm.size)
        squares = lanczos_step(KV, V, V_old, a, b)
        sums.take(a, b)
        b = np.sqrt(squares)
        b[b <= tiny] = 0.0
        length = b
        a_all.append(a)
        b_all.append(b)
        residual = residual * b[:, None] / sums.pivot
        if residual.max() <= tol:
            break
    return Krylov(sums.total(), np.array(a_all), np.array(b_all), norm, residual)


class _Sums:
    r"""Solutions at every shift, added up as the basis v comes, so that it need not be kept.

    With :math:`T + \alpha I = L D L^\top` and l beside the diagonal of L, directions
    :math:`w_j = v_j - l_j w_{j-1}` and :math:`q_j = -l_j q_{j-1}`, of which the first is the length
    of the start, the solution is :math:`\sum_j (q_j / d_j)\, w_j`. Some vectors are taken at once:
    they and the last direction before them make up both their sum and the last direction.
    """

    def __init__(
        self, norm: FloatArray, alphas: FloatArray, n_rows: int, kind: type[np.floating]
    ) -> None:
        shape = norm.size, n_rows, alphas.size
        self._alphas, self._x, self._w = alphas, np.zeros(shape), np.zeros(shape, kind)
        self._basis = np.empty((_AT_ONCE, norm.size, n_rows), kind)
        self._l: list[FloatArray] = []
        self._shares: list[FloatArray] = []
        self._q = np.repeat(norm[:, None], alphas.size, axis=1)
        self.pivot, self._begun = np.ones_like(self._q), False

    def room(self) -> NDArray[np.floating]:
        """Return the place (columns, N) where the next vector is to be put."""
        if len(self._l) == _AT_ONCE:
            self._add()
        place: NDArray[np.floating] = self._basis[len(self._l)]
        return place

    def take(self, a: FloatArray, b: FloatArray) -> None:
        """Take a step: T goes on with ``b`` beside and ``a`` on the diagonal."""
        below = b[:, None] / self.pivot
        if self._begun:
            self._q = -below * self._q
        self._begun = True
        self.pivot = a[:, None] + self._alphas - b[:, None] * below
        self._l.append(below)
        self._shares.append(self._q / self.pivot)

    def total(self) -> FloatArray:
        """Return the solutions (columns, N, A)."""
        self._add()
        return self._x

    def _add(self) -> None:
        n = len(self._l)
        in_sum, in_last = np.array(self._shares), np.ones((n, *self._q.shape))
        for j in range(n - 2, -1, -1):
            in_sum[j] -= self._l[j + 1] * in_sum[j + 1]
            in_last[j] = -self._l[j + 1] * in_last[j + 1]
        factors = np.concatenate([in_sum, in_last], axis=2).astype(self._basis.dtype)
        k = self._alphas.size
        for column, w in enumerate(self._w):
            made = self._basis[:n, column].T @ factors[:, column]
            below = self._l[0][column]
            self._x[column] += made[:, :k] - (below * in_sum[0, column]) * w
            w *= -(below * in_last[0, column])
            w += made[:, k:]
        self._l, self._shares = [], []
