r"""Ridge at one alpha without a matrix: conjugate gradients, preconditioned by some of the rows.

From some hundred rows S drawn at random, :math:`K \approx K_{:S} K_{SS}^{-1} K_{S:} = B B^\top`
(Nyström). Of :math:`K + \alpha I` that leaves the small eigenvalues, which need a third to a tenth
of the steps.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel._linear.dense import kernel_columns
from mondrian_kernel._linear.design import Design
from mondrian_kernel._typing import FloatArray

_SOME_ROWS, _MEMORY = 400, 40_000_000
_MAX_STEPS = 2000
_TOL = 1e-7


class Nystroem:
    """Approximate inverse of the (centred) ``K + αI`` of a design of one level."""

    def __init__(self, design: Design, alpha: float) -> None:
        n = design.n_rows
        n_some = max(1, min(_SOME_ROWS, n // 2, _MEMORY // n))
        some = np.sort(np.random.default_rng(0).choice(n, n_some, replace=False))
        K = kernel_columns(design, some)
        inner = K[some]
        inner.flat[:: n_some + 1] *= 1.0 + 1e-6  # rows may be copies of each other
        L = linalg.cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
        B = linalg.solve_triangular(L, K.T, lower=True, overwrite_b=True, check_finite=False)
        self._B: FloatArray = design.centred(np.ascontiguousarray(B.T))
        A = self._B.T @ self._B
        A.flat[:: n_some + 1] += alpha
        self._factor = linalg.cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
        self._alpha = alpha

    def __call__(self, R: FloatArray) -> FloatArray:
        """Apply it to the columns of R (N, k)."""
        inner = linalg.cho_solve(self._factor, self._B.T @ R, check_finite=False)
        out: FloatArray = (R - self._B @ inner) / self._alpha
        return out


def preconditioned_dual(design: Design, target: FloatArray, alpha: float) -> FloatArray:
    """``(K + αI)⁻¹`` applied to centred targets (N, T), to a relative residual of 1e-7."""
    approximate_inverse = Nystroem(design, alpha)
    norm = np.linalg.norm(target, axis=0)
    X, R = np.zeros_like(target), target.copy()
    Z = approximate_inverse(R)
    P, rz = Z.copy(), np.einsum("nt,nt->t", R, Z)
    for _ in range(_MAX_STEPS):
        if np.all(np.linalg.norm(R, axis=0) <= _TOL * norm):
            break
        KP = design.gram(P)
        KP += alpha * P
        curvature = np.einsum("nt,nt->t", P, KP)
        length = rz / np.where(curvature > 0, curvature, np.inf)
        X += length * P
        R -= length * KP
        Z = approximate_inverse(R)
        rz_old, rz = rz, np.einsum("nt,nt->t", R, Z)
        P *= rz / np.where(rz_old > 0, rz_old, np.inf)
        P += Z
    else:
        warnings.warn(
            f"Conjugate gradients left over {_TOL:g} of the residual after {_MAX_STEPS} steps: "
            f"alpha={alpha:.3g} is too small for these rows. Raise it.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return X
