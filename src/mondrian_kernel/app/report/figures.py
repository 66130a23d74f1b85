"""The parts of a report as plain data, and the figures that every report has."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.inspection import permutation_importance

from mondrian_kernel._settings import (
    COLUMNS_SHOWN,
    SHUFFLE_PREDICTIONS,
    SHUFFLE_ROWS,
    SHUFFLES,
    SURFACE_POINTS,
    SURFACE_SIDE,
)
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.plotting.partition import tree_partition


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted estimator to report on, its rows in random order, and the names of their columns."""

    estimator: Any
    X_train: FloatArray
    y_train: NDArray[Any]
    X_test: FloatArray
    y_test: NDArray[Any]
    target: str
    names: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Numbers behind a figure: a head and rows of cells, all text."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Figure:
    """A figure: the page draws its ``spec``; ``caption`` and ``table`` say it in words.

    The spec has axes and layers (see ``page.js``). A layer that moves with the slider has one
    entry for each position, under a name in the plural (``xs``, ``ys``, ``frames``).
    """

    name: str
    title: str
    caption: str
    spec: dict[str, Any]
    table: Table | None = None


@dataclass(frozen=True)
class Section:
    """A section of the page: a heading, figures, and whether these move with the slider."""

    heading: str
    figures: Sequence[Figure]
    moves: bool = False


@dataclass(frozen=True)
class Content:
    """All of a report between its title and its last line."""

    tiles: Sequence[tuple[str, str]]
    summary: Sequence[str]
    sections: Sequence[Section]
    lifetimes: Sequence[float]
    chosen: int
    readouts: Sequence[str]


def number(value: float) -> str:
    """Write a number with three digits, from 1000 to a million in full."""
    if not np.isfinite(value):
        return "–"
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}"


def percent(share: float) -> str:
    """Write a share in per cent."""
    return f"{100 * share:.1f} %".replace(".0 %", " %")


def plain(values: ArrayLike) -> Any:
    """Return nested lists of four digits for JSON, with None for what is not finite."""
    array = np.asarray(values, dtype=float)
    if array.ndim:
        return [plain(part) for part in array]
    return float(f"{array:.4g}") if np.isfinite(array) else None


def layer(kind: str, colour: str, name: str | None = None, **values: Any) -> dict[str, Any]:
    """Return a layer of a chart; arrays among ``values`` become lists of four digits."""
    made = {key: v if isinstance(v, bool) else plain(v) for key, v in values.items()}
    return {"type": kind, "colour": colour, **made} | ({} if name is None else {"name": name})


def chart(x: str | dict[str, Any], y: str | dict[str, Any], *layers: dict[str, Any]) -> Any:
    """Return the spec of a chart; an axis is its label, or a label with further options."""
    axes = [{"label": axis} if isinstance(axis, str) else axis for axis in (x, y)]
    return {"x": axes[0], "y": axes[1], "layers": list(layers)}


def number_table(head: Sequence[str], *columns: ArrayLike) -> Table:
    """Return a table of columns of numbers."""
    arrays = [np.asarray(column, dtype=float) for column in columns]
    return Table(head, [[number(v) for v in row] for row in zip(*arrays, strict=True)])


