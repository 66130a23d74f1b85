"""Products with a sparse feature matrix Φ of M non-zeros a row, and dual coordinate descent.

``rows`` is a :class:`mondrian_kernel._linear.operator.SparseRows`: ``cells`` int32 (N, m) holds
the columns of the non-zeros and ``values`` float64 (N, m) their values; a ``values`` of size 0 says
that all are ``constant``. One column of targets has loops of its own, several times faster.
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.streams import uniform


@kernel
def localise(cells, owner, local, sizes):
    """Label the columns that each slot of ``cells`` (N, M) uses from 0, in order of appearance.

    ``local`` int32 (M, N) receives the labels and ``sizes`` int64 (M,) their counts; ``owner``
    int32 (C,), all -1, receives the slot of each column. Returns whether no two slots share a
    column; otherwise the arrays are left unfinished.
    """
    label = np.empty(owner.size, np.int32)
    for m in range(cells.shape[1]):
        n = 0
        for i in range(cells.shape[0]):
            c = cells[i, m]
            if owner[c] < 0:
                owner[c], label[c] = m, n
                n += 1
            elif owner[c] != m:
                return False
            local[m, i] = label[c]
        sizes[m] = n
    return True


@kernel
def gram(local, values, sizes, V, begin, end, out):
    """Add Σ_m Φ_m Φ_mᵀ V over the slots begin ≤ m < end to ``out``, both (N, K).

    ``local`` and ``values`` are (M, N), as :func:`localise` leaves them. A slot's part of ΦᵀV stays
    in the cache: the whole of it, (C, K), is never formed.
    """
    n_rows, n_outputs = V.shape
    most = 1
    for m in range(begin, end):
        most = max(most, sizes[m])
    sums = np.empty((most, n_outputs))
    for m in range(begin, end):
        sums[: sizes[m]] = 0.0
        for i in range(n_rows):
            c, v = local[m, i], values[m, i]
            for k in range(n_outputs):
                sums[c, k] += v * V[i, k]
        for i in range(n_rows):
            c, v = local[m, i], values[m, i]
            for k in range(n_outputs):
                out[i, k] += v * sums[c, k]


@kernel
def row_dot(rows, W, i, k):
    """Return φ_iᵀ W[:, k]."""
    cells, values, constant = rows
    total = 0.0
    if values.size == 0:
        for m in range(cells.shape[1]):
            total += W[cells[i, m], k]
        return constant * total
    for m in range(cells.shape[1]):
        total += values[i, m] * W[cells[i, m], k]
    return total


@kernel
def row_scores(rows, W, i, F, j):
    """Write φ_iᵀ W to row ``j`` of ``F``."""
    cells, values, constant = rows
    n_outputs = W.shape[1]
    if n_outputs == 1:
        F[j, 0] = row_dot(rows, W, i, 0)
        return
    for k in range(n_outputs):
        F[j, k] = 0.0
    if values.size == 0:
        for m in range(cells.shape[1]):
            c = cells[i, m]
            for k in range(n_outputs):
                F[j, k] += W[c, k]
        for k in range(n_outputs):
            F[j, k] *= constant
        return
    for m in range(cells.shape[1]):
        c, v = cells[i, m], values[i, m]
        for k in range(n_outputs):
            F[j, k] += v * W[c, k]


@kernel
def gather(rows, W, begin, end, F):
    """Write Φ W to the rows begin ≤ i < end of ``F`` (N, K); ``W`` is (C, K)."""
    for i in range(begin, end):
        row_scores(rows, W, i, F, i)


@kernel
def scatter(rows, R, W):
    """Add Φᵀ R to ``W`` (C, K); ``R`` is (N, K)."""
    cells, values, constant = rows
    for i in range(cells.shape[0]):
        for m in range(cells.shape[1]):
            c = cells[i, m]
            v = constant if values.size == 0 else values[i, m]
            for k in range(W.shape[1]):
                W[c, k] += v * R[i, k]


@kernel
def _row_add(rows, W, i, k, delta):
    cells, values, constant = rows
    if values.size == 0:
        delta *= constant
        for m in range(cells.shape[1]):
            W[cells[i, m], k] += delta
    else:
        for m in range(cells.shape[1]):
            W[cells[i, m], k] += values[i, m] * delta


@kernel
def hinge_descent(rows, square, y, upper, a, w, bias, order, key, draws, n_passes, eps):
    """Dual coordinate descent for the hinge loss, until violations are at most ``eps``.

    Minimises ½‖w‖² - Σ a over 0 ≤ a_i ≤ upper_i, Σ a_i y_i = 0, where w = Σ a_i y_i φ_i. The
    equality belongs to the intercept and is met by the method of multipliers, one step a pass.
    Rows that stay at a bound are put aside and looked at again at the end (Hsieh et al., 2008).

    ``a`` (N,), ``w`` (C, 1) and ``bias`` (1,) are changed in place; a and w must agree on entry.
    ``square`` (N,) holds ‖φ_i‖², ``order`` int32 the rows with upper > 0, permuted in place by the
    stream ``key`` from draw ``draws`` on. Returns the number of passes and the next draw.
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
            slope = y[i] * (row_dot(rows, w, i, 0) + bias[0]) - 1.0
            if (old == 0.0 and slope > high) or (old == upper[i] and slope < low):
                active -= 1
                order[j], order[active] = order[active], i
                continue
            j += 1
            if (old == 0.0 and slope > 0.0) or (old == upper[i] and slope < 0.0):
                continue
            most, least = max(most, slope), min(least, slope)
            a[i] = min(max(old - slope / (square[i] + 1.0), 0.0), upper[i])
            delta = (a[i] - old) * y[i]
            surplus += delta
            bias[0] += delta
            _row_add(rows, w, i, 0, delta)
        bias[0] += surplus
        if most - least <= eps and abs(surplus) <= eps:
            if active == n:
                return done + 1, draws
            active, high, low = n, np.inf, -np.inf
            continue
        high = most if most > 0.0 else np.inf
        low = least if least < 0.0 else -np.inf
    return n_passes, draws
