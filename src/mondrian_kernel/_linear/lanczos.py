r"""Ridge for many alphas and many lifetimes at once, without a matrix.

One Krylov space of K serves every shift :math:`K + \alpha I`, so all alphas cost one. Coarser
cells are unions of finer ones, so one pass over the table of cells multiplies the kernel matrices
of *all* lifetimes, each with its own vectors (:meth:`Operator.gram`). Diagonals and determinants of
:math:`G = (K + \alpha I)^{-1}` come from dense factors while rows are few, and from random vectors
where they are many.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.cholesky import Inverse, Scores, by_cholesky, ridge_scores
from mondrian_kernel._linear.operator import Operator, Products
from mondrian_kernel._typing import FloatArray

_NEWTON_STEPS = 50  # for the smoothed diagonal; a handful suffice


class Krylov(NamedTuple):
    """Result of Lanczos from several columns.

    ``solution`` (columns, N, A) is ``(K + αI)⁻¹`` applied to the starts, T has the diagonals ``a``
    and ``b`` (steps, columns), ``norm`` are the lengths of the starts and ``residual``
    (columns, A) is the relative residual of each solution.
    """

    solution: FloatArray
    a: FloatArray
    b: FloatArray
    norm: FloatArray
    residual: FloatArray

    def warn_of_residuals(self, alphas: FloatArray, tol: float) -> None:
        """Warn where ``KRYLOV_STEPS`` were not enough for the smallest alphas."""
        left = self.residual.max(axis=0)
        if left.max() > tol:
            warnings.warn(
                f"Lanczos stopped after {settings.KRYLOV_STEPS} steps, before its residual was "
                f"below tol={tol:.1g} at alpha={alphas[left.argmax()]:.3g}, which is therefore "
                "judged inexactly. Leave so small alphas out.",
                ConvergenceWarning,
                stacklevel=2,
            )


def krylov(operator: Products, starts: FloatArray, alphas: FloatArray, tol: float) -> Krylov:
    r"""Lanczos from the columns of ``starts`` (N, L·k) until every shift is solved.

    The residual of the shift α relative to the start is the product of :math:`b_j / d_j` over the
    steps, d the pivots of :math:`T + \alpha I`; the iteration ends when all are below ``tol``.
    """
    from mondrian_kernel._kernels.dense import lanczos_step, next_vectors

    KV: FloatArray = np.array(starts)
    V = np.zeros_like(KV)
    norm = np.linalg.norm(starts, axis=0)
    length, b = norm, np.zeros(norm.size)
    tiny = np.finfo(float).eps * operator.total_weight
    kind = np.float64 if tol < settings.SINGLE_PRECISION_TOL else np.float32
    sums = _Sums(norm, alphas, KV.shape[0], kind)
    a_all: list[FloatArray] = []
    b_all: list[FloatArray] = []
    residual = np.where(norm > 0, 1.0, 0.0)[:, None] * np.ones(alphas.size)
    for _ in range(settings.KRYLOV_STEPS):  # rounding makes it more than N steps where N is small
        next_vectors(KV, length, sums.room())
        V_old, V = V, KV
        KV, a = operator.gram(V), np.empty(norm.size)
        squares = lanczos_step(KV, V, V_old, a, b)
        sums.take(a, b)
        b = np.sqrt(squares)
        b[b <= tiny] = 0.0
        length = b
        a_all.append(a)
        b_all.append(b)
        residual = residual * b[:, None] / sums.pivot
        if residual.max() <= tol:
            break
    return Krylov(sums.total(), np.array(a_all), np.array(b_all), norm, residual)


class _Sums:
    r"""Solutions at every shift, added up as the basis v comes, so that it need not be kept.

    With :math:`T + \alpha I = L D L^\top` and l beside the diagonal of L, directions
    :math:`w_j = v_j - l_j w_{j-1}` and :math:`q_j = -l_j q_{j-1}`, of which the first is 1, the
    solution for a start of length 1 is :math:`\sum_j (q_j / d_j)\, w_j`. Vectors are added in
    blocks: a block, and the direction before it, give both its part of the sum and its last
    direction.
    """

    def __init__(
        self, norm: FloatArray, alphas: FloatArray, n_rows: int, kind: type[np.floating]
    ) -> None:
        shape = norm.size, n_rows, alphas.size
        self._alphas, self._x, self._w = alphas, np.zeros(shape), np.zeros(shape, kind)
        self._basis = np.empty((settings.KRYLOV_BLOCK, norm.size, n_rows), kind)
        self._l: list[FloatArray] = []
        self._shares: list[FloatArray] = []
        self._norm, self._q = norm, np.ones((norm.size, alphas.size))
        self.pivot, self._begun = np.ones_like(self._q), False

    def room(self) -> NDArray[np.floating]:
        """Return the place (columns, N) where the next vector is to be put."""
        if len(self._l) == settings.KRYLOV_BLOCK:
            self._add()
        place: NDArray[np.floating] = self._basis[len(self._l)]
        return place

    def take(self, a: FloatArray, b: FloatArray) -> None:
        """Extend T by a step: ``a`` on the diagonal, ``b`` beside it."""
        below = b[:, None] / self.pivot
        if self._begun:
            self._q = -below * self._q
        self._begun = True
        self.pivot = a[:, None] + self._alphas - b[:, None] * below
        self._l.append(below)
        self._shares.append(self._q / self.pivot)

    def total(self) -> FloatArray:
        """Return the solutions (columns, N, A)."""
        self._add()
        self._x *= self._norm[:, None, None]
        return self._x

    def _add(self) -> None:
        n = len(self._l)
        in_sum, in_last = np.array(self._shares), np.ones((n, *self._q.shape))
        for j in range(n - 2, -1, -1):
            in_sum[j] -= self._l[j + 1] * in_sum[j + 1]
            in_last[j] = -self._l[j + 1] * in_last[j + 1]
        factors = np.concatenate([in_sum, in_last], axis=2).astype(self._basis.dtype)
        k = self._alphas.size
        for column, w in enumerate(self._w):
            made = self._basis[:n, column].T @ factors[:, column]
            below = self._l[0][column]
            self._x[column] += made[:, :k] - (below * in_sum[0, column]) * w
            w *= -(below * in_last[0, column])
            w += made[:, k:]
        self._l, self._shares = [], []


def first_log(a: FloatArray, b: FloatArray, alphas: FloatArray) -> FloatArray:
    """``e₁ᵀ ln(T + αI) e₁`` (A,); T ≥ 0 has the diagonals a (n,) and b (n - 1,)."""
    values, vectors = eigh_tridiagonal(a, b)
    logs: FloatArray = vectors[0] ** 2 @ np.log(np.maximum(values, 0.0)[:, None] + alphas)
    return logs


def n_probes(n_rows: int) -> int:
    """Random vectors for traces and diagonals: few are needed where there are many rows."""
    return int(
        np.clip(settings.PROBE_NUMBERS // n_rows, settings.PROBES_LEAST, settings.PROBES_MOST)
    )


class Probes:
    """Diagonals and log-determinants at every level and alpha, estimated with random vectors z."""

    def __init__(
        self,
        operator: Operator,
        alphas: FloatArray,
        tol: float,
        rng: np.random.Generator,
        n_vectors: int | None = None,
    ) -> None:
        shape = operator.n_rows, n_vectors or n_probes(operator.n_rows)
        self._operator, self._alphas = operator, alphas
        self._Z = operator.centred(rng.choice([-1.0, 1.0], size=shape))
        starts = np.tile(self._Z, operator.n_levels)
        self._krylov = krylov(operator, starts, alphas, tol)
        self._crowding = _crowding(operator)

    def diagonal(self, level: int) -> tuple[FloatArray, list[FloatArray]]:
        """Diagonal of G (N, A), and the estimates that leave out one vector each.

        The mean of the noisy ``z ∘ G z``, smoothed over rows whose cells hold about as many rows.
        """
        operator, alphas, k = self._operator, self._alphas, self._Z.shape[1]
        # H took the direction of the mean out of the vectors.
        mean_part = operator.centre * operator.mean_direction[:, None] ** 2
        total = np.maximum(1.0 - mean_part, np.finfo(float).eps) / alphas
        least = alphas / (operator.total_weight + alphas)
        order = np.argsort(self._crowding[:, level], kind="stable")

        def smoothed(share: FloatArray) -> FloatArray:
            share = _smoothed(share, least, operator.sample_weight, order)
            return share * total + mean_part / alphas

        solved = self._krylov.solution[level * k : (level + 1) * k]
        shares = self._Z.T[:, :, None] * solved / total
        mean: FloatArray = shares.mean(axis=0)
        return smoothed(mean), [smoothed(mean + (mean - one) / (k - 1)) for one in shares]

    def log_det(self, level: int) -> tuple[FloatArray, FloatArray]:
        """``ln det(K + αI)`` (A,) by stochastic Lanczos quadrature, and its standard error."""
        k, found = self._Z.shape[1], self._krylov
        columns = range(level * k, (level + 1) * k)
        first = [first_log(found.a[:, c], found.b[:-1, c], self._alphas) for c in columns]
        logs = found.norm[columns, None] ** 2 * first  # zᵀ ln(K + αI) z, by Gauss quadrature
        std = logs.std(axis=0, ddof=1) / np.sqrt(k)
        return logs.mean(axis=0) + self._operator.centre * np.log(self._alphas), std

    def inverse(self, level: int) -> Inverse:
        """Return what is known of G at a level."""
        (diagonal, without), (log_det, std) = self.diagonal(level), self.log_det(level)
        return Inverse(diagonal, log_det, std, tuple(without))


def _crowding(operator: Operator) -> FloatArray:
    """Mean over trees of the log-number of rows in a row's cell, up to affine maps, (N, L)."""
    counts = operator.scatter(np.ones((operator.n_rows, 1)))
    logs = [
        operator.refine(np.log(operator.coarsen(counts, level)), level)
        for level in range(operator.n_levels)
    ]
    return operator.gather(np.concatenate(logs, axis=1))


