"""What a report is made of: figures, tables and tiles, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Table:
    """Numbers behind a figure: a head and rows of cells, all text."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Figure:
    """A figure: its ``spec`` is drawn by the page, ``caption`` and ``table`` say it in words.

    The spec has axes and layers (see ``page.js``); what moves with the slider has one entry for
    each of its places, under a name in the plural (``xs``, ``ys``, ``frames``).
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
    """Nested lists of four digits, None for what is not finite: what JSON can hold, short."""
    array = np.asarray(values, dtype=float)
    if array.ndim:
        return [plain(part) for part in array]
    return float(f"{array:.4g}") if np.isfinite(array) else None
