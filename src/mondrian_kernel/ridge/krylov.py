r"""Krylov spaces of kernel matrices: one serves every shift :math:`K + \alpha I`."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solveh_banded
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel.partition.trees import FloatArray
from mondrian_kernel.ridge.design import Design
from mondrian_kernel.ridge.log_quadrature import first_log

MAX_STEPS = 1000
_ROOM = 32
_SINGLE = 1e-5  # tolerance from which on the basis is kept in single precision


class Krylov(NamedTuple):
    """Lanczos bases of several columns: ``basis``, T as ``a`` and ``b``, lengths of the starts.

    ``residual`` (columns, A) is what is left of the starts, relative to them.
    The basis comes in blocks (steps, columns, N), in single precision where that is enough: it is
    what takes the memory.
    """

    basis: list[NDArray[np.floating]]
    a: FloatArray
    b: FloatArray
    norm: FloatArray
    residual: FloatArray

    def solve(self, column: int, alphas: FloatArray) -> FloatArray:
        """``(K + αI)⁻¹`` applied to the start of a column, (N, A)."""
        steps = int(np.argmin(np.append(self.b[:, column] > 0, False))) + 1
        steps = min(steps, self.a.shape[0])
        if steps == 1:  # LAPACK's tridiagonal solver refuses an empty off-diagonal
            first_only = self.basis[0][0, column].astype(np.float64)
            return np.outer(first_only, self.norm[column] / (self.a[0, column] + alphas))
        first = np.zeros(steps)
        first[0] = self.norm[column]
        bands = np.zeros((2, steps))
        bands[1, :-1] = self.b[: steps - 1, column]
        t = np.empty((steps, alphas.size))
        for k, alpha in enumerate(alphas):
            bands[0] = self.a[:steps, column] + alpha
            t[:, k] = solveh_banded(bands, first, lower=True, check_finite=False)
        x = np.zeros((self.basis[0].shape[2], alphas.size))
        for k, block in enumerate(self.basis):
            part = t[k * _ROOM : (k + 1) * _ROOM]
            x += block[: part.shape[0], column].T @ part.astype(block.dtype)
        return x

    def warn_of_residuals(self, alphas: FloatArray, tol: float) -> None:
        """Warn where ``MAX_STEPS`` were not enough for the smallest alphas."""
        left = self.residual.max(axis=0)
        if left.max() > tol:
            warnings.warn(
                f"Lanczos left {left.max():.1g} of the residual, more than tol={tol:.1g}, after "
                f"{MAX_STEPS} steps: what is said of alpha={alphas[left.argmax()]:.3g} is that "
                "inexact. Leave such small alphas out.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def log_quadratic(self, column: int, alphas: FloatArray) -> FloatArray:
        """``zᵀ ln(K + αI) z`` for the start z of a column, by Gauss quadrature, (A,)."""
        square: float = self.norm[column] ** 2
        return square * first_log(self.a[:, column], self.b[:-1, column], alphas)


def krylov(
    design: Design, starts: FloatArray, alphas: FloatArray, tol: float | FloatArray
) -> Krylov:
    r"""Lanczos from the columns of ``starts`` (N, L·k) until every shift is solved.

    The residual of the shift α relative to the start is the product of :math:`b_j / d_j` over the
    steps, d the pivots of :math:`T + \alpha I`; the iteration ends when all are below ``tol``,
    which may be one for each column.
    """
    from mondrian_kernel._core.cells import lanczos_step, next_vectors

    KV: FloatArray = np.array(starts)
    V = np.zeros_like(KV)
    norm = np.linalg.norm(starts, axis=0)
    length, b = norm, np.zeros(norm.size)
    tiny = np.finfo(float).eps * design.total_weight
    kind = np.float64 if np.min(tol) < _SINGLE else np.float32
    basis: list[NDArray[np.floating]] = []
    a_all: list[FloatArray] = []
    b_all: list[FloatArray] = []
    residual = np.where(norm > 0, 1.0, 0.0)[:, None] * np.ones(alphas.size)
    pivot = np.ones_like(residual)
    for step in range(MAX_STEPS):  # rounding makes it more than N steps where N is small
        if step % _ROOM == 0:
            basis.append(np.empty((_ROOM, norm.size, KV.shape[0]), kind))
        next_vectors(KV, length, basis[-1][step % _ROOM])
        V_old, V = V, KV
        KV, a = design.gram(V), np.empty(norm.size)
        squares = lanczos_step(KV, V, V_old, a, b)
        pivot = a[:, None] + alphas - (b * b)[:, None] / pivot
        b = np.sqrt(squares)
        b[b <= tiny] = 0.0
        length = b
        a_all.append(a)
        b_all.append(b)
        residual = residual * b[:, None] / pivot
        if np.all(residual.max(axis=1) <= tol):
            break
    return Krylov(basis, np.array(a_all), np.array(b_all), norm, residual)
