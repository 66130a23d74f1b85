"""Weights of learners that predict together, by ridge regression on their own scores."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.filter import step
from mondrian_kernel._settings import LEAST_CURVATURE, MIXTURE_KEEP, STREAM_WINDOW


@kernel
def judge(
    scores,
    base,
    Y,
    sample_weight,
    loss,
    curvature,
    weights,
    n_seen,
    gram,
    moment,
    error,
    mixed,
):
    """Mix the scores of rows, and learn from their targets how good the learners are.

    ``scores`` (J, n, K) are those before any of the rows was learnt, ``Y`` (n, K) the targets.
    ``mixed`` (n, K) receives f = base + Σ_j weights_j (scores_j - base). Changed in place: with
    x_j = scores_j - base and h the curvature of s ℓ, but at least a share of its bound s
    ``curvature``, ``gram`` (J, J) is the discounted sum of h x xᵀ, and ``moment`` (J,) that of
    x (h (f - base) - s ℓ'), the targets of a Newton step. ``error`` (J + 1,) are mean losses of
    the learners and of their mixture over all rows, of which ``n_seen`` came before these; later,
    over the last ``STREAM_WINDOW`` or so.
    """
    J, n, K = scores.shape
    x, D = np.empty((J, K)), np.empty(K)
    for i in range(n):
        rate = 1.0 / min(n_seen + i + 1, STREAM_WINDOW)
        for k in range(K):
            mixed[i, k] = base[k]
            for j in range(J):
                x[j, k] = scores[j, i, k] - base[k]
                mixed[i, k] += weights[j] * x[j, k]
        for j in range(J):
            _, value = step(loss, Y[i], scores[j, i], 1.0, 1e-300, D)
            error[j] += rate * (value - error[j])
        # Without a variance of the scores the step is the negative slope.
        h, value = step(loss, Y[i], mixed[i], sample_weight[i], 1e-300, D)
        h = max(h, LEAST_CURVATURE * sample_weight[i] * curvature)
        error[J] += rate * (value - error[J])
        for j in range(J):
            moment[j] *= MIXTURE_KEEP
            for k in range(K):
                moment[j] += x[j, k] * (h * (mixed[i, k] - base[k]) + D[k])
            for other in range(J):
                total = 0.0
                for k in range(K):
                    total += x[j, k] * x[other, k]
                gram[j, other] = MIXTURE_KEEP * gram[j, other] + h * total