def importance_section(model: Model, scoring: Any, error: str) -> tuple[str, Section]:
    """Return a sentence on which columns matter, and the section; ``error`` names the score."""
    names = model.names
    n = int(np.clip(SHUFFLE_PREDICTIONS // (SHUFFLES * len(names)), *SHUFFLE_ROWS))
    X, y = model.X_test[:n], model.y_test[:n]
    found = permutation_importance(
        model.estimator, X, y, scoring=scoring, n_repeats=SHUFFLES, random_state=0
    )
    mean, std = found.importances_mean, found.importances_std
    order = np.argsort(-mean, kind="stable")[:COLUMNS_SHOWN]
    clear = [d for d in order if mean[d] > 2 * std[d]]
    sentence = "No column matters clearly: the error stays the same when any of them is shuffled."
    if clear:
        listed = ", ".join(f"{names[d]} (+{number(mean[d])})" for d in clear[:3])
        sentence = f"Columns that matter most (growth of the {error} when shuffled): {listed}."
    unclear = int(np.sum(mean <= 2 * std))
    share = f"{unclear} of {len(names)} columns make no" if unclear else "Every column makes a"
    caption = (
        f"Growth of the {error} when one column is shuffled among {X.shape[0]} test rows: mean and "
        f"standard deviation of {SHUFFLES} shuffles. {share} clear difference. Columns with the "
        "same information share their effect."
    )
    if len(names) > COLUMNS_SHOWN:
        caption += f" The first {COLUMNS_SHOWN} are shown."
    spec = {
        "kind": "bars",
        "labels": [str(names[d]) for d in order],
        "values": plain(mean[order]),
        "spread": plain(std[order]),
        "x": {"label": f"growth of the {error}"},
    }
    relevance = model.estimator.relevance_
    rows = [[names[d], number(mean[d]), number(std[d]), number(relevance[d])] for d in order]
    header = ["column", f"growth of the {error}", "standard deviation", "relevance in the kernel"]
    title = "Error when a column is shuffled"
    figure = Figure("columns", title, caption, spec, Table(header, rows))
    return sentence, Section("Which columns matter", [figure])


def plane_sections(
    model: Model,
    shown: Sequence[Any],
    surface: Callable[[Any, FloatArray], FloatArray],
    surface_name: str,
    classes: Sequence[str] | None = None,
) -> list[Section]:
    """Return the cells and the surface of each estimator shown, if there are two columns.

    ``surface`` gives its value at rows: a number, or with ``classes`` the index of a class.
    """
    X, names = model.X_train, model.names
    if len(names) != 2:
        return []
    # The estimator of the largest lifetime holds the cells of all: their trees, grown further.
    partition = tree_partition(shown[-1].features_, 0, shown[-1].model_.columns)
    low, high = X.min(axis=0), X.max(axis=0)
    axes = [{"label": names[d], "domain": plain([low[d], high[d]])} for d in (0, 1)]
    rows = X[np.random.default_rng(0).permutation(X.shape[0])[:SURFACE_POINTS]]
    cells = layer(
        "cells",
        "ink",
        lower=partition.lower,
        upper=partition.upper,
        birth=partition.birth,
        time=np.where(np.isinf(partition.time), 1e300, partition.time),
    )
    points = layer("points", "ink", x=rows[:, 0], y=rows[:, 1], size=1.2)
    cells_figure = Figure(
        "partition",
        "The cells of one tree",
        "This tree treats rows in the same cell as alike. The kernel of two rows is the share of "
        "trees that treat them as alike. Dots are fitted rows. Cuts in the empty space between "
        "them are not drawn.",
        chart(*axes, cells, points),
    )
    side = [np.linspace(low[d], high[d], SURFACE_SIDE) for d in (0, 1)]
    grid = np.stack(np.meshgrid(*side), axis=-1).reshape(-1, 2)
    values = np.array([surface(estimator, grid) for estimator in shown])
    image: dict[str, Any] = {"type": "image", "side": SURFACE_SIDE}
    if classes is None:
        least, most = float(values.min()), float(values.max())
        values = np.round(255 * (values - least) / ((most - least) or 1.0))
        caption = f"{surface_name}, from {number(least)} (dark) to {number(most)} (bright)."
        image["range"] = [number(least), number(most)]
    else:
        caption = f"{surface_name}, one colour for each class."
        image["classes"] = list(classes)
    image["frames"] = [b64encode(v.astype(np.uint8).tobytes()).decode("ascii") for v in values]
    surface_figure = Figure("surface", "The predicted surface", caption, chart(*axes, image))
    return [Section("The plane of the two columns", [cells_figure, surface_figure], moves=True)]
