"""Descent that goes from row to row: hinge loss in its dual, and stochastic gradients.

``cells`` int32 (N, M) holds the columns of the non-zeros of Φ, whose values are all 1/√M. One
column of targets has loops of its own, several times faster.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.learners import step as filter_step
from mondrian_kernel._kernels.streams import uniform


@kernel
def _row_dot(cells, W, i):
    """Return φ_iᵀ W[:, 0]."""
    total = 0.0
    for m in range(cells.shape[1]):
        total += W[cells[i, m], 0]
    return total * cells.shape[1] ** -0.5


@kernel
def row_scores(cells, W, i, F):
    """Write φ_iᵀ W to ``F`` (K,)."""
    if F.size == 1:
        F[0] = _row_dot(cells, W, i)
        return
    F[:] = 0.0
    for m in range(cells.shape[1]):
        c = cells[i, m]
        for k in range(F.size):
            F[k] += W[c, k]
    for k in range(F.size):
        F[k] *= cells.shape[1] ** -0.5


@kernel
def hinge_descent(cells, y, upper, a, w, bias, order, key, draws, n_passes, eps):
    """Dual coordinate descent for the hinge loss, until violations are at most ``eps``.

    Minimises ½‖w‖² - Σ a over 0 ≤ a_i ≤ upper_i, Σ a_i y_i = 0, where w = Σ a_i y_i φ_i. The
    equality belongs to the intercept and is met by the method of multipliers, one step a pass.
    Rows that stay at a bound are put aside and checked again at the end (Hsieh et al., 2008).

    ``a`` (N,), ``w`` (C, 1) and ``bias`` (1,) are changed in place; a and w must agree on entry.
    ``order`` int32 holds the rows with upper > 0, permuted in place by the stream ``key`` from draw
    ``draws`` on. Returns the number of passes and the next draw.
    """
    n = order.size
    active, high, low = n, np.inf, -np.inf
    surplus = 0.0
    for i in range(a.size):
        surplus += a[i] * y[i]
    for done in range(n_passes):
        most, least = 0.0, 0.0
        j = 0
        while j < active:
            other = j + int(uniform(key, draws) * (active - j))
            draws += 1
            i = order[other]
            order[other], order[j] = order[j], i
            old = a[i]
            slope = y[i] * (_row_dot(cells, w, i) + bias[0]) - 1.0
            if (old == 0.0 and slope > high) or (old == upper[i] and slope < low):
                active -= 1
                order[j], order[active] = order[active], i
                continue
            j += 1
            if (old == 0.0 and slope > 0.0) or (old == upper[i] and slope < 0.0):
                continue
            most, least = max(most, slope), min(least, slope)
            a[i] = min(max(old - 0.5 * slope, 0.0), upper[i])  # ‖φ_i‖² + 1 = 2
            delta = (a[i] - old) * y[i]
            surplus += delta
            bias[0] += delta
            delta *= cells.shape[1] ** -0.5
            for m in range(cells.shape[1]):
                w[cells[i, m], 0] += delta
        bias[0] += surplus
        if most - least <= eps and abs(surplus) <= eps:
            if active == n:
                return done + 1, draws
            active, high, low = n, np.inf, -np.inf
            continue
        high = most if most > 0.0 else np.inf
        low = least if least < 0.0 else -np.inf
    return n_passes, draws


# Where the clock keeps its times.
STEPS, SCALE, TAU, TOTAL = 0, 1, 2, 3
_SMALLEST_SCALE = 1e-4  # of c; smaller ones would lose digits of U


@kernel
def _add(cells, i, D, scale_u, U, scale_v, V):
    """Add φ_i D to U and V, each with its scale; D is (K,)."""
    value = cells.shape[1] ** -0.5
    if D.size == 1:
        u, v = scale_u * value * D[0], scale_v * value * D[0]
        for m in range(cells.shape[1]):
            U[cells[i, m], 0] += u
            V[cells[i, m], 0] += v
        return
    for m in range(cells.shape[1]):
        c = cells[i, m]
        for k in range(D.size):
            U[c, k] += scale_u * value * D[k]
            V[c, k] += scale_v * value * D[k]


@kernel
def sgd_pass(cells, Y, order, loss, schedule, state):
    """One step for each row in ``order``, with the running sum of the iterates.

    Step t = 0, 1, ... on row i, with η = step / (1 + decay · step · t)^power:

        W ← (W - η φ_i ∇ℓ) / (1 + η · decay),    b ← b - η ∇ℓ,

    the gradient of the loss, then the proximal map of (decay / 2)‖W‖². The sum of the iterates has
    weights (t + 1)^degree. Nothing is touched but the row's M cells: with the clock c, τ,

        W = c U,    Σ_t (t + 1)^degree W_t = τ U + V.

    ``Y`` (N, K), ``order`` int64; ``schedule`` is the tuple of step, power, decay and degree.
    Changed in place: ``state``, the tuple of U, V (C, K), b, b_sum (K,) and clock (4,): steps t, c,
    τ, sum of the weights of the average.
    """
    step, power, decay, degree = schedule
    U, V, b, b_sum, clock = state
    score, move = np.empty((2, Y.shape[1]))
    for i in order:
        t, c = clock[STEPS], clock[SCALE]
        eta = step / (1.0 + decay * step * t) ** power
        row_scores(cells, U, i, score)
        for k in range(score.size):
            score[k] = c * score[k] + b[k]
        filter_step(loss, Y[i], score, 1.0, 1e-300, move)  # -∇ℓ, as the variance is next to none
        moves = False
        for k in range(move.size):
            move[k] *= eta
            moves = moves or move[k] != 0.0
            b[k] += move[k]
        if moves:
            _add(cells, i, move, 1.0 / c, U, -clock[TAU] / c, V)
        weight = (t + 1.0) ** degree
        for k in range(b.size):
            b_sum[k] += weight * b[k]
        clock[STEPS] = t + 1.0
        clock[SCALE] = c / (1.0 + eta * decay)
        clock[TAU] += weight * clock[SCALE]
        clock[TOTAL] += weight
        if clock[SCALE] < _SMALLEST_SCALE:
            fold(U, V, clock)


@kernel
def fold(U, V, clock):
    """Write W to ``U`` and the sum of the iterates to ``V``, so that c = 1 and τ = 0: O(CK)."""
    for c in range(U.shape[0]):
        for k in range(U.shape[1]):
            V[c, k] += clock[TAU] * U[c, k]
            U[c, k] *= clock[SCALE]
    clock[SCALE], clock[TAU] = 1.0, 0.0
