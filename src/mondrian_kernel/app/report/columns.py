"""The columns in a report: their importance and effect, the worst rows, the plane of two."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._settings import (
    COLUMNS_DRAWN,
    COLUMNS_SHOWN,
    DEPENDENCE_POINTS,
    DEPENDENCE_RANGE,
    DEPENDENCE_ROWS,
    SURFACE_POINTS,
    SURFACE_SIDE,
    WORST_COLUMNS,
    WORST_ROWS,
)
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.measure import Measured
from mondrian_kernel.app.report.figures import (
    Figure,
    Section,
    Table,
    chart,
    layer,
    number,
    percent,
    plain,
)
from mondrian_kernel.plotting.partition import tree_partition

COLOURS = ("blue", "red", "green")  # of the classes that have a curve


class Curves(NamedTuple):
    """What a model predicts for rows as columns of numbers, and the names of these."""

    predict: Callable[[FloatArray], FloatArray]
    label: str
    names: Sequence[str | None]


def importance_section(measured: Measured, curves: Curves) -> tuple[str, Section]:
    """Return a sentence on which columns matter, and the section on them."""
    names = measured.names
    mean, deviation, measure, rows = measured.importance
    order = np.argsort(-mean, kind="stable")
    clear = [int(d) for d in order if mean[d] > 2 * deviation[d]]
    sentence = "No column matters clearly: the error stays the same when any of them is shuffled."
    if clear:
        listed = ", ".join(f"{names[d]} ({number(mean[d])})" for d in clear[:3])
        sentence = f"Columns that matter most ({measure} when shuffled): {listed}."
    unclear = len(names) - len(clear)
    verb = "makes" if unclear == 1 else "make"
    share = f"{unclear} of {len(names)} columns {verb} no" if unclear else "Every column makes a"
    caption = (
        f"{measure[0].upper()}{measure[1:]} on {rows} when one column is shuffled: "
        f"mean and standard deviation over shuffles. {share} clear difference. Columns with the "
        "same information share their effect."
    )
    if len(names) > COLUMNS_SHOWN:
        caption += f" The first {COLUMNS_SHOWN} of {len(names)} columns are drawn."
    shown = order[:COLUMNS_SHOWN]
    place = np.arange(shown.size)
    low, high = (mean - deviation)[shown], (mean + deviation)[shown]
    spec = chart(
        measure,
        {"label": "", "labels": [names[d] for d in shown]},
        layer("bars", "blue", x=mean[shown], y=place),
        layer("ranges", "red", y=place, low=low, high=high),
    )
    head = ["column", measure, "standard deviation"]
    cells = [[names[d], number(mean[d]), number(deviation[d])] for d in order]
    figure = Figure("columns", "Importance of the columns", caption, spec, Table(head, cells))
    dependence = [_dependence(measured, d, curves) for d in clear[:COLUMNS_DRAWN]]
    return sentence, Section("Which columns matter", [figure, *dependence])


def _dependence(measured: Measured, column: int, curves: Curves) -> Figure:
    """Return the mean prediction if all rows had the same value in a column.

    The values are those of test rows: quantiles of numbers, and the commonest categories.
    """
    X, own = measured.X_test, measured.column_of == column
    words, name = measured.words(column), measured.names[column]
    rng = np.random.default_rng(0)
    base = X[rng.permutation(X.shape[0])[:DEPENDENCE_ROWS]]
    is_category = measured.categories[column] is not None
    if is_category:
        texts = np.array([_word(word) for word in words])
        found, counts = np.unique(texts, return_counts=True)
        found = np.sort(found[np.argsort(-counts, kind="stable")[:DEPENDENCE_POINTS]])
        rows = [int(np.flatnonzero(texts == word)[0]) for word in found]
    else:
        known = np.flatnonzero(words != None)  # noqa: E711 - by element
        known = known[np.argsort(X[known][:, own][:, 0], kind="stable")]
        shares = np.linspace(*DEPENDENCE_RANGE, DEPENDENCE_POINTS)
        place = (shares * (known.size - 1)).round().astype(int)
        rows = _first_of_each(known[place], X[:, own][:, 0])
    means = np.empty((len(rows), len(curves.names)))
    for k, row in enumerate(rows):
        changed = base.copy()
        changed[:, own] = X[row, own]
        means[k] = curves.predict(changed).mean(axis=0)
    caption = (
        f"Mean prediction for {base.shape[0]} test rows if all of them had the same "
        f"“{name}” and their own values in the other columns."
    )
    many = zip(means.T, COLOURS, curves.names, strict=False)
    if is_category:
        labels = [str(word) for word in found]
        place = np.arange(len(labels))
        dots = [layer("points", c, n, x=values, y=place, size=4.5) for values, c, n in many]
        spec = chart(curves.label, {"label": "", "labels": labels}, *dots)
        first = labels
    else:
        x = X[rows][:, own][:, 0]
        lines = [
            drawn
            for values, c, n in many
            for drawn in (
                layer("line", c, n, x=x, y=values),
                layer("points", c, x=x, y=values, size=2.8),
            )
        ]
        low, high = DEPENDENCE_RANGE
        caption += f" Dots are quantiles of the column, from {percent(low)} to {percent(high)}."
        spec = chart(name, curves.label, *lines)
        first = [number(v) for v in x]
    head = [name, *(n or curves.label for n in curves.names)]
    cells = [[f, *map(number, m)] for f, m in zip(first, means, strict=True)]
    title = f"Prediction by {name}"
    return Figure(f"dependence-{column}", title, caption, spec, Table(head, cells))


def _first_of_each(rows: NDArray[np.intp], values: FloatArray) -> list[int]:
    """Return rows of different values."""
    return [int(rows[k]) for k in np.unique(values[rows], return_index=True)[1]]


def worst_section(
    measured: Measured, badness: FloatArray, shown: dict[str, NDArray[Any]]
) -> Section:
    """Return the test rows with the largest ``badness``: what is shown, and their main columns."""
    worst = np.argsort(-badness, kind="stable")[:WORST_ROWS]
    main = np.argsort(-measured.importance.mean, kind="stable")[:WORST_COLUMNS].tolist()
    values = [measured.rows, *shown.values(), *(measured.words(d) for d in main)]
    caption = f"The {worst.size} of {badness.size} test rows that the model predicts worst"
    if len(measured.names) > WORST_COLUMNS:
        caption += f", with their {WORST_COLUMNS} most important columns"
    table = Table(
        ["row", *shown, *(measured.names[d] for d in main)],
        [[_word(column[i]) for column in values] for i in worst],
    )
    title = "Look here for wrong data and for columns that are missing"
    return Section("The worst rows", [Figure("worst", title, f"{caption}.", None, table)])


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
    rows = X[np.random.default_rng(0).permutation(X.shape[0])[:SURFACE_POINTS]]
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
    side = [np.linspace(low[d], high[d], SURFACE_SIDE) for d in (0, 1)]
    values = surface(np.stack(np.meshgrid(*side), axis=-1).reshape(-1, 2))
    image: dict[str, Any] = {"type": "image", "side": SURFACE_SIDE}
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
