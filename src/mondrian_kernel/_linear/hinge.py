"""Minimise the hinge loss by coordinate descent in its dual, with an intercept."""

from __future__ import annotations

import numpy as np

from mondrian_kernel._linear.cell_operator import CellOperator
from mondrian_kernel._linear.losses import Minimum, dual_bound, value
from mondrian_kernel._settings import HINGE_FIRST_VIOLATION, HINGE_PASSES, HINGE_TIGHTENING
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray


def minimise_hinge(
    operator: CellOperator,
    Y: FloatArray,
    alpha: float,
    sample_weight: FloatArray,
    b0: FloatArray | None,
    dual0: FloatArray | None,
    tol: float,
    max_iter: int,
) -> Minimum:
    r"""Minimise :math:`\sum_i s_i \sum_k \max(0, 1 - y_{ik} f_{ik}) + \alpha \lVert W \rVert^2`.

    The dual maximises :math:`\sum a - ½ \lVert \sum_i a_i y_i \phi_i \rVert^2` for each output over
    :math:`0 ≤ a_i ≤ s_i / 2\alpha` and :math:`\sum_i a_i y_i = 0`. Rounds of coordinate descent
    with a falling bound on the violations end when the duality gap is at most ``tol`` times the
    objective. For the gap the intercept is set to its best for the weights, and a is made to meet
    the equality. Parameters as in :func:`mondrian_kernel._linear.newton.minimise`.
    """
    from mondrian_kernel._kernels.descent import hinge_descent
    from mondrian_kernel._kernels.streams import root_key

    n_outputs = Y.shape[1]
    upper = dual_bound(alpha) * sample_weight
    bias = np.zeros(n_outputs) if b0 is None else np.array(b0, dtype=float)
    A = np.zeros_like(Y)
    if dual0 is not None:
        A = np.clip(dual0 * Y, 0.0, upper[:, None])
    rows = np.flatnonzero(upper > 0).astype(np.int32)
    orders = [rows.copy() for _ in range(n_outputs)]
    keys = [np.uint64(root_key(np.uint64(0), k)) for k in range(n_outputs)]
    draws = np.zeros(n_outputs, np.int64)
    W = operator.scatter(A * Y)
    n_passes = np.zeros(n_outputs, np.int64)
    violation = HINGE_FIRST_VIOLATION

    def run(begin: int, end: int) -> None:
        for k in range(begin, end):
            y, a, w = Y[:, k].copy(), A[:, k].copy(), W[:, k : k + 1].copy()
            passes, draws[k] = hinge_descent(
                operator.cells,
                y,
                upper,
                a,
                w,
                bias[k : k + 1],
                orders[k],
                keys[k],
                draws[k],
                HINGE_PASSES,
                violation,
            )
            A[:, k], W[:, k] = a, w[:, 0]
            n_passes[k] += passes

    objective, gap, step = np.inf, np.inf, 0
    for step in range(max_iter + 1):
        if step > 0:
            in_threads(run, n_outputs, operator.n_jobs)
            violation = max(HINGE_TIGHTENING * violation, 1e-12)
        scores = operator.gather(W)
        b = best_intercept(Y, scores, sample_weight)
        losses = sample_weight @ value("hinge", Y, scores + b)
        objective = float(losses + alpha * np.einsum("ck,ck->", W, W))
        gap = objective - dual_value(operator, Y, A, alpha)
        if gap <= tol * objective:
            break
    return Minimum(W, b, A * Y, objective, gap, step, int(n_passes.sum()))


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
