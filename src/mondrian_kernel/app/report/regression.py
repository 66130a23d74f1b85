"""The contents of a report on a regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import r2_score, root_mean_squared_error

from mondrian_kernel._settings import VARIANCE_DENSE_SIZE
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.report.at_lifetimes import Slider
from mondrian_kernel.app.report.dims import dims_section
from mondrian_kernel.app.report.figure import (
    Content,
    Figure,
    Section,
    Table,
    number,
    percent,
    plain,
)
from mondrian_kernel.app.report.plane import plane_sections
from mondrian_kernel.app.report.the_path import path_figures, path_words

_SHOWN, _BARS = 300, 80
# Rows whose intervals are looked at: few where each is solved for with a factor of 8000 rows.
_INTERVAL_ROWS, _INTERVAL_ROWS_MANY = 1000, 50
_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_COVERAGE = 0.9


def regression_content(
    estimator: Any,
    X_train: FloatArray,
    y_train: FloatArray,
    X_test: FloatArray,
    y_test: FloatArray,
    target: str,
    names: Sequence[str],
) -> Content:
    """Tiles, words and figures on a fitted regressor; rows are in random order."""
    predicted = estimator.predict(X_test)
    error = root_mean_squared_error(y_test, predicted)
    guess = root_mean_squared_error(y_test, np.full(y_test.size, y_train.mean()))
    slider = Slider.of(estimator, X_train, y_train)
    X_shown, y_shown = X_test[:_SHOWN], y_test[:_SHOWN]
    along = np.array([model.predict(X_shown) for model in slider.models])
    errors = np.sqrt(np.mean((along - y_shown) ** 2, axis=1))
    along[slider.chosen] = predicted[:_SHOWN]

    covered_words, covered, interval_section = _intervals(
        estimator, y_train.size, X_test, y_test, target
    )
    dims_words, dims = dims_section(
        estimator, X_test, y_test, names, "neg_root_mean_squared_error", "error"
    )
    summary = [
        f"“{target}” was learnt from {len(names)} {'dim' if len(names) == 1 else 'dims'} of "
        f"{y_train.size} rows. On {y_test.size} rows that were not fitted the error (root mean "
        f"squared) is {number(error)}; always guessing the mean gives {number(guess)}."
        + _explained(y_test, predicted),
        *path_words(estimator),
        f"The noise that remains has a standard deviation of about "
        f"{number(float(np.sqrt(estimator.noise_variance_)))}.",
        covered_words,
        dims_words,
    ]
    if error >= guess:
        summary.append("Mind: the model is no better than the mean of the rows it was fitted on.")
    sections = [
        Section(
            "The lifetime path",
            path_figures(slider, "root mean squared error", errors),
            moves=True,
        ),
        Section(
            "Predictions at this width", _prediction_figures(target, y_shown, along, slider.chosen),
            moves=True,
        ),
        *plane_sections(
            slider.shown, X_train, names, lambda m, rows: m.predict(rows), f"Predicted {target}"
        ),
        interval_section,
        dims,
    ]  # fmt: skip
    readouts = slider.readouts(
        f"error {number(root_mean_squared_error(y_shown, said))} on {y_shown.size} test rows"
        for said in along
    )
    tiles = [
        ("error on test rows", number(error)),
        ("guessing the mean", number(guess)),
        ("lifetime λ", number(estimator.lifetime_)),
        (f"inside {percent(_COVERAGE)} intervals", percent(covered)),
    ]
    return Content(tiles, summary, sections, slider.lifetimes.tolist(), slider.chosen, readouts)


def _explained(y: FloatArray, predicted: FloatArray) -> str:
    if y.size < 2 or np.ptp(y) == 0:
        return ""
    share = r2_score(y, predicted)
    return f" It explains {percent(share)} of the variance." if share > 0 else ""


def _prediction_figures(target: str, y: FloatArray, along: FloatArray, chosen: int) -> list[Figure]:
    ends = [min(y.min(), along.min()), max(y.max(), along.max())]
    residuals = y - along
    own = residuals[chosen]
    low, high = np.quantile(own, [0.25, 0.75])
    rows = zip(y, along[chosen], own, strict=True)
    points = {"type": "points", "xs": plain(along), "colour": "blue", "size": 2.5}
    scatter = Figure(
        "predicted", "Predicted against true",
        f"{y.size} test rows; on the line a prediction is right.",
        {
            "x": {"label": f"predicted {target}"}, "y": {"label": f"true {target}"},
            "layers": [
                {"type": "line", "x": plain(ends), "y": plain(ends), "colour": "grey"},
                {**points, "y": plain(y)},
            ],
        },
        Table(
            [f"true {target}", "predicted by the model", "residual"],
            [[number(value) for value in row] for row in rows],
        ),
    )  # fmt: skip
    residual = Figure(
        "residuals", "Residuals",
        "True minus predicted, against the prediction. Without a pattern nothing is left to learn. "
        f"Half of the model's residuals lie between {number(low)} and {number(high)}.",
        {
            "x": {"label": f"predicted {target}"}, "y": {"label": "true − predicted"},
            "layers": [
                {"type": "line", "x": plain(ends), "y": [0, 0], "colour": "grey"},
                {**points, "ys": plain(residuals)},
            ],
        },
    )  # fmt: skip
    return [scatter, residual]


def _intervals(
    estimator: Any, n_fitted: int, X: FloatArray, y: FloatArray, target: str
) -> tuple[str, float, Section]:
    few = min(n_fitted, estimator.features_.n_cells_) <= VARIANCE_DENSE_SIZE
    n = _INTERVAL_ROWS if few else _INTERVAL_ROWS_MANY
    X, y = X[:n], y[:n]
    ends = estimator.predict_interval(X, _LEVELS[-1])
    middle, widest = ends.mean(axis=1), (ends[:, 1] - ends[:, 0]) / 2
    # Half-widths are a factor of the row times one of the coverage: one row tells the latter.
    one = [np.ptp(estimator.predict_interval(X[:1], c)) / 2 for c in _LEVELS]
    half = np.outer(one, widest / widest[0]) if widest[0] > 0 else np.zeros((len(one), y.size))
    inside = (np.abs(y - middle) <= half * (1 + 1e-9)).mean(axis=1)
    asked = _LEVELS.index(_COVERAGE)
    covered = float(inside[asked])
    low, high = stats.binom.interval(0.95, y.size, _COVERAGE)
    in_line = low <= covered * y.size <= high
    words = (
        f"Of the {percent(_COVERAGE)} intervals {percent(covered)} hold the target, on {y.size} "
        f"test rows: {'in line with' if in_line else 'not in line with'} what was asked for (by "
        f"chance {percent(low / y.size)} to {percent(high / y.size)})."
    )
    levels = Figure(
        "coverage", "Coverage asked for and reached",
        f"Share of {y.size} test rows inside their intervals; on the line it is as asked for.",
        {
            "x": {"label": "asked for", "domain": [0.45, 1]},
            "y": {"label": "reached", "domain": [min(0.45, float(inside.min())), 1]},
            "layers": [
                {"type": "line", "x": [0.45, 1], "y": [0.45, 1], "colour": "grey"},
                {"type": "line", "x": plain(_LEVELS), "y": plain(inside), "colour": "blue"},
                {"type": "points", "x": plain(_LEVELS), "y": plain(inside), "colour": "blue",
                 "size": 4},
            ],
        },
        Table(
            ["asked for", "reached", "mean width"],
            [[percent(c), percent(s), number(2 * h.mean())]
             for c, s, h in zip(_LEVELS, inside, half, strict=True)],
        ),
    )  # fmt: skip
    return words, covered, Section("Intervals", [_bars(y, middle, half[asked], target), levels])


def _bars(y: FloatArray, middle: FloatArray, half: FloatArray, target: str) -> Figure:
    y, middle, half = y[:_BARS], middle[:_BARS], half[:_BARS]
    order = np.argsort(middle)
    y, middle, half = y[order], middle[order], half[order]
    place = np.arange(y.size)
    out = np.abs(y - middle) > half

    def points(some: NDArray[np.bool_], colour: str, name: str) -> dict[str, Any]:
        return {"type": "points", "x": plain(place[some]), "y": plain(y[some]), "colour": colour,
                "size": 2.8, "name": name}  # fmt: skip

    return Figure(
        "intervals", f"{percent(_COVERAGE)} intervals",
        f"{y.size} test rows sorted by prediction; {int(out.sum())} targets lie outside.",
        {
            "x": {"label": "test rows, sorted by prediction", "ticks": False},
            "y": {"label": target},
            "layers": [
                {"type": "ranges", "x": plain(place), "low": plain(middle - half),
                 "high": plain(middle + half), "colour": "blue", "name": "interval"},
                points(~out, "ink", "target, inside"),
                points(out, "red", "target, outside"),
            ],
        },
        Table(
            ["lower", "predicted", "upper", f"true {target}"],
            [[number(m - h), number(m), number(m + h), number(t)]
             for m, h, t in zip(middle, half, y, strict=True)],
        ),
    )  # fmt: skip
