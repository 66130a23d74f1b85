"""A committee of learners in one call: what it says of rows, what it learns, and the way back.

Kernels take the arrays of a ``LearnerTable`` (:mod:`mondrian_kernel._kernels.tables`) as a plain
tuple, and change them in place.
"""

import numpy as np

from mondrian_kernel._kernels import linear
from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.learners import (
    change_units,  # noqa: F401  # for _online.committee
    find_cells,
    learn_each,
    mixed_scores,
)
from mondrian_kernel._kernels.mixture import intercept, judge, relative_errors
from mondrian_kernel._kernels.tables import FIRST, MEANS, N_ROWS, SQUARED, LearnerTable


@kernel
def learn(X, Y, sample_weight, code, alpha, curvature, cells, arrays, saved, kept, said):
    """Learn from each row once, in order, and how to predict together; False if there is no room.

    Rows ``X`` (n, D) are scaled, targets are ``Y`` (n, K), weights (n,). ``code`` and ``alpha`` are
    of the rule, ``curvature`` is the bound of the loss. ``cells`` are the arrays of
    ``_online.committee.Cells``. ``said`` receives what is said of the rows before any is learnt:
    ``scores`` (T, n, K) and ``variance`` (J, n), see :func:`learners.learn_each`; their mixture
    ``mixed`` (n, K) and its ``lost`` (n,), see :func:`mixture.judge`; ``errors`` and ``log_size``
    (n, K), see :func:`mixture.relative_errors`. The last four are 0 if there was no row before.
    Without room for the cells nothing is changed. Else ``saved``, as large as all sums and 1
    more, and ``kept`` (J, n L M, any) receive what :func:`roll_back` puts back.
    """
    leaf, column, n_cells, origin = cells
    scores, variance, mixed, lost, errors, log_size = said
    t = LearnerTable(*arrays)
    J, n_levels, S = t.rung.size, t.value.size, len(t.coef)
    n_outputs, n_before = Y.shape[1], t.n_table.copy()
    for j in range(J):
        n = n_cells[t.rung[j]]
        for l in range(1, n_levels):
            n = max(n, n_cells[l])
        if n * n_levels > t.begin[j + 1] - t.begin[j]:
            t.n_table[:] = n_before
            return False
        t.n_table[j] = n * n_levels
    is_first = t.state[0, N_ROWS] == 0.0
    _copy_sums(saved, arrays, False)
    for j in range(J):
        saved[saved.size - J + j] = n_before[j]
        for i, c in enumerate(find_cells(leaf, column, t.rung[j] * n_levels, n_levels).ravel()):
            if c < n_before[j]:
                kept[j, i] = t.table[t.begin[j] + c]
    saved[0] = 1.0
    base, old_shares = t.state[0, FIRST + n_outputs :].copy(), t.shares.copy()
    learn_each(
        leaf,
        column,
        t.rung,
        t.begin,
        t.value,
        Y,
        sample_weight,
        code,
        alpha,
        t.keep,
        origin,
        n_before,
        t.table,
        t.state,
        scores,
        variance,
    )
    y = Y - t.state[0, FIRST : FIRST + n_outputs]
    if S > 0:
        rows = X, t.ends, t.factor, y, sample_weight
        linear.learn(*rows, code, t.keep[:S], 0.5 / alpha, t.coef, t.P, scores[J:])
    mixed[:], lost[:], errors[:], log_size[:] = 0.0, 0.0, 0.0, 0.0
    if is_first or len(Y) == 0:
        return True
    sums = t.gram, t.moment, t.error, t.recent, t.counts, t.weights, t.shares
    loss = SQUARED if code >= MEANS else code
    judge(scores, base, y, sample_weight, loss, curvature, sums, mixed, lost)
    relative_errors(y, mixed, old_shares, variance, t.error[J], errors, log_size)
    return True


@kernel
def roll_back(cells, arrays, saved, kept, fresh):
    """Undo the last :func:`learn`, if ``saved`` holds one; cells that it added are ``fresh``."""
    t = LearnerTable(*arrays)
    J, n_levels = t.rung.size, t.value.size
    if saved[0] == 0.0:
        return
    saved[0] = 0.0
    _copy_sums(saved, arrays, True)
    for j in range(J):
        n = t.n_table[j] = np.int64(saved[saved.size - J + j])
        rows = find_cells(cells[0], cells[1], t.rung[j] * n_levels, n_levels).ravel()
        for i, c in enumerate(rows):
            if c < n:
                t.table[t.begin[j] + c] = kept[j, i]
        for c in range(t.begin[j] + n, t.begin[j + 1]):
            t.table[c] = fresh


@kernel
def _copy_sums(saved, arrays, restores):
    """Copy all that a batch changes, but cells and their numbers, to ``saved[1:]``, or back."""
    t = LearnerTable(*arrays)
    at = 1
    for part in (
        t.state.ravel(),
        t.gram.ravel(),
        t.moment,
        t.error,
        t.recent.ravel(),
        t.counts,
        t.weights,
        t.shares,
        t.coef.ravel(),
        t.P.ravel(),
    ):
        for i in range(part.size):
            if restores:
                part[i] = saved[at]
            else:
                saved[at] = part[i]
            at += 1


@kernel
def scores(X, scale, trees, arrays, code, alpha, mean, variance):
    """Mixed scores (n, K) of rows as they come, and their variances (n,) if there is room.

    ``trees`` are the arrays of a ``NodeTable``, the lifetimes of all rungs and their levels, and
    the cells of the nodes; ``scale`` (D,) is what the columns are divided by. See
    :func:`learners.mixed_scores`.
    """
    t, K, Z = LearnerTable(*arrays), mean.shape[1], X / scale
    nodes, lifetimes, column = trees
    J, S, T = t.rung.size, len(t.coef), t.weights.size - len(t.recent)
    members = nodes, lifetimes, column, t.rung, t.begin, t.value, code, alpha
    mixed_scores(Z, *members, t.weights, t.shares, t.table, t.state, mean, variance)
    b = np.empty((T, K))
    b[:J] = t.state[:, FIRST + K :]
    for s in range(S):
        b[J + s] = t.coef[s, 0]
    b = intercept(b, t.recent, t.weights, code == SQUARED or code >= MEANS)
    for i in range(len(mean)):
        for k in range(K):
            mean[i, k] += t.state[0, FIRST + k] + b[k]
    if S > 0:
        linear.add_scores(Z, t.ends, t.factor, t.weights[J:], t.coef, mean)
