"""The log-determinant of a ridge fit, exact while a factor fits into memory."""

from __future__ import annotations

import numpy as np

from mondrian_kernel._linear.dense import cholesky
from mondrian_kernel._linear.design import Design
from mondrian_kernel._linear.krylov import krylov
from mondrian_kernel._typing import FloatArray

DENSE_SIZE = 8000
_PROBES, _PROBE_TOL = 8, 1e-2


def log_det(design: Design, alpha: float) -> float:
    """``ln det(K + αI)`` of a design of one level; by random vectors above ``DENSE_SIZE``."""
    n_rows = design.n_rows
    if min(n_rows, int(design.n_cells[0])) <= DENSE_SIZE:
        L = cholesky(design, alpha)
        rest = (n_rows - L.shape[0]) * np.log(alpha)
        return float(2.0 * np.log(np.diag(L)).sum() + rest)
    probes: FloatArray = np.random.default_rng(0).choice([-1.0, 1.0], size=(n_rows, _PROBES))
    shift = np.array([alpha])
    Q = krylov(design, design.centred(probes), shift, _PROBE_TOL)
    logs = [Q.log_quadratic(k, shift)[0] for k in range(_PROBES)]
    return float(np.mean(logs) + design.centre * np.log(alpha))
