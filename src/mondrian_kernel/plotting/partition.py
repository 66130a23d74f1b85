"""Plot a Mondrian partition: its cells in the plane, and its tree against time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._model.columns import Columns
from mondrian_kernel._typing import FloatArray, RowArray
from mondrian_kernel.features import MondrianFeatures
from mondrian_kernel.partition import Level, MondrianPartition
from mondrian_kernel.plotting.display import BLACK, BLUE, RED, YELLOW, Display, legend_beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Seed = int | np.random.RandomState | None

_PAINTS = {"#f7f4ea": 0.7, RED: 0.1, BLUE: 0.1, YELLOW: 0.1}  # share of the cells of each colour
_MOST_COLOURS = 10  # matplotlib's default colours repeat after ten


class PartitionDisplay(Display):
    """A Mondrian partition of two columns, in the colours of Piet Mondrian.

    Create one with :meth:`from_features` or :meth:`from_partition`. :meth:`plot` draws the cells
    in the plane, :meth:`plot_tree` the tree of cuts against time for any number of columns.

    Parameters
    ----------
    partition : MondrianPartition
        The partition.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        The axes and their figure.
    cells_ : matplotlib PolyCollection
        The cells, after :meth:`plot`.
    cuts_ : matplotlib LineCollection
        The cuts after :meth:`plot`, the latest first; the lines of the tree after
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
        random_state: Seed = 0,
        ax: Axes | None = None,
    ) -> PartitionDisplay:
        """Plot a sample of the Mondrian process on a rectangle.

        Parameters
        ----------
        partition : MondrianPartition
            Partition of a box with two columns.
        lifetime : float or None, default=None
            Lifetime λ to plot, at most the partition's own, which is the default.
        colors, random_state, ax
            As in :meth:`plot`.

        Returns
        -------
        display : PartitionDisplay
            The display.
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
        random_state: Seed = 0,
        ax: Axes | None = None,
    ) -> PartitionDisplay:
        """Plot one tree of fitted features.

        Cuts that separate rows are drawn across the bounding box of the rows.

        Parameters
        ----------
        features : MondrianFeatures
            Features fitted on two columns.
        lifetime : float or None, default=None
            Lifetime λ to plot, at most that of the features, which is the default.
        tree : int, default=0
            Number of the tree.
        colors, random_state, ax
            As in :meth:`plot`.

        Returns
        -------
        display : PartitionDisplay
            The display.
        """
        check_is_fitted(features)
        n_trees = features.trees_.n_trees
        if not 0 <= tree < n_trees:
            raise ValueError(
                f"tree={tree} is not one of the {n_trees} trees: choose 0 to {n_trees - 1}."
            )
        at = features if lifetime is None else features.at(lifetime)
        partition = tree_partition(at, tree)
        display = cls(partition=partition).plot(ax, colors=colors, random_state=random_state)
        names = getattr(features, "feature_names_in_", None)
        if names is not None:
            display.ax_.set(xlabel=names[0], ylabel=names[1])
        return display

    def plot(
        self, ax: Axes | None = None, *, colors: str = "mondrian", random_state: Seed = 0
    ) -> PartitionDisplay:
        """Plot the cells in the plane; the earlier a cut, the thicker its line.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw in; None for a new figure.
        colors : {"mondrian", "time", "none"}, default="mondrian"
            Paint cells at random in the painter's colours, colour cuts by their times, or neither.
        random_state : int, RandomState instance or None, default=0
            Seed of the paint.

        Returns
        -------
        self : PartitionDisplay
            The display.
        """
        if colors not in ("mondrian", "time", "none"):
            raise ValueError(f"colors must be 'mondrian', 'time' or 'none', got {colors!r}.")
        p = self.partition
        if p.lower.shape[1] != 2:
            raise ValueError(
                f"Cells of {p.lower.shape[1]} columns cannot be drawn in the plane. Use two "
                "columns, or plot the tree with plot_tree."
            )
        ax = self._axes(ax, "plot")
        self._plot_cells(ax, colors, random_state)
        self._plot_cuts(ax, colors)
        (left, bottom), (right, top) = p.lower[0], p.upper[0]
        ax.set(xlim=(left, right), ylim=(bottom, top), xlabel="column 0", ylabel="column 1")
        ax.set_title(f"{p.n_cells} cells at λ = {p.lifetime:.3g}", fontsize="medium")
        for spine in ax.spines.values():
            spine.set(linewidth=2.5, color=BLACK)
        return self

    def _plot_cells(self, ax: Axes, colors: str, random_state: Seed) -> None:
        from matplotlib.collections import PolyCollection

        lower, upper = self.partition.cells()
        (left, bottom), (right, top) = lower.T, upper.T
        corners = np.stack([left, bottom, right, bottom, right, top, left, top], axis=1)
        paint = ["white"] * len(lower)
        if colors == "mondrian":
            rng = check_random_state(random_state)
            paint = rng.choice(list(_PAINTS), len(lower), p=list(_PAINTS.values())).tolist()
        self.cells_ = PolyCollection(
            list(corners.reshape(-1, 4, 2)), facecolors=paint, edgecolors="none"
        )
        ax.add_collection(self.cells_)

    def _plot_cuts(self, ax: Axes, colors: str) -> None:
        from matplotlib.collections import LineCollection

        p = self.partition
        cut = np.flatnonzero(p.dim >= 0)
        # The earliest cut is drawn last, over the ends of those that meet it.
        cut = cut[np.argsort(p.time[cut], kind="stable")][::-1]
        segments = np.stack([p.lower[cut], p.upper[cut]], axis=1)
        segments[np.arange(cut.size), :, p.dim[cut]] = p.loc[cut, None]
        time = p.time[cut]
        width = 0.8 + 3.2 * np.exp(-3.0 * time / max(p.lifetime, 1e-300))
        self.cuts_ = LineCollection(list(segments), linewidths=width, capstyle="butt")
        if colors == "time":
            self.cuts_.set(array=time, cmap="plasma", clim=(0, p.lifetime))
            self.figure_.colorbar(self.cuts_, ax=ax, label="time of the cut", pad=0.02)
        else:
            self.cuts_.set_color(BLACK)
        ax.add_collection(self.cuts_)

    def plot_tree(self, ax: Axes | None = None) -> PartitionDisplay:
        """Plot the tree of cuts against time, upwards from 0 to the lifetime.

        A vertical line is a cell, from its birth to its cut. A horizontal line is a cut, in the
        colour of its column. The cells at the lifetime are at the top.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw in; None for a new figure.

        Returns
        -------
        self : PartitionDisplay
            The display.
        """
        ax = self._axes(ax, "plot_tree")
        from matplotlib.collections import LineCollection

        p = self.partition
        x = _tree_positions(p)
        end = np.minimum(p.time, p.lifetime)
        lives = np.stack([np.c_[x, p.birth], np.c_[x, end]], axis=1)
        cut = np.flatnonzero(p.dim >= 0)
        joins = np.stack(
            [np.c_[x[p.left[cut]], p.time[cut]], np.c_[x[p.right[cut]], p.time[cut]]], axis=1
        )
        paint = self._column_colours(ax, np.concatenate([lives, joins]))
        colours = [BLACK] * len(lives) + [paint[d] for d in p.dim[cut].tolist()]
        width = 1.4 if p.n_cells <= 100 else 0.7
        self.cuts_ = LineCollection([*lives, *joins], colors=colours, linewidths=width)
        ax.add_collection(self.cuts_)
        ax.set(xlim=(-0.6, p.n_cells - 0.4), ylim=(0, p.lifetime or 1.0), xticks=[])
        ax.set(xlabel=f"{p.n_cells} cells at λ = {p.lifetime:.3g}", ylabel="time")
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        return self

    def _column_colours(self, ax: Axes, lines: FloatArray) -> dict[int, str]:
        """Colour of each column that is cut, explained by a colour bar or beside the lines."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize, to_hex
        from matplotlib.lines import Line2D

        columns = np.unique(self.partition.dim[self.partition.dim >= 0]).tolist()
        if len(columns) > _MOST_COLOURS:
            scale = ScalarMappable(Normalize(columns[0], columns[-1]), "viridis")
            self.figure_.colorbar(scale, ax=ax, label="column of the cut", pad=0.02)
            return {d: to_hex(tuple(scale.to_rgba(d))) for d in columns}
        default = [RED, BLUE] if len(columns) <= 2 else [f"C{k}" for k in range(_MOST_COLOURS)]
        paint = dict(zip(columns, default, strict=False))
        keys = [Line2D([], [], color=c, label=f"cut in column {d}") for d, c in paint.items()]
        if keys:
            breaks = np.full((len(lines), 1, 2), np.nan)
            x, y = np.concatenate([lines, breaks], axis=1).reshape(-1, 2).T
            legend_beside(ax, keys, [(ax.transData, x, y)])
        return paint


