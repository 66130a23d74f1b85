"""A Kalman filter with a diagonal covariance, which learns from each row once.

The weights of a row's cells share its error in proportion to their variances. The variances shrink
with every row. A row costs O(MK) for each rung and level.

One call trains all learners on a batch. See :mod:`mondrian_kernel._kernels.rungs` for the arrays.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.tables import NodeTable
from mondrian_kernel._kernels.walk import walk_trees
from mondrian_kernel._settings import FLAT_VARIANCE

SQUARED, LOGISTIC, SOFTMAX, HINGE = 0, 1, 2, 3
CODES = {"squared": SQUARED, "log_loss": LOGISTIC, "hinge": HINGE}


@kernel
def _sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z)) if z >= 0.0 else np.exp(z) / (1.0 + np.exp(z))


@kernel
def step(loss, y, F, s, spread, D):
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
def _find_cells(leaf, column, i, first, cells):
    """Write the table rows of the cells of row ``i`` to ``cells`` int64 (L, M)."""
    n_levels = cells.shape[0]
    for l in range(n_levels):
        for m in range(cells.shape[1]):
            cells[l, m] = np.int64(column[first + l, leaf[i, m]]) * n_levels + l


@kernel
def _score(cells, value, w, p, grown, b, prior, F):
    """Write the scores of a row to ``F`` (K,) and return Σ_c p P_c φ_c²."""
    F[:] = b
    spread = 0.0
    for l in range(value.size):
        total = 0.0
        for c in cells[l]:
            total += min(p[c] * grown, 1.0)
            for k in range(F.size):
                F[k] += value[l] * w[c, k]
        spread += prior * total * value[l] ** 2
    return spread


@kernel
def learn(
    leaf,
    column,
    rung,
    begin,
    value,
    Y,
    sample_weight,
    loss,
    alpha,
    keep,
    W,
    P,
    b,
    b_variance,
    growth,
    offset,
    n_rows,
    scores,
    variance,
):
    """Learn from each row once, in order.

    A row has the features φ_c = ``value`` (L,) of the level in its M cells at each level, and 1 for
    the intercept. The weights have the variances p P_c with p = 1 / (2 ``alpha``), the intercept
    has ``b_variance``. The score has the variance v = φᵀ(p P)φ + ``b_variance``. With s ℓ'' = h and
    the step d = -s ℓ' / (1 + h v):

        w_c ← w_c + p P_c φ_c d,    P_c ← P_c - p (P_c φ_c)² h / (1 + h v).

    Learner j forgets: before each row its variances are divided by ``keep[j]``, up to those of the
    prior. So that only cells of the row are touched, the table holds P_c / ``growth``, and the
    growth is divided instead; it starts at 1.

    ``Y`` (n, K), ``sample_weight`` (n,). Changed in place: for all J learners ``W`` (C, K) and
    ``P`` (C,); ``b``, ``offset`` (J, K), ``b_variance``, ``growth`` (J, 1) and ``n_rows`` int64
    (J, 1). ``scores`` (J, n, K) receives the scores of the rows before any of them was learnt from,
    relative to ``offset``, and ``variance`` (J, n) receives 2 alpha v + alpha.

    With the squared loss all targets are relative to ``offset``, the target of the first row.
    """
    n, n_levels, n_outputs = leaf.shape[0], value.size, Y.shape[1]
    prior = 0.5 / alpha
    y, F, D = np.empty(n_outputs), np.empty(n_outputs), np.empty(n_outputs)
    cells = np.empty((n_levels, leaf.shape[1]), np.int64)
    for j in range(keep.size):
        own = slice(begin[j], begin[j + 1])
        w, p, b_j, v_b, grown = W[own], P[own], b[j], b_variance[j], growth[j]
        first = rung[j] * n_levels
        if loss == SQUARED and n_rows[j, 0] == 0 and n > 0:
            offset[j] = Y[0]
        for i in range(n):
            _find_cells(leaf, column, i, first, cells)
            spread = v_b[0] + _score(cells, value, w, p, grown[0], b_j, prior, scores[j, i])
            variance[j, i] = 2.0 * alpha * spread + alpha
        for i in range(n):
            _find_cells(leaf, column, i, first, cells)
            if keep[j] < 1.0:
                grown[0] /= keep[j]
                v_b[0] = min(v_b[0] / keep[j], FLAT_VARIANCE)
            spread = v_b[0] + _score(cells, value, w, p, grown[0], b_j, prior, F)
            for k in range(n_outputs):
                y[k] = Y[i, k] - offset[j, k]
            curvature, _ = step(loss, y, F, sample_weight[i], spread, D)
            shrink = curvature / (1.0 + curvature * spread)
            for l in range(n_levels):
                for c in cells[l]:
                    P_c = min(p[c] * grown[0], 1.0)
                    gain = prior * P_c * value[l]
                    for k in range(n_outputs):
                        w[c, k] += gain * D[k]
                    p[c] = (P_c - P_c * gain * shrink * value[l]) / grown[0]
            for k in range(n_outputs):
                b_j[k] += v_b[0] * D[k]
            v_b[0] -= v_b[0] ** 2 * shrink
            n_rows[j, 0] += 1


@kernel
def mixed_scores(
    X,
    arrays,
    lifetimes,
    column,
    rung,
    begin,
    value,
    weights,
    shares,
    alpha,
    W,
    P,
    b_variance,
    growth,
    scores,
    variance,
):
    """Mixed scores of new rows, without the intercept, and their variances.

    ``scores`` (n, K) receives Σ_j weights_j Σ_l value_l Σ_m p_lm w_j[c_lm], with p_lm as of
    :func:`mondrian_kernel._kernels.walk.walk`. ``variance`` (n,) receives Σ_j shares_j (2 alpha v_j
    + alpha), unless it is empty; as far as a row lies in no cell, v_j is that of the prior.
    Learners without a share must have no weight. ``arrays`` are those of a ``NodeTable``,
    ``lifetimes`` those of all rungs and their levels.
    """
    nodes, n_levels = NodeTable(*arrays), value.size
    n, n_outputs = scores.shape
    node_of, log_stay = np.empty((n, 1), np.int32), np.empty((n, 1, lifetimes.size))
    cells, phi = np.empty(lifetimes.size, np.int64), np.empty(lifetimes.size)
    prior = alpha
    for j in range(rung.size):
        prior += 2.0 * alpha * shares[j] * b_variance[j, 0]
    for l in range(n_levels):
        prior += nodes.root.size * value[l] ** 2
    scores[:] = 0.0
    variance[:] = prior
    for m in range(nodes.root.size):
        walk_trees(X, nodes, m, m + 1, lifetimes, node_of, log_stay)
        for i in range(n):
            for level in range(lifetimes.size):
                stay = log_stay[i, 0, level]
                phi[level] = value[level % n_levels] * (np.exp(stay) if stay < 0.0 else 1.0)
                cells[level] = column[level, node_of[i, 0]] * n_levels + level % n_levels
            for j in range(rung.size):
                if shares[j] == 0.0:
                    continue
                for level in range(rung[j] * n_levels, (rung[j] + 1) * n_levels):
                    c, feature = begin[j] + cells[level], phi[level]
                    for k in range(n_outputs):
                        scores[i, k] += weights[j] * feature * W[c, k]
                    if variance.size > 0:
                        known = 1.0 - min(P[c] * growth[j, 0], 1.0)
                        variance[i] -= shares[j] * feature**2 * known
    for i in range(variance.size):
        variance[i] = max(variance[i], alpha)  # but for rounding
