"""One style for all figures: colours for the colour-blind, labels, plain axes."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's colours. A scheme has the same colour and marker in every figure.
COLOUR = {
    "mondrian": "#0072B2",
    "binning": "#D55E00",
    "fourier": "#009E73",
    "every_cut": "#56B4E9",
    "forest": "#CC79A7",
    "grey": "#767676",
    "ink": "#222222",
}
MARKER = {"mondrian": "v", "binning": "o", "fourier": "^"}
LABEL = {
    "mondrian": "Mondrian kernel",
    "every_cut": "Mondrian kernel, every cut",
    "binning": "random binning",
    "fourier": "Fourier features",
}
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
    "svg.hashsalt": "mondrian",
    "svg.fonttype": "none",
}


@contextmanager
def style() -> Iterator[None]:
    """Set the style within a block, for drawing and for writing."""
    with rc_context(_STYLE):
        yield


def panels(n: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure of n panels in a row, in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, n, squeeze=False, **options)
    return figure, list(axes[0])


def letter(axes: list[Axes]) -> None:
    """Put (a), (b), … in front of the titles of panels."""
    for ax, sign in zip(axes, "abcdef", strict=False):
        ax.set_title(f"({sign}) {ax.get_title()}")


def legend_below(figure: Figure, axes: list[Axes], columns: int) -> None:
    """Draw one legend for all panels below them."""
    lines: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        lines |= dict(zip(labels, handles, strict=True))
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=columns)


def note(
    ax: Axes, text: str, xy: tuple[float, float], offset: tuple[float, float], **options: Any
) -> None:
    """Write a text beside a point, at an offset in points."""
    options = {"fontsize": 8, "textcoords": "offset points", **options}
    ax.annotate(text, xy, xytext=offset, **options)


def encode(figure: Figure) -> dict[str, bytes]:
    """Return the figure as PNG and SVG files, by their extensions."""
    formats: dict[str, dict[str, Any]] = {
        "png": {"dpi": 160},
        "svg": {"metadata": {"Date": None}},  # the same drawing gives the same file
    }
    files = {}
    for extension, options in formats.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format=extension, **options)
        files[extension] = buffer.getvalue()
    return files


def scheme_curves(ax: Axes, sizes: dict[str, list[int]], values: dict[str, Any]) -> None:
    """Draw mean and standard deviation over repetitions, of shape (R, M), for each scheme."""
    for scheme, repetitions in values.items():
        mean, deviation = np.mean(repetitions, axis=0), np.std(repetitions, axis=0)
        look: dict[str, Any] = {
            "color": COLOUR[scheme],
            "marker": MARKER[scheme],
            "markersize": 3.5,
        }
        look |= {"label": LABEL[scheme], "linewidth": 0.8, "elinewidth": 0.8}
        ax.errorbar(sizes[scheme], mean, deviation, **look)
    ax.set_xlabel("$M$ (non-zero features per row)")
    ax.legend()