def tree_partition(
    features: MondrianFeatures, tree: int = 0, columns: Columns | None = None
) -> MondrianPartition:
    """Extend the cuts of one tree to the bounding box of the rows.

    A tree holds only the cuts that separate rows. Each is extended across the cell that it cuts, up
    to the box of all rows. Cuts in the empty space between rows affect no feature and are not
    known. ``columns`` is what the trees see of the inputs; with it the cells have their units.
    """
    trees, lifetime = features.trees_, features.lifetime_
    columns = Columns.scaled(np.ones(trees.n_dims)) if columns is None else columns
    node = trees.root[[tree]]
    lower, upper = _inputs(columns, trees.lower[node]), _inputs(columns, trees.upper[node])
    levels = []
    while node.size:
        cut = trees.time[node] <= lifetime
        dim = np.where(cut, trees.dim[node], np.int32(-1))
        at = _inputs(columns, np.repeat(trees.loc[node][:, None], trees.n_dims, axis=1))
        loc = np.where(cut, at[np.arange(node.size), dim], np.nan)
        time = np.where(cut, trees.time[node], np.inf)
        levels.append(Level(dim, loc, time, lower, upper))
        lower, upper = levels[-1].children()
        node = np.stack((trees.left[node[cut]], trees.right[node[cut]]), axis=1).ravel()
    return MondrianPartition.from_levels(lifetime, levels)


