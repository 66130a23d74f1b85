"""What every display shares: the axes it is drawn in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils._optional_dependencies import check_matplotlib_support

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Display:
    """Draws in given axes or in a figure of its own, and keeps both as attributes."""

    ax_: Axes
    figure_: Any

    def _axes(self, ax: Axes | None, method: str) -> Axes:
        """Return the axes to draw in; where matplotlib is missing, say that ``method`` needs it."""
        check_matplotlib_support(f"{type(self).__name__}.{method}")
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax
