"""Minimise the penalised sum of losses: Newton's method for smooth ones, the hinge in its dual."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.conjugate_gradients import Product, Progress, conjugate_gradients
from mondrian_kernel._linear.losses import (
    dual_bound,
    hessian,
    intercept_hessian,
    slope,
    value,
)
from mondrian_kernel._linear.operator import CellOperator, Operator
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray


class Minimum(NamedTuple):
    """A minimum, and how it was reached.

    ``W`` (C, K) and ``b`` (K,) are the weights and the intercept. ``dual`` (N, K) are coefficients
    of the rows, W = Φᵀ dual, a start for the same rows at another alpha. ``gap`` bounds how far
    ``objective`` lies above the optimum; it is 0 if both are within rounding.
    """

    W: FloatArray
    b: FloatArray
    dual: FloatArray
    objective: float
    gap: float
    n_steps: int


def minimise(
    operator: Operator,
    Y: FloatArray,
    loss: str,
    alpha: float,
    *,
    sample_weight: FloatArray | None = None,
    start: tuple[FloatArray, FloatArray] | None = None,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> Minimum:
    r"""Minimise :math:`\sum_i s_i \ell(y_i, b + \phi_i^\top W) + \alpha \lVert W \rVert^2`.

    Squared and logistic loss by Newton's method with conjugate gradients on the span of the rows,
    :class:`Newton`; the hinge by coordinate descent in its dual. The operator has one level and
    neither centres nor weighs its rows: the weights s belong to the losses. Targets ``Y`` (N, K)
    are those of :mod:`mondrian_kernel._linear.losses`. It stops when the duality gap, for a smooth
    loss :math:`\lVert \nabla_W \rVert^2 / 4\alpha`, is at most ``tol`` times the objective, and
    warns after ``max_iter`` steps.

    A ``start`` are ``dual`` (N, K) and ``b`` (K,) of an earlier minimum; None: 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._linear.operator import CellOperator
    >>> cells = np.array([[0, 2], [0, 3], [1, 2], [1, 3]], np.int32)
    >>> y = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> rows = CellOperator(cells, n_cells=4, centre=False)
    >>> W, b, *_ = minimise(rows, y, "squared", alpha=1.0)
    >>> W.ravel().round(3), b.round(3)
    (array([-0.707,  0.707, -0.354,  0.354]), array([1.5]))
    """
    s = np.ones(operator.n_rows) if sample_weight is None else np.asarray(sample_weight, float)
    dual, b = (np.zeros_like(Y), np.zeros(Y.shape[1])) if start is None else start
    if loss == "hinge":
        assert isinstance(operator, CellOperator)
        minimum = minimise_hinge(operator, Y, alpha, s, dual, b, tol, max_iter)
    else:
        minimum = Newton(operator, Y, loss, alpha, s).run(dual, b, tol, max_iter)
    if minimum.gap > tol * minimum.objective:
        warnings.warn(
            f"The objective {minimum.objective:.6g} may be {minimum.gap:.2g} above the optimum "
            f"after {minimum.n_steps} steps. Raise max_iter or alpha.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return minimum


class Newton:
    r"""Minimise :math:`\sum_i s_i \ell(y_i, f_i) + \alpha \lVert W \rVert^2` for a smooth loss.

    By the representer theorem every vector that Newton's method with conjugate gradients meets is
    a combination of the rows. It has length N then, not C, and a step of conjugate gradients is
    one product with :math:`\Phi\Phi^\top`, O(NMK).

    A point is an array θ of N + 1 rows of K columns: W = Σ_i θ_i φ_i and b = θ_N. Its image Gθ
    holds the inner products of W with all φ_i, then b. So the scores are (Gθ)_i + b, and the inner
    product of two points θ and η is Σ θ ∘ Gη.

    With the intercept at its best for the weights, the duality gap is ‖∇_W‖² / 4 alpha.
    """

    def __init__(
        self, operator: Operator, Y: FloatArray, loss: str, alpha: float, sample_weight: FloatArray
    ) -> None:
        self.operator, self.Y, self.loss, self.alpha = operator, Y, loss, alpha
        self.s = sample_weight[:, None]
        # Each output of the squared loss is a problem of its own; a softmax ties them together.
        self.inner = "nk,nk->k" if loss == "squared" else "nk,nk->"

    def image(self, theta: FloatArray) -> FloatArray:
        """Return Gθ: one product with ΦΦᵀ."""
        out = np.empty_like(theta)
        out[:-1] = self.operator.gram(theta[:-1])
        out[-1] = theta[-1]
        return out

    def objective(self, theta: FloatArray, image: FloatArray) -> float:
        """Objective at θ."""
        losses = self.s[:, 0] * value(self.loss, self.Y, image[:-1] + image[-1])
        return float(losses.sum() + self.alpha * _dot(theta[:-1], image[:-1]))

    def lift(self, theta: FloatArray, R: FloatArray) -> FloatArray:
        """Return the point Φᵀ(R) + 2 alpha W, with the sum of R for the intercept."""
        out = 2.0 * self.alpha * theta
        out[:-1] += R
        out[-1] = R.sum(axis=0)
        return out

    def run(self, dual: FloatArray, b: FloatArray, tol: float, max_iter: int) -> Minimum:
        """Newton's method with a line search."""
        theta = np.vstack([dual, b])
        image = self.image(theta)
        J = self.objective(theta, image)
        floor, first, gap, step = settings.OBJECTIVE_FLOOR * J, 0.0, np.inf, 0
        for step in range(max_iter + 1):
            J = self.settle(theta, image, J)
            F = image[:-1] + image[-1]
            gradient = self.lift(theta, self.s * slope(self.loss, self.Y, F))
            steepest = self.image(gradient)
            product = hessian(self.loss, F)
            gap = self.gap(gradient, steepest, product)
            wanted = tol * max(J, floor)
            if gap <= wanted or step == max_iter:
                break
            rest = _dot(gradient, steepest)
            first = first or rest
            forcing = min(settings.NEWTON_FORCING, (rest / first) ** 0.5)
            left = 0.0 if self.loss == "squared" else forcing * rest
            share = 4.0 * self.alpha * settings.NEWTON_SHARE * wanted / J
            move, moved = self.solve(product, gradient, steepest, (left, share, J))
            length, descent = 1.0, _dot(steepest, move)
            while length > settings.SHORTEST_STEP:
                lower = self.objective(theta + length * move, image + length * moved)
                if lower <= J + settings.ARMIJO * length * descent:
                    break
                length /= 2.0
            else:
                break
            theta, image, J = theta + length * move, image + length * moved, lower
        W = self.operator.scatter(theta[:-1])
        gap = 0.0 if gap <= tol * floor else gap
        return Minimum(W, theta[-1].copy(), theta[:-1].copy(), J, gap, step)

    def settle(self, theta: FloatArray, image: FloatArray, J: float) -> float:
        """Move the intercept to its best for the weights, in place; returns the objective."""
        for _ in range(settings.INTERCEPT_STEPS):
            F = image[:-1] + image[-1]
            slopes = (self.s * slope(self.loss, self.Y, F)).sum(axis=0)
            if np.abs(slopes).max() <= settings.INTERCEPT_TOL * self.s.sum():
                break
            H = intercept_hessian(self.loss, F, self.s)
            b = theta[-1].copy()
            theta[-1] -= np.linalg.pinv(H, rcond=settings.INTERCEPT_TOL, hermitian=True) @ slopes
            image[-1] = theta[-1]
            lower = self.objective(theta, image)
            if not lower <= J * (1.0 + settings.INTERCEPT_TOL):
                theta[-1] = image[-1] = b
                break
            J = lower
        return J

    def gap(self, gradient: FloatArray, image: FloatArray, product: Product) -> float:
        """Duality gap, plus a bound on the gain of an intercept that is not yet optimal."""
        b = gradient[-1]
        along = np.broadcast_to(b, self.Y.shape)
        curvature = _dot(along, self.s * product(along))
        intercept = float(b @ b) ** 2 / (2.0 * curvature) if curvature > 0 else 0.0
        return _dot(gradient[:-1], image[:-1]) / (4.0 * self.alpha) + intercept

    def solve(
        self,
        product: Product,
        gradient: FloatArray,
        image: FloatArray,
        stop: tuple[float, float, float],
    ) -> tuple[FloatArray, FloatArray]:
        """Conjugate gradients for the Newton step; returns the step and its image.

        G is the preconditioner. A direction carries its point θ above its image Gθ, since the
        Hessian needs both. ``stop`` has a squared residual to stop at, a share of the objective
        that the quadratic model expects after the step, and the objective before it.
        """
        n, (left, share, J) = gradient.shape[0], stop
        first = np.vstack([-gradient, -image])  # known already

        def with_image(R: FloatArray) -> FloatArray:
            nonlocal first
            if first.size:
                Z, first = first, np.empty((0, 0))
                return Z
            return np.vstack([R, self.image(R)])

        def curved(P: FloatArray) -> FloatArray:
            return self.lift(P[:n], self.s * product(P[n:-1] + P[-1]))

        def enough(now: Progress) -> bool:
            bound = max(left, share * (J - 0.5 * float(now.gained.sum())))
            return now.step > 0 and bool(np.all(now.square <= bound / now.square.size))

        step, _ = conjugate_gradients(
            curved,
            -gradient,
            enough,
            precondition=with_image,
            dot=lambda P, R: np.einsum(self.inner, P[n:], R),
            max_steps=settings.NEWTON_PRODUCTS,
        )
        return step[:n], step[n:]


def _dot(a: FloatArray, b: FloatArray) -> float:
    """Sum of products, in an order that does not depend on the threads of a BLAS."""
    return float(np.einsum("nk,nk->", a, b))


def minimise_hinge(
    operator: CellOperator,
    Y: FloatArray,
    alpha: float,
    sample_weight: FloatArray,
    dual: FloatArray,
    b: FloatArray,
    tol: float,
    max_iter: int,
) -> Minimum:
    r"""Minimise :math:`\sum_i s_i \sum_k \max(0, 1 - y_{ik} f_{ik}) + \alpha \lVert W \rVert^2`.

    The dual maximises :math:`\sum a - ½ \lVert \sum_i a_i y_i \phi_i \rVert^2` for each output over
    :math:`0 ≤ a_i ≤ s_i / 2\alpha` and :math:`\sum_i a_i y_i = 0`. Rounds of coordinate descent
    with a falling bound on the violations end when the duality gap is at most ``tol`` times the
    objective. For the gap the intercept is set to its best for the weights, and a is made to meet
    the equality.
    """
    from mondrian_kernel._kernels.descent import hinge_descent
    from mondrian_kernel._kernels.streams import root_keys

    n_outputs = Y.shape[1]
    upper = dual_bound(alpha) * sample_weight
    bias, A = b.copy(), np.clip(dual * Y, 0.0, upper[:, None])
    rows = np.flatnonzero(upper > 0).astype(np.int32)
    orders = [rows.copy() for _ in range(n_outputs)]
    keys = root_keys(0, 0, n_outputs)
    draws = np.zeros(n_outputs, np.int64)
    W = operator.scatter(A * Y)
    violation = settings.HINGE_FIRST_VIOLATION

    def run(begin: int, end: int) -> None:
        for k in range(begin, end):
            y, a, w = Y[:, k].copy(), A[:, k].copy(), W[:, k : k + 1].copy()
            state = a, w, bias[k : k + 1], orders[k], keys[k], draws[k]
            how = settings.HINGE_PASSES, violation
            _, draws[k] = hinge_descent(operator.cells, y, upper, *state, *how)
            A[:, k], W[:, k] = a, w[:, 0]

    objective, gap, step = np.inf, np.inf, 0
    for step in range(max_iter + 1):
        if step > 0:
            in_threads(run, n_outputs, operator.n_jobs)
            violation = max(settings.HINGE_TIGHTENING * violation, 1e-12)
        scores = operator.gather(W)
        b = best_intercept(Y, scores, sample_weight)
        losses = sample_weight @ value("hinge", Y, scores + b)
        objective = float(losses + alpha * np.einsum("ck,ck->", W, W))
        gap = objective - dual_value(operator, Y, A, alpha)
        if gap <= tol * objective:
            break
    return Minimum(W, b, A * Y, objective, gap, step)


