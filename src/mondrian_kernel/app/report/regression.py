"""The contents of a report on a regression."""

from __future__ import annotations

import numpy as np
from scipy import stats

from mondrian_kernel import _settings as settings
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.measure import Measured
from mondrian_kernel.app.report.page import (
    Content,
    Figure,
    Section,
    chart,
    layer,
    number,
    percent,
    rows_shown,
    table,
)
from mondrian_kernel.app.report.sections import (
    Curves,
    choice_words,
    importance_section,
    learnt_words,
    path_sections,
    plane_sections,
    worst_section,
)
from mondrian_kernel.plotting.interval import is_inside

_FIFTHS = ("lowest fifth", "second fifth", "middle fifth", "fourth fifth", "highest fifth")


def regression_content(measured: Measured, target: str) -> Content:
    """Return tiles, words and figures on a fitted regressor."""
    scores, y, predicted = measured.scores, measured.y_test, measured.predicted
    error, guess, boosting = scores["rmse"], scores["rmse_of_the_mean"], measured.boosting
    estimator = measured.estimator
    curves = Curves(lambda X: estimator.predict(X)[:, None], f"mean predicted {target}", [None])
    importance_words, importance = importance_section(measured, curves)
    interval_words, intervals = _intervals(measured, target)
    share = (
        f" The model explains {percent(scores['r2'])} of the variance." if scores["r2"] > 0 else ""
    )
    summary = [
        learnt_words(measured, f"“{target}”"),
        f"The error (root mean squared) is {number(error)}. HistGradientBoosting of scikit-learn "
        f"with its defaults, fitted to the same rows, has {number(boosting)}. Guessing the mean "
        f"gives {number(guess)}.{share}",
        *interval_words,
        importance_words,
        *choice_words(measured.saved),
    ]
    if error >= guess:
        summary.append("Note: the model is no better than the mean of the fitted rows.")
    low, high = measured.interval.T
    shown = {f"true {target}": y, "predicted": predicted, "lower": low, "upper": high}
    sections = [
        Section("Predictions", _prediction_figures(target, y, predicted)),
        intervals,
        importance,
        worst_section(measured, np.abs(y - predicted), shown),
        *plane_sections(measured, estimator.predict, f"Predicted {target}"),
        *path_sections(measured.saved),
    ]
    tiles = [
        (f"error on {y.size} test rows", number(error)),
        ("HistGradientBoosting, same rows", number(boosting)),
        ("guessing the mean, same rows", number(guess)),
        (f"inside {percent(settings.COVERAGE)} intervals", percent(scores["coverage"])),
    ]
    return Content(tiles, summary, sections)


def _prediction_figures(target: str, y: FloatArray, predicted: FloatArray) -> list[Figure]:
    some = np.random.default_rng(0).permutation(y.size)[: settings.POINTS_SHOWN]
    low, high = np.quantile(y - predicted, [0.25, 0.75])
    y_all, y, predicted = y, y[some], predicted[some]
    ends = [min(y.min(), predicted.min()), max(y.max(), predicted.max())]
    shown, x = rows_shown(y.size, y_all.size), f"predicted {target}"
    scatter = Figure(
        "predicted",
        "Predicted and true values",
        f"{shown}. Predictions on the line are right.",
        chart(
            x,
            f"true {target}",
            layer("line", "grey", x=ends, y=ends),
            layer("points", "blue", x=predicted, y=y, size=2.5),
        ),
        table([f"true {target}", "predicted", "residual"], y, predicted, y - predicted),
    )
    across = [predicted.min(), predicted.max()]
    residual = Figure(
        "residuals",
        "Residuals",
        f"{shown}: true minus predicted, against the prediction. A pattern means that more could "
        f"be learnt. Half of all residuals lie between {number(low)} and {number(high)}.",
        chart(
            x,
            "true − predicted",
            layer("line", "grey", x=across, y=[0, 0]),
            layer("points", "blue", x=predicted, y=y - predicted, size=2.5),
        ),
    )
    return [scatter, residual]


