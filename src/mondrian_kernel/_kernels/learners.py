"""Learners of a stream: a Kalman filter with a diagonal covariance, mixtures, copies of tables.

The filter learns from each row once. The weights of a row's cells share its error in proportion to
their variances, which shrink with every row. A row costs O(MK) for each rung and level.

A batch is learnt by J learners in one call. ``leaf`` int32 (n, M) holds the node of each row in
each tree. Learner j learns at the rung ``rung[j]`` int64; several may share one. A learner has a
row for each of its cells in each kind of table. The rows of learner j are ``begin[j]`` to
``begin[j + 1]`` int64 of the table, of which not all need be in use. If it learns at L levels at
once, its row c L + l belongs to cell c at level l, and ``column`` int32 (at least R L, n_nodes)
holds in row r L + l the cell of each node.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.tables import NodeTable
from mondrian_kernel._kernels.walk import walk_trees
from mondrian_kernel._settings import (
    FLAT_VARIANCE,
    LEAST_CURVATURE,
    LEAST_SHARE,
    MIXTURE_KEEP,
    MIXTURE_PRIOR,
    STREAM_WINDOW,
)

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
    n_batches,
    gram,
    moment,
    error,
    recent,
    mixed,
    new_weights,
    shares,
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
    running means of the targets over ``rows_of_mean`` (H,) rows. ``new_weights`` and ``shares``
    receive what :func:`solve` finds after these rows, which are the last of ``n_batches`` batches.
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
    solve(gram, moment, error[J], n_seen + n, n_batches, new_weights, shares)


@kernel
def intercept(b, recent, weights, centred):
    """Return b₀ + Σ_j weights_j (b_j - b₀) + Σ_h weights_{J+h} (recent_h - b₀), (K,).

    ``b`` (J, K) are intercepts of learners, ``recent`` (H, K) running means of the targets, from
    which b₀ is subtracted only if ``centred``.
    """
    J, K = b.shape
    mixed = b[0].copy()
    for k in range(K):
        for j in range(J):
            mixed[k] += weights[j] * (b[j, k] - b[0, k])
        for h in range(recent.shape[0]):
            mixed[k] += weights[J + h] * (recent[h, k] - (b[0, k] if centred else 0.0))
    return mixed


@kernel
def solve(gram, moment, error, n_rows, n_batches, weights, shares):
    """Write the weights (J + H,) of the terms and the shares (J,) of the learners.

    The prior, equal weights of all learners, counts as ``MIXTURE_PRIOR`` rows, of terms of mean
    size and of the mean ``error``; that of recent means, which are the same for all rows of a
    batch, as so many batches. Learners with hardly any share get none: they would only cost time.
    """
    J, n = shares.size, moment.size
    total = np.trace(gram) / n
    for i in range(n):
        weights[i] = 1.0 / J if i < J else 0.0
    if n > 1 and total > 0.0:
        n_kept = (1.0 - MIXTURE_KEEP**n_rows) / (1.0 - MIXTURE_KEEP)
        unit = total / n_kept + 2.0 * error
        step = np.empty(n)
        for i in range(n):
            step[i] = moment[i]
            for j in range(J):
                step[i] -= gram[i, j] / J
        A = gram / unit
        step /= unit
        for i in range(n):
            A[i, i] += MIXTURE_PRIOR * (1.0 if i < J else n_rows / n_batches)
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


@kernel
def inherit(rung, begin, origin, n_before, tables):
    """Give new cells that were cut off from old ones the values of the old ones.

    At rung r the k-th new cell is a part of ``origin[r][k]``; for learner j it is row
    ``n_before[j]`` + k. ``tables`` are two-dimensional. Only for learners of one level.
    """
    for t in range(len(tables)):
        a = tables[t]
        for j in range(rung.size):
            cut, first = origin[rung[j]], begin[j]
            for k in range(cut.size):  # in order: a part may have been cut again
                for e in range(a.shape[1]):
                    a[first + n_before[j] + k, e] = a[first + cut[k], e]


@kernel
def keep(leaf, column, rung, begin, n_levels, n_before, tables, kept):
    """Copy the table rows that a batch may change.

    ``tables`` are two-dimensional. ``kept`` is a tuple of arrays (J, S, any), one for each. It
    receives the first ``n_before[j]`` rows of a learner if these are at most n M L. Otherwise entry
    (i M + m) L + l receives the row of the cell of row i in tree m at level l, if that is among the
    first ``n_before[j]``.
    """
    n_trees = leaf.shape[1]
    for t in range(len(tables)):
        a, out = tables[t], kept[t]
        for j in range(rung.size):
            n, first = n_before[j], begin[j]
            if n <= leaf.size * n_levels:
                for c in range(n):
                    for e in range(a.shape[1]):
                        out[j, c, e] = a[first + c, e]
                continue
            for i in range(leaf.size * n_levels):
                node, level = leaf[i // n_levels // n_trees, i // n_levels % n_trees], i % n_levels
                c = column[rung[j] * n_levels + level, node] * n_levels + level
                if c < n:
                    for e in range(a.shape[1]):
                        out[j, i, e] = a[first + c, e]
