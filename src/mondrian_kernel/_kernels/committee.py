"""A batch of a stream in one call: what learners say of it, what they learn, and the way back.

Kernels take the arrays of a ``LearnerTable`` (:mod:`mondrian_kernel._kernels.tables`) as a plain
tuple, and change them in place.
"""

import numpy as np

from mondrian_kernel._kernels import linear
from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.extend import FINISHED, ROWS, extend
from mondrian_kernel._kernels.learners import (
    change_units,
    copy_cells,
    find_cells,
    learn_each,
    mixed_scores,
)
from mondrian_kernel._kernels.mixture import intercept, judge, relative_errors
from mondrian_kernel._kernels.tables import (
    FIRST,
    GROWTH,
    MEANS,
    N_ROWS,
    SQUARED,
    Batch,
    LearnerTable,
    OnlineTable,
)

# What :func:`learn_batch` returns, beside what ``extend`` does.
NO_TARGETS, NO_SIZES = 4, 5


@kernel
def learn_batch(
    X,
    Y,
    sample_weight,
    begins,
    bound,
    scale,
    seed,
    lifetime,
    max_cells,
    rungs,
    table_arrays,
    batch_arrays,
    targets,
    sizes,
    has_sizes,
    rings,
):
    """Extend trees by rows as they come, and learn from them: all of them or, before, nothing.

    Returns what :func:`extend.extend` does, whose arguments these are, and ``NO_TARGETS`` or
    ``NO_SIZES`` if these learners have no room for the cells: then it is to be called again.
    ``scale`` (D,) is what the columns are divided by. ``targets`` are the arguments of
    :func:`learn` from ``kind`` on. So are ``sizes``, of the learners of the local size of errors;
    unless the stream ``has_sizes`` these are not looked at. ``rings`` receive losses and errors of
    the rows before they were learnt, and the logarithms of the sizes that these were expected to
    have, in units of the ``variance`` and of the level of all rows, which cancels.
    """
    Z = X / scale
    draw = seed, lifetime, max_cells, rungs
    status = extend(Z, begins, bound, *draw, table_arrays, batch_arrays)
    if status != FINISHED:
        return status
    nodes, batch = OnlineTable(*table_arrays), Batch(*batch_arrays)
    cells = batch.leaf, nodes.column, nodes.n_cells[:, nodes.root.size].copy(), batch.origin
    if not has_room(cells[2], targets[1]):
        return NO_TARGETS
    if has_sizes and not has_room(cells[2], sizes[1]):
        return NO_SIZES
    learn(Z, Y, sample_weight, cells, *targets)
    _, _, _, lost, errors, log_size, widths = targets[-1]
    at = batch.tally[ROWS]
    if at > 0:
        _put_at(rings[0].reshape(-1, 1), at, lost.reshape(-1, 1))
        _put_at(rings[1], at, errors)
    if has_sizes:
        # The first row has no error.
        level = LearnerTable(*sizes[1]).state[0, FIRST + Y.shape[1] :].copy()
        learn(Z, log_size, np.full(len(Y), 1.0 if at > 0 else 0.0), cells, *sizes)
        if at > 0:
            _put_at(rings[2], at, sizes[-1][2] - level + widths.reshape(-1, 1))
    return FINISHED


@kernel
def _put_at(ring, at, rows):
    """Write the columns that an array has of rows to places from ``at`` on, modulo its length."""
    for i in range(len(rows)):
        for k in range(ring.shape[1]):
            ring[(at + i) % len(ring), k] = rows[i, k]


@kernel
def has_room(n_cells, arrays):
    """Whether the tables of all learners have a row for each of so many cells at their rungs."""
    t = LearnerTable(*arrays)
    for p in range(t.n_table.size):  # numba has no all()
        if _n_table(t, n_cells, p) > t.begin[p + 1] - t.begin[p]:
            return False
    return True


@kernel
def _n_table(t, n_cells, p):
    """Return the number of cells of part ``p``: of learner p // L at its level p % L."""
    n_levels = t.value.size
    return n_cells[t.rung[p // n_levels] * n_levels + p % n_levels]


@kernel
def learn(X, Y, sample_weight, cells, kind, arrays, saved, kept, said):
    """Learn from each row once, in order, and how to predict together.

    Rows ``X`` (n, D) are scaled, targets are ``Y`` (n, K), weights (n,). ``cells`` are the leaves
    of the rows, ``column``, numbers of cells at each rung, and ``origin``. There must be room.
    ``kind`` are the code of the rule, its penalty, the bound of the curvature of its loss, and the
    growth after which tables are put into other units.

    ``said`` receives what is said of the rows before any is learnt: ``scores`` (T, n, K) and
    ``variance`` (J, n), see :func:`learners.learn_each`; their mixture ``mixed`` (n, K) and its
    ``lost`` (n,), see :func:`mixture.judge`; ``errors`` and ``log_size`` (n, K) and ``widths``
    (n,), see :func:`mixture.relative_errors`. The last five are 0 if there was no row before.
    ``saved``, as large as all sums and J L + 1 more, and ``kept`` (J, n L M, any) receive what
    :func:`roll_back` puts back.
    """
    leaf, column, n_cells, origin = cells
    code, alpha, curvature, largest = kind
    scores, variance, mixed, lost, errors, log_size, widths = said
    t = LearnerTable(*arrays)
    J, P, S = t.rung.size, t.n_table.size, len(t.coef)
    n_outputs, n_before = Y.shape[1], t.n_table.copy()
    for p in range(P):
        t.n_table[p] = _n_table(t, n_cells, p)
    if t.state[:, GROWTH].max() > largest:
        change_units(code, t.begin, t.table, t.state)
    is_first = t.state[0, N_ROWS] == 0.0
    _copy_sums(saved, arrays, False)
    saved[saved.size - P :] = n_before
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
        kept,
        scores,
        variance,
    )
    y = Y - t.state[0, FIRST : FIRST + n_outputs]
    if S > 0:
        rows = X, t.ends, t.factor, y, sample_weight
        linear.learn(*rows, code, t.keep[:S], 0.5 / alpha, t.coef, t.P, scores[J:])
    mixed[:], lost[:], errors[:], log_size[:], widths[:] = 0.0, 0.0, 0.0, 0.0, 0.0
    if is_first or len(Y) == 0:
        return
    sums = t.gram, t.moment, t.error, t.recent, t.counts, t.weights, t.shares
    loss = SQUARED if code >= MEANS else code
    judge(scores, base, y, sample_weight, loss, curvature, sums, mixed, lost)
    relative = errors, log_size, widths
    relative_errors(y, mixed, old_shares, variance, t.error[J], t.counts, *relative)


@kernel
def roll_back(leaf, column, arrays, saved, kept, fresh):
    """Undo the last :func:`learn`, if ``saved`` holds one; cells that it added are ``fresh``."""
    t = LearnerTable(*arrays)
    P = t.n_table.size
    if saved[0] == 0.0:
        return
    saved[0] = 0.0
    _copy_sums(saved, arrays, True)
    for p in range(P):
        t.n_table[p] = np.int64(saved[saved.size - P + p])
    n_levels = t.value.size
    for j in range(t.rung.size):
        own = slice(j * n_levels, (j + 1) * n_levels)
        begin = t.begin[own]
        cells = find_cells(leaf, column, t.rung[j] * n_levels, begin)
        copy_cells(cells, begin + t.n_table[own], t.table, kept[j], True)
    for p in range(P):
        for c in range(t.begin[p] + t.n_table[p], t.begin[p + 1]):
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
