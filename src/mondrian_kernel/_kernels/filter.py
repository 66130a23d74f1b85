"""Linear learners that take each row once, with a variance for each weight: O(MK) a row and rung.

The weights of a row's M cells share its error in proportion to their variances, which shrink with
every row: a Kalman filter whose covariance is kept diagonal.

One call learns a batch at all rungs. See :mod:`mondrian_kernel._kernels.rungs` for the arrays.
"""

import numpy as np
from numba import njit

SQUARED, LOGISTIC, SOFTMAX, HINGE = 0, 1, 2, 3
CODES = {"squared": SQUARED, "log_loss": LOGISTIC, "hinge": HINGE}


@njit(cache=True, nogil=True)
def _sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z)) if z >= 0.0 else np.exp(z) / (1.0 + np.exp(z))


@njit(cache=True, nogil=True)
def _pull(loss, Y, i, F, s, spread, D):
    """Write how far the scores ``F`` (K,) are to be pulled, in units of their variance, to ``D``.

    Minimises s ℓ(f) + (f - F)² / (2 ``spread``), for smooth losses by one Newton step, for the
    hinge exactly. Returns the curvature of s ℓ that the variances shrink by, and ℓ(F).
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
            value -= Y[i, k] * F[k]
            D[k] /= total
            curvature = max(curvature, s * D[k] * (1.0 - D[k]))
        for k in range(n_outputs):
            D[k] = s * (Y[i, k] - D[k]) / (1.0 + curvature * spread)
        return curvature, value
    for k in range(n_outputs):
        f, y = F[k], Y[i, k]
        if loss == SQUARED:
            value += (y - f) ** 2
            curvature = 2.0 * s
            D[k] = curvature * (y - f) / (1.0 + curvature * spread)
        elif loss == LOGISTIC:
            p = _sigmoid(f)
            value += np.log1p(np.exp(-abs(f))) + max(-y * f, 0.0)
            curvature = s * p * (1.0 - p)
            D[k] = s * y * _sigmoid(-y * f) / (1.0 + curvature * spread)
        else:
            missing = 1.0 - y * f
            D[k] = 0.0
            if missing > 0.0:
                value += missing
                D[k] = y * min(s, missing / spread)
                curvature = max(curvature, abs(D[k]))  # none at the kink
    return curvature, value


@njit(cache=True, nogil=True)
def learn(leaf, column, Y, sample_weight, loss, alpha, W, P, b, b_variance, n_rows, recent, losses):
    """Take each row once, in order.

    A row has the features φ_c = 1/√M in its cells and 1 for the intercept, weights the variances
    p P_c with p = 1 / (2 ``alpha``) and ``b_variance``, its score the variance v = φᵀ(p P)φ +
    ``b_variance``. With s ℓ'' = h and the pull d = -s ℓ' / (1 + h v):

        w_c ← w_c + p P_c φ_c d,    P_c ← P_c - p (P_c φ_c)² h / (1 + h v).

    ``Y`` (n, K), ``sample_weight`` (n,). Changed in place: at each rung ``W`` (C, K) and ``P``
    (C,); ``b`` (R, K), ``b_variance`` (R, 1), ``n_rows`` int64 (R, 1); and the rings ``recent``
    (R, any, K), which receive the errors of rows before they were learnt from over
    √(2 alpha v + alpha). ``losses`` (R, n) receives ℓ, also as it was before.
    """
    n_trees, n_outputs = leaf.shape[1], Y.shape[1]
    root, prior = np.sqrt(n_trees), 0.5 / alpha
    F, D = np.empty(n_outputs), np.empty(n_outputs)
    cells = np.empty(n_trees, np.int32)
    for r in range(losses.shape[0]):
        w, p, b_r, v_b, ring = W[r], P[r], b[r], b_variance[r], recent[r]
        for i in range(leaf.shape[0]):
            F[:] = 0.0
            total = 0.0
            for m in range(n_trees):
                c = column[r, leaf[i, m]]
                cells[m] = c
                total += p[c]
                for k in range(n_outputs):
                    F[k] += w[c, k]
            for k in range(n_outputs):
                F[k] = b_r[k] + F[k] / root
            spread = prior * total / n_trees + v_b[0]
            curvature, losses[r, i] = _pull(loss, Y, i, F, sample_weight[i], spread, D)
            shrink = curvature / (1.0 + curvature * spread)
            for c in cells:
                gain = prior * p[c] / root
                for k in range(n_outputs):
                    w[c, k] += gain * D[k]
                p[c] -= p[c] * gain * shrink / root
            if ring.shape[0] > 0:
                unit = np.sqrt(2.0 * alpha * spread + alpha)
                for k in range(n_outputs):
                    ring[n_rows[r, 0] % ring.shape[0], k] = (Y[i, k] - F[k]) / unit
            for k in range(n_outputs):
                b_r[k] += v_b[0] * D[k]
            v_b[0] -= v_b[0] ** 2 * shrink
            n_rows[r, 0] += 1


@njit(cache=True, nogil=True)
def late_squares(recent, n_rows, n_late, squares):
    """Write the mean square of the last ``n_late`` entries of a ring (any, K), fewer at first.

    The first row only finds the intercept: what it is off by says nothing. 0 where there are none.
    """
    n = min(n_rows - 1, n_late)
    squares[:] = 0.0
    for i in range(n_rows - n, n_rows):
        for k in range(squares.size):
            squares[k] += recent[i % recent.shape[0], k] ** 2 / n
