"""Sections of every report: columns, worst rows, the plane of two columns, lifetimes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.measure import Measured
from mondrian_kernel.app.report.page import (
    Figure,
    Section,
    chart,
    layer,
    number,
    percent,
    plain,
    table,
)
from mondrian_kernel.plotting.partition import tree_partition

COLOURS = ("blue", "red", "green")  # of the classes that have a curve


class Curves(NamedTuple):
    """What a model predicts for rows as columns of numbers, and the names of these."""

    predict: Callable[[FloatArray], FloatArray]
    label: str
    names: Sequence[str | None]


def learnt_words(measured: Measured, target: str) -> str:
    """Return the sentences that a report begins with."""
    columns = "1 column" if len(measured.names) == 1 else f"{len(measured.names)} columns"
    words = (
        f"{target} was learnt from {columns} of {measured.y_train.size} rows. All numbers below "
        f"are measured on the same {measured.y_test.size} test rows, unless other rows are named. "
        "The fit has not seen them."
    )
    if measured.saved is not measured.fitted:
        words += " The saved model is then fitted to all rows; widths and importances are its own."
    return words


def importance_section(measured: Measured, curves: Curves) -> tuple[str, Section]:
    """Return a sentence on which columns matter, and the section on them."""
    names = measured.names
    mean, deviation, n_shuffles, measure, rows = measured.importance
    order = np.argsort(-mean, kind="stable")
    least = 2.0 * deviation / np.sqrt(n_shuffles - 1)  # two standard errors
    clear = [int(d) for d in order if mean[d] > least[d]]
    sentence = "No column matters clearly: the error stays the same when any of them is shuffled."
    if clear:
        listed = ", ".join(f"{names[d]} ({number(mean[d])})" for d in clear[:3])
        sentence = f"Columns that matter most ({measure} when shuffled): {listed}."
    unclear = len(names) - len(clear)
    verb = "makes" if unclear == 1 else "make"
    share = f"{unclear} of {len(names)} columns {verb} no" if unclear else "Every column makes a"
    caption = (
        f"{measure[0].upper()}{measure[1:]} on {rows} when one column is shuffled: "
        f"mean and standard deviation of {n_shuffles} shuffles. {share} clear difference. Columns "
        "with the same information share their effect."
    )
    if len(names) > settings.COLUMNS_SHOWN:
        caption += f" The first {settings.COLUMNS_SHOWN} of {len(names)} columns are drawn."
    shown = order[: settings.COLUMNS_SHOWN]
    place = np.arange(shown.size)
    low, high = (mean - deviation)[shown], (mean + deviation)[shown]
    spec = chart(
        measure,
        {"label": "", "labels": [names[d] for d in shown]},
        layer("bars", "blue", x=mean[shown], y=place),
        layer("ranges", "red", y=place, low=low, high=high),
    )
    head = ["column", measure, "standard deviation"]
    cells = table(head, [names[d] for d in order], mean[order], deviation[order])
    figure = Figure("columns", "Importance of the columns", caption, spec, cells)
    effects = [_effect(measured, d, curves) for d in clear[: settings.COLUMNS_DRAWN]]
    every = [value for effect in effects for value in effect.means.ravel()]
    drawn = [_dependence(effect, curves, [min(every), max(every)]) for effect in effects]
    return sentence, Section("Which columns matter", [figure, *drawn])


class Effect(NamedTuple):
    """Mean predictions (n, k) if all rows had the same value in a column, at n values.

    ``labels`` are categories, and None for numbers ``x``.
    """

    column: int
    name: str
    x: FloatArray
    labels: list[str] | None
    means: FloatArray
    n_rows: int


def _effect(measured: Measured, column: int, curves: Curves) -> Effect:
    """Return the effect of a column.

    The values are those of test rows: quantiles of numbers, and the commonest categories.
    """
    X, own = measured.X_test, measured.column_of == column
    words, labels = measured.words(column), None
    base = X[np.random.default_rng(0).permutation(X.shape[0])[: settings.DEPENDENCE_ROWS]]
    if measured.categories[column] is not None:
        texts = np.array([_word(word) for word in words])
        found, counts = np.unique(texts, return_counts=True)
        found = np.sort(found[np.argsort(-counts, kind="stable")[: settings.DEPENDENCE_POINTS]])
        rows = [int(np.flatnonzero(texts == word)[0]) for word in found]
        labels, x = [str(word) for word in found], np.arange(float(found.size))
    else:
        known = np.flatnonzero(words != None)  # noqa: E711 - by element
        known = known[np.argsort(X[known][:, own][:, 0], kind="stable")]
        shares = np.linspace(*settings.DEPENDENCE_RANGE, settings.DEPENDENCE_POINTS)
        place = (shares * (known.size - 1)).round().astype(int)
        x, first = np.unique(X[known[place]][:, own][:, 0], return_index=True)
        rows = known[place][first].tolist()
    means = np.empty((len(rows), len(curves.names)))
    for k, row in enumerate(rows):
        changed = base.copy()
        changed[:, own] = X[row, own]
        means[k] = curves.predict(changed).mean(axis=0)
    return Effect(column, measured.names[column], x, labels, means, base.shape[0])


def _dependence(effect: Effect, curves: Curves, ends: list[float]) -> Figure:
    """Draw an effect on an axis from ``ends[0]`` to ``ends[1]``, the same for all columns."""
    _, name, x, labels, means, n_rows = effect
    margin = 0.05 * (ends[1] - ends[0]) or 1.0
    predicted = {"label": curves.label, "domain": [ends[0] - margin, ends[1] + margin]}
    caption = (
        f"Mean prediction for {n_rows} test rows if all of them had the same “{name}” and their "
        "own values in the other columns."
    )
    many = list(zip(means.T, COLOURS, curves.names, strict=False))
    if labels is not None:
        dots = [layer("points", c, n, x=values, y=x, size=4.5) for values, c, n in many]
        spec = chart(predicted, {"label": "", "labels": labels}, *dots)
    else:
        low, high = settings.DEPENDENCE_RANGE
        caption += f" Dots are quantiles of the column, from {percent(low)} to {percent(high)}."
        lines = [layer("line", c, n, x=x, y=values) for values, c, n in many]
        dots = [layer("points", c, x=x, y=values, size=2.8) for values, c, _ in many]
        spec = chart(name, predicted, *lines, *dots)
    head = [name, *(n or curves.label for n in curves.names)]
    cells, title = table(head, labels or x, *means.T), f"Prediction by {name}"
    return Figure(f"dependence-{effect.column}", title, caption, spec, cells)


def worst_section(
    measured: Measured, badness: FloatArray, shown: dict[str, NDArray[Any]]
) -> Section:
    """Return the test rows with the largest ``badness``: what is shown, and their main columns."""
    worst = np.argsort(-badness, kind="stable")[: settings.WORST_ROWS]
    main = np.argsort(-measured.importance.mean, kind="stable")[: settings.WORST_COLUMNS].tolist()
    values = [measured.rows, *shown.values(), *(measured.words(d) for d in main)]
    caption = f"The {worst.size} of {badness.size} test rows that the model predicts worst"
    if len(measured.names) > settings.WORST_COLUMNS:
        caption += f", with their {settings.WORST_COLUMNS} most important columns"
    head = ["row", *shown, *(measured.names[d] for d in main)]
    cells = table(head, *([_word(column[i]) for i in worst] for column in values))
    title = "Look here for wrong data and for columns that are missing"
    return Section("The worst rows", [Figure("worst", title, f"{caption}.", None, cells)])


def _word(value: Any) -> str:
    if value is None:
        return "missing"
    return number(value) if isinstance(value, float) else str(value)


def plane_sections(
    measured: Measured,
    surface: Callable[[FloatArray], FloatArray],
    surface_name: str,
    classes: Sequence[str] | None = None,
) -> list[Section]:
    """Return the cells of a tree and the predicted surface, if the columns are two numbers.

    ``surface`` gives its value at rows: a number, or with ``classes`` the index of a class.
    """
    X, names, estimator = measured.X_train, measured.names, measured.estimator
    if len(names) != 2 or X.shape[1] != 2:
        return []
    partition = tree_partition(estimator.features_, 0, estimator.model_.columns)
    leaf = np.isinf(partition.time)
    low, high = X.min(axis=0), X.max(axis=0)
    axes = [{"label": names[d], "domain": plain([low[d], high[d]])} for d in (0, 1)]
    rows = X[np.random.default_rng(0).permutation(X.shape[0])[: settings.SURFACE_POINTS]]
    cells = layer("cells", "ink", lower=partition.lower[leaf], upper=partition.upper[leaf])
    points = layer("points", "ink", x=rows[:, 0], y=rows[:, 1], size=1.2)
    cells_figure = Figure(
        "partition",
        "The cells of one tree",
        f"{int(leaf.sum())} cells. This tree treats rows in the same cell as alike. The kernel of "
        f"two rows is the share of trees that treat them as alike. Dots are {len(rows)} of the "
        f"{X.shape[0]} fitted rows. Cuts in the empty space between them are not drawn.",
        chart(*axes, cells, points),
    )
    side = [np.linspace(low[d], high[d], settings.SURFACE_SIDE) for d in (0, 1)]
    values = surface(np.stack(np.meshgrid(*side), axis=-1).reshape(-1, 2))
    image: dict[str, Any] = {"type": "image", "side": settings.SURFACE_SIDE}
    if classes is None:
        least, most = float(values.min()), float(values.max())
        values = np.round(255 * (values - least) / ((most - least) or 1.0))
        caption = f"{surface_name}, from {number(least)} (dark) to {number(most)} (bright)."
        image["range"] = [number(least), number(most)]
    else:
        caption = f"{surface_name}, one colour for each class."
        image["classes"] = list(classes)
    image["bytes"] = b64encode(values.astype(np.uint8).tobytes()).decode("ascii")
    surface_figure = Figure("surface", "The predicted surface", caption, chart(*axes, image))
    return [Section("The plane of the two columns", [cells_figure, surface_figure])]


def choice_words(estimator: Any) -> list[str]:
    """Return sentences on how lifetime and alpha were chosen."""
    path, lifetime = _path(estimator), estimator.lifetime_
    if estimator.lifetime == "auto" and estimator.path_ is None:
        each = zip(estimator.lifetimes_, estimator.lifetime_weights_, strict=True)
        listed = ", ".join(f"{number(t)} ({percent(round(w, 3))})" for t, w in each)
        return [
            "The model has learnt a function of each column, a smooth trend, and the weights of "
            f"the lifetimes λ of its cells: {listed}. A larger λ means smaller cells and finer "
            "detail."
        ]
    how = "were given" if estimator.path_ is None else "come from a path too short to show"
    if path is not None:
        by = {"holdout": "the error on rows held out", "loo": "the leave-one-out error"}
        criterion = by.get(getattr(path, "criterion", "holdout"), "the marginal likelihood")
        how = f"were chosen among {path.lifetimes.size} × {path.alphas.size} pairs by {criterion}"
    width = "At λ = 0 the kernel is constant: only the mean is learnt."
    if lifetime > 0:
        width = (
            f"Two rows have correlation 0.37 if their scaled columns differ by 1/λ = "
            f"{number(1 / lifetime)} in sum. A larger λ means a narrower kernel, finer detail and "
            "more cells."
        )
    pair = f"The lifetime λ = {number(lifetime)} and alpha = {number(estimator.alpha_)}"
    words = [f"{pair} {how}. {width}"]
    if estimator.lifetime == "average":
        words.append(
            "This is the likeliest lifetime. Predictions are averaged over all of the path, with "
            "the posterior probabilities as weights."
        )
    if path is not None and path.best_index[0] in (0, path.lifetimes.size - 1):
        words.append("Note: the best lifetime is at an end of the path; one beyond may be better.")
    if path is not None and lifetime < path.best_lifetime:
        best = number(path.best_lifetime)
        words.append(f"Note: max_cells stopped the trees before the best lifetime, {best}.")
    return words


def path_sections(estimator: Any) -> list[Section]:
    """Return the error along the path, if the model was chosen on one."""
    path = _path(estimator)
    if path is None:
        return []
    if "loo_error" not in path.curves:
        name, values = "mean loss of fitted rows held out", path.curves["validation_loss"]
    elif path.criterion == "holdout":
        name, values = "root mean squared error of fitted rows held out", path.validation_error**0.5
    else:
        name, values = "root mean squared error of fitted rows left out", path.loo_error**0.5
    best = path.best_index[0]
    line = values[np.arange(path.lifetimes.size), np.nanargmin(path.score, axis=1)]
    figure = Figure(
        "error",
        "Error at every width",
        f"The {name}, at the best alpha of each lifetime: {number(line[best])} at the best one, "
        f"{number(line[0])} and {number(line[-1])} at the ends of the path.",
        chart(
            {"label": "lifetime λ", "log": True},
            "error",
            layer("line", "blue", x=path.lifetimes, y=line),
            layer("points", "red", "best", x=path.lifetimes[[best]], y=line[[best]], size=5),
        ),
        table(["λ", name, "cells of all trees"], path.lifetimes, line, path.n_cells),
    )
    return [Section("The lifetime path", [figure])]


def _path(estimator: Any) -> Any:
    """Return the path of the choice, if it has some lifetimes."""
    path = estimator.path_
    return None if path is None or path.lifetimes.size < 3 else path
