"""The part of a report on two dims: the cells of one tree, and the predicted surface."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.report.figure import Figure, Section, number, plain
from mondrian_kernel.plotting.partition import tree_partition

_SIDE = 48
_POINTS = 300


def plane_sections(
    models: Sequence[Any],
    X: FloatArray,
    names: Sequence[str],
    surface: Callable[[Any, FloatArray], FloatArray],
    surface_name: str,
    classes: Sequence[str] | None = None,
) -> list[Section]:
    """Partition and surface at each of the models' lifetimes; nothing where dims are not two.

    ``surface`` gives a model's value at rows: a number, or with ``classes`` the index of a class.
    """
    if len(names) != 2:
        return []
    # The model of the largest lifetime holds the cells of all: its trees are theirs, run on.
    last = models[-1]
    partition = tree_partition(last.features_, 0, last.scale_)
    low, high = X.min(axis=0), X.max(axis=0)
    axes = {"x": {"label": names[0], "domain": plain([low[0], high[0]])},
            "y": {"label": names[1], "domain": plain([low[1], high[1]])}}  # fmt: skip
    rows = X[np.random.default_rng(0).permutation(X.shape[0])[:_POINTS]]
    points = {"type": "points", "x": plain(rows[:, 0]), "y": plain(rows[:, 1]),
              "colour": "ink", "size": 1.2}  # fmt: skip
    cells = {
        "type": "cells", "lower": plain(partition.lower), "upper": plain(partition.upper),
        "birth": plain(partition.birth),
        "time": plain(np.where(np.isinf(partition.time), 1e300, partition.time)),
    }  # fmt: skip
    partition_figure = Figure(
        "partition", "The cells of one tree",
        "Rows in the same cell are alike to this tree; the kernel is the share of trees to which "
        "two rows are alike. Dots are fitted rows; cuts in the empty space between them are not "
        "drawn.",
        {**axes, "layers": [cells, points]},
    )  # fmt: skip

    side = [np.linspace(low[d], high[d], _SIDE) for d in (0, 1)]
    grid = np.stack(np.meshgrid(*side), axis=-1).reshape(-1, 2)
    values = np.array([surface(model, grid) for model in models])
    if classes is None:
        least, most = float(values.min()), float(values.max())
        shades = np.round(255 * (values - least) / ((most - least) or 1.0))
        caption = f"{surface_name}, from {number(least)} (dark) to {number(most)} (bright)."
        key: dict[str, Any] = {"range": [number(least), number(most)]}
    else:
        shades, caption = values, f"{surface_name}, one colour for each class."
        key = {"classes": list(classes)}
    frames = [_pixels(frame) for frame in shades]
    image = {"type": "image", "side": _SIDE, "frames": frames, **key}
    surface_figure = Figure(
        "surface", "The predicted surface", caption, {**axes, "layers": [image]}
    )
    return [Section("The plane of the two dims", [partition_figure, surface_figure], moves=True)]


def _pixels(shades: NDArray[Any]) -> str:
    """Bytes of a square picture, its first line at the bottom."""
    return b64encode(shades.astype(np.uint8).tobytes()).decode("ascii")
