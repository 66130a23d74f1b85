"""Tridiagonal matrices."""

from numba import njit


@njit(cache=True, nogil=True)
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
