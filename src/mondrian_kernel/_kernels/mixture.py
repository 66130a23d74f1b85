"""Weights of learners that predict together, by ridge regression on their own scores."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.filter import step
from mondrian_kernel._settings import LEAST_CURVATURE, MIXTURE_KEEP, STREAM_WINDOW


@kernel
def judge(
    scores,
    base,
    level,
    Y,
    sample_weight,
    loss,
    curvature,
    weights,
    rows_of_mean,
    n_seen,
    gram,
    moment,
    error,
    recent,
    mixed,
):
    """Mix the scores of rows, and learn from their targets how good the learners are.

    ``scores`` (J, n, K) are those before any of the rows was learnt, ``Y`` (n, K) the targets.
    ``mixed`` (n, K) receives f = base + Σ_j weights_j x_j, with J + H terms: x_j = scores_j - base
    of the learners and, after them, ``recent`` - ``level`` of H running means of the targets, as
    they are before these rows. Changed in place: with h the curvature of s ℓ, but at least a share
    of its bound s ``curvature``, ``gram`` (J + H, J + H) is the discounted sum of h x xᵀ, and
    ``moment`` (J + H,) that of x (h (f - base) - s ℓ'), the targets of a Newton step. ``error``
    (J + 1,) are mean losses of the learners and of their mixture over all rows, of which ``n_seen``
    came before these; later, over the last ``STREAM_WINDOW`` or so. ``recent`` (H, K) are the
    running means of the targets over ``rows_of_mean`` (H,) rows.
    """
    J, n, K = scores.shape
    H = recent.shape[0]
    x, D = np.empty((J + H, K)), np.empty(K)
    for h in range(H):
        for k in range(K):
            x[J + h, k] = recent[h, k] - level[k]
    for i in range(n):
        rate = 1.0 / min(n_seen + i + 1, STREAM_WINDOW)
        for k in range(K):
            mixed[i, k] = base[k]
            for j in range(J + H):
                if j < J:
                    x[j, k] = scores[j, i, k] - base[k]
                mixed[i, k] += weights[j] * x[j, k]
            for h in range(H):
                recent[h, k] += (Y[i, k] - recent[h, k]) / rows_of_mean[h]
        for j in range(J):
            _, value = step(loss, Y[i], scores[j, i], 1.0, 1e-300, D)
            error[j] += rate * (value - error[j])
        # Without a variance of the scores the step is the negative slope.
        h, value = step(loss, Y[i], mixed[i], sample_weight[i], 1e-300, D)
        h = max(h, LEAST_CURVATURE * sample_weight[i] * curvature)
        error[J] += rate * (value - error[J])
        for j in range(J + H):
            moment[j] *= MIXTURE_KEEP
            for k in range(K):
                moment[j] += x[j, k] * (h * (mixed[i, k] - base[k]) + D[k])
            for other in range(J + H):
                total = 0.0
                for k in range(K):
                    total += x[j, k] * x[other, k]
                gram[j, other] = MIXTURE_KEEP * gram[j, other] + h * total
