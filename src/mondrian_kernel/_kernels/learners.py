"""Learners of a stream: a Kalman filter with a diagonal covariance, and means of cells.

The filter learns from each row once. The weights of a row's cells share its error in proportion to
their variances, which shrink with every row. Means add each row to the sums of its cells. A row
costs O(MK) for each rung and level.

A batch is learnt by J learners in one call. ``leaf`` int32 (n, M) holds the node of each row in
each tree. Learner j learns at the rung ``rung[j]`` int64; several may share one. The rows
``begin[j]`` to ``begin[j + 1]`` int64 of ``table`` are its cells, of which not all need be in use.
If it learns at L levels at once, its row c L + l belongs to cell c at level l, and ``column`` int32
(at least R L, n_nodes) holds in row r L + l the cell of each node. ``state`` has a row for each
learner. The columns of both are in :mod:`mondrian_kernel._kernels.tables`.
"""

import math

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.tables import (
    CENTRED_MEANS,
    FIRST,
    GROWTH,
    KNOWN,
    LOGISTIC,
    MEANS,
    N_ROWS,
    SOFTMAX,
    SQUARED,
    NodeTable,
)
from mondrian_kernel._kernels.walk import walk_trees
from mondrian_kernel._settings import FLAT_VARIANCE


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
            rare, margin = np.exp(-abs(F[k])), y[k] * F[k]  # y is -1 or 1
            value += np.log1p(rare) + max(-margin, 0.0)
            curvature = s * rare / (1.0 + rare) ** 2
            wrong = (rare if margin >= 0.0 else 1.0) / (1.0 + rare)
            D[k] = s * y[k] * wrong / (1.0 + curvature * spread)
        else:
            missing = 1.0 - y[k] * F[k]
            D[k] = 0.0
            if missing > 0.0:
                value += missing
                D[k] = y[k] * min(s, missing / spread)
                curvature = max(curvature, abs(D[k]))  # the hinge itself has none at its kink
    return curvature, value


@kernel
def find_cells(leaf, column, first, begin):
    """Return the table rows of the cells of each row, int64 (n, L, M).

    Cells at level l are numbered in row ``first`` + l of ``column``, and the first of them has the
    table row ``begin[l]``.
    """
    n_levels = begin.size
    cells = np.empty((leaf.shape[0], n_levels, leaf.shape[1]), np.int64)
    for i in range(leaf.shape[0]):
        for l in range(n_levels):
            for m in range(leaf.shape[1]):
                cells[i, l, m] = begin[l] + column[first + l, leaf[i, m]]
    return cells


@kernel
def copy_cells(cells, end, table, kept, restores):
    """Copy the ``table`` rows of cells (n, L, M) before ``end`` (L,) to ``kept``, or back."""
    at = 0
    for i in range(len(cells)):
        for l in range(end.size):
            for c in cells[i, l]:
                if c < end[l]:
                    for k in range(table.shape[1]):  # numba takes longer to assign a row
                        if restores:
                            table[c, k] = kept[at, k]
                        else:
                            kept[at, k] = table[c, k]
                at += 1


@kernel
def learn_each(
    leaf,
    column,
    rung,
    begin,
    value,
    Y,
    sample_weight,
    code,
    alpha,
    keep,
    origin,
    n_before,
    table,
    state,
    kept,
    scores,
    variance,
):
    """Learn from each row once, in order, by the rule of a ``code``.

    Rows have the feature ``value`` (L,) in their M cells at each level, targets ``Y`` (n, K) and
    weights (n,). Learner j forgets: before each row, earlier rows lose all but the share
    ``keep[j]`` of their weight. Changed in place: ``table`` and ``state``. ``scores`` (J, n, K)
    receives the scores of the rows before any of them was learnt from, less the offset, and
    ``variance`` (J, n) the variances of their errors in units of that of the signal. ``kept`` (J, n
    L M, any) receives the numbers of the cells that are not new, as they were before.

    First, cells that were cut off from old ones get the numbers of these: at rung r the k-th new
    cell is a part of ``origin[r, k]``, up to the first -1, and is row ``n_before[j]`` + k of
    learner j's cells. Only for learners of one level.
    """
    n_levels = value.size
    for j in range(rung.size):
        first = j * n_levels
        for k in range(origin.shape[1]):  # in order: a part may have been cut again
            if origin[rung[j], k] < 0:
                break
            table[begin[first] + n_before[first] + k] = table[begin[first] + origin[rung[j], k]]
        own = slice(first, first + n_levels)
        cells = find_cells(leaf, column, rung[j] * n_levels, begin[own])
        copy_cells(cells, begin[own] + n_before[own], table, kept[j], False)
        if code < MEANS:
            _filter(
                cells,
                value,
                Y,
                sample_weight,
                code,
                alpha,
                keep[j],
                table,
                state[j],
                scores[j],
                variance[j],
            )
        else:
            _add_to_means(
                cells, value, Y, sample_weight, code, alpha, keep[j], table, state[j], scores[j]
            )
            variance[j] = 1.0


