"""What a notebook shows of a path or a posterior: a small table and a sketch of the curve."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from mondrian_kernel._path.result import LifetimePath, best_alphas, curves
from mondrian_kernel._typing import FloatArray

if TYPE_CHECKING:
    from mondrian_kernel._path.posterior import LifetimePosterior

_WIDTH, _HEIGHT, _MARGIN = 260, 90, 6


def path_html(path: LifetimePath) -> str:
    """Table of a path, and a sketch of its criterion against log λ."""
    curve = curves(path)[path.criterion]
    k, along, alphas = path.best_index[0], best_alphas(path), path.alphas
    values = curve.values[np.arange(along.size), along]
    rows = {
        "best lifetime λ": f"{path.lifetimes[k]:.4g}",
        curve.name: f"{values[k]:.4g}",
        "lifetimes": f"{path.lifetimes.size}, {path.lifetimes[0]:.3g} to {path.lifetimes[-1]:.3g}",
        "cells": f"{path.n_cells[0]} to {path.n_cells[-1]}, {path.n_cells[k]} at the best",
        "best alpha": f"{alphas[along[k]]:.3g}",
        "alphas": f"{alphas.size}, {alphas[0]:.2g} to {alphas[-1]:.2g}",
    }
    if not path.complete:
        rows["complete"] = "no, it was interrupted"
    shown = path.lifetimes > 0
    alt = f"{curve.name} against the lifetime, best at {path.lifetimes[k]:.4g}"
    mark = (path.lifetimes[k], values[k]) if shown[k] else None
    sketch = _sketch(path.lifetimes[shown], values[shown], mark, alt)
    return page(type(path).__name__, rows, sketch)


def posterior_html(posterior: LifetimePosterior) -> str:
    """Table of a posterior, and a sketch of its density over log λ."""
    low, high = posterior.interval(0.9)
    rows = {
        "mean of λ": f"{posterior.mean:.4g}",
        "90 % interval": f"{low:.4g} to {high:.4g}",
        "alpha": f"{posterior.alpha:.3g}",
        "evidence": posterior.evidence,
        "lifetimes": str(posterior.weights.size),
    }
    edges, density = density_steps(posterior)
    alt = f"posterior density of log λ, 90 % between {low:.4g} and {high:.4g}"
    sketch = _sketch(np.repeat(edges, 2)[1:-1], np.repeat(density, 2), None, alt)
    return page(type(posterior).__name__, rows, sketch)


def density_steps(posterior: LifetimePosterior) -> tuple[FloatArray, FloatArray]:
    """Edges (n + 1,) of the posterior's intervals, all positive, and its mean density of log λ."""
    lowest = posterior.lifetimes[posterior.lifetimes > 0][:1]
    edges = np.maximum(posterior.edges, lowest)
    held = edges[1:] > edges[:-1]
    density = posterior.weights[held] / np.log(edges[1:][held] / edges[:-1][held])
    return np.append(edges[:-1][held], edges[-1]), density


def page(name: str, rows: Mapping[str, str], sketch: str) -> str:
    """Table of named values, with a picture or another table beside it."""
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(key)}</th>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for key, value in rows.items()
    )
    return (
        f'<div style="display:flex;gap:1.5em;align-items:center;flex-wrap:wrap"><table>'
        f'<caption style="text-align:left"><b>{escape(name)}</b></caption>{body}</table>'
        f"{sketch}</div>"
    )


def _sketch(x: FloatArray, y: FloatArray, mark: tuple[float, float] | None, alt: str) -> str:
    """Curve against log x as SVG; nothing where there are not two points."""
    if x.size < 2 or x[-1] == x[0]:
        return ""
    low, high = np.nanmin(y), np.nanmax(y)

    def place(x: Any, y: Any) -> Any:
        across = np.log(x / x_first) / np.log(x_last / x_first)
        up = (y - low) / ((high - low) or 1.0)
        return (
            _MARGIN + (_WIDTH - 2 * _MARGIN) * across,
            _HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * up,
        )

    x_first, x_last = x[0], x[-1]
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(*place(x, y), strict=True))
    dot = ""
    if mark is not None:
        a, b = place(*mark)
        dot = f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="#d21f1b"/>'
    return (
        f'<svg role="img" aria-label="{escape(alt)}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}"><polyline points="{points}" fill="none" '
        f'stroke="currentColor" stroke-width="1.5"/>{dot}</svg>'
    )
