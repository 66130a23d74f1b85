"""Linear learners that take each row once, with a variance for each weight: O(MK) a row.

The weights of a row's M cells share its error in proportion to their variances, which shrink with
every row: a Kalman filter whose covariance is kept diagonal.
"""

import numpy as np
from numba import njit

SQUARED, LOGISTIC, SOFTMAX, HINGE = 0, 1, 2, 3


@njit(cache=True, nogil=True)
def _sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z)) if z >= 0.0 else np.exp(z) / (1.0 + np.exp(z))


@njit(cache=True, nogil=True)
def _pull(loss, Y, i, F, s, spread, D):
    """Write how far the scores ``F[i]`` are to be pulled, in units of the variance, to ``D`` (K,).

    Minimises s ℓ(f) + (f - F)² / (2 ``spread``), for smooth losses by one Newton step, for the
    hinge exactly. Returns the curvature of s ℓ that the variances shrink by, and ℓ(F).
    """
    n_outputs = D.size
    curvature = value = 0.0
    if loss == SOFTMAX:
        most = F[i].max()
        total = 0.0
        for k in range(n_outputs):
            D[k] = np.exp(F[i, k] - most)
            total += D[k]
        value = most + np.log(total)
        for k in range(n_outputs):
            value -= Y[i, k] * F[i, k]
            D[k] /= total
            curvature = max(curvature, s * D[k] * (1.0 - D[k]))
        for k in range(n_outputs):
            D[k] = s * (Y[i, k] - D[k]) / (1.0 + curvature * spread)
        return curvature, value
    for k in range(n_outputs):
        f, y = F[i, k], Y[i, k]
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
def learn(cells, Y, sample_weight, loss, prior, W, P, b, b_variance, scores, spreads, losses):
    """Take each row once, in order.

    A row has the features φ_c = 1/√M in its cells and 1 for the intercept, weights the variances
    ``prior`` · P_c and ``b_variance``, its score the variance v = φᵀ(prior P)φ + b_variance. With
    s ℓ'' = h and the pull d = -s ℓ' / (1 + h v):

        w_c ← w_c + prior P_c φ_c d,    P_c ← P_c - prior (P_c φ_c)² h / (1 + h v).

    ``cells`` int32 (n, M), ``Y`` (n, K), ``sample_weight`` (n,). Changed in place: ``W`` (C, K),
    ``P`` (C,), ``b`` (K,), ``b_variance`` (1,). ``scores`` (n, K), ``spreads`` and ``losses`` (n,)
    receive the scores, their variances and ℓ as they were before each row was learnt from.
    """
    n_rows, n_trees = cells.shape
    n_outputs = Y.shape[1]
    root = np.sqrt(n_trees)
    D = np.empty(n_outputs)
    for i in range(n_rows):
        for k in range(n_outputs):
            scores[i, k] = 0.0
        total = 0.0
        for m in range(n_trees):
            c = cells[i, m]
            total += P[c]
            for k in range(n_outputs):
                scores[i, k] += W[c, k]
        for k in range(n_outputs):
            scores[i, k] = b[k] + scores[i, k] / root
        spread = prior * total / n_trees + b_variance[0]
        spreads[i] = spread
        curvature, losses[i] = _pull(loss, Y, i, scores, sample_weight[i], spread, D)
        shrink = curvature / (1.0 + curvature * spread)
        for m in range(n_trees):
            c = cells[i, m]
            gain = prior * P[c] / root
            for k in range(n_outputs):
                W[c, k] += gain * D[k]
            P[c] -= P[c] * gain * shrink / root
        for k in range(n_outputs):
            b[k] += b_variance[0] * D[k]
        b_variance[0] -= b_variance[0] ** 2 * shrink


@njit(cache=True, nogil=True)
def learn_means(cells, Y, sample_weight, alpha, centre, sums, counts, totals, scores):
    """Take each row once, in order, into the sums of its cells: each tree is learnt apart.

    ``sums`` (C, K + 1) holds Σ s y and, last, Σ s of the rows of each cell, ``counts`` (C,) Σ s
    as well and ``totals`` (K + 1,) the sums over all rows. ``scores`` (n, K) receives the scores
    as they were before each row was learnt from; see :func:`average_means`.
    """
    n_outputs = Y.shape[1]
    for i in range(cells.shape[0]):
        s = sample_weight[i]
        _average(cells, i, np.empty((0, 0)), alpha, centre, sums, counts, totals, scores)
        for m in range(cells.shape[1]):
            c = cells[i, m]
            for k in range(n_outputs):
                sums[c, k] += s * Y[i, k]
            sums[c, n_outputs] += s
            counts[c] += s
        for k in range(n_outputs):
            totals[k] += s * Y[i, k]
        totals[n_outputs] += s


@njit(cache=True, nogil=True)
def average_means(cells, values, alpha, centre, sums, counts, totals, scores):
    """Average the means of the cells of each row, shrunk to the mean b of all rows.

        scores = b + Σ_m values_m (Σ s y - b Σ s)_c / (counts_c + alpha) / M

    with b = 0 unless ``centre``. ``cells`` int32 (n, M), ``values`` (n, M), ``scores`` (n, K).
    """
    for i in range(cells.shape[0]):
        _average(cells, i, values, alpha, centre, sums, counts, totals, scores)


@njit(cache=True, nogil=True)
def _average(cells, i, values, alpha, centre, sums, counts, totals, scores):
    n_trees, n_outputs = cells.shape[1], scores.shape[1]
    for k in range(n_outputs):
        b = totals[k] / totals[n_outputs] if centre and totals[n_outputs] > 0.0 else 0.0
        score = 0.0
        for m in range(n_trees):
            c = cells[i, m]
            if counts[c] + alpha > 0.0:
                part = (sums[c, k] - b * sums[c, n_outputs]) / (counts[c] + alpha)
                score += part if values.size == 0 else values[i, m] * part
        scores[i, k] = b + score / n_trees


@njit(cache=True, nogil=True)
def forget(losses, n_seen, window, error):
    """Update the running means ``error`` (R,) by the losses (R, n) of rows, in order.

    The mean of all rows up to ``window``, ``n_seen`` of them before these; then one that forgets,
    with 1/window of each new row.
    """
    for i in range(losses.shape[1]):
        rate = 1.0 / min(n_seen + i + 1, window)
        for r in range(error.size):
            error[r] += rate * (losses[r, i] - error[r])


@njit(cache=True, nogil=True)
def linear_scores(cells, log_stay, W, b, scores):
    """Scores b + Wᵀφ of rows, with φ = exp(``log_stay``)/√M in their cells; both are (n, M)."""
    n_rows, n_trees = cells.shape
    for i in range(n_rows):
        for k in range(b.size):
            scores[i, k] = 0.0
        for m in range(n_trees):
            c = cells[i, m]
            value = np.exp(log_stay[i, m]) if log_stay[i, m] < 0.0 else 1.0
            for k in range(b.size):
                scores[i, k] += value * W[c, k]
        for k in range(b.size):
            scores[i, k] = b[k] + scores[i, k] / np.sqrt(n_trees)