@kernel
def _filter(cells, value, Y, sample_weight, loss, alpha, keep, table, state, scores, variance):
    """Train one filter; see :func:`learn_each`.

    The weights have the variances p P_c with p = 1 / (2 ``alpha``), the intercept has v_b. The
    score has the variance v = φᵀ(p P)φ + v_b. With s ℓ'' = h and the step d = -s ℓ' / (1 + h v):

        w_c ← w_c + p P_c φ_c d,    P_c ← P_c - p (P_c φ_c)² h / (1 + h v).

    Before each row the variances are divided by ``keep``, up to those of the prior. So that only
    cells of the row are touched, the table holds P_c / growth, and the growth is divided instead.
    ``variance`` (n,) receives 2 alpha v + alpha. With the squared loss all targets are relative to
    the offset, the target of the first row.
    """
    n, n_outputs, n_levels = len(Y), Y.shape[1], value.size
    prior, offset, b = 0.5 / alpha, state[FIRST : FIRST + n_outputs], state[FIRST + n_outputs :]
    y, F, D = np.empty(n_outputs), np.empty(n_outputs), np.empty(n_outputs)
    if loss == SQUARED and state[N_ROWS] == 0.0 and n > 0:
        offset[:] = Y[0]
    for i in range(n):
        spread = _score(cells[i], value, table, state, prior, scores[i])
        variance[i] = 2.0 * alpha * spread + alpha
    for i in range(n):
        if keep < 1.0:
            state[GROWTH] /= keep
            state[KNOWN] = min(state[KNOWN] / keep, FLAT_VARIANCE)
        growth = state[GROWTH]
        spread = _score(cells[i], value, table, state, prior, F)
        for k in range(n_outputs):
            y[k] = Y[i, k] - offset[k]
        curvature, _ = step(loss, y, F, sample_weight[i], spread, D)
        shrink = curvature / (1.0 + curvature * spread)
        for l in range(n_levels):
            for c in cells[i, l]:
                P_c = min(table[c, n_outputs] * growth, 1.0)
                gain = prior * P_c * value[l]
                for k in range(n_outputs):
                    table[c, k] += gain * D[k]
                table[c, n_outputs] = (P_c - P_c * gain * shrink * value[l]) / growth
        for k in range(n_outputs):
            b[k] += state[KNOWN] * D[k]
        state[KNOWN] -= state[KNOWN] ** 2 * shrink
        state[N_ROWS] += 1.0


@kernel
def _score(cells, value, table, state, prior, F):
    """Write the scores of a row to ``F`` (K,) and return their variance."""
    n_outputs = F.size
    spread = state[KNOWN]
    for k in range(n_outputs):
        F[k] = state[FIRST + n_outputs + k]
    for l in range(value.size):
        total = 0.0
        for c in cells[l]:
            total += min(table[c, n_outputs] * state[GROWTH], 1.0)
            for k in range(n_outputs):
                F[k] += value[l] * table[c, k]
        spread += prior * total * value[l] ** 2
    return spread


@kernel
def _add_to_means(cells, value, Y, sample_weight, code, alpha, keep, table, state, scores):
    """Add each row to the sums of its cells: every tree is learnt apart. See :func:`learn_each`.

    A row has the weight s times the growth, which is divided by ``keep`` before each row.
    """
    n, n_outputs, n_levels = len(Y), Y.shape[1], value.size
    b, centred = state[FIRST + n_outputs :], code == CENTRED_MEANS
    for i in range(n):
        for k in range(n_outputs):
            scores[i, k] = b[k]
            for l in range(n_levels):
                for c in cells[i, l]:
                    scores[i, k] += value[l] ** 2 * _mean(table, c, k, b[k], alpha * state[GROWTH])
    for i in range(n):
        state[GROWTH] /= keep
        s = sample_weight[i] * state[GROWTH]
        state[KNOWN] += s
        state[N_ROWS] += 1.0
        if centred and s > 0.0:
            for k in range(n_outputs):
                b[k] += s / state[KNOWN] * (Y[i, k] - b[k])
        for l in range(n_levels):
            for c in cells[i, l]:
                for k in range(n_outputs):
                    table[c, k] += s * Y[i, k]
                table[c, n_outputs] += s
                table[c, n_outputs + 1] += s