def _intervals(measured: Measured, target: str) -> tuple[list[str], Section]:
    """Return sentences on the coverage, and the section on intervals."""
    y, ends = measured.y_test, measured.intervals
    inside = is_inside(y, ends).mean(axis=1)
    covered = measured.scores["coverage"]
    low, high = stats.binom.interval(0.95, y.size, settings.COVERAGE) / np.array(y.size)
    agrees = "agrees" if low <= covered <= high else "does not agree"
    words = (
        f"{percent(covered)} of the test rows lie inside their {percent(settings.COVERAGE)} "
        f"intervals. This {agrees} with {percent(settings.COVERAGE)}: chance alone gives "
        f"{percent(low)} to {percent(high)}."
    )
    fifth_words, by_fifth = _by_fifth(measured)
    levels = np.array(settings.COVERAGE_LEVELS)
    coverage = Figure(
        "coverage",
        "Coverage asked for and reached",
        f"Share of the {y.size} test rows inside their intervals. On the line the two agree.",
        chart(
            {"label": "asked for", "domain": [0.45, 1]},
            {"label": "reached", "domain": [min(0.45, float(inside.min())), 1]},
            layer("line", "grey", x=[0.45, 1], y=[0.45, 1]),
            layer("line", "blue", x=levels, y=inside),
            layer("points", "blue", x=levels, y=inside, size=4),
        ),
        table(
            ["asked for", "reached", "mean width"],
            map(percent, levels),
            map(percent, inside),
            np.ptp(ends, axis=2).mean(axis=1),
        ),
    )
    figures = [by_fifth, coverage, _interval_bars(measured, target)]
    return [words, fifth_words], Section("Intervals", figures)


def _by_fifth(measured: Measured) -> tuple[str, Figure]:
    """Return a sentence and a figure on the coverage by fifths of the prediction."""
    parts = np.array_split(np.sort(measured.predicted), len(_FIFTHS))
    parts = [part for part in parts if part.size]  # of few rows the last ones are empty
    labels, rows = _FIFTHS[: len(parts)], np.array([part.size for part in parts])
    reached = np.array(measured.scores["coverage_by_fifth"])[: len(parts)]
    # One false alarm in twenty reports: each of five fifths has 99 %.
    low, high = np.array(stats.binom.interval(0.99, rows, settings.COVERAGE)) / rows
    off = [
        f"{'low' if reached[k] < low[k] else 'high'} in the {name} "
        f"({percent(reached[k])} of {rows[k]} rows)"
        for k, name in enumerate(labels)
        if not low[k] <= reached[k] <= high[k]
    ]
    words = "By fifths of the prediction the coverage is nowhere off by more than chance."
    if off:
        words = f"By fifths of the prediction the coverage is too {', too '.join(off)}."
    place = np.arange(rows.size)
    figure = Figure(
        "fifths",
        "Coverage by fifths of the prediction",
        "Test rows sorted by prediction, in five parts: the share inside "
        f"{percent(settings.COVERAGE)} intervals, and where chance alone leaves it in 99 of 100 "
        "cases.",
        chart(
            "share inside",
            {"label": "", "labels": labels},
            layer("ranges", "grey", "by chance", y=place, low=low, high=high),
            layer("points", "blue", "reached", x=reached, y=place, size=5),
        ),
        table(
            ["predictions", "from", "to", "rows", "inside", "by chance"],
            labels,
            [part[0] for part in parts],
            [part[-1] for part in parts],
            rows,
            map(percent, reached),
            [f"{percent(a)} to {percent(b)}" for a, b in zip(low, high, strict=True)],
        ),
    )
    return words, figure


def _interval_bars(measured: Measured, target: str) -> Figure:
    n_rows = measured.y_test.size
    some = np.random.default_rng(0).permutation(n_rows)[: settings.BARS_SHOWN]
    some = some[np.argsort(measured.predicted[some])]
    y, predicted, ends = measured.y_test[some], measured.predicted[some], measured.interval[some]
    place, (low, high), out = np.arange(y.size), ends.T, ~is_inside(y, ends)
    label, n_out = f"true {target}", int(out.sum())
    outside = "1 target lies" if n_out == 1 else f"{n_out} targets lie"
    return Figure(
        "intervals",
        f"{percent(settings.COVERAGE)} intervals",
        f"{rows_shown(y.size, n_rows)}, by prediction; {outside} outside.",
        chart(
            {"label": "test rows, sorted by prediction", "ticks": False},
            target,
            layer("ranges", "blue", "interval", x=place, low=low, high=high),
            layer("points", "ink", "target, inside", x=place[~out], y=y[~out], size=2.8),
            layer("points", "red", "target, outside", x=place[out], y=y[out], size=2.8),
        ),
        table(["lower", "predicted", "upper", label], low, predicted, high, y),
    )
