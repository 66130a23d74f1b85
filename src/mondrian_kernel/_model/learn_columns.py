"""Learn relevances, functions of the columns and widths, by the error of rows held out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.columns import Columns, Metric, rank_table, significant
from mondrian_kernel._trees.threads import Tell, no_one, one_blas_thread
from mondrian_kernel._typing import FloatArray

SQRT_12 = float(np.sqrt(12.0))  # ranks in units of their standard deviation


@one_blas_thread
def learn_columns(
    rows: FloatArray,
    Y: FloatArray,
    weight: FloatArray | None,
    seed: int,
    *,
    scale: FloatArray,
    group: NDArray[np.intp] | None = None,
    ranked: NDArray[np.bool_] | None = None,
    step_rows: int = settings.COLUMN_ROWS[0],
    steps: int = settings.COLUMN_STEPS[0],
    tell: Tell = no_one,
) -> Metric:
    r"""Learn the columns, by the error of the exact kernel on rows that it was not fitted to.

    .. math::
        \min \; \frac n2 \ln \sum_{i \in V} s_i (y_i - f_F(x_i))^2
        + \frac{1}{2 \tau^2} \sum_d \Big(\ln r_d - \overline{\ln r}\Big)^2
        + \frac{1}{2 \tau_m^2} \sum_d \operatorname{logit}(m_d)^2
        + \frac{1}{2 \tau_u^2} \sum_{d, b} u_{db}^2

    with :math:`f_F` kernel ridge regression on other rows F, with the kernel
    :math:`\sum_l v_l \exp(-\lambda_l \lVert t - t' \rVert_1)`. Every step of the descent (Adam)
    draws new rows F and V, so that all rows take part and none is fitted twice by chance.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Rows.
    Y : ndarray of shape (N, T)
        Targets, on comparable scales.
    weight : ndarray of shape (N,) or None
        Positive weights s.
    seed : int
        Seed of the rows of each step.
    scale : ndarray of shape (D,)
        What columns are divided by, s.
    group : ndarray of shape (D,) or None
        Number of the group of each column; a group has one relevance. None: each its own.
    ranked : ndarray of bool, of shape (D,) or None
        Which columns may use ranks; None: all.
    step_rows, steps : int
        Rows to fit in a step, and steps; for more than 20 000 rows there are more of both.
    tell : callable
        Told which share of the steps is done.

    Returns
    -------
    metric : Metric
        Columns, lifetimes and shares. With fewer than 20 rows nothing is learnt.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._model.learn_columns import learn_columns
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> found = learn_columns(X, np.sin(X[:, :1]), None, seed=0, scale=np.ones(3))
    >>> int(found.columns.relevance.argmax())
    0
    """
    n_rows, n_columns = rows.shape
    group = np.arange(n_columns) if group is None else group
    ranked = np.ones(n_columns, bool) if ranked is None else ranked
    widths = np.array(settings.COLUMN_WIDTHS)
    plain = Columns.scaled(scale)
    spread = _mean_distance(rows, scale)
    if n_rows < settings.COLUMN_LEAST_ROWS or spread == 0.0 or not np.ptp(Y, axis=0).any():
        lifetime = 1.0 / spread if spread > 0 else 1.0
        return Metric(plain, lifetime * widths, np.full(widths.size, 1.0 / widths.size))
    some: NDArray[np.intp] | slice = slice(None)
    if n_rows > settings.RANK_ROWS:
        some = np.sort(np.random.default_rng([seed, 11]).permutation(n_rows)[: settings.RANK_ROWS])
    knots, ranks = rank_table(rows[some], None if weight is None else weight[some])
    whole = Columns(scale, plain.relevance, np.where(ranked, SQRT_12, 0.0), knots, ranks)
    search = _Search(rows, whole, Y, weight, group, seed, step_rows, steps)
    theta = search.descend(search.start(), tell)
    r, m, v, u = search.parts(theta)
    relevance = np.exp(r - r.max())[group]
    relevance = np.maximum(relevance / relevance.mean(), settings.COLUMN_LEAST_RELEVANCE)
    relevance = significant(relevance)
    lifetime = float(significant(np.exp(r.max()) * np.exp(r - r.max())[group].mean())[()])
    share = np.where(ranked, significant(m[group]), 0.0)
    factors = significant(np.exp(u))
    whole_range = factors.mean(axis=1)
    columns = Columns(
        scale / (relevance * (1.0 - share)),
        relevance,
        SQRT_12 * relevance * share * whole_range,
        knots,
        np.minimum(stretched(ranks, factors) / whole_range, 1.0),
    )
    return Metric(columns, lifetime * widths, v / v.sum())


def _mean_distance(rows: FloatArray, scale: FloatArray | float = 1.0) -> float:
    some = rows[:: max(1, rows.shape[0] // settings.COLUMN_START_ROWS)] / scale
    return float(np.mean([np.abs(some - row).sum(axis=1).mean() for row in some[:50]]))


def stretched(ranks: FloatArray, factors: FloatArray) -> FloatArray:
    """Return ranks (n, D) in [0, 1] stretched by factors (D, B), one for each of their bins."""
    parts = factors[..., None] * in_bins(ranks, factors.shape[1])
    out: FloatArray = parts.sum(axis=1).T
    return out


def in_bins(ranks: NDArray[Any], n_bins: int) -> NDArray[Any]:
    """Return how much of ranks (n, D) lies in each of equal bins of [0, 1], (D, B, n)."""
    edges = (np.arange(n_bins) / n_bins).astype(ranks.dtype)
    out: NDArray[Any] = np.clip(
        ranks.T[:, None] - edges[:, None], 0, ranks.dtype.type(1.0 / n_bins)
    )
    return out


class _Search:
    """Descent on the error of rows held out, over relevances, functions of columns and widths."""

    def __init__(
        self,
        rows: FloatArray,
        whole: Columns,
        Y: FloatArray,
        weight: FloatArray | None,
        group: NDArray[np.intp],
        seed: int,
        step_rows: int,
        steps: int,
    ) -> None:
        n_rows, n_columns = rows.shape
        self.group, self.n_groups = group, int(group.max()) + 1
        # Where the parts of the parameters end: relevances, rank shares, widths; the rest are bins.
        self.kinds = np.cumsum([self.n_groups, self.n_groups, len(settings.COLUMN_WIDTHS)])
        self.n_bins = settings.COLUMN_BINS if whole.bend.any() else 1  # ranks are then all 0
        self.rng = np.random.default_rng(seed)
        many = max(1.0, n_rows / settings.COLUMN_MANY_ROWS)  # the work may grow as the rows do
        self.steps = int(min(steps * np.sqrt(many), settings.COLUMN_STEPS[1]))
        most = min(step_rows * np.sqrt(many), settings.COLUMN_ROWS[1])
        most = int(min(most, np.sqrt(many * settings.COLUMN_PAIRS / n_columns)))
        self.n_out = max(1, min(n_rows // 3, most))
        self.n_fit = min(n_rows - self.n_out, most)
        # Rows that the steps will draw; more are never looked at.
        needed = self.steps * (self.n_out + self.n_fit)
        some = np.sort(self.rng.permutation(n_rows)[:needed]) if needed < n_rows else slice(None)
        rows = rows[some]
        # Only differences matter; a large mean would cost the few digits of single precision.
        self.values = ((rows - rows.mean(axis=0)) / whole.scale).astype(np.float32)
        self.ranks = (whole.ranked(rows) / SQRT_12).astype(np.float32)
        self.Y = Y[some]
        self.s = np.ones(rows.shape[0]) if weight is None else weight[some] / weight.mean()
        self._room = np.empty(0, np.float32)

    def draws(self) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield rows to fit and rows to hold out, all of them once before any comes again."""
        n, size = self.Y.shape[0], self.n_out + self.n_fit
        order, at = self.rng.permutation(n), 0
        while True:
            if at + size > n:
                order, at = self.rng.permutation(n), 0
            yield order[at + self.n_out : at + size], order[at : at + self.n_out]
            at += size

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return log-relevances and rank shares of the groups, weights of the widths, and u."""
        r, logit, v, u = np.split(theta, self.kinds)
        bins = u.reshape(self.group.size, self.n_bins)
        return r, 1.0 / (1.0 + np.exp(-logit)), np.exp(v), bins

    def start(self) -> FloatArray:
        """Return the best of a few points at which all columns count alike."""
        n = min(settings.COLUMN_START_ROWS, self.Y.shape[0] // 2)
        some = self.rng.permutation(self.Y.shape[0])
        parts = some[:n], some[n : 2 * n]
        T = 0.5 * (self.values[parts[0]] + SQRT_12 * self.ranks[parts[0]])
        spread = max(_mean_distance(T.astype(np.float64)), float(np.finfo(np.float32).tiny))
        n_widths = len(settings.COLUMN_WIDTHS)
        points = [
            np.concatenate(
                [
                    np.full(self.n_groups, np.log(c / spread)),
                    np.zeros(self.n_groups),
                    np.full(n_widths, -np.log(alpha * n_widths)),
                    np.zeros(self.group.size * self.n_bins),
                ]
            )
            for c in settings.COLUMN_START_LIFETIMES
            for alpha in settings.COLUMN_START_ALPHAS
        ]
        values = [self.slope(point, *parts)[0] for point in points]
        return points[int(np.argmin(values))]

    def descend(self, theta: FloatArray, tell: Tell = no_one) -> FloatArray:
        """Take steps (Adam) with a falling rate; return the mean of the last third.

        All relevances share one unit of the steps, and so do all rank shares, all widths and all
        bins: with a unit of its own a column whose slope is only noise would move as far as any
        other.
        """
        mean, square, last, steps = np.zeros_like(theta), np.zeros_like(theta), [theta], self.steps
        kinds = [slice(a, b) for a, b in pairwise([0, *self.kinds.tolist(), theta.size])]
        for step, (fitted, out) in zip(range(steps), self.draws(), strict=False):
            _, gradient = self.slope(theta, fitted, out)
            mean = 0.9 * mean + 0.1 * gradient
            for kind in kinds:
                square[kind] = 0.95 * square[kind] + 0.05 * np.mean(gradient[kind] ** 2)
            rate = settings.COLUMN_RATE * min(1.0, 2.0 * (1.0 - step / steps))
            unit = np.sqrt(square / (1.0 - 0.95 ** (step + 1))) + 1e-8
            theta = theta - rate * mean / (1.0 - 0.9 ** (step + 1)) / unit
            last = [*last, theta] if step > 2 * steps // 3 else [theta]
            tell((step + 1) / steps)
        return np.asarray(np.mean(last, axis=0))

    def _matrices(self, n_out: int, n_fit: int) -> list[NDArray[np.float32]]:
        """Return room for three matrices of the rows fitted, and two of the rows held out.

        It is the same memory in every step: new memory would take as long as what is done in it.
        """
        sizes = [n * n_fit for n in (n_fit, n_fit, n_fit, n_out, n_out)]
        if self._room.size < sum(sizes):
            self._room = np.empty(sum(sizes), np.float32)
        ends = np.cumsum([0, *sizes])
        return [self._room[a:b].reshape(-1, n_fit) for a, b in pairwise(ends)]

    def slope(
        self, theta: FloatArray, fitted: NDArray[np.intp], out: NDArray[np.intp]
    ) -> tuple[float, FloatArray]:
        """Return the objective at ``theta``, and its gradient.

        With A = K + S⁻¹, a = A⁻¹y, f = K'a and f' the gradient of the error in f, the error changes
        by f'ᵀ dK' a - zᵀ dK a, where z = A⁻¹ K'ᵀ f'. A is held in single precision as K is.
        """
        from mondrian_kernel._kernels.dense import distances, pull_apart, weighted_powers

        r, m, weights, u = self.parts(theta)
        v = weights.astype(np.float32)
        value = (np.exp(r) * (1.0 - m))[self.group].astype(np.float32)
        rank = (SQRT_12 * np.exp(r) * m)[self.group].astype(np.float32)
        both, stretches = (fitted, out), np.exp(u).astype(np.float32)
        bins = [in_bins(self.ranks[some], u.shape[1]) for some in both]
        by_column = [  # t(x), (D, n)
            value[:, None] * self.values[some].T + rank[:, None] * (stretches[:, None] @ own)[:, 0]
            for some, own in zip(both, bins, strict=True)
        ]
        T = [np.ascontiguousarray(own.T) for own in by_column]
        A, E, K, E_out, K_out = self._matrices(out.size, fitted.size)
        change, room = np.zeros(v.size), np.empty((2, fitted.size), np.float32)
        for t, power, mixed in zip(T, (E, E_out), (K, K_out), strict=True):
            distances(t, by_column[0], False, power)
            power *= np.float32(-settings.COLUMN_WIDTHS[0])
            np.exp(power, out=power)
            mixed[:] = 1.0
            # Kernels of the other widths are powers of the first. Sums of ones are not needed.
            weighted_powers(power, mixed, v, change, room)
        s, s_out = self.s[fitted], self.s[out][:, None]
        A[:] = K
        A.flat[:: fitted.size + 1] += (1.0 / s).astype(np.float32)
        centre = s @ self.Y[fitted] / s.sum()
        factor, failed = lapack.spotrf(A.T, lower=1, clean=0, overwrite_a=1)
        solve = lapack.spotrs
        if failed:  # little noise beside a large kernel
            exact = K.astype(np.float64)
            exact.flat[:: fitted.size + 1] += 1.0 / s
            factor, _ = lapack.dpotrf(exact.T, lower=1, clean=0, overwrite_a=1)
            solve = lapack.dpotrs
        single = solve(factor, self.Y[fitted] - centre, lower=1)[0].astype(np.float32)
        residual = K_out @ single + centre - self.Y[out]
        scale = np.sum(s_out * (self.Y[out] - centre) ** 2) or 1.0
        error = float(np.sum(s_out * residual**2) / scale) + settings.LEAST_ERROR
        slope = (2.0 * s_out * residual / (scale * error)).astype(np.float32)
        down = K_out.T @ slope
        z = solve(factor, down, lower=1)[0].astype(np.float32)
        half, n_groups = 0.5 * out.size, self.n_groups
        pairs = K, K_out
        change[:] = 0.0
        by_width = (-weights * np.array(settings.COLUMN_WIDTHS)).astype(np.float32)
        for power, left, P in zip((E, E_out), (-z, slope), pairs, strict=True):
            np.dot(left, single.T, out=P)  # becomes the derivatives in the distances of the pairs
            weighted_powers(power, P, by_width, change, room)
        pulls = [np.zeros_like(own) for own in by_column]  # slopes in t(x) of the rows
        for own, pull, P in zip(by_column, pulls, pairs, strict=True):
            pull_apart(own, by_column[0], P, pull, pulls[0])
        of_value, of_bin = np.zeros(value.size), np.zeros(u.shape)
        for pull, some, own in zip(pulls, both, bins, strict=True):
            of_value += half * np.einsum("dn,nd->d", pull, self.values[some])
            of_bin += half * np.exp(u) * (own @ pull[..., None])[..., 0]
        by_value, by_rank = (
            np.exp(r) * np.bincount(self.group, part, n_groups)
            for part in (of_value, SQRT_12 * of_bin.sum(axis=1))
        )
        centred, logit = r - r.mean(), theta[n_groups : 2 * n_groups]
        gradient = np.concatenate(
            [
                (1 - m) * by_value + m * by_rank + centred / settings.COLUMN_PRIOR**2,
                m * (1 - m) * (by_rank - by_value) + logit / settings.COLUMN_RANK_PRIOR**2,
                half * weights * change,
                (rank[:, None] * of_bin + u / settings.COLUMN_BIN_PRIOR**2).ravel(),
            ]
        )
        prior = (
            np.sum(centred**2) / settings.COLUMN_PRIOR**2
            + np.sum(logit**2) / settings.COLUMN_RANK_PRIOR**2
            + np.sum(u**2) / settings.COLUMN_BIN_PRIOR**2
        )
        return half * np.log(error) + 0.5 * float(prior), gradient
