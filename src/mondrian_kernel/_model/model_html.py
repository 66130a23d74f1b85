"""What a notebook shows of a fitted model, below scikit-learn's table of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.notes import FitNotes
from mondrian_kernel._path.html_repr import page
from mondrian_kernel._typing import FloatArray


def model_html(
    name: str,
    model: FittedModel,
    notes: FitNotes | None,
    columns: list[Any],
    seconds: Mapping[str, float],
) -> str:
    """Table of widths, trees, errors and times of a model, and bars of its importances."""
    levels = model.levels
    share = levels.weights / levels.weights.sum()
    widths = [f"{t:.3g} ({w:.0%})" for t, w in zip(levels.lifetimes, share, strict=True)]
    rows = {
        "lifetimes λ (weights)": ", ".join(widths),
        "trees": f"{levels.n_trees}, with {levels.n_features} cells",
    }
    if model.trend is not None:
        n = model.trend.landmarks.shape[0]
        rows["trend"] = f"on {n} landmarks" if n else "linear"
    if notes is None:
        return page(name, rows, "")
    rows |= {f"{what}, rows held out": f"{value:.4g}" for what, value in notes.measures.items()}
    if seconds:
        slowest = sorted(seconds.items(), key=lambda item: -item[1])
        total = sum(seconds.values())
        parts = ", ".join(f"{stage} {taken:.2g}" for stage, taken in slowest)
        rows["seconds"] = f"{total:.2g}: {parts}"
    bars = _bars(notes.importances, columns) if notes.importances.size else ""
    return page(name, rows, bars)


def _bars(importances: FloatArray, columns: list[Any]) -> str:
    """Return the largest importances as bars, with their deviations."""
    mean, std = importances
    order = np.argsort(-mean, kind="stable")[: settings.HTML_COLUMNS]
    longest = max(float(mean[order[0]]), np.finfo(float).tiny)
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(str(columns[j]))}</th>'
        f'<td style="text-align:left"><div style="background:#4878a8;height:0.8em;'
        f'width:{max(8.0 * float(mean[j]) / longest, 0.0):.2f}em"></div></td>'
        f'<td style="text-align:right">{mean[j]:.3g} ± {std[j]:.2g}</td></tr>'
        for j in order
    )
    title = "Growth of the error when a column is shuffled"
    if order.size < len(columns):
        title += f", the first {order.size} of {len(columns)}"
    return f'<table><caption style="text-align:left">{title}</caption>{body}</table>'
