"""The HTML page of a report: words and tables, and figures as data for its script to draw."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from mondrian_kernel.app.report.figures import Content, Figure, Section, Table


def render(title: str, subtitle: str, content: Content, colophon: str) -> str:
    """Return the page as one HTML document that needs no other file."""
    figures = [figure for section in content.sections for figure in section.figures]
    data = {
        "lifetimes": content.lifetimes,
        "chosen": content.chosen,
        "readouts": content.readouts,
        "figures": {figure.name: figure.spec for figure in figures},
    }
    return Template(_read("page.html")).substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        style=_read("page.css"),
        script=_read("page.js"),
        tiles="".join(_tile(*tile) for tile in content.tiles),
        summary="".join(f"<p>{escape(sentence)}</p>" for sentence in content.summary),
        slider=_slider(content),
        moving="".join(_section(section) for section in content.sections if section.moves),
        still="".join(_section(section) for section in content.sections if not section.moves),
        colophon=escape(colophon),
        data=script_json(data),
    )


def script_json(data: object) -> str:
    """JSON that may stand in a script element: no text in it can close the element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return (files("mondrian_kernel.app.report") / name).read_text(encoding="utf-8")


def _tile(name: str, value: str) -> str:
    return f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"


def _slider(content: Content) -> str:
    readout = escape(content.readouts[content.chosen])
    if len(content.lifetimes) < 2:
        return f'<p class="slider"><output id="readout">{readout}</output></p>'
    return (
        '<div class="slider"><label for="lifetime">Move the lifetime λ</label>'
        f'<input type="range" id="lifetime" min="0" max="{len(content.lifetimes) - 1}" step="1" '
        f'value="{content.chosen}" aria-describedby="readout">'
        '<button type="button" id="back">to the chosen one</button>'
        f'<output id="readout" for="lifetime" aria-live="polite">{readout}</output></div>'
    )


def _section(section: Section) -> str:
    if not section.figures:
        return ""
    figures = "".join(_figure(figure) for figure in section.figures)
    heading = escape(section.heading)
    return f'<section><h2>{heading}</h2><div class="row">{figures}</div></section>'


def _figure(figure: Figure) -> str:
    name, table = escape(figure.name), ""
    if figure.table is not None:
        table = f"<details><summary>The numbers</summary>{_table(figure.table)}</details>"
    return (
        f'<figure id="{name}"><h3 id="{name}-title">{escape(figure.title)}</h3>'
        f'<div class="plot" data-figure="{name}" role="img" aria-labelledby="{name}-title" '
        f'aria-describedby="{name}-caption"></div>'
        f'<figcaption id="{name}-caption">{escape(figure.caption)}</figcaption>{table}</figure>'
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.head)
    body = "".join(_row(row) for row in table.rows)
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _row(row: Sequence[str]) -> str:
    first, *others = (escape(cell) for cell in row)
    cells = "".join(f"<td>{cell}</td>" for cell in others)
    return f'<tr><th scope="row">{first}</th>{cells}</tr>'