def _smoothed(
    noisy: FloatArray, least: FloatArray, weight: FloatArray, order: NDArray[np.intp]
) -> FloatArray:
    """Smooth ``noisy`` (N, A), between ``least`` (A,) and 1, over bins of rows next in ``order``.

    Left out, a row of weight s has a variance q in units of the noise, and its share of the
    diagonal is 1 / (1 + s q). A bin has one q, which keeps the mean of its shares.
    """
    edges = np.linspace(0, order.size, max(1, order.size // settings.PROBE_BIN) + 1).astype(int)
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


def lanczos_cost(n_entries: int, total_weight: float, alphas: FloatArray) -> float:
    """Time of a level of N · M entries without random vectors, in the units of ``dense_cost``."""
    steps = min(settings.KRYLOV_STEPS, 0.2 * np.sqrt(total_weight / alphas.min()))
    return float(6.5 * n_entries * steps)


def lanczos_scores(
    operator: Operator,
    Y: FloatArray,
    alphas: FloatArray,
    tol: float,
    rng: np.random.Generator | None,
    *,
    exact_rows: int = settings.PROBE_EXACT_ROWS,
    probe_tol: float = settings.PATH_PROBE_TOL,
) -> list[tuple[Scores, FloatArray]]:
    """Scores and dual coefficients (N, T, A) of every level, for every alpha.

    Y (N, T) is scaled and centred. Training errors and quadratic forms are as exact as ``tol``.
    Determinants and diagonals of at most ``exact_rows`` rows are exact; of more rows they are
    estimated with random vectors, solved to ``probe_tol``. Without ``rng`` the scores that need
    them are NaN, which saves half of the time.
    """
    n_outputs = Y.shape[1]
    solves = krylov(operator, np.tile(Y, operator.n_levels), alphas, tol)
    solves.warn_of_residuals(alphas, tol)
    probes = None
    if rng is not None and operator.n_rows > exact_rows:
        probes = Probes(operator, alphas, max(tol, probe_tol), rng)
    out = []
    for level in range(operator.n_levels):
        columns = slice(level * n_outputs, (level + 1) * n_outputs)
        dual = np.ascontiguousarray(solves.solution[columns].transpose(1, 0, 2))
        inverse = None
        if probes is not None:
            inverse = probes.inverse(level)
        elif rng is not None:
            _, inverse = by_cholesky(operator.level(level), Y, alphas)
        out.append((ridge_scores(operator, Y, dual, alphas, inverse), dual))
    return out
