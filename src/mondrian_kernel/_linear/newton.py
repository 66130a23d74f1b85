"""Newton's method for a smooth loss, on the span of the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mondrian_kernel._linear.loss_design import Design
from mondrian_kernel._linear.losses import hessian, intercept_hessian, slope, value
from mondrian_kernel._typing import FloatArray

_Product = Callable[[FloatArray], FloatArray]

_MAX_PRODUCTS = 5000  # of one solve by conjugate gradients
_FORCING = 0.1  # at most this part of the squared gradient is left by a solve
_SHARE = 0.3  # of the tolerance, for what a solve leaves
_ARMIJO = 1e-4
_SHORTEST = 1e-8  # step length below which only rounding is left
_SETTLING = 20  # most steps of the intercept alone
_SETTLED = 1e-13  # relative to the sum of the weights, and of the objective to rounding
_FLOOR = 1e-12  # an objective below this part of the first is 0 up to rounding


class Minimum(NamedTuple):
    """A minimum, and how it was reached.

    ``W`` (C, K) and ``b`` (K,) are the weights and the intercept. ``dual`` (N, K) are coefficients
    of the rows, W = Φᵀ dual (plus what is left of a ``W0``): the same rows with other cells start
    well from them. ``gap`` is how far ``objective`` may lie above the optimum, 0 where both are
    rounding. ``n_products`` counts products with ΦΦᵀ; of the hinge, passes over all outputs.
    """

    W: FloatArray
    b: FloatArray
    dual: FloatArray
    objective: float
    gap: float
    n_steps: int
    n_products: int


class Newton:
    r"""Minimise :math:`\sum_i s_i \ell(y_i, f_i) + \alpha \lVert W \rVert^2` for a smooth loss.

    By the representer theorem every vector that Newton's method with conjugate gradients meets is
    a combination of the rows (and of W0). It has length N then, not C, and a step of conjugate
    gradients is one product with :math:`\Phi\Phi^\top`, O(NMK).

    A point is an array θ of N + 2 rows of K columns: W = Σ_i θ_i φ_i + θ_N W0 and b = θ_(N+1). Its
    image Gθ holds the inner products of W with all φ_i and with W0, then b. So the scores are
    (Gθ)_i + b, and the inner product of two points θ and η is Σ θ ∘ Gη.

    With the intercept at its best for the weights, the duality gap is ‖∇_W‖² / 4 alpha.
    """

    def __init__(
        self,
        design: Design,
        Y: FloatArray,
        loss: str,
        alpha: float,
        sample_weight: FloatArray,
        W0: FloatArray | None,
    ) -> None:
        self.design, self.Y, self.loss, self.alpha = design, Y, loss, alpha
        self.s = sample_weight[:, None]
        self.W0 = W0
        if W0 is not None:
            self.F0, self.square0 = design.scores(W0), (W0**2).sum(axis=0)
        # Each output of the squared loss is a problem of its own; a softmax ties them together.
        self.inner = "nk,nk->k" if loss == "squared" else "nk,nk->"
        self.n_products = 0

    def image(self, theta: FloatArray) -> FloatArray:
        """Return Gθ: one product with ΦΦᵀ."""
        out = np.empty_like(theta)
        out[:-2] = self.design.gram(theta[:-2])
        out[-2] = 0.0
        if self.W0 is not None:
            out[:-2] += self.F0 * theta[-2]
            out[-2] = (self.F0 * theta[:-2]).sum(axis=0) + self.square0 * theta[-2]
        out[-1] = theta[-1]
        self.n_products += 1
        return out

    def objective(self, theta: FloatArray, image: FloatArray) -> float:
        """Objective at θ."""
        losses = self.s[:, 0] * value(self.loss, self.Y, image[:-2] + image[-1])
        return float(losses.sum() + self.alpha * _dot(theta[:-1], image[:-1]))

    def lift(self, theta: FloatArray, R: FloatArray) -> FloatArray:
        """Return the point Φᵀ(R) + 2 alpha W, with the sum of R for the intercept."""
        out = 2.0 * self.alpha * theta
        out[:-2] += R
        out[-1] = R.sum(axis=0)
        return out

    def run(
        self, b0: FloatArray | None, dual0: FloatArray | None, tol: float, max_iter: int
    ) -> Minimum:
        """Newton's method with a line search, from W0, from dual0, or from 0."""
        theta = np.zeros((self.design.n_rows + 2, self.Y.shape[1]))
        theta[:-2] = 0.0 if dual0 is None else dual0
        theta[-2] = 0.0 if self.W0 is None else 1.0
        theta[-1] = 0.0 if b0 is None else b0
        image = self.image(theta)
        J = self.objective(theta, image)
        floor, first, gap, step = _FLOOR * J, 0.0, np.inf, 0
        for step in range(max_iter + 1):
            J = self.settle(theta, image, J)
            F = image[:-2] + image[-1]
            gradient = self.lift(theta, self.s * slope(self.loss, self.Y, F))
            steepest = self.image(gradient)
            product = hessian(self.loss, self.Y, F)
            gap = self.gap(gradient, steepest, product)
            wanted = tol * max(J, floor)
            if gap <= wanted or step == max_iter:
                break
            rest = _dot(gradient, steepest)
            first = first or rest
            left = 0.0 if self.loss == "squared" else min(_FORCING, (rest / first) ** 0.5) * rest
            share = 4.0 * self.alpha * _SHARE * wanted / J
            move, moved = self.solve(product, gradient, steepest, left, share, J)
            length, descent = 1.0, _dot(steepest, move)
            while length > _SHORTEST:
                lower = self.objective(theta + length * move, image + length * moved)
                if lower <= J + _ARMIJO * length * descent:
                    break
                length /= 2.0
            else:
                break
            theta, image, J = theta + length * move, image + length * moved, lower
        W = self.design.weights(theta[:-2])
        if self.W0 is not None:
            W += self.W0 * theta[-2]
        gap = 0.0 if gap <= tol * floor else gap
        return Minimum(W, theta[-1].copy(), theta[:-2].copy(), J, gap, step, self.n_products)

    def settle(self, theta: FloatArray, image: FloatArray, J: float) -> float:
        """Move the intercept to its best for the weights, in place; returns the objective."""
        for _ in range(_SETTLING):
            F = image[:-2] + image[-1]
            slopes = (self.s * slope(self.loss, self.Y, F)).sum(axis=0)
            if np.abs(slopes).max() <= _SETTLED * self.s.sum():
                break
            H = intercept_hessian(self.loss, F, self.s)
            b = theta[-1].copy()
            theta[-1] -= np.linalg.pinv(H, rcond=_SETTLED, hermitian=True) @ slopes
            image[-1] = theta[-1]
            lower = self.objective(theta, image)
            if not lower <= J * (1.0 + _SETTLED):
                theta[-1] = image[-1] = b
                break
            J = lower
        return J

    def gap(self, gradient: FloatArray, image: FloatArray, product: _Product) -> float:
        """Duality gap, plus what the intercept may gain where it has not settled."""
        b = gradient[-1]
        along = np.broadcast_to(b, self.Y.shape)
        curvature = _dot(along, self.s * product(along))
        intercept = float(b @ b) ** 2 / (2.0 * curvature) if curvature > 0 else 0.0
        return _dot(gradient[:-1], image[:-1]) / (4.0 * self.alpha) + intercept

    def solve(
        self,
        product: _Product,
        gradient: FloatArray,
        image: FloatArray,
        left: float,
        share: float,
        J: float,
    ) -> tuple[FloatArray, FloatArray]:
        """Conjugate gradients for the Newton step; returns the step and its image.

        Stops at a squared residual of ``left``, or of ``share`` times the objective that the
        quadratic model expects after the step, ``J`` before it.
        """
        residual, pulled = -gradient, -image
        P, GP = residual.copy(), pulled.copy()
        move, moved = np.zeros_like(P), np.zeros_like(P)
        square = np.einsum(self.inner, residual, pulled)
        for _ in range(_MAX_PRODUCTS):
            HP = self.lift(P, self.s * product(GP[:-2] + GP[-1]))
            curvature = np.einsum(self.inner, GP, HP)
            length = square / np.where(curvature > 0, curvature, np.inf)
            J -= 0.5 * float((length * square).sum())
            move += length * P
            moved += length * GP
            residual -= length * HP
            pulled = self.image(residual)
            before, square = square, np.einsum(self.inner, residual, pulled)
            if np.all(square <= max(left, share * J) / square.size):
                break
            ratio = square / np.where(before > 0, before, np.inf)
            P = residual + ratio * P
            GP = pulled + ratio * GP
        return move, moved


def _dot(a: FloatArray, b: FloatArray) -> float:
    """Sum of products, in an order that does not depend on the threads of a BLAS."""
    return float(np.einsum("nk,nk->", a, b))
