"""The parts of a report as plain data, and the page that is made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Table:
    """A head and rows of cells, all text."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Figure:
    """A figure: the page draws its ``spec``; ``caption`` and ``table`` say it in words.

    The spec has axes and layers (see ``page.js``). A figure without one is its table.
    """

    name: str
    title: str
    caption: str
    spec: dict[str, Any] | None
    table: Table | None = None


@dataclass(frozen=True)
class Section:
    """A section of the page: a heading and figures."""

    heading: str
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Content:
    """All of a report between its title and its last line."""

    tiles: Sequence[tuple[str, str]]
    summary: Sequence[str]
    sections: Sequence[Section]


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
    """Return the spec of a chart; an axis is its label, or a label with further options.

    With ``labels`` the axis y has these names from top to bottom, at 0, 1, 2 and so on.
    """
    axes = [{"label": axis} if isinstance(axis, str) else axis for axis in (x, y)]
    return {"x": axes[0], "y": axes[1], "layers": list(layers)}


def table(head: Sequence[str], *columns: Iterable[Any]) -> Table:
    """Return a table of columns of text or numbers."""
    cells = [[v if isinstance(v, str) else number(v) for v in column] for column in columns]
    return Table(head, list(zip(*cells, strict=True)))


def rows_shown(n_shown: int, n_rows: int) -> str:
    """Say how many of the test rows a figure shows."""
    if n_shown >= n_rows:
        return f"All {n_rows} test rows"
    return f"A random sample of {n_shown} of the {n_rows} test rows"


def render(title: str, subtitle: str, content: Content, last_line: str) -> str:
    """Return the page as one HTML document that needs no other file."""
    figures = [figure for section in content.sections for figure in section.figures]
    return Template(_read("page.html")).substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        style=_read("page.css"),
        script=_read("page.js"),
        tiles="".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
            for name, value in content.tiles
        ),
        summary="".join(f"<p>{escape(sentence)}</p>" for sentence in content.summary),
        sections="".join(_section(section) for section in content.sections),
        last_line=escape(last_line),
        data=script_json({f.name: f.spec for f in figures if f.spec is not None}),
    )


def script_json(data: object) -> str:
    """JSON that may stand in a script element: no text in it can close the element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return (files("mondrian_kernel.app.report") / name).read_text(encoding="utf-8")


def _section(section: Section) -> str:
    figures = "".join(_figure(figure) for figure in section.figures)
    heading = escape(section.heading)
    return f'<section><h2>{heading}</h2><div class="row">{figures}</div></section>'


def _figure(figure: Figure) -> str:
    name, table = escape(figure.name), "" if figure.table is None else _table(figure.table)
    title = f'<h3 id="{name}-title">{escape(figure.title)}</h3>'
    caption = f'<figcaption id="{name}-caption">{escape(figure.caption)}</figcaption>'
    if figure.spec is None:
        return f'<figure id="{name}" class="wide">{title}{table}{caption}</figure>'
    if table:
        table = f"<details><summary>The numbers</summary>{table}</details>"
    return (
        f'<figure id="{name}">{title}<div class="plot" data-figure="{name}" role="img" '
        f'aria-labelledby="{name}-title" aria-describedby="{name}-caption"></div>'
        f"{caption}{table}</figure>"
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.head)
    body = ""
    for row in table.rows:
        first, *others = (escape(cell) for cell in row)
        cells = "".join(f"<td>{cell}</td>" for cell in others)
        body += f'<tr><th scope="row">{first}</th>{cells}</tr>'
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