@kernel
def _mean(table, c, k, b, alpha):
    """(Σ s y - b Σ s) / (Σ s + alpha) of a cell, 0 where it has no rows."""
    n_outputs = table.shape[1] - 2
    total = table[c, n_outputs + 1] + alpha
    return (table[c, k] - b * table[c, n_outputs]) / total if total > 0.0 else 0.0


@kernel
def mixed_scores(
    X,
    arrays,
    lifetimes,
    column,
    rung,
    begin,
    value,
    code,
    alpha,
    weights,
    shares,
    table,
    state,
    scores,
    variance,
):
    """Mixed scores of new rows, without the intercept, and their variances.

    ``scores`` (n, K) receives Σ_j weights_j Σ_l value_l Σ_m p_lm w_j[c_lm], with p_lm as of
    :func:`mondrian_kernel._kernels.walk.walk` and w the weight of a cell: of means, ``value`` times
    that of :func:`_mean`. ``variance`` (n,) receives Σ_j shares_j (2 alpha v_j + alpha), unless it
    is empty; as far as a row lies in no cell, v_j is that of the prior. Of means it is 1. Learners
    without a share must have no weight. ``arrays`` are those of a ``NodeTable``, ``lifetimes``
    those of all rungs and their levels.
    """
    nodes, n_levels = NodeTable(*arrays), value.size
    n, n_outputs = scores.shape
    node_of, log_stay = np.empty((n, 1), np.int32), np.empty((n, 1, lifetimes.size))
    cells, phi = np.empty(lifetimes.size, np.int64), np.empty(lifetimes.size)
    prior = alpha
    for j in range(rung.size):
        prior += 2.0 * alpha * shares[j] * state[j, KNOWN]
    for l in range(n_levels):
        prior += nodes.root.size * value[l] ** 2
    scores[:] = 0.0
    variance[:] = prior if code < MEANS else 1.0
    for m in range(nodes.root.size):
        walk_trees(X, nodes, m, m + 1, lifetimes, node_of, log_stay)
        for i in range(n):
            for level in range(lifetimes.size):
                stay = log_stay[i, 0, level]
                phi[level] = value[level % n_levels] * (np.exp(stay) if stay < 0.0 else 1.0)
                cells[level] = column[level, node_of[i, 0]]
            for j in range(rung.size):
                if shares[j] == 0.0:
                    continue
                for level in range(rung[j] * n_levels, (rung[j] + 1) * n_levels):
                    c = begin[j * n_levels + level % n_levels] + cells[level]
                    feature = phi[level]
                    if code < MEANS:
                        for k in range(n_outputs):
                            scores[i, k] += weights[j] * feature * table[c, k]
                        if variance.size > 0:
                            known = 1.0 - min(table[c, n_outputs] * state[j, GROWTH], 1.0)
                            variance[i] -= shares[j] * feature**2 * known
                    else:
                        shrinkage = alpha * state[j, GROWTH]
                        for k in range(n_outputs):
                            b = state[j, FIRST + n_outputs + k]
                            w = value[level % n_levels] * _mean(table, c, k, b, shrinkage)
                            scores[i, k] += weights[j] * feature * w
    for i in range(variance.size):
        variance[i] = max(variance[i], alpha) if code < MEANS else 1.0  # but for rounding


@kernel
def change_units(code, begin, table, state):
    """Let the growth of all learners start again between 1 and 2.

    The units change by powers of two, so that no score changes by a single bit.
    """
    n_levels = (begin.size - 1) // len(state)
    for j in range(len(state)):
        own = table[begin[j * n_levels] : begin[(j + 1) * n_levels]]
        unit = math.ldexp(1.0, math.frexp(state[j, GROWTH])[1] - 1)
        state[j, GROWTH] /= unit
        if code >= MEANS:
            state[j, KNOWN] /= unit
            own /= unit
        else:
            last = own.shape[1] - 1
            for c in range(len(own)):
                own[c, last] = min(own[c, last] * unit, 1.0)
