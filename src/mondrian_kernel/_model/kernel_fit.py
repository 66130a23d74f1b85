"""Fit a model that learns its widths and its noise: a trend, and trees for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.levels import LevelOperator
from mondrian_kernel._model.columns import Metric
from mondrian_kernel._model.fitted import FittedModel, TrainingRows
from mondrian_kernel._model.folds import Folds, draw_folds
from mondrian_kernel._model.levels_fit import (
    held_out_errors,
    losses_until_lowest,
    lowest_weights,
    solve_levels,
)
from mondrian_kernel._model.spread import fit_spread
from mondrian_kernel._model.trend import Trend
from mondrian_kernel._model.trend_fit import downhill, fit_trend
from mondrian_kernel._path.driver import Stages
from mondrian_kernel._trees.checks import check_budget, check_memory, check_ranges
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.levels import Levels, grow_trees
from mondrian_kernel._trees.threads import Tell, no_one, one_blas_thread
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class KernelFit:
    """A fitted model, and what it said of rows that were held out.

    Attributes
    ----------
    model : FittedModel
        The model.
    operator : LevelOperator
        Cells of the rows.
    folds : Folds
        Parts of the rows that were held out.
    predictions : ndarray of shape (n, K)
        Predictions of the n rows held out.
    without : callable
        Returns the model that was fitted without a part of the rows, by the number of the part.
    """

    model: FittedModel
    operator: LevelOperator
    folds: Folds
    predictions: FloatArray
    without: Callable[[int], FittedModel]

    @property
    def rows(self) -> NDArray[np.intp]:
        """Rows that were held out."""
        return self.folds.held_out


@one_blas_thread
def fit_kernel(
    rows: FloatArray,
    Y: FloatArray,
    weight: FloatArray | None,
    seed: int,
    metric: Metric,
    *,
    n_estimators: int | str,
    max_cells: int | None,
    n_jobs: int | None,
    stages: Stages,
) -> KernelFit:
    """Fit a trend and the trees.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Rows as they came.
    Y : ndarray of shape (N, K)
        Targets.
    weight : ndarray of shape (N,) or None
        Positive sample weights.
    seed : int
        Seed of landmarks, trees and rows held out.
    metric : Metric
        Columns and widths.
    n_estimators, max_cells, n_jobs
        Parameters of the model.
    stages : Stages
        Told when a stage is done: four of them.

    Returns
    -------
    fit : KernelFit
        The model, and predictions of rows held out.
    """
    s = np.ones(rows.shape[0]) if weight is None else weight
    s = s / s.mean()
    mean, std = np.average(Y, axis=0, weights=s), Y.std(axis=0)
    std = np.where(std > 0, std, 1.0)
    standard = (Y - mean) / std
    folds = draw_folds(rows.shape[0], seed)
    metric = metric.centred(rows)
    alike, factors = trend_metrics(metric, folds)
    T = alike.columns(rows)
    check_ranges(T)
    trends, at_rows = fit_trend(T, standard, s, folds, alike, factors, seed, stages)
    stages.done(f"trend on {trends[0].landmarks.shape[0]} landmarks")
    rest = standard[:, None] - at_rows  # of the fit to all rows, and with each part held out
    by_fold = _combined(rest[:, 1:], seed)

    def losses(operator: LevelOperator, some: NDArray[np.intp]) -> Callable[..., FloatArray]:
        return held_out_errors(operator, by_fold[some], folds.take(some))

    metric = choose_metric(rows, s, folds, metric, losses, seed, n_jobs)
    T, trends = metric.columns(rows), seen_by_trees(trends, alike, metric)
    stages.done("relevances compared")
    tell = stages.teller("growing trees")
    trees, levels, leaf, operator = grow_levels(T, s, seed, n_estimators, max_cells, n_jobs, tell)
    stages.done(f"{trees.n_trees} trees grown")
    v = _choose_weights(operator, by_fold, folds, levels.n_levels, seed)
    levels = replace(levels, weights=v / v.sum())
    K, n_fits = Y.shape[1], folds.n_folds + 1
    fitted = np.hstack([np.ones((T.shape[0], 1)), folds.fitted()])
    fitted = np.repeat(s[:, None] * fitted, K, axis=1)
    each = np.repeat(v[:, None], n_fits * K, axis=1)
    tell = stages.teller("solving")
    sums, of_cells = solve_levels(operator, rest.reshape(-1, n_fits * K), fitted, each, tell)
    predictions = held_out = np.empty((0, K))
    if folds.n_folds:
        predictions = folds.take_held_out(
            at_rows[:, 1:] + of_cells[:, K:].reshape(-1, n_fits - 1, K)
        )
        held_out = std * folds.take_held_out(rest[:, 1:])
    rest, of_cells = rest[:, 0], of_cells[:, :K]
    stages.done("weights of widths and cells")

    def without(fold: int) -> FittedModel:
        own = sums[:, (1 + fold) * K : (2 + fold) * K]
        weights = cell_weights(levels, v, own, std)
        trend = trends[1 + fold].rescaled(std, mean)
        return replace(model, cell_weights=weights, trend=trend, rows=None)

    model = FittedModel(
        trees=trees,
        levels=levels,
        cell_weights=cell_weights(levels, v, sums[:, :K], std),
        intercept=np.zeros(Y.shape[1]),
        columns=metric.columns,
        alpha=float(1.0 / v.sum()),
        seed=seed,
        signal=std**2 * np.maximum(v.sum() * (s @ (rest * (rest - of_cells))), 0.0) / T.shape[0],
        rows=TrainingRows(leaf, std * rest, s, T, held_out),
        trend=trends[0].rescaled(std, mean),
    )
    return KernelFit(model, operator, folds, std * predictions + mean, without)


def grow_levels(
    T: FloatArray,
    weight: FloatArray,
    seed: int,
    n_estimators: int | str,
    max_cells: int | None,
    n_jobs: int | None,
    tell: Tell = no_one,
) -> tuple[Trees, Levels, IntArray, LevelOperator]:
    """Return trees, their cells at the planned lifetimes, the leaves of rows, and products."""
    lifetimes, n_trees = plan_trees(T, seed, n_estimators, max_cells)
    trees, leaf = grow_trees(T, float(lifetimes[-1]), n_trees, seed, max_cells, n_jobs, tell)
    levels = Levels.of(trees, np.minimum(lifetimes, trees.lifetime), np.ones(lifetimes.size))
    operator = LevelOperator(trees, leaf, levels, weight, T, centre=False, n_jobs=n_jobs)
    return trees, levels, leaf, operator


def trend_metrics(metric: Metric, folds: Folds) -> tuple[Metric, list[FloatArray]]:
    """Return the metric with columns more alike, and factors of its columns to choose from.

    The factors lead to each of the metrics that a trend may have, itself first.
    """
    if folds.n_folds == 0 or np.ptp(metric.columns.relevance) == 0:
        return metric, [np.ones(metric.columns.scale.size)]
    metrics = [metric.raised(power) for power in settings.TREND_POWERS]
    return metrics[0], [own.columns.relevance / metrics[0].columns.relevance for own in metrics]


def seen_by_trees(trends: list[Trend], alike: Metric, metric: Metric) -> list[Trend]:
    """Return trends of rows in one metric as trends of rows in another one."""
    unit = metric.columns.relevance / alike.columns.relevance
    return [
        replace(trend, ends=trend.ends * unit, factor=(trend.factor.T / unit).T) for trend in trends
    ]


def choose_metric(
    rows: FloatArray,
    weight: FloatArray,
    folds: Folds,
    metric: Metric,
    losses: Callable[[LevelOperator, NDArray[np.intp]], Callable[[FloatArray], FloatArray]],
    seed: int,
    n_jobs: int | None,
) -> Metric:
    """Return the metric for the trees: relevances raised to the power with the least loss.

    What a trend leaves of y may depend on fewer columns than y does, or on more. And relevances are
    learnt from small samples, which cannot tell from noise what matters in many rows. So a few
    trees are fitted with each power, from one to the next as long as the loss falls.

    Parameters
    ----------
    rows, weight : ndarrays of shape (N, D) and (N,)
        Rows as they came, and their weights.
    folds : Folds
        Parts of the rows that are held out.
    metric : Metric
        The metric that was learnt.
    losses : callable
        Takes the cells of some rows, and the numbers of these rows. Returns a function from weights
        of the levels (L, J) to the losses (J,) of rows held out.
    seed : int
        Seed of the rows and trees.
    n_jobs : int or None
        Threads.

    Returns
    -------
    metric : Metric
        The metric for the trees.
    """
    if folds.n_folds == 0 or np.ptp(metric.columns.relevance) == 0:
        return metric
    order = np.random.default_rng([seed, 8]).permutation(rows.shape[0])
    some = np.sort(order[: int(np.clip(order.size // 2, *settings.METRIC_ROWS))])
    rows, weight, powers = rows[some], weight[some], settings.METRIC_POWERS

    def along(power: float, noises: Sequence[float]) -> FloatArray:
        T = metric.raised(power).columns(rows)
        operator = grow_levels(T, weight, seed, settings.METRIC_TREES, None, n_jobs)[-1]
        loss = losses(operator, some)
        equal = np.ones((settings.LEVEL_COUNT, 1))
        return losses_until_lowest(lambda noise: loss(np.exp(noise) * equal), noises)[:, 0]

    start = len(powers) // 2
    first = along(powers[start], settings.LEVEL_NOISE)
    noise = settings.LEVEL_NOISE[int(np.argmin(first))]  # all others are compared at this one

    @cache
    def loss_of(k: int) -> float:
        return float(first.min() if k == start else along(powers[k], [noise])[0])

    return metric.raised(powers[downhill(loss_of, start, len(powers))])


def _choose_weights(
    operator: LevelOperator, by_fold: FloatArray, folds: Folds, n_levels: int, seed: int
) -> FloatArray:
    """Return the weights of the levels, chosen with some of the trees and some of the rows."""
    n_rows = folds.of_row.size
    most = int(np.clip(settings.LEVEL_ROWS_SHARE * n_rows, *settings.LEVEL_ROWS))
    operator = operator.with_trees(settings.LEVEL_TREES)
    if n_rows > most:
        some = np.sort(np.random.default_rng([seed, 7]).permutation(n_rows)[:most])
        operator, by_fold = operator.take(some), by_fold[some]
        folds = folds.take(some)
    losses = held_out_errors(operator, by_fold, folds)
    return lowest_weights(losses, n_levels, folds.n_folds)


def with_spread(fit: KernelFit, Y: FloatArray) -> FittedModel:
    """Return the model with the spread of the errors of the rows that were held out."""
    model = fit.model
    assert model.rows is not None
    noise = model.signal * model.alpha
    held_out = fit.folds, fit.predictions, Y, noise, model.rows.X, model.seed
    spread = fit_spread(fit.operator, model.levels, *held_out)
    return replace(model, spread=replace(spread, cell_weights=_single(spread.cell_weights)))


def cell_weights(
    levels: Levels, v: FloatArray, sums: NDArray[np.float32], unit: FloatArray | float = 1.0
) -> FloatArray:
    r"""Return weights of the cells for the features of ``levels``, of values √(w_l / M).

    Values of cells are :math:`u v_l / M` times their ``sums`` (F, K), of single precision. So the
    weights are rounded to it: files are smaller.
    """
    each = np.repeat(v / np.sqrt(levels.weights * levels.n_trees), np.diff(levels.offset))
    return _single(unit * each[:, None] * sums)


def _single(weights: FloatArray) -> FloatArray:
    """Return weights with the digits of single precision, unless these cannot hold them."""
    with np.errstate(over="ignore"):
        single = weights.astype(np.float32)
    return single.astype(np.float64) if np.isfinite(single).all() else weights


def _combined(by_fold: FloatArray, seed: int) -> FloatArray:
    """Return a few random combinations of many outputs, by which errors are compared as well."""
    n_outputs = by_fold.shape[2]
    if n_outputs <= settings.LEVEL_OUTPUTS:
        return by_fold
    signs = np.random.default_rng([seed, 6]).choice(
        [-1.0, 1.0], size=(n_outputs, settings.LEVEL_OUTPUTS)
    )
    return np.asarray(by_fold @ signs)


def plan_sizes(
    shape: tuple[int, ...], n_estimators: int | str, max_cells: int | None
) -> tuple[int, float]:
    """Return the number of trees for rows of a shape, and the cells of each at its last lifetime.

    Raises MemoryError if the machine cannot hold them.
    """
    (n_rows, n_columns), n_trees = shape, n_estimators
    if isinstance(n_trees, str):
        n_trees = int(np.clip(n_rows / settings.TREE_ROWS, *settings.MODEL_TREES))
        n_trees = max(1, min(n_trees, settings.LEVEL_PAIRS_MOST // n_rows))
    check_budget(max_cells, n_trees)
    most = settings.LEVEL_BYTES / (2 * n_trees * (8 * n_columns + 44))
    cells = min(settings.LEVEL_CELLS_SHARE * n_rows, most)
    if max_cells is not None:
        cells = min(cells, max_cells / n_trees)
    check_memory(n_rows, fit_bytes(n_rows, n_columns, n_trees, cells))
    return n_trees, cells


def fit_bytes(n_rows: int, n_columns: int, n_trees: int, n_cells: float) -> float:
    """Return about how much memory a fit takes, with ``n_cells`` cells a tree."""
    node, column = settings.FIT_NODE_BYTES
    row, tree = settings.FIT_ROW_BYTES, settings.FIT_TREE_BYTES
    rows = n_rows * (row + settings.FIT_COLUMN_BYTES * n_columns + tree * n_trees)
    return rows + 2 * n_cells * n_trees * (node + column * n_columns)


def plan_trees(
    rows: FloatArray, seed: int, n_estimators: int | str, max_cells: int | None
) -> tuple[FloatArray, int]:
    """Return the lifetimes of the levels, and the number of trees.

    The last lifetime is that at which trees have a quarter as many cells as rows, within bounds.
    """
    n_trees, cells = plan_sizes(rows.shape, n_estimators, max_cells)
    growth = Growth(rows, settings.PILOT_TREES, seed, 1)
    budget = max(int(cells * settings.PILOT_TREES), settings.PILOT_TREES + 1)
    longest = growth.advance_within(np.finfo(float).max, budget)
    if not np.isfinite(longest) or longest > 1e300 or longest == 0:  # no cut left: rows all equal
        times = growth.cut_times
        longest = float(times[-1]) if times.size else 1.0
    return np.asarray(
        longest / settings.LEVEL_RATIO ** np.arange(settings.LEVEL_COUNT)[::-1]
    ), n_trees
