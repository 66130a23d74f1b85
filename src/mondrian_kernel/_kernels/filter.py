"""A Kalman filter with a diagonal covariance, which learns from each row once.

The weights of a row's cells share its error in proportion to their variances. The variances shrink
with every row. A row costs O(MK) for each rung and level.

One call learns a batch at all rungs. See :mod:`mondrian_kernel._kernels.rungs` for the arrays.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel

SQUARED, LOGISTIC, SOFTMAX, HINGE = 0, 1, 2, 3
CODES = {"squared": SQUARED, "log_loss": LOGISTIC, "hinge": HINGE}


@kernel
def _sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z)) if z >= 0.0 else np.exp(z) / (1.0 + np.exp(z))


@kernel
def _step(loss, y, F, s, spread, D):
    """Write the step of the scores ``F`` (K,), in units of their variance, to ``D`` (K,).

    The step minimises s ℓ(y, f) + (f - F)² / (2 ``spread``): by one Newton step for smooth losses,
    exactly for the hinge. Returns the curvature of s ℓ by which the variances shrink, and ℓ(y, F).
    """
    n_outputs = D.size
    curvature = value = 0.0
    if loss == SOFTMAX:
        most = F.max()
        total = 0.0
        for k in range(n_outputs):
            D[k] = np.exp(F[k] - most)
            total += D[k]
        value = most + np.log(total)
        for k in range(n_outputs):
            value -= y[k] * F[k]
            D[k] /= total
            curvature = max(curvature, s * D[k] * (1.0 - D[k]))
        for k in range(n_outputs):
            D[k] = s * (y[k] - D[k]) / (1.0 + curvature * spread)
        return curvature, value
    for k in range(n_outputs):
        if loss == SQUARED:
            value += (y[k] - F[k]) ** 2
            curvature = 2.0 * s
            D[k] = curvature * (y[k] - F[k]) / (1.0 + curvature * spread)
        elif loss == LOGISTIC:
            p = _sigmoid(F[k])
            value += np.log1p(np.exp(-abs(F[k]))) + max(-y[k] * F[k], 0.0)
            curvature = s * p * (1.0 - p)
            D[k] = s * y[k] * _sigmoid(-y[k] * F[k]) / (1.0 + curvature * spread)
        else:
            missing = 1.0 - y[k] * F[k]
            D[k] = 0.0
            if missing > 0.0:
                value += missing
                D[k] = y[k] * min(s, missing / spread)
                curvature = max(curvature, abs(D[k]))  # the hinge itself has none at its kink
    return curvature, value


@kernel
def learn(
    leaf,
    column,
    value,
    Y,
    sample_weight,
    loss,
    alpha,
    W,
    P,
    b,
    b_variance,
    offset,
    n_rows,
    recent,
    losses,
):
    """Learn from each row once, in order.

    A row has the features φ_c = ``value`` (L,) of the level in its M cells at each level, and 1 for
    the intercept. The weights have the variances p P_c with p = 1 / (2 ``alpha``), the intercept
    has ``b_variance``. The score has the variance v = φᵀ(p P)φ + ``b_variance``. With s ℓ'' = h and
    the step d = -s ℓ' / (1 + h v):

        w_c ← w_c + p P_c φ_c d,    P_c ← P_c - p (P_c φ_c)² h / (1 + h v).

    ``Y`` (n, K), ``sample_weight`` (n,). Changed in place: at each rung ``W`` (C, K) and ``P``
    (C,); ``b``, ``offset`` (R, K), ``b_variance`` (R, 1), ``n_rows`` int64 (R, 1); and the rings
    ``recent`` (R, any, K), which receive the error of each row before it was learnt from, divided
    by √(2 alpha v + alpha). ``losses`` (R, n) receives ℓ before each row was learnt from.

    With the squared loss all targets are relative to ``offset``, the target of the first row.
    """
    n_trees, n_levels, n_outputs = leaf.shape[1], value.size, Y.shape[1]
    prior = 0.5 / alpha
    y, F, D = np.empty(n_outputs), np.empty(n_outputs), np.empty(n_outputs)
    cells = np.empty((n_levels, n_trees), np.int64)
    for r in range(losses.shape[0]):
        w, p, b_r, v_b, ring = W[r], P[r], b[r], b_variance[r], recent[r]
        for i in range(leaf.shape[0]):
            if loss == SQUARED and n_rows[r, 0] == 0:
                offset[r] = Y[i]
            F[:] = b_r
            spread = v_b[0]
            for l in range(n_levels):
                total = 0.0
                for m in range(n_trees):
                    c = np.int64(column[r * n_levels + l, leaf[i, m]]) * n_levels + l
                    cells[l, m] = c
                    total += p[c]
                    for k in range(n_outputs):
                        F[k] += value[l] * w[c, k]
                spread += prior * total * value[l] ** 2
            for k in range(n_outputs):
                y[k] = Y[i, k] - offset[r, k]
            curvature, losses[r, i] = _step(loss, y, F, sample_weight[i], spread, D)
            shrink = curvature / (1.0 + curvature * spread)
            for l in range(n_levels):
                for c in cells[l]:
                    gain = prior * p[c] * value[l]
                    for k in range(n_outputs):
                        w[c, k] += gain * D[k]
                    p[c] -= p[c] * gain * shrink * value[l]
            if ring.shape[0] > 0:
                unit = np.sqrt(2.0 * alpha * spread + alpha)
                for k in range(n_outputs):
                    ring[n_rows[r, 0] % ring.shape[0], k] = (y[k] - F[k]) / unit
            for k in range(n_outputs):
                b_r[k] += v_b[0] * D[k]
            v_b[0] -= v_b[0] ** 2 * shrink
            n_rows[r, 0] += 1


@kernel
def mean_squares(recent, n_rows, n_last, squares):
    """Write the mean squares of the last ``n_last`` entries of a ring (any, K) to ``squares`` (K,).

    The error of the first row is left out: that row only sets the intercept. The result is 0 where
    no other row has come.
    """
    n = min(n_rows - 1, n_last)
    squares[:] = 0.0
    for i in range(n_rows - n, n_rows):
        for k in range(squares.size):
            squares[k] += recent[i % recent.shape[0], k] ** 2 / n
