"""The diagonal and the determinant of ``G = (K + αI)⁻¹`` without a matrix.

Of few rows exactly, by a Krylov space from each unit vector; of many rows by some random vectors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._linear.design import Design
from mondrian_kernel._linear.krylov import krylov
from mondrian_kernel._typing import FloatArray

EXACT_ROWS = 500
_AT_ONCE = 64
_BIN = 32
_NEWTON_STEPS = 50


def inverse_of(design: Design, alphas: FloatArray, tol: float) -> tuple[FloatArray, FloatArray]:
    """Diagonal of G (N, A) and ``ln det(K + αI)`` (A,), as exact as ``tol``, of one level."""
    n = design.n_rows
    mean_part = design.centre * design.mean_direction[:, None] ** 2
    diagonal = mean_part / alphas
    log_det = design.centre * np.log(alphas)
    for begin in range(0, n, _AT_ONCE):
        rows = range(begin, min(begin + _AT_ONCE, n))
        found = krylov(design, design.centred(np.eye(n)[:, rows]), alphas, tol)
        for column, row in enumerate(rows):
            diagonal[row] += found.solution[column, row]
            log_det = log_det + found.log_quadratic(column, alphas)
    return diagonal, log_det


def n_probes(n_rows: int) -> int:
    """Random vectors for traces and diagonals: few are needed where there are many rows."""
    return int(np.clip(8000 // n_rows, 2, 16))


class Probes:
    """Random vectors z sent through G at every level and alpha: log-determinants, diagonals."""

    def __init__(
        self, design: Design, alphas: FloatArray, tol: float, rng: np.random.Generator
    ) -> None:
        n = design.n_rows
        self._design, self._alphas = design, alphas
        self._Z = design.centred(rng.choice([-1.0, 1.0], size=(n, n_probes(n))))
        starts = np.tile(self._Z, design.n_levels)
        self._krylov = krylov(design, starts, alphas, tol)
        self._crowding = _crowding(design)

    def diagonal(self, level: int) -> tuple[FloatArray, list[FloatArray]]:
        """Diagonal of G (N, A), and what it would be without each of the vectors.

        The mean of the noisy ``z ∘ G z``, smoothed over rows whose cells hold about as many rows.
        """
        design, alphas, k = self._design, self._alphas, self._Z.shape[1]
        # H took the direction of the mean out of the vectors.
        mean_part = design.centre * design.mean_direction[:, None] ** 2
        total = np.maximum(1.0 - mean_part, np.finfo(float).eps) / alphas
        least = alphas / (design.total_weight + alphas)

        order = np.argsort(self._crowding[:, level], kind="stable")

        def smoothed(share: FloatArray) -> FloatArray:
            share = _smoothed(share, least, design.sample_weight, order)
            return share * total + mean_part / alphas

        shares = np.array(
            [
                z[:, None] * self._krylov.solution[level * k + j] / total
                for j, z in enumerate(self._Z.T)
            ]
        )
        mean: FloatArray = shares.mean(axis=0)
        return smoothed(mean), [smoothed(mean + (mean - one) / (k - 1)) for one in shares]

    def log_det(self, level: int) -> tuple[FloatArray, FloatArray]:
        """``ln det(K + αI)`` (A,) by stochastic Lanczos quadrature, and its standard error."""
        k = self._Z.shape[1]
        logs = np.array([self._krylov.log_quadratic(level * k + j, self._alphas) for j in range(k)])
        std = logs.std(axis=0, ddof=1) / np.sqrt(k)
        return logs.mean(axis=0) + self._design.centre * np.log(self._alphas), std


def _crowding(design: Design) -> FloatArray:
    """Mean over trees of the log-number of rows in a row's cell, (N, L)."""
    counts = design.scatter(1.0 / design.scale[:, None])[:, 0]
    logs = np.empty(design.groups.shape)
    for level, group in enumerate(design.groups.T):
        logs[:, level] = np.log(np.bincount(group, counts))[group]
    return design.gather(logs) / design.scale[:, None]


def _smoothed(
    noisy: FloatArray, least: FloatArray, weight: FloatArray, order: NDArray[np.intp]
) -> FloatArray:
    """Smooth ``noisy`` (N, A), between ``least`` (A,) and 1, over bins of rows next in ``order``.

    Left out, a row of weight s has a variance q in units of the noise, and its share of the
    diagonal is 1 / (1 + s q). A bin has one q, which keeps the mean of its shares.
    """
    edges = np.linspace(0, order.size, max(1, order.size // _BIN) + 1).astype(int)
    sizes = np.diff(edges)[:, None]
    s = weight[order, None]

    def mean(values: FloatArray) -> FloatArray:
        sums: FloatArray = np.add.reduceat(values, edges[:-1], axis=0)
        return sums / sizes

    goal = np.clip(mean(noisy[order]), least, 1.0)
    q = (1.0 / goal - 1.0) / mean(s)  # where all weights are equal; below the root elsewhere
    for _ in range(_NEWTON_STEPS):
        share = 1.0 / (1.0 + s * np.repeat(q, sizes[:, 0], axis=0))
        step = (mean(share) - goal) / mean(s * share**2)
        q = np.maximum(q + step, 0.0)
        if np.all(np.abs(step) <= 1e-9 * (1.0 + q)):
            break
    out = np.empty_like(noisy)
    out[order] = np.clip(share, least, 1.0)
    return out
