"""Choose the kernel of a trend, and fit it by ridge regression on landmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

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
    trends = [fit.trend(alpha, fold) for fold in range(-1, folds.n_folds)]
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

    Kernels are compared on the first rows in a random ``order``: all at the first of the factors,
    the best of them at the others, and the best of these once more with more landmarks. Laplace
    kernels are searched downhill from the middle one. The winner is tried with a linear part, which
    takes no further factors. It gets yet more landmarks if it is smooth and gained from more. Up to
    1024 rows, all are landmarks.
    """
    sample = order[: settings.TREND_SAMPLE_ROWS]
    rows, Y, weight = all_rows[sample], Y[sample], weight[sample]
    folds = draw_folds(rows.shape[0], seed).first(settings.TREND_FOLDS)
    none, zero, free = np.empty(0), np.zeros(Y.shape[1]), np.full(Y.shape[1], np.inf)
    some = rows[: min(settings.TREND_SAMPLE_LANDMARKS, max(rows.shape[0] // 2, 1))]
    coef = np.empty((some.shape[0], Y.shape[1]))
    ends = np.quantile(rows, [settings.TREND_END, 1.0 - settings.TREND_END], axis=0)
    kernels = []
    for factor in factors:
        seen = (np.clip(some, *ends) - ends.mean(axis=0)) * factor
        spread = float(cdist(seen[:300], seen[:300]).mean()) or 1.0
        widths = [(spread / c, none, none) for c in settings.TREND_SMOOTH_SCALES]
        widths += [(1.0, c * metric.lifetimes, metric.shares) for c in settings.TREND_SCALES]
        kernels.append([Trend(ends, factor, seen, coef, zero, *w, -free, free) for w in widths])
    if folds.n_folds == 0:
        return kernels[0][-1].around(all_rows), 0

    def fit(kernel: Trend) -> _Ridge:
        return _Ridge(kernel, rows, Y, weight, folds)

    found: dict[tuple[int, int], tuple[float, int]] = {}

    def error(own: int, shape: int) -> float:
        if (own, shape) not in found:
            found[own, shape] = fit(kernels[own][shape]).lowest(3, 2)
        return found[own, shape][0]

    n_smooth = len(settings.TREND_SMOOTH_SCALES)
    for shape in range(n_smooth):
        error(0, shape)
    downhill(lambda k: error(0, n_smooth + k), 1, len(settings.TREND_SCALES))
    for _, shape in sorted(found, key=found.__getitem__)[: settings.TREND_SHAPES]:
        for own in range(1, len(factors)):
            error(own, shape)
    more = rows[: min(settings.TREND_FINAL_LANDMARKS, max(rows.shape[0] // 2, 1))]
    finals: list[tuple[float, int, float, _Ridge]] = []
    for own, shape in sorted(found, key=found.__getitem__)[: settings.TREND_FINALISTS]:
        kernel, (before, alpha) = kernels[own][shape].around(more), found[own, shape]
        size = float(np.sqrt(np.mean(np.sum(kernel.landmarks**2, axis=1))))
        linear = settings.TREND_LINEAR / size if size > 0.0 else 0.0
        ridge = fit(replace(kernel, linear=linear))
        finals.append((*ridge.lowest(alpha, alone=True), before, ridge))
    least, alpha, before, ridge = min(finals, key=lambda final: final[0])
    gain = 1.0 - least / before if ridge.kernel.lifetimes.size == 0 and before > 0.0 else 0.0
    few, many, most = settings.TREND_LANDMARKS
    several, clear = settings.TREND_GAINS
    size = most if gain > clear else many if gain > several or order.size <= many else few
    kernel = ridge.kernel.around(all_rows[np.sort(order[:size])])
    if kernel.linear > 0.0:
        with_linear, penalty = ridge.lowest(alpha)
        if with_linear < (1.0 - settings.TREND_LINEAR_GAIN) * least:
            return kernel, penalty
    return replace(kernel, linear=0.0), alpha


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
        self._found: dict[tuple[float, int], tuple[FloatArray, FloatArray]] = {}

    def _weights(self, alpha: float, fold: int) -> tuple[FloatArray, FloatArray]:
        """Return coefficients, (m, 2K), and intercepts (2K,), fitted without a fold.

        The first K are those of all features, the others those of the kernel alone. Without fold
        -1 is with all rows. A penalty that is lost in rounding errors is raised until it is not.
        """
        if (alpha, fold) in self._found:
            return self._found[alpha, fold]
        parts = [-1] + [p for p in range(self.folds.n_folds) if p != fold]
        total = self.total[parts].sum()
        mean_y, mean_b = self.sums[parts].sum(axis=0) / total, self.mass[parts].sum(axis=0) / total
        b = self.cross[parts].sum(axis=0) - total * np.outer(mean_b, mean_y)
        for penalty in alpha * 10.0 ** np.arange(20):
            A = np.multiply(self.inner, penalty, out=self._room)
            A += self.gram[-1]
            if fold >= 0:
                A -= self.gram[fold]
            A = blas.dsyr(-total, mean_b, a=A, overwrite_a=1)  # only the upper triangle is set
            factor, failed = lapack.dpotrf(A, clean=0, overwrite_a=1)
            if not failed:
                break
        half, _ = lapack.dtrtrs(factor, b, trans=1)
        both = np.hstack([half, half])
        both[self.kernel.landmarks.shape[0] :, b.shape[1] :] = 0.0
        w, _ = lapack.dtrtrs(factor, both)
        self._found[alpha, fold] = w, np.tile(mean_y, 2) - mean_b @ w
        return self._found[alpha, fold]

    def trend(self, alpha: float, fold: int = -1) -> Trend:
        """Return the trend at a penalty, fitted without a fold (-1: to all rows)."""
        (w, intercept), K = self._weights(alpha, fold), self.sums.shape[1]
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
            w, b = (part[..., own] for part in self._weights(alpha, fold))
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