def best_intercept(Y: FloatArray, scores: FloatArray, sample_weight: FloatArray) -> FloatArray:
    r"""Minimise :math:`\sum_i s_i \max(0, 1 - y_i (f_i + b))` over b, for each output.

    The slope in b rises from :math:`-\sum_{y_i = 1} s_i` by s_i at each kink :math:`b = y_i - f_i`,
    so b is a weighted quantile of the kinks.
    """
    kinks = Y - scores
    b = np.empty(Y.shape[1])
    for k in range(Y.shape[1]):
        order = np.argsort(kinks[:, k], kind="stable")
        rise = np.cumsum(sample_weight[order])
        positive = sample_weight[Y[:, k] > 0].sum()
        b[k] = kinks[order[min(np.searchsorted(rise, positive), order.size - 1)], k]
    return b


def dual_value(operator: CellOperator, Y: FloatArray, A: FloatArray, alpha: float) -> float:
    """Value of the dual at A scaled down on one side, so that Σ a y = 0 in each output."""
    positive = (A * (Y > 0)).sum(axis=0)
    negative = (A * (Y < 0)).sum(axis=0)
    least = np.minimum(positive, negative)
    shrink_positive = least / np.where(positive > 0, positive, 1.0)
    shrink_negative = least / np.where(negative > 0, negative, 1.0)
    B = A * np.where(Y > 0, shrink_positive, shrink_negative)
    beta = B * Y
    return float(2.0 * alpha * (B.sum() - 0.5 * np.einsum("nk,nk->", beta, operator.gram(beta))))
