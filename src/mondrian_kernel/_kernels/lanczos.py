"""Steps of Lanczos on several columns at once, and the tridiagonal matrices it makes."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel


@kernel
def lanczos_step(KV, V, V_old, a, b_old):
    """Three-term recurrence in place: ``KV <- KV - b_old V_old - a V`` with ``a = VᵀKV``.

    All are (N, k); the squared norms of the new columns are returned.
    """
    n_rows, k = V.shape
    a[:] = 0.0
    for i in range(n_rows):
        for j in range(k):
            KV[i, j] -= b_old[j] * V_old[i, j]
            a[j] += V[i, j] * KV[i, j]
    norms = np.zeros(k)
    for i in range(n_rows):
        for j in range(k):
            u = KV[i, j] - a[j] * V[i, j]
            KV[i, j] = u
            norms[j] += u * u
    return norms


@kernel
def next_vectors(KV, b, kept):
    """Divide the columns of KV (N, k) by ``b``, or set them to 0 where it is, and copy them.

    ``kept`` (k, N) may be in single precision.
    """
    n_rows, k = KV.shape
    inverse = np.zeros(k)
    for j in range(k):
        if b[j] > 0.0:
            inverse[j] = 1.0 / b[j]
    for i in range(n_rows):
        for j in range(k):
            v = KV[i, j] * inverse[j]
            KV[i, j] = v
            kept[j, i] = v


@kernel
def first_entries(a, b, shifts, out):
    """Set ``out`` to the first entry of ``(T + sI)⁻¹`` for each of ``shifts``.

    It is a continued fraction. T has the diagonal ``a`` (n,), and ``b`` (n - 1,) beside it; no
    shift may make it indefinite.
    """
    out[:] = 0.0
    for i in range(a.size - 1, -1, -1):
        square = b[i] * b[i] if i < b.size else 0.0
        for k in range(shifts.size):
            out[k] = 1.0 / (a[i] + shifts[k] - square * out[k])
