"""How the learners of a stream predict together: a ridge regression on what they said."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.learners import step
from mondrian_kernel._kernels.tables import SQUARED
from mondrian_kernel._settings import (
    LEAST_CURVATURE,
    LEAST_SHARE,
    MEAN_ROWS,
    MIXTURE_KEEP,
    MIXTURE_PRIOR,
    SPREAD_FLOOR,
    STREAM_WINDOW,
)


@kernel
def judge(scores, base, Y, sample_weight, loss, curvature, sums, mixed, lost):
    """Mix the scores of rows, and learn from their targets how good the learners are.

    ``scores`` (T, n, K) are those before any of the rows was learnt, ``Y`` (n, K) the targets.
    ``mixed`` (n, K) receives f = base + Σ_j weights_j x_j, with T + H terms: x_j = scores_j - base
    of the learners, J on trees and then linear ones, and last H running means of the targets, as
    they are before these rows: ``recent``, less the base if the targets are scores, not classes.
    ``lost`` (n,) receives the losses of ``mixed``.

    ``sums`` are changed in place. With h the curvature of s ℓ, but at least a share of its bound s
    ``curvature``, ``gram`` (T + H, T + H) is the discounted sum of h x xᵀ, and ``moment`` (T + H,)
    that of x (h (f - base) - s ℓ'), the targets of a Newton step. ``error`` (J + 1,) are mean
    losses of the J learners and of the mixture over all rows; later, over the last
    ``STREAM_WINDOW`` or so. ``recent`` (H, K) are the running means of the targets. The first of
    ``counts`` are the numbers of rows and batches. ``weights`` (T + H,) and ``shares`` (J,) are at
    last what :func:`solve` finds.
    """
    gram, moment, error, recent, counts, weights, shares = sums
    T, n, K = scores.shape
    J, H = shares.size, recent.shape[0]
    x, D = np.empty((T + H, K)), np.empty(K)
    for h in range(H):
        for k in range(K):
            x[T + h, k] = recent[h, k] - (base[k] if loss == SQUARED else 0.0)
    for i in range(n):
        rate = 1.0 / min(counts[0] + i + 1, STREAM_WINDOW)
        for k in range(K):
            mixed[i, k] = base[k]
            for j in range(T + H):
                if j < T:
                    x[j, k] = scores[j, i, k] - base[k]
                mixed[i, k] += weights[j] * x[j, k]
            for h in range(H):
                recent[h, k] += (Y[i, k] - recent[h, k]) / MEAN_ROWS[h]
        for j in range(J):
            _, value = step(loss, Y[i], scores[j, i], 1.0, 1e-300, D)
            error[j] += rate * (value - error[j])
        # Without a variance of the scores the step is the negative slope.
        h, lost[i] = step(loss, Y[i], mixed[i], sample_weight[i], 1e-300, D)
        h = max(h, LEAST_CURVATURE * sample_weight[i] * curvature)
        error[J] += rate * (lost[i] - error[J])
        for j in range(T + H):
            moment[j] *= MIXTURE_KEEP
            for k in range(K):
                moment[j] += x[j, k] * (h * (mixed[i, k] - base[k]) + D[k])
            for other in range(T + H):
                total = 0.0
                for k in range(K):
                    total += x[j, k] * x[other, k]
                gram[j, other] = MIXTURE_KEEP * gram[j, other] + h * total
    counts[0] += n
    counts[1] += 1
    solve(gram, moment, error[J], counts, H, weights, shares)


@kernel
def relative_errors(Y, mixed, shares, variance, lost, counts, errors, log_size, widths):
    """Write errors in units of what is expected of them, and what the local size is learnt from.

    The expected variance v_i of row i is Σ_j ``shares``_j ``variance[j, i]``, in units of the
    signal. ``errors`` (n, K) are divided by its root. The bar of a row far from all others is wider
    than the usual one, by u = √(v / mean v) but at least 1. ``log_size`` (n, K) are the logarithms
    of the absolute errors over u; errors of less than a small share of the root of the mean loss
    ``lost`` count as that. ``widths`` (n,) are ln(u / √v). The mean of v of earlier rows is
    ``counts[2]``, which is changed in place; it is 0 if there was none.
    """
    n, mean, before = len(Y), counts[2], counts[0] - len(Y)
    least = SPREAD_FLOOR * np.sqrt(lost)
    for i in range(n):
        v = 0.0
        for j in range(shares.size):
            v += shares[j] * variance[j, i]
        u = np.sqrt(max(v / mean, 1.0)) if mean > 0.0 else 1.0
        counts[2] += (v - counts[2]) / min(before + i + 1, STREAM_WINDOW)
        widths[i] = np.log(u / np.sqrt(v))
        for k in range(Y.shape[1]):
            error = Y[i, k] - mixed[i, k]
            errors[i, k] = error / np.sqrt(v)
            log_size[i, k] = np.log(max(abs(error), least, 1e-300) / u)


@kernel
def intercept(b, recent, weights, centred):
    """Return b₀ + Σ_j weights_j (b_j - b₀) + Σ_h weights_{T+h} (recent_h - b₀), (K,).

    ``b`` (T, K) are intercepts of learners, ``recent`` (H, K) running means of the targets, from
    which b₀ is subtracted only if ``centred``.
    """
    T, K = b.shape
    mixed = b[0].copy()
    for k in range(K):
        for j in range(T):
            mixed[k] += weights[j] * (b[j, k] - b[0, k])
        for h in range(recent.shape[0]):
            mixed[k] += weights[T + h] * (recent[h, k] - (b[0, k] if centred else 0.0))
    return mixed


@kernel
def solve(gram, moment, error, counts, n_means, weights, shares):
    """Write the weights (T + H,) of the terms and the shares (J,) of the learners on trees.

    The prior, equal weights of all T learners, counts as ``MIXTURE_PRIOR`` rows, of terms of mean
    size and of the mean ``error``; that of the last ``n_means`` terms, which are the same for all
    rows of a batch, as so many batches. Learners with hardly any share get none: they would only
    cost time.
    """
    J, n, n_rows, n_batches = shares.size, moment.size, counts[0], counts[1]
    T = n - n_means
    total = np.trace(gram) / n
    for i in range(n):
        weights[i] = 1.0 / T if i < T else 0.0
    if n > 1 and total > 0.0:
        n_kept = (1.0 - MIXTURE_KEEP**n_rows) / (1.0 - MIXTURE_KEEP)
        unit = total / n_kept + 2.0 * error
        step = np.empty(n)
        for i in range(n):
            step[i] = moment[i]
            for j in range(T):
                step[i] -= gram[i, j] / T
        A = gram / unit
        step /= unit
        for i in range(n):
            A[i, i] += MIXTURE_PRIOR * (1.0 if i < T else n_rows / n_batches)
        _solve_in_place(A, step)
        most = 0.0
        for i in range(n):
            weights[i] += step[i]
            most = max(most, abs(weights[i])) if i < J else most
        for j in range(J):
            if abs(weights[j]) < LEAST_SHARE * most:
                weights[j] = 0.0
    total = np.abs(weights[:J]).sum()
    for j in range(J):
        shares[j] = abs(weights[j]) / total


@kernel
def _solve_in_place(A, x):
    """Replace ``x`` (n,) by A⁻¹x, and the positive definite ``A`` (n, n) by its Cholesky factor."""
    n = x.size
    for i in range(n):
        for j in range(i + 1):
            total = A[i, j]
            for k in range(j):
                total -= A[i, k] * A[j, k]
            A[i, j] = np.sqrt(total) if i == j else total / A[j, j]
        for k in range(i):
            x[i] -= A[i, k] * x[k]
        x[i] /= A[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x[i] -= A[k, i] * x[k]
        x[i] /= A[i, i]
