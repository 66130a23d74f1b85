"""What the displays share: axes to draw in, colours, and a legend that covers no data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike
from sklearn.utils._optional_dependencies import check_matplotlib_support

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.transforms import Transform

RED, BLUE, YELLOW, GREY, BLACK = "#d21f1b", "#1f4e9c", "#f2c230", "#777777", "#111111"


class Display:
    """Draws in given axes or in a new figure, and keeps both as attributes."""

    ax_: Axes
    figure_: Figure | SubFigure

    def _axes(self, ax: Axes | None, method: str) -> Axes:
        """Return the axes to draw in; the error for a missing matplotlib names ``method``."""
        check_matplotlib_support(f"{type(self).__name__}.{method}")
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def legend_beside(
    ax: Axes,
    handles: Sequence[Artist],
    others: Sequence[tuple[Transform, ArrayLike, ArrayLike]] = (),
) -> None:
    """Put the legend where it covers least of the lines of ``ax`` and of other curves.

    Matplotlib avoids only lines and points of the axes that own the legend. ``others`` are curves
    in other axes or in collections (transform, x, y); invisible copies of them are added.
    """
    from matplotlib.lines import Line2D

    for transform, x, y in others:
        copy = Line2D(x, y, transform=transform, visible=False)
        copy.set_in_layout(False)
        ax.add_artist(copy)
    ax.legend(handles=handles, fontsize="small", framealpha=0.9)
