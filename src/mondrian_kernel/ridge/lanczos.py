r"""Ridge for many alphas and many lifetimes at once, without a matrix.

One Krylov space of K serves every shift :math:`K + \alpha I`, so all alphas cost one; and because
coarser cells are unions of finer ones, one pass over the table of cells multiplies the kernel
matrices of *all* lifetimes, each with its own vectors (:meth:`Design.gram`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal, solveh_banded

from mondrian_kernel.partition.trees import FloatArray
from mondrian_kernel.ridge.design import Design
from mondrian_kernel.ridge.scores import Scores, evidences, residual_scores

MAX_STEPS = 1000
_ROOM = 32
_SINGLE = 1e-5  # tolerance from which on the basis is kept in single precision
_PROBE_TOL = 0.1
_BIN = 32
_NEWTON_STEPS = 50


class Krylov(NamedTuple):
    """Lanczos bases of several columns: ``basis``, T as ``a`` and ``b``, lengths of the starts.

    The basis comes in blocks (steps, columns, N), in single precision where that is enough: it is
    what takes the memory.
    """

    basis: list[NDArray[np.floating]]
    a: FloatArray
    b: FloatArray
    norm: FloatArray

    def solve(self, column: int, alphas: FloatArray) -> FloatArray:
        """``(K + αI)⁻¹`` applied to the start of a column, (N, A)."""
        steps = int(np.argmin(np.append(self.b[:, column] > 0, False))) + 1
        steps = min(steps, self.a.shape[0])
        if steps == 1:  # LAPACK's tridiagonal solver refuses an empty off-diagonal
            first_only = self.basis[0][0, column].astype(np.float64)
            return np.outer(first_only, self.norm[column] / (self.a[0, column] + alphas))
        first = np.zeros(steps)
        first[0] = self.norm[column]
        bands = np.zeros((2, steps))
        bands[1, :-1] = self.b[: steps - 1, column]
        t = np.empty((steps, alphas.size))
        for k, alpha in enumerate(alphas):
            bands[0] = self.a[:steps, column] + alpha
            t[:, k] = solveh_banded(bands, first, lower=True, check_finite=False)
        x = np.zeros((self.basis[0].shape[2], alphas.size))
        for k, block in enumerate(self.basis):
            part = t[k * _ROOM : (k + 1) * _ROOM]
            x += block[: part.shape[0], column].T @ part.astype(block.dtype)
        return x

    def log_quadratic(self, column: int, alphas: FloatArray) -> FloatArray:
        """``zᵀ ln(K + αI) z`` for the start z of a column, by Gauss quadrature, (A,)."""
        theta, Q = eigh_tridiagonal(self.a[:, column], self.b[:-1, column])
        weight = self.norm[column] ** 2 * Q[0] ** 2
        nodes = np.log(np.maximum(theta, 0.0)[:, None] + alphas)
        out: FloatArray = weight @ nodes
        return out


def krylov(
    design: Design, starts: FloatArray, alphas: FloatArray, tol: float | FloatArray
) -> Krylov:
    r"""Lanczos from the columns of ``starts`` (N, L·k) until every shift is solved.

    The residual of the shift α relative to the start is the product of :math:`b_j / d_j` over the
    steps, d the pivots of :math:`T + \alpha I`; the iteration ends when all are below ``tol``,
    which may be one for each column.
    """
    from mondrian_kernel._core.cells import lanczos_step, next_vectors

    KV: FloatArray = np.array(starts)
    V = np.zeros_like(KV)
    norm = np.linalg.norm(starts, axis=0)
    length, b = norm, np.zeros(norm.size)
    tiny = np.finfo(float).eps * design.total_weight
    kind = np.float64 if np.min(tol) < _SINGLE else np.float32
    basis: list[NDArray[np.floating]] = []
    a_all: list[FloatArray] = []
    b_all: list[FloatArray] = []
    residual = np.where(norm > 0, 1.0, 0.0)[:, None] * np.ones(alphas.size)
    pivot = np.ones_like(residual)
    for step in range(MAX_STEPS):  # rounding makes it more than N steps where N is small
        if step % _ROOM == 0:
            basis.append(np.empty((_ROOM, norm.size, KV.shape[0]), kind))
        next_vectors(KV, length, basis[-1][step % _ROOM])
        V_old, V = V, KV
        KV, a = design.gram(V), np.empty(norm.size)
        squares = lanczos_step(KV, V, V_old, a, b)
        pivot = a[:, None] + alphas - (b * b)[:, None] / pivot
        b = np.sqrt(squares)
        b[b <= tiny] = 0.0
        length = b
        a_all.append(a)
        b_all.append(b)
        residual = residual * b[:, None] / pivot
        if np.all(residual.max(axis=1) <= tol):
            break
    return Krylov(basis, np.array(a_all), np.array(b_all), norm)


def lanczos_cost(design: Design, alphas: FloatArray) -> float:
    """Time of a level without random vectors, roughly, in the units of ``dense_cost``."""
    steps = min(MAX_STEPS, 0.2 * np.sqrt(design.total_weight / alphas.min()))
    return float(6.5 * design.cells.size * steps)


def n_probes(n_rows: int) -> int:
    """Random vectors for traces and diagonals: few are needed where there are many rows."""
    return int(np.clip(8000 // n_rows, 2, 16))


class Probes:
    """Random vectors sent through G at every level and alpha: log-determinants and diagonals."""

    def __init__(
        self, design: Design, alphas: FloatArray, tol: float, rng: np.random.Generator
    ) -> None:
        n = design.n_rows
        self._design, self._alphas = design, alphas
        self._Z = design.centred(rng.choice([-1.0, 1.0], size=(n, n_probes(n))))
        self._krylov = krylov(design, np.tile(self._Z, design.n_levels), alphas, tol)
        self._crowding = _crowding(design)

    def _columns(self, level: int) -> NDArray[np.int64]:
        k = self._Z.shape[1]
        columns: NDArray[np.int64] = level * k + np.arange(k)
        return columns

    def diagonal(self, level: int) -> FloatArray:
        """Diagonal of G (N, A), smoothed over rows whose cells hold about as many rows."""
        noisy = np.zeros((self._Z.shape[0], self._alphas.size))
        for z, column in zip(self._Z.T, self._columns(level), strict=True):
            noisy += z[:, None] * self._krylov.solve(int(column), self._alphas)
        design, alphas = self._design, self._alphas
        # H took the direction of the mean out of the probes.
        mean_part = design.centre * design.mean_direction[:, None] ** 2
        total = np.maximum(1.0 - mean_part, np.finfo(float).eps) / alphas
        share = noisy / (self._Z.shape[1] * total)
        least = alphas / (design.total_weight + alphas)
        share = _smoothed(share, least, design.sample_weight, self._crowding[:, level])
        diagonal: FloatArray = share * total + mean_part / alphas
        return diagonal

    def log_det(self, level: int) -> tuple[FloatArray, FloatArray]:
        """``ln det(K + αI)`` (A,) by stochastic Lanczos quadrature, and its standard error."""
        logs = np.array(
            [self._krylov.log_quadratic(int(c), self._alphas) for c in self._columns(level)]
        )
        std = logs.std(axis=0, ddof=1) / np.sqrt(len(logs))
        return logs.mean(axis=0) + self._design.centre * np.log(self._alphas), std


def lanczos_scores(
    design: Design,
    Y: FloatArray,
    alphas: FloatArray,
    tol: float,
    rng: np.random.Generator | None,
) -> list[tuple[Scores, FloatArray]]:
    """Scores and dual coefficients (N, T, A) of every level, for every alpha.

    Y (N, T) is scaled and centred. Training errors and quadratic forms are as exact as ``tol``,
    determinants and diagonals are estimated by :class:`Probes`; without ``rng`` what needs them,
    which is about half of the time, is left out and NaN.
    """
    n_outputs = Y.shape[1]
    solves = krylov(design, np.tile(Y, design.n_levels), alphas, tol)
    probes = None if rng is None else Probes(design, alphas, max(tol, _PROBE_TOL), rng)
    out = []
    for level in range(design.n_levels):
        columns = range(level * n_outputs, (level + 1) * n_outputs)
        dual = np.stack([solves.solve(c, alphas) for c in columns], axis=1)
        quadratic = np.einsum("nt,nta->ta", Y, dual)
        log_det = std = unknown = np.full(alphas.size, np.nan)
        diagonal = np.broadcast_to(unknown, (design.n_rows, alphas.size))
        if probes is not None:
            (log_det, std), diagonal = probes.log_det(level), probes.diagonal(level)
        scores = Scores(
            *residual_scores(design, dual, diagonal, alphas),
            *evidences(design, quadratic, log_det, alphas),
            0.5 * n_outputs * std,
        )
        out.append((scores, dual))
    return out


def _crowding(design: Design) -> FloatArray:
    """Mean over trees of the log-number of rows in a row's cell, (N, L)."""
    counts = design.scatter(1.0 / design.scale[:, None])[:, 0]
    logs = np.empty(design.groups.shape)
    for level, group in enumerate(design.groups.T):
        logs[:, level] = np.log(np.bincount(group, counts))[group]
    return design.gather(logs) / design.scale[:, None]


def _smoothed(
    noisy: FloatArray, least: FloatArray, weight: FloatArray, by: FloatArray
) -> FloatArray:
    """Smooth ``noisy`` (N, A), between ``least`` (A,) and 1, over bins of rows with like ``by``.

    Left out, a row of weight s has a variance q in units of the noise, and its share of the
    diagonal is 1 / (1 + s q). A bin has one q, which keeps the mean of its shares.
    """
    order = np.argsort(by, kind="stable")
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
