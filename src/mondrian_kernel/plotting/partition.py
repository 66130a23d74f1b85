"""Pictures of a Mondrian partition: its cells in the plane, and its tree against time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import MondrianFeatures
from mondrian_kernel.partition import MondrianPartition
from mondrian_kernel.plotting.display import Display
from mondrian_kernel.plotting.tree_cells import tree_partition

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAINTS = ["#f7f4ea", "#d21f1b", "#1f4e9c", "#f2c230"]
_SHARES = [0.7, 0.1, 0.1, 0.1]
_BLACK = "#111111"


class PartitionDisplay(Display):
    """A Mondrian partition of two dims, drawn as Piet Mondrian might have.

    Make one with :meth:`from_features` or :meth:`from_partition`; :meth:`plot` draws the cells in
    the plane and :meth:`plot_tree` the tree of cuts against time, for any number of dims.

    Parameters
    ----------
    partition : MondrianPartition
        The partition.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was last drawn.
    cells_ : matplotlib PolyCollection
        The cells, after :meth:`plot`.
    cuts_ : matplotlib LineCollection
        The cuts in the order of their times, after :meth:`plot`; the nodes' lines after
        :meth:`plot_tree`.

    Examples
    --------
    >>> from mondrian_kernel import MondrianPartition
    >>> from mondrian_kernel.plotting import PartitionDisplay
    >>> partition = MondrianPartition.sample([0, 0], [1, 1], lifetime=3.0, random_state=4)
    >>> display = PartitionDisplay.from_partition(partition)
    >>> len(display.cells_.get_paths()) == partition.n_cells
    True
    """

    def __init__(self, *, partition: MondrianPartition) -> None:
        self.partition = partition

    @classmethod
    def from_partition(
        cls,
        partition: MondrianPartition,
        *,
        lifetime: float | None = None,
        colors: str = "mondrian",
        random_state: Any = 0,
        ax: Axes | None = None,
    ) -> PartitionDisplay:
        """Draw a sample of the Mondrian process on a rectangle.

        Parameters
        ----------
        partition : MondrianPartition
            Partition of a box of two dims.
        lifetime : float or None, default=None
            Time λ at which to look, at most the partition's own, which is the default.
        colors, random_state, ax
            As in :meth:`plot`.

        Returns
        -------
        display : PartitionDisplay
            The display, drawn.
        """
        at = partition if lifetime is None else partition.at(lifetime)
        return cls(partition=at).plot(ax, colors=colors, random_state=random_state)

    @classmethod
    def from_features(
        cls,
        features: MondrianFeatures,
        *,
        lifetime: float | None = None,
        tree: int = 0,
        colors: str = "mondrian",
        random_state: Any = 0,
        ax: Axes | None = None,
    ) -> PartitionDisplay:
        """Draw one tree of fitted features.

        The cuts that part rows are drawn across the bounding box of the rows.

        Parameters
        ----------
        features : MondrianFeatures
            Fitted on two dims.
        lifetime : float or None, default=None
            Time λ at which to look, at most that of the features, which is the default.
        tree : int, default=0
            Which tree.
        colors, random_state, ax
            As in :meth:`plot`.

        Returns
        -------
        display : PartitionDisplay
            The display, drawn.
        """
        check_is_fitted(features)
        n_trees = features.trees_.n_trees
        if not 0 <= tree < n_trees:
            raise ValueError(
                f"tree={tree} is none of the {n_trees} trees: give 0 to {n_trees - 1}."
            )
        at = features if lifetime is None else features.at(lifetime)
        partition = tree_partition(at, tree)
        display = cls(partition=partition).plot(ax, colors=colors, random_state=random_state)
        names = getattr(features, "feature_names_in_", None)
        if names is not None:
            display.ax_.set(xlabel=names[0], ylabel=names[1])
        return display

    def plot(
        self, ax: Axes | None = None, *, colors: str = "mondrian", random_state: Any = 0
    ) -> PartitionDisplay:
        """Draw the cells in the plane; the earlier a cut, the thicker its line.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None: a new figure.
        colors : {"mondrian", "time", "none"}, default="mondrian"
            Cells painted at random in the colours of the painter, or cuts coloured by their times,
            or neither.
        random_state : int, RandomState instance or None, default=0
            Seed of the paint.

        Returns
        -------
        self : PartitionDisplay
            The display.
        """
        if colors not in ("mondrian", "time", "none"):
            raise ValueError(f"colors must be 'mondrian', 'time' or 'none', got {colors!r}.")
        n_dims = self.partition.lower.shape[1]
        if n_dims != 2:
            raise ValueError(
                f"Cells of {n_dims} dims cannot be drawn in the plane. Take two dims, or draw the "
                "tree with plot_tree."
            )
        ax = self._axes(ax, "plot")
        from matplotlib.collections import LineCollection, PolyCollection

        lower, upper = self.partition.cells()
        corners = np.stack([lower, np.c_[upper[:, 0], lower[:, 1]], upper,
                            np.c_[lower[:, 0], upper[:, 1]]], axis=1)  # fmt: skip
        paint = np.full(len(lower), "white", dtype=object)
        if colors == "mondrian":
            paint = check_random_state(random_state).choice(_PAINTS, len(lower), p=_SHARES)
        self.cells_ = PolyCollection(list(corners), facecolors=paint.tolist(), edgecolors="none")
        ax.add_collection(self.cells_)

        segments, time = _segments(self.partition)
        width = 0.8 + 3.2 * np.exp(-3.0 * time / max(self.partition.lifetime, 1e-300))
        # The earliest cuts come last, over the ends of those that meet them.
        self.cuts_ = LineCollection(list(segments[::-1]), linewidths=width[::-1], capstyle="butt")
        if colors == "time":
            self.cuts_.set(array=time[::-1], cmap="plasma", clim=(0, self.partition.lifetime))
            self.figure_.colorbar(self.cuts_, ax=ax, label="time of the cut", pad=0.02)
        else:
            self.cuts_.set_color(_BLACK)
        ax.add_collection(self.cuts_)
        box = self.partition.lower[0], self.partition.upper[0]
        ax.set(xlim=(box[0][0], box[1][0]), ylim=(box[0][1], box[1][1]))
        ax.set(xlabel="dim 0", ylabel="dim 1")
        ax.set_title(f"λ = {self.partition.lifetime:.3g}, {self.partition.n_cells} cells")
        for spine in ax.spines.values():
            spine.set(linewidth=2.5, color=_BLACK)
        return self

    def plot_tree(self, ax: Axes | None = None) -> PartitionDisplay:
        """Draw the tree of cuts against time, which runs upwards from 0 to the lifetime.

        A vertical line is a cell, as long as it lives; a horizontal one the cut that ends it, in
        the colour of the dim it is in. The cells alive at the lifetime are at the top.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None: a new figure.

        Returns
        -------
        self : PartitionDisplay
            The display.
        """
        ax = self._axes(ax, "plot_tree")
        from matplotlib.collections import LineCollection
        from matplotlib.lines import Line2D

        p = self.partition
        across = _tree_places(p)
        end = np.minimum(p.time, p.lifetime)
        lives = np.stack([np.c_[across, p.birth], np.c_[across, end]], axis=1)
        cut = np.flatnonzero(p.dim >= 0)
        joins = np.stack(
            [np.c_[across[p.left[cut]], p.time[cut]], np.c_[across[p.right[cut]], p.time[cut]]],
            axis=1,
        )
        colour = {int(d): f"C{d}" for d in np.unique(p.dim[cut])}
        if len(colour) <= 2:
            colour = dict(zip(colour, (_PAINTS[1], _PAINTS[2]), strict=False))
        paint = [_BLACK] * len(lives) + [colour[int(d)] for d in p.dim[cut]]
        width = 1.4 if p.n_cells <= 100 else 0.7
        self.cuts_ = LineCollection([*lives, *joins], colors=paint, linewidths=width)
        ax.add_collection(self.cuts_)
        ax.set(xlim=(-0.6, p.n_cells - 0.4), ylim=(0, p.lifetime or 1.0), xticks=[])
        ax.set(xlabel=f"{p.n_cells} cells", ylabel="time")
        keys = [Line2D([], [], color=c, label=f"cut in dim {d}") for d, c in colour.items()]
        if keys and len(keys) <= 10:
            ax.legend(
                handles=keys, fontsize="small", frameon=False, ncols=2,
                loc="lower right", bbox_to_anchor=(1, 1),
            )  # fmt: skip
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        return self


def _segments(partition: MondrianPartition) -> tuple[FloatArray, FloatArray]:
    """Segments (C, 2, 2) of the cuts of two dims in the order of their times, and these."""
    cut = np.flatnonzero(partition.dim >= 0)
    cut = cut[np.argsort(partition.time[cut], kind="stable")]
    ends = np.stack([partition.lower[cut], partition.upper[cut]], axis=1)
    ends[np.arange(cut.size), :, partition.dim[cut]] = partition.loc[cut, None]
    return ends, partition.time[cut]


def _tree_places(partition: MondrianPartition) -> NDArray[np.float64]:
    """Place of each node: cells from left to right, a cut midway between its two children."""
    place = np.zeros(partition.dim.size)
    stack, n_cells = [0], 0
    while stack:
        node = stack.pop()
        if partition.dim[node] < 0:
            place[node] = n_cells
            n_cells += 1
        else:
            stack += [int(partition.right[node]), int(partition.left[node])]
    # Children come after their parents, so going back every child has its place.
    for node in np.flatnonzero(partition.dim >= 0)[::-1]:
        place[node] = (place[partition.left[node]] + place[partition.right[node]]) / 2
    return place