def _inputs(columns: Columns, T: RowArray) -> FloatArray:
    """Return the values of the input columns that the trees see as ``T``, (n, D)."""
    if columns.centre is not None:
        T = T + columns.centre / columns.scale
    X: FloatArray = T * columns.scale
    for d in np.flatnonzero(columns.bend):
        knots, t = columns.knots[:, d], T[:, d]
        seen = knots / columns.scale[d] + columns.bend[d] * columns.ranks[:, d]
        outside = np.minimum(t - seen[0], 0.0) + np.maximum(t - seen[-1], 0.0)
        X[:, d] = np.interp(t, seen, knots) + columns.scale[d] * outside
    return X


def _tree_positions(partition: MondrianPartition) -> FloatArray:
    """Horizontal position of each node: cells from left to right, a cut between its children."""
    position = np.zeros(partition.dim.size)
    stack, n_cells = [0], 0
    while stack:
        node = stack.pop()
        if partition.dim[node] < 0:
            position[node] = n_cells
            n_cells += 1
        else:
            stack += [int(partition.right[node]), int(partition.left[node])]
    # Children come after their parents, so in reverse order every child has its position.
    for node in np.flatnonzero(partition.dim >= 0)[::-1]:
        children = partition.left[node], partition.right[node]
        position[node] = (position[children[0]] + position[children[1]]) / 2
    return position
