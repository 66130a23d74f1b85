r"""Conjugate gradients for many right-hand sides, and ridge regression at one alpha by them.

From some hundred rows S drawn at random, :math:`K \approx K_{:S} K_{SS}^{-1} K_{S:} = B B^\top`
(Nyström). As a preconditioner of :math:`K + \alpha I` this leaves only the small eigenvalues, which
take a third to a tenth of the steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.operator import Operator
from mondrian_kernel._typing import FloatArray

Product = Callable[[FloatArray], FloatArray]


class Progress(NamedTuple):
    r"""Where conjugate gradients stand after ``step`` steps.

    ``residual`` is B - A X. ``square`` is its squared length in the preconditioner's norm and
    ``gained`` is :math:`X^\top A X`, both for each column, or in all where columns are tied.
    """

    step: int
    residual: FloatArray
    square: FloatArray
    gained: FloatArray


def dot_columns(P: FloatArray, R: FloatArray) -> FloatArray:
    """Inner products of the columns of P and R, (k,)."""
    out: FloatArray = np.einsum("nk,nk->k", P, R)
    return out


def conjugate_gradients(
    product: Product,
    B: FloatArray,
    finished: Callable[[Progress], bool],
    *,
    precondition: Product = np.copy,
    dot: Callable[[FloatArray, FloatArray], FloatArray] = dot_columns,
    max_steps: int,
) -> tuple[FloatArray, bool]:
    """Solve A X = B (N, k) for positive definite A, every column with its own steps.

    Before each step ``finished`` is called with the :class:`Progress`. The iteration ends when it
    returns True, or after ``max_steps`` products. ``precondition`` returns an approximation of
    A⁻¹ R as a new array. Its result may carry further rows along with each direction, which
    ``product`` and ``dot`` then know about. ``dot`` returns a number for each column, or one where
    the columns are tied. Returns X, shaped as the directions, and whether ``finished`` ended it.
    """
    R = B.copy()
    Z = precondition(R)
    P, X, square = Z, np.zeros_like(Z), dot(Z, R)
    gained = np.zeros_like(square)
    for step in range(max_steps + 1):
        if finished(Progress(step, R, square, gained)):
            return X, True
        if step == max_steps:
            break
        AP = product(P)
        curvature = dot(P, AP)
        length = square / np.where(curvature > 0, curvature, np.inf)
        gained = gained + length * square
        X += length * P
        R -= length * AP
        Z = precondition(R)
        before, square = square, dot(Z, R)
        P *= square / np.where(before > 0, before, np.inf)
        P += Z
    return X, False


class Nystroem:
    """Approximate inverse of the (centred) ``K + αI`` of an operator of one level."""

    def __init__(self, operator: Operator, alpha: float) -> None:
        n = operator.n_rows
        n_some = max(1, min(settings.NYSTROEM_ROWS, n // 2, settings.NYSTROEM_NUMBERS // n))
        some = np.sort(np.random.default_rng(0).choice(n, n_some, replace=False))
        K = operator.kernel_columns(some)
        inner = K[some]
        inner.flat[:: n_some + 1] *= 1.0 + 1e-6  # rows may be copies of each other
        L = linalg.cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
        B = linalg.solve_triangular(L, K.T, lower=True, overwrite_b=True, check_finite=False)
        self._B: FloatArray = operator.centred(np.ascontiguousarray(B.T))
        A = self._B.T @ self._B
        A.flat[:: n_some + 1] += alpha
        self._factor = linalg.cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
        self._alpha = alpha

    def __call__(self, R: FloatArray) -> FloatArray:
        """Apply it to the columns of R (N, k)."""
        inner = linalg.cho_solve(self._factor, self._B.T @ R, check_finite=False)
        out: FloatArray = (R - self._B @ inner) / self._alpha
        return out


def shifted(operator: Operator, alpha: float) -> Product:
    """Product with K + αI."""

    def product(P: FloatArray) -> FloatArray:
        KP = operator.gram(P)
        KP += alpha * P
        return KP

    return product


def gradient_dual(
    operator: Operator, target: FloatArray, alpha: float, tol: float = settings.GRADIENT_TOL
) -> FloatArray:
    """``(K + αI)⁻¹`` applied to centred targets (N, T), to a relative residual of ``tol``."""
    enough = tol * np.linalg.norm(target, axis=0)
    dual, done = conjugate_gradients(
        shifted(operator, alpha),
        target,
        lambda now: bool(np.all(np.linalg.norm(now.residual, axis=0) <= enough)),
        precondition=Nystroem(operator, alpha),
        max_steps=settings.GRADIENT_STEPS,
    )
    if not done:
        warnings.warn(
            f"Conjugate gradients left over {tol:g} of the residual after "
            f"{settings.GRADIENT_STEPS} steps: alpha={alpha:.3g} is too small for these rows. "
            "Raise it.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return dual
