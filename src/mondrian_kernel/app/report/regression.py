"""The contents of a report on a regression."""

from __future__ import annotations

import numpy as np
from scipy import stats
from sklearn.metrics import r2_score, root_mean_squared_error

from mondrian_kernel._settings import (
    BARS_SHOWN,
    COVERAGE,
    COVERAGE_LEVELS,
    POINTS_SHOWN,
)
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.report.figures import (
    Content,
    Figure,
    Model,
    Section,
    Table,
    chart,
    importance_section,
    layer,
    number,
    number_table,
    percent,
    plane_sections,
)
from mondrian_kernel.app.report.lifetimes import Slider, choice_words, path_figures


def regression_content(model: Model) -> Content:
    """Return tiles, words and figures on a fitted regressor."""
    estimator, target, y_train, y_test = model.estimator, model.target, model.y_train, model.y_test
    predicted = estimator.predict(model.X_test)
    error = root_mean_squared_error(y_test, predicted)
    guess = root_mean_squared_error(y_test, np.full(y_test.size, y_train.mean()))
    slider = Slider.of(model)
    X_shown, y_shown = model.X_test[:POINTS_SHOWN], y_test[:POINTS_SHOWN]
    at_positions = np.array([small.predict(X_shown) for small in slider.models])
    errors = np.sqrt(np.mean((at_positions - y_shown) ** 2, axis=1))
    at_positions[slider.chosen] = predicted[:POINTS_SHOWN]

    coverage_words, covered, intervals = _intervals(model)
    importance_words, importance = importance_section(model, "neg_root_mean_squared_error", "error")
    columns = "1 column" if len(model.names) == 1 else f"{len(model.names)} columns"
    summary = [
        f"“{target}” was learnt from {columns} of {y_train.size} rows. On {y_test.size} rows that "
        f"were not fitted the error (root mean squared) is {number(error)}; always guessing the "
        f"mean gives {number(guess)}." + _explained(y_test, predicted),
        *choice_words(slider),
        "The noise has a standard deviation of about "
        f"{number(float(np.sqrt(estimator.noise_variance_)))}.",
        coverage_words,
        importance_words,
    ]
    if error >= guess:
        summary.append("Note: the model is no better than the mean of the fitted rows.")
    curves = path_figures(slider, "root mean squared error", errors)
    predictions = _prediction_figures(target, y_shown, at_positions, slider.chosen)
    sections = [
        Section("The lifetime path", curves, moves=True),
        Section("Predictions at this width", predictions, moves=True),
        *plane_sections(
            model, slider.shown, lambda m, rows: m.predict(rows), f"Predicted {target}"
        ),
        intervals,
        importance,
    ]
    readouts = slider.readouts(
        f"error {number(root_mean_squared_error(y_shown, values))} on {y_shown.size} test rows"
        for values in at_positions
    )
    tiles = [
        ("error on test rows", number(error)),
        ("guessing the mean", number(guess)),
        ("lifetime λ", number(estimator.lifetime_)),
        (f"inside {percent(COVERAGE)} intervals", percent(covered)),
    ]
    return Content(tiles, summary, sections, slider.lifetimes.tolist(), slider.chosen, readouts)


def _explained(y: FloatArray, predicted: FloatArray) -> str:
    if y.size < 2 or np.ptp(y) == 0:
        return ""
    share = r2_score(y, predicted)
    return f" It explains {percent(share)} of the variance." if share > 0 else ""


def _prediction_figures(
    target: str, y: FloatArray, at_positions: FloatArray, chosen: int
) -> list[Figure]:
    ends = [min(y.min(), at_positions.min()), max(y.max(), at_positions.max())]
    residuals = y - at_positions
    own = residuals[chosen]
    low, high = np.quantile(own, [0.25, 0.75])
    x = f"predicted {target}"
    diagonal = layer("line", "grey", x=ends, y=ends)
    scatter = Figure(
        "predicted",
        "Predicted against true",
        f"{y.size} test rows; on the line a prediction is right.",
        chart(
            x, f"true {target}", diagonal, layer("points", "blue", xs=at_positions, y=y, size=2.5)
        ),
        number_table(
            [f"true {target}", "predicted by the model", "residual"], y, at_positions[chosen], own
        ),
    )
    zero = layer("line", "grey", x=ends, y=[0, 0])
    points = layer("points", "blue", xs=at_positions, ys=residuals, size=2.5)
    residual = Figure(
        "residuals",
        "Residuals",
        "True minus predicted, against the prediction. A pattern means that more could be learnt. "
        f"Half of the model's residuals lie between {number(low)} and {number(high)}.",
        chart(x, "true − predicted", zero, points),
    )
    return [scatter, residual]


def _intervals(model: Model) -> tuple[str, float, Section]:
    """Return a sentence on the coverage, the coverage, and the section on intervals."""
    X, y = model.X_test, model.y_test
    ends = model.estimator.predict_interval(X, COVERAGE_LEVELS)
    inside = ((ends[..., 0] <= y) & (y <= ends[..., 1])).mean(axis=1)
    asked = COVERAGE_LEVELS.index(COVERAGE)
    covered = float(inside[asked])
    low, high = stats.binom.interval(0.95, y.size, COVERAGE)
    agrees = "agrees" if low <= covered * y.size <= high else "does not agree"
    words = (
        f"{percent(covered)} of {y.size} test rows lie inside their {percent(COVERAGE)} intervals. "
        f"This {agrees} with {percent(COVERAGE)}: chance alone gives {percent(low / y.size)} to "
        f"{percent(high / y.size)}."
    )
    levels = np.array(COVERAGE_LEVELS)
    widths = zip(levels, inside, np.ptp(ends, axis=2).mean(axis=1), strict=True)
    coverage = Figure(
        "coverage",
        "Coverage asked for and reached",
        f"Share of {y.size} test rows inside their intervals; on the line it is as asked for.",
        chart(
            {"label": "asked for", "domain": [0.45, 1]},
            {"label": "reached", "domain": [min(0.45, float(inside.min())), 1]},
            layer("line", "grey", x=[0.45, 1], y=[0.45, 1]),
            layer("line", "blue", x=levels, y=inside),
            layer("points", "blue", x=levels, y=inside, size=4),
        ),
        Table(
            ["asked for", "reached", "mean width"],
            [[percent(a), percent(r), number(w)] for a, r, w in widths],
        ),
    )
    some = slice(BARS_SHOWN)
    predicted = model.estimator.predict(X[some])
    bars = _interval_bars(y[some], predicted, ends[asked, some], model.target)
    return words, covered, Section("Intervals", [bars, coverage])


def _interval_bars(y: FloatArray, predicted: FloatArray, ends: FloatArray, target: str) -> Figure:
    order = np.argsort(predicted)
    y, predicted, (low, high) = y[order], predicted[order], ends[order].T
    place = np.arange(y.size)
    out = (y < low) | (high < y)
    x, label = {"label": "test rows, sorted by prediction", "ticks": False}, f"true {target}"
    return Figure(
        "intervals",
        f"{percent(COVERAGE)} intervals",
        f"{y.size} test rows sorted by prediction; {int(out.sum())} targets lie outside.",
        chart(
            x,
            target,
            layer("ranges", "blue", "interval", x=place, low=low, high=high),
            layer("points", "ink", "target, inside", x=place[~out], y=y[~out], size=2.8),
            layer("points", "red", "target, outside", x=place[out], y=y[out], size=2.8),
        ),
        number_table(["lower", "predicted", "upper", label], low, predicted, high, y),
    )
