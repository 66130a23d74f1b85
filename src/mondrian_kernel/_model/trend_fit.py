"""Choose the kernel of a trend, and fit it by ridge regression on landmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import blas, lapack
from scipy.spatial.distance import cdist

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.columns import Metric
from mondrian_kernel._model.folds import Folds, draw_folds
from mondrian_kernel._model.trend import Trend
from mondrian_kernel._path.driver import Stages
from mondrian_kernel._trees.threads import Tell, no_one
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.on_disk import row_blocks


def fit_trend(
    rows: FloatArray,
    Y: FloatArray,
    weight: FloatArray,
    folds: Folds,
    metric: Metric,
    factors: Sequence[FloatArray],
    seed: int,
    stages: Stages,
) -> tuple[list[Trend], FloatArray]:
    """Choose the kernel of a trend and fit it.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Rows as the trees see them.
    Y : ndarray of shape (N, K)
        Targets.
    weight : ndarray of shape (N,)
        Positive weights.
    folds : Folds
        Rows held out.
    metric : Metric
        Lifetimes and shares of the Laplace kernel.
    factors : sequence of ndarrays of shape (D,)
        Factors of the columns to choose from.
    seed : int
        Seed of the landmarks.
    stages : Stages
        Told how far the fit has come.

    Returns
    -------
    trends : list of Trend
        The trend of all rows, and that without each part of the rows.
    at_rows : ndarray of shape (N, 1 + n_folds, K)
        Trend at each row, of all rows and when each part of the rows is held out.
    """
    order = np.random.default_rng([seed, 4]).permutation(rows.shape[0])
    blank, start = choose_kernel(rows, Y, weight, order, metric, factors, seed)
    some = np.sort(order[: settings.TREND_ROWS])
    tell = stages.teller("fitting the trend")
    fit = _Ridge(blank, rows[some], Y[some], weight[some], folds.take(some), tell)
    alpha = settings.TREND_ALPHAS[fit.lowest(start)[1]]
    trends = [fit.trend(alpha), *(fit.trend(alpha, fold) for fold in range(folds.n_folds))]
    return bounded(trends, rows, folds, stages.teller("trend of all rows"))


def bounded(
    trends: list[Trend], rows: FloatArray, folds: Folds, tell: Tell
) -> tuple[list[Trend], FloatArray]:
    """Return trends with bounds, and their values at rows, (N, 1 + n_folds, K).

    The trends are those of all rows, and of the rows without each part.
    """
    coef = np.concatenate([trend.coef for trend in trends], axis=1)
    zero, free = np.zeros(coef.shape[1]), np.full(coef.shape[1], np.inf)
    every = replace(trends[0], coef=coef, intercept=zero, low=-free, high=free)
    found = np.empty((rows.shape[0], zero.size))
    for block in row_blocks(rows.shape[0]):
        found[block] = every(rows[block])
        tell(block.stop / rows.shape[0])
    at_rows = found.reshape(rows.shape[0], folds.n_folds + 1, -1)
    at_rows += np.stack([trend.intercept for trend in trends])
    ended = []
    for k, trend in enumerate(trends):
        fitted = at_rows[folds.of_row != k - 1, k] if k else at_rows[:, 0]
        low, high = fitted.min(axis=0), fitted.max(axis=0)
        margin = settings.TREND_MARGIN * (high - low)
        ended.append(replace(trend, low=low - margin, high=high + margin))
        np.clip(at_rows[:, k], low - margin, high + margin, out=at_rows[:, k])
    return ended, at_rows


def choose_kernel(
    all_rows: FloatArray,
    Y: FloatArray,
    weight: FloatArray,
    order: NDArray[np.intp],
    metric: Metric,
    factors: Sequence[FloatArray],
    seed: int,
) -> tuple[Trend, int]:
    """Return the kernel with the least error, around its landmarks, and its penalty's number.

    Kernels are compared on the first rows in a random ``order``. The two best are compared once
    more with more landmarks, and the winner is tried with a linear part. It gets yet more landmarks
    if it is smooth and gained from more. Up to 1024 rows, all are landmarks.
    """
    sample = order[: settings.TREND_SAMPLE_ROWS]
    rows, Y, weight = all_rows[sample], Y[sample], weight[sample]
    folds = draw_folds(rows.shape[0], seed).first(settings.TREND_FOLDS)
    none, zero, free = np.empty((0, Y.shape[1])), np.zeros(Y.shape[1]), np.full(Y.shape[1], np.inf)
    ends = np.quantile(rows, [settings.TREND_END, 1.0 - settings.TREND_END], axis=0)
    widths = 1.0, metric.lifetimes, metric.shares
    plain = Trend(ends, factors[0], rows, none, zero, *widths, -free, free)
    if folds.n_folds == 0:
        return plain.around(all_rows), 0
    half = max(rows.shape[0] // 2, 1)
    found = _tried_kernels(plain, factors, rows, Y, weight, folds, half)
    more = rows[: min(settings.TREND_FINAL_LANDMARKS, half)]
    finals: list[tuple[float, int, float, _Ridge]] = []
    for before, alpha, ridge in found[: settings.TREND_FINALISTS]:
        kernel = ridge.kernel.around(more)
        size = float(np.sqrt(np.mean(np.sum(kernel.landmarks**2, axis=1))))
        linear = settings.TREND_LINEAR / size if size > 0.0 else 0.0
        final = _Ridge(replace(kernel, linear=linear), rows, Y, weight, folds)
        finals.append((*final.lowest(alpha, alone=True), before, final))
    least, alpha, before, ridge = min(finals, key=lambda final: final[0])
    gain = 1.0 - least / before if ridge.kernel.is_smooth and before > 0.0 else 0.0
    few, many, most = settings.TREND_LANDMARKS
    several, clear = settings.TREND_GAINS
    n = most if gain > clear else many if gain > several or order.size <= many else few
    kernel = ridge.kernel.around(all_rows[np.sort(order[:n])])
    if kernel.linear > 0.0:
        with_linear, penalty = ridge.lowest(alpha)
        if with_linear < (1.0 - settings.TREND_LINEAR_GAIN) * least:
            return kernel, penalty
    return replace(kernel, linear=0.0), alpha


def _tried_kernels(
    plain: Trend,
    factors: Sequence[FloatArray],
    rows: FloatArray,
    Y: FloatArray,
    weight: FloatArray,
    folds: Folds,
    most_landmarks: int,
) -> list[_Tried]:
    """Return kernels that were tried with few landmarks, the best ones first.

    All widths are tried at the first of the factors, those of Laplace kernels downhill from the
    middle one. The best of them are tried at the other factors, and the best smooth kernel along
    other directions, as long as its error falls.
    """
    some = rows[: min(settings.TREND_SAMPLE_LANDMARKS, most_landmarks)]
    found: list[_Tried] = []

    def error(kernel: Trend) -> float:
        ridge = _Ridge(kernel.around(some), rows, Y, weight, folds)
        found.append(_Tried(*ridge.lowest(3, 2), ridge))
        return found[-1].error

    def laplace(k: int) -> float:
        return error(replace(plain, lifetimes=settings.TREND_SCALES[k] * plain.lifetimes))

    for scale in settings.TREND_SMOOTH_SCALES:
        error(smooth(plain, scale, some))
    downhill(cache(laplace), 1, len(settings.TREND_SCALES))
    for _, _, ridge in sorted(found, key=_error)[: settings.TREND_SHAPES]:
        for factor in factors[1:]:
            error(with_factor(ridge.kernel, factor, some))
    best = min((one for one in found if one.ridge.kernel.is_smooth), key=_error)
    if rows.shape[1] <= settings.TREND_TURN_COLUMNS and (folds.of_row < 0).any():
        base = best.ridge.kernel.factor
        for power in settings.TREND_TURN_POWERS:
            turned = with_factor(best.ridge.kernel, directions(best, rows, base, power), some)
            if error(turned) > (1.0 - settings.TREND_TURN_GAIN) * best.error:
                found.pop()
                break
            best = found[-1]
    return sorted(found, key=_error)


class _Tried(NamedTuple):
    """The least error of a kernel, the number of its penalty there, and its sums."""

    error: float
    penalty: int
    ridge: _Ridge


def _error(tried: _Tried) -> float:
    return tried.error


def directions(tried: _Tried, rows: FloatArray, base: FloatArray, power: float) -> FloatArray:
    r"""Return directions in which a smooth trend changes, (D, D), as the factor of its kernel.

    With :math:`M \propto \sum_x \nabla g(x) \nabla g(x)^\top` they are the columns of
    :math:`\operatorname{diag}(b) M^{p / 2}`; gradients are those in rows times the factors b. The
    trend g is fitted to the rows that are never held out.
    """
    ridge, kernel = tried.ridge, tried.ridge.kernel
    Z, every = kernel.landmarks, tuple(range(ridge.folds.n_folds))
    coef, _ = ridge.weights(settings.TREND_ALPHAS[tried.penalty], every)
    seen = kernel.seen(rows)
    E = np.exp(-cdist(seen, Z) / kernel.width)
    M = np.zeros((seen.shape[1],) * 2)
    for c in coef.T[: coef.shape[1] // 2]:
        slope = seen * (E @ c)[:, None] - E @ (c[:, None] * Z)  # times the squared width
        M += slope.T @ slope
    turn = (kernel.factor.T / base).T if kernel.factor.ndim == 2 else np.diag(kernel.factor / base)
    M = turn @ M @ turn.T
    M /= np.trace(M) / len(M) or 1.0
    M.flat[:: len(M) + 1] += settings.TREND_TURN_PRIOR
    values, vectors = linalg.eigh(M)
    out: FloatArray = base[:, None] * vectors * values ** (power / 2.0)
    return out


def smooth(kernel: Trend, scale: float, rows: FloatArray) -> Trend:
    """Return a smooth kernel; ``scale`` is the mean distance of rows over its width."""
    none = np.empty(0)
    return replace(kernel, width=_spread(kernel, rows) / scale, lifetimes=none, shares=none)


def with_factor(kernel: Trend, factor: FloatArray, rows: FloatArray) -> Trend:
    """Return the kernel with another factor; the mean distance over its width stays."""
    other = replace(kernel, factor=factor)
    return replace(other, width=kernel.width * _spread(other, rows) / _spread(kernel, rows))


def _spread(kernel: Trend, rows: FloatArray) -> float:
    seen = kernel.seen(rows[:300])
    return float(cdist(seen, seen).mean()) or 1.0


def downhill(error: Callable[[int], float], start: int, n: int, step: int = 1) -> int:
    """Return the number, from 0 to n - 1, at which a search downhill from ``start`` ends."""
    at = start
    for move in (-step, step):
        while 0 <= at + move < n and error(at + move) < error(at):
            at += move
    return at


def landmark_kernel(kernel: Trend) -> FloatArray:
    """Return the kernel between landmarks, and beside it 1 for the linear part."""
    inner = kernel.kernel(kernel.landmarks)
    inner.flat[:: inner.shape[0] + 1] += settings.LANDMARK_JITTER
    if kernel.linear > 0.0:
        inner = linalg.block_diag(inner, np.eye(kernel.landmarks.shape[1]))
    return np.asfortranarray(inner)


class _Ridge:
    """Sums of ridge regression on landmarks, for all rows and for each part held out.

    With k(x, Z) the kernels of a row and K those between landmarks, coefficients c minimise
    Σ s (y - b - k(x, Z) c)² + α cᵀ K c.
    """

    def __init__(
        self,
        kernel: Trend,
        rows: FloatArray,
        Y: FloatArray,
        weight: FloatArray,
        folds: Folds,
        tell: Tell = no_one,
    ) -> None:
        self.kernel, self.folds = kernel, folds
        self.inner = landmark_kernel(kernel)
        m, n_parts = self.inner.shape[0], folds.n_folds + 1
        self.gram = [np.zeros((m, m), order="F") for _ in range(n_parts)]  # upper triangles
        self.total, self.sums = np.zeros(n_parts), np.zeros((n_parts, Y.shape[1]))
        self.mass, self.square = np.zeros((n_parts, m)), np.zeros((n_parts, Y.shape[1]))
        self.cross = np.zeros((n_parts, m, Y.shape[1]))
        done = 0
        for fold in range(-1, folds.n_folds):  # -1, the last entry: rows never held out
            own = np.flatnonzero(folds.of_row == fold)
            for begin in range(0, own.size, settings.TREND_BLOCK):
                some = own[begin : begin + settings.TREND_BLOCK]
                k, s, y = kernel.at(rows[some]), weight[some], Y[some]
                self.cross[fold] += k.T @ (s[:, None] * y)
                self.mass[fold] += s @ k
                self.total[fold] += s.sum()
                self.sums[fold] += s @ y
                self.square[fold] += s @ y**2
                k *= np.sqrt(s)[:, None]
                blas.dsyrk(1.0, k.T, beta=1.0, c=self.gram[fold], overwrite_c=1)
                done += len(k)
                tell(done / len(rows))
        for fold in range(folds.n_folds):  # from here on the last matrix is that of all rows
            self.gram[-1] += self.gram[fold]
        self._room = np.empty((m, m), order="F")
        self._found: dict[tuple[float, tuple[int, ...]], tuple[FloatArray, FloatArray]] = {}

    def weights(self, alpha: float, out: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        """Return coefficients, (m, 2K), and intercepts (2K,), fitted without the folds ``out``.

        The first K are those of all features, the others those of the kernel alone. A penalty that
        is lost in rounding errors is raised until it is not.
        """
        if (alpha, out) in self._found:
            return self._found[alpha, out]
        parts = [-1] + [p for p in range(self.folds.n_folds) if p not in out]
        total = self.total[parts].sum()
        mean_y, mean_b = self.sums[parts].sum(axis=0) / total, self.mass[parts].sum(axis=0) / total
        b = self.cross[parts].sum(axis=0) - total * np.outer(mean_b, mean_y)
        for penalty in alpha * 10.0 ** np.arange(20):
            A = np.multiply(self.inner, penalty, out=self._room)
            A += self.gram[-1]
            for fold in out:
                A -= self.gram[fold]
            A = blas.dsyr(-total, mean_b, a=A, overwrite_a=1)  # only the upper triangle is set
            factor, failed = lapack.dpotrf(A, clean=0, overwrite_a=1)
            if not failed:
                break
        half, _ = lapack.dtrtrs(factor, b, trans=1)
        both = np.hstack([half, half])
        both[self.kernel.landmarks.shape[0] :, b.shape[1] :] = 0.0
        w, _ = lapack.dtrtrs(factor, both)
        self._found[alpha, out] = w, np.tile(mean_y, 2) - mean_b @ w
        return self._found[alpha, out]

    def trend(self, alpha: float, *out: int) -> Trend:
        """Return the trend at a penalty, fitted without the folds ``out``."""
        (w, intercept), K = self.weights(alpha, out), self.sums.shape[1]
        return replace(self.kernel, coef=w[:, :K].copy(), intercept=intercept[:K].copy())

    def lowest(self, start: int, step: int = 1, *, alone: bool = False) -> tuple[float, int]:
        """Return the least error, and the number of its penalty.

        The search goes downhill from penalty ``start``, every ``step``-th of them.
        """
        error = cache(lambda k: self.error(settings.TREND_ALPHAS[k], alone=alone))
        at = downhill(error, start, len(settings.TREND_ALPHAS), step)
        return error(at), at

    def error(self, alpha: float, *, alone: bool = False) -> float:
        """Return the squared error of the rows held out, from their sums.

        It is that of the kernel ``alone``, or with the linear part, if there is one.
        """
        total, K = 0.0, self.sums.shape[1]
        own = slice(K, None) if alone else slice(K)
        for fold in range(self.folds.n_folds):
            w, b = (part[..., own] for part in self.weights(alpha, (fold,)))
            n, y, k = self.total[fold], self.sums[fold], self.mass[fold]
            total += float(
                np.sum(self.square[fold])
                - 2.0 * np.sum(w * self.cross[fold])
                - 2.0 * b @ y
                + np.sum(w * blas.dsymm(1.0, self.gram[fold], w))
                + 2.0 * b @ (k @ w)
                + n * (b @ b)
            )
        return total
