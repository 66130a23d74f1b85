"""Averaged stochastic gradient descent whose steps cost O(MK), whatever the number of weights."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.dual import row_scores

SQUARED, LOGISTIC, SOFTMAX, HINGE = 0, 1, 2, 3

# Where the clock keeps its times.
STEPS, SCALE, TAU, TOTAL = 0, 1, 2, 3
_SMALLEST_SCALE = 1e-4  # of c; smaller ones would lose digits of U


@kernel
def _to_slopes(loss, Y, i, F):
    """Replace the scores F (1, K) of row ``i`` by the derivatives of its loss."""
    n_outputs = F.shape[1]
    if loss == SOFTMAX:
        most = F[0, 0]
        for k in range(1, n_outputs):
            most = max(most, F[0, k])
        total = 0.0
        for k in range(n_outputs):
            F[0, k] = np.exp(F[0, k] - most)
            total += F[0, k]
        for k in range(n_outputs):
            F[0, k] = F[0, k] / total - Y[i, k]
        return
    for k in range(n_outputs):
        y = Y[i, k]
        if loss == SQUARED:
            F[0, k] = 2.0 * (F[0, k] - y)
        elif loss == LOGISTIC:
            z = y * F[0, k]  # exp of a positive number only where it cannot overflow
            F[0, k] = -y / (1.0 + np.exp(z)) if z < 0.0 else -y * np.exp(-z) / (1.0 + np.exp(-z))
        else:
            F[0, k] = -y if y * F[0, k] < 1.0 else 0.0


@kernel
def _add(rows, i, D, scale_u, U, scale_v, V):
    """Add φ_i D to U and V, each with its scale; D is (1, K)."""
    cells, values, constant = rows
    unit = values.size == 0
    if D.shape[1] == 1:
        for m in range(cells.shape[1]):
            c = cells[i, m]
            d = (constant if unit else values[i, m]) * D[0, 0]
            U[c, 0] += scale_u * d
            V[c, 0] += scale_v * d
        return
    for m in range(cells.shape[1]):
        c = cells[i, m]
        v = constant if unit else values[i, m]
        for k in range(D.shape[1]):
            U[c, k] += scale_u * v * D[0, k]
            V[c, k] += scale_v * v * D[0, k]


@kernel
def sgd_pass(rows, Y, sample_weight, order, loss, schedule, state):
    """One step for each row in ``order``, with the running sum of the iterates.

    Step t = 0, 1, ... on row i, with η = step / (1 + decay · step · t)^power:

        W ← (W - η s_i φ_i ∇ℓ) / (1 + η · decay),    b ← b - η s_i ∇ℓ,

    the gradient of the loss, then the proximal map of (decay / 2)‖W‖². The sum of the iterates has
    weights (t + 1)^degree. Nothing is touched but the row's M cells: with the clock c, τ,

        W = c U,    Σ_t (t + 1)^degree W_t = τ U + V.

    ``rows`` are as in :mod:`mondrian_kernel._kernels.dual`, ``Y`` (N, K), ``sample_weight`` (N,),
    ``order`` int64; ``schedule`` is the tuple of step, power, decay and degree. Changed in place:
    ``state``, the tuple of U, V (C, K), b, b_sum (K,) and clock (4,) = steps t, c, τ, sum of the
    weights of the average.
    """
    step, power, decay, degree = schedule
    U, V, b, b_sum, clock = state
    F = np.empty((1, Y.shape[1]))
    for i in order:
        t, c = clock[STEPS], clock[SCALE]
        eta = step / (1.0 + decay * step * t) ** power
        row_scores(rows, U, i, F, 0)
        for k in range(F.shape[1]):
            F[0, k] = c * F[0, k] + b[k]
        _to_slopes(loss, Y, i, F)
        moves = False
        for k in range(F.shape[1]):
            F[0, k] *= -eta * sample_weight[i]
            moves = moves or F[0, k] != 0.0
            b[k] += F[0, k]
        if moves:
            _add(rows, i, F, 1.0 / c, U, -clock[TAU] / c, V)
        weight = (t + 1.0) ** degree
        for k in range(F.shape[1]):
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
