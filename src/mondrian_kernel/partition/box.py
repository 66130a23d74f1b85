"""The Mondrian process on a box: sample it, stop it earlier, restrict it, extend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Cells", "Cuts", "MondrianPartition"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]
Seed = int | np.random.Generator | np.random.RandomState | None

MAX_BYTES = 2**30
"""A partition expected to need more memory than this is refused before any work."""

# Node of an open cell that holds nothing of the partition being extended. Read as an index it is
# the last row, of the last generation, hence a cell: never cut.
_FRESH = -1


class Cuts(NamedTuple):
    """The cuts of a partition, in time order: ``time``, ``dim`` and ``loc`` of each."""

    time: FloatArray
    dim: IntArray
    loc: FloatArray


class Cells(NamedTuple):
    """The boxes of the cells of a partition, one row each: ``lower`` and ``upper``."""

    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class MondrianPartition:
    r"""A sample of the Mondrian process on a box, with all its cells.

    A cell :math:`c` with sides :math:`|c_1|, \dots, |c_D|`, born at time :math:`t`, is cut at time

    .. math:: T = t + \min_d T_d, \quad T_d \sim \mathrm{Exp}(|c_d|) \text{ independent},

    in the dimension whose clock rings first, at a location uniform on that side. What is cut after
    the lifetime :math:`\lambda` stays whole. The expected number of cells is
    :math:`\prod_d (1 + \lambda |X_d|)`.

    Make one with :meth:`sample`. The nodes of the tree of cuts are rows of flat, read-only arrays,
    generation after generation: node 0 is the box itself, and the children of a node are
    neighbours. A cut at ``loc`` sends ``x[dim] <= loc`` left and ``x[dim] > loc`` right.

    Attributes
    ----------
    lifetime : float
        :math:`\lambda`, the time at which the process was stopped.
    parent, left, right : int32 array of shape (n_nodes,)
        Neighbours in the tree; -1 where there is none.
    dim : int32 array of shape (n_nodes,)
        Dimension in which the node is cut; -1 for a cell that is not cut by the lifetime.
    loc : float64 array of shape (n_nodes,)
        Location of the cut; NaN for a cell.
    time : float64 array of shape (n_nodes,)
        Time of the cut; infinity for a cell.
    lower, upper : float64 array of shape (n_nodes, n_dims)
        Box of the node.

    Examples
    --------
    >>> from mondrian_kernel.partition.box import MondrianPartition
    >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
    >>> partition
    MondrianPartition(n_cells=7, n_dims=2, lifetime=1.0)
    >>> partition.at(0.0).n_cells
    1
    >>> wider = partition.extend([-1, 0], [2, 3], random_state=6)
    >>> wider.restrict([0, 0], [2, 1]).n_cells
    7
    """

    lifetime: float
    parent: IntArray
    left: IntArray
    right: IntArray
    dim: IntArray
    loc: FloatArray
    time: FloatArray
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def sample(
        cls,
        lower: ArrayLike,
        upper: ArrayLike,
        lifetime: float,
        *,
        random_state: Seed = None,
    ) -> MondrianPartition:
        r"""Run the Mondrian process on :math:`X = \prod_d [l_d, u_d]` until :math:`\lambda`.

        Parameters
        ----------
        lower, upper : array-like of shape (n_dims,)
            The box :math:`X`; a side may have length zero.
        lifetime : float
            :math:`\lambda \ge 0`.
        random_state : int, Generator, RandomState or None, default=None
            Source of the randomness; the same seed gives the same partition.

        Returns
        -------
        MondrianPartition

        Examples
        --------
        >>> from mondrian_kernel.partition.box import MondrianPartition
        >>> MondrianPartition.sample([0.0], [1.0], lifetime=20.0, random_state=0).n_cells
        22
        """
        lifetime = _check_lifetime(lifetime)
        lower, upper = _check_box(lower, upper)
        # The process on a point never cuts, so its extension to the box is the process on the box.
        point = _trivial(lower, lifetime)
        return _extend(point, lower, upper, random_state)

    @property
    def n_cells(self) -> int:
        r"""Number of cells, :math:`N_\lambda`: one more than the number of cuts."""
        return (self.dim.size + 1) // 2

    @property
    def birth(self) -> FloatArray:
        """Time at which each node came into being: the time of its parent's cut, 0 for the box."""
        birth = self.time[self.parent]
        birth[0] = 0.0
        return birth

    @property
    def cuts(self) -> Cuts:
        """Time, dimension and location of every cut, in time order.

        Examples
        --------
        >>> from mondrian_kernel.partition.box import MondrianPartition
        >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=0.5, random_state=6)
        >>> time, dim, loc = partition.cuts
        >>> time.round(3), dim, loc.round(3)
        (array([0.3  , 0.302, 0.485]),
         array([0, 0, 1], dtype=int32),
         array([0.869, 1.782, 0.924]))
        """
        cut = np.flatnonzero(self.dim >= 0)
        cut = cut[np.argsort(self.time[cut], kind="stable")]
        return Cuts(self.time[cut], self.dim[cut], self.loc[cut])

    def cells(self, lifetime: float | None = None) -> Cells:
        """Boxes of the cells, at the partition's own lifetime or an earlier one.

        Parameters
        ----------
        lifetime : float, optional
            At most the partition's own, which is the default.

        Returns
        -------
        Cells
            ``lower`` and ``upper``, each of shape (n_cells, n_dims). A cell holds the points with
            ``lower < x <= upper``, and those on the lower faces of the whole box.

        Examples
        --------
        >>> from mondrian_kernel.partition.box import MondrianPartition
        >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
        >>> lower, upper = partition.cells()
        >>> bool(np.isclose((upper - lower).prod(axis=1).sum(), 2.0))
        True
        >>> partition.cells(0.0)
        Cells(lower=array([[0., 0.]]), upper=array([[2., 1.]]))
        """
        if lifetime is not None:
            return self.at(lifetime).cells()
        cell = self.dim < 0
        return Cells(self.lower[cell], self.upper[cell])

    def at(self, lifetime: float) -> MondrianPartition:
        """Stop the same process earlier: ignore every cut after ``lifetime``.

        Parameters
        ----------
        lifetime : float
            At most the partition's own.

        Returns
        -------
        MondrianPartition
            Its cells are unions of cells of this partition.

        Examples
        --------
        >>> from mondrian_kernel.partition.box import MondrianPartition
        >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
        >>> [partition.at(lifetime).n_cells for lifetime in (0.0, 0.25, 0.5, 1.0)]
        [1, 1, 4, 7]
        """
        lifetime = _check_lifetime(lifetime)
        if lifetime > self.lifetime:
            raise ValueError(
                f"lifetime={lifetime!r} is beyond the partition's own lifetime, {self.lifetime!r}; "
                "sample it with the larger lifetime and stop that one earlier"
            )
        keep = self.birth <= lifetime
        dim, loc, time = self.dim[keep], self.loc[keep], self.time[keep]
        uncut = time > lifetime
        dim[uncut], loc[uncut], time[uncut] = -1, np.nan, np.inf
        return _link(lifetime, dim, loc, time, self.lower[keep], self.upper[keep])

    def restrict(self, lower: ArrayLike, upper: ArrayLike) -> MondrianPartition:
        r"""Restrict the process to a sub-box :math:`A \subseteq X`: keep the cuts that cross it.

        By projectivity the result is a sample of the Mondrian process on :math:`A`.

        Parameters
        ----------
        lower, upper : array-like of shape (n_dims,)
            The box :math:`A`, within the partition's own box.

        Returns
        -------
        MondrianPartition

        Examples
        --------
        >>> from mondrian_kernel.partition.box import MondrianPartition
        >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
        >>> partition.restrict([0.5, 0], [1, 1])
        MondrianPartition(n_cells=5, n_dims=2, lifetime=1.0)
        """
        lower, upper = _check_box(lower, upper)
        _check_nested(lower, upper, self.lower[0], self.upper[0], "restrict")
        return _restrict(self, lower, upper)

    def extend(
        self, lower: ArrayLike, upper: ArrayLike, *, random_state: Seed = None
    ) -> MondrianPartition:
        r"""Extend the process to a larger box :math:`X \supseteq A` (the conditional Mondrian).

        In a cell of :math:`X` that holds a cell of :math:`A` alive from :math:`t_0` to :math:`t_1`,
        a cut that misses :math:`A` comes first if

        .. math:: t_0 + \min_d T_d < t_1, \quad T_d \sim \mathrm{Exp}(|X_d| - |A_d|),

        at a location uniform on :math:`X_d \setminus A_d`. Otherwise the old cut, at :math:`t_1`,
        is drawn across :math:`X`. If this partition has the law of the Mondrian process on
        :math:`A`, the result has the law of the Mondrian process on :math:`X`; every old cut is
        kept, and restricting the result to :math:`A` gives this partition back.

        Parameters
        ----------
        lower, upper : array-like of shape (n_dims,)
            The box :math:`X`, which contains the partition's own box.
        random_state : int, Generator, RandomState or None, default=None
            Source of the randomness; the same seed gives the same extension. It may be the seed
            that the partition was sampled with: the two draw from different streams.

        Returns
        -------
        MondrianPartition

        Examples
        --------
        >>> from mondrian_kernel.partition.box import MondrianPartition
        >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
        >>> wider = partition.extend([-1, 0], [2, 3], random_state=6)
        >>> wider
        MondrianPartition(n_cells=18, n_dims=2, lifetime=1.0)
        >>> bool(np.isin(partition.cuts.time, wider.cuts.time).all())
        True
        """
        lower, upper = _check_box(lower, upper)
        _check_nested(self.lower[0], self.upper[0], lower, upper, "extend")
        return _extend(self, lower, upper, random_state)

    def locate(self, X: ArrayLike) -> IntArray:
        """Cell of each row of ``X``, as an index into :meth:`cells`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_dims)
            Points within the partition's box.

        Returns
        -------
        int32 array of shape (n_rows,)

        Examples
        --------
        >>> from mondrian_kernel.partition.box import MondrianPartition
        >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
        >>> partition.locate([[0.3, 0.2], [1.9, 0.8]])
        array([1, 6], dtype=int32)
        >>> partition.at(0.0).locate([[0.3, 0.2], [1.9, 0.8]])
        array([0, 0], dtype=int32)
        """
        X = _check_points(X, self.lower[0], self.upper[0])
        root = np.zeros(len(X), dtype=np.int32)
        # A point is a box that no cut crosses, so its first crossing is a cell.
        leaf = _first_crossing(self, root, X, X)
        cell_of_node = np.cumsum(self.dim < 0, dtype=np.int32) - 1
        cell: IntArray = cell_of_node[leaf]
        return cell

    def __repr__(self) -> str:
        n_dims = self.lower.shape[1]
        return (
            f"MondrianPartition(n_cells={self.n_cells}, n_dims={n_dims}, lifetime={self.lifetime})"
        )


# --- the process ---------------------------------------------------------------------------------


def _extend(
    old: MondrianPartition, lower: FloatArray, upper: FloatArray, random_state: Seed
) -> MondrianPartition:
    """Conditional Mondrian on [lower, upper] given ``old``, all open cells of a generation at once.

    An open cell is a box of the result, the time of its ``birth`` and the ``node`` of ``old`` that
    it holds, or `_FRESH`.
    """
    _check_size(lower, upper, old.lifetime)
    rng = _generator(random_state, old.lower[0], old.upper[0])
    generations = []
    lower, upper = lower[None], upper[None]
    node, birth = np.zeros(1, dtype=np.int32), np.zeros(1)
    while node.size:
        dim, loc, time, node = _first_cuts(old, node, birth, lower, upper, rng)
        generations.append((dim, loc, time, lower, upper))
        cut = np.flatnonzero(dim >= 0)
        lower, upper = _split(lower[cut], upper[cut], dim[cut], loc[cut])
        birth = time[cut].repeat(2)
    return _join(old.lifetime, generations)


def _first_cuts(
    old: MondrianPartition,
    node: IntArray,
    birth: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray, FloatArray, IntArray]:
    """First cut of each open cell: dim, loc, time, and the nodes of ``old`` in the cells it makes.

    The inner box A of a fresh cell is its lower corner, which leaves the whole cell outside A.
    """
    fresh = (node == _FRESH)[:, None]
    inner_lower = np.where(fresh, lower, old.lower[node])
    inner_upper = np.where(fresh, lower, old.upper[node])
    outside = (inner_lower - lower) + (upper - inner_upper)

    clocks = _clocks(outside, rng)
    new_dim = clocks.argmin(axis=1)
    new_time = birth + clocks[np.arange(node.size), new_dim]

    dim, loc, time = old.dim[node], old.loc[node], old.time[node]
    sides = np.stack((old.left[node], old.right[node]), axis=1)
    new = np.flatnonzero((new_time < time) & (new_time <= old.lifetime))
    edge = new, new_dim[new]
    dim[new], time[new] = new_dim[new], new_time[new]
    loc[new], holder = _uniform_outside(
        lower[edge], inner_lower[edge], inner_upper[edge], upper[edge], rng
    )
    sides[new, holder] = node[new]
    sides[new, 1 - holder] = _FRESH
    return dim, loc, time, sides[dim >= 0].ravel()


def _clocks(rate: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Independent Exp(rate) times; a clock of rate 0 never rings."""
    clocks = np.full(rate.shape, np.inf)
    with np.errstate(over="ignore"):
        np.divide(rng.standard_exponential(rate.shape), rate, out=clocks, where=rate > 0)
    return clocks


def _uniform_outside(
    lower: FloatArray,
    inner_lower: FloatArray,
    inner_upper: FloatArray,
    upper: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Uniform on [lower, inner_lower) and [inner_upper, upper) together, which are not both empty.

    Also says which side of the cut holds the inner interval: 0 for the left, 1 for the right.
    """
    below = inner_lower - lower
    offset = rng.random(lower.size) * (below + (upper - inner_upper))
    is_below = (offset < below) | (inner_upper == upper)
    loc = np.where(is_below, lower + offset, inner_upper + (offset - below))
    end = np.where(is_below, inner_lower, upper)
    # Rounding may reach the open end, and a cut there would be on the wrong side of it.
    return np.minimum(loc, np.nextafter(end, -np.inf)), is_below.astype(np.intp)


def _restrict(
    partition: MondrianPartition, lower: FloatArray, upper: FloatArray
) -> MondrianPartition:
    """Partition of [lower, upper] by the cuts that cross it, a generation at a time."""
    generations = []
    lower, upper = lower[None], upper[None]
    node = np.zeros(1, dtype=np.int32)
    while node.size:
        node = _first_crossing(partition, node, lower, upper)
        dim, loc, time = partition.dim[node], partition.loc[node], partition.time[node]
        generations.append((dim, loc, time, lower, upper))
        cut = np.flatnonzero(dim >= 0)
        lower, upper = _split(lower[cut], upper[cut], dim[cut], loc[cut])
        node = np.stack((partition.left[node[cut]], partition.right[node[cut]]), axis=1).ravel()
    return _join(partition.lifetime, generations)


def _first_crossing(
    partition: MondrianPartition, node: IntArray, lower: FloatArray, upper: FloatArray
) -> IntArray:
    """Descend from each node to the first whose cut crosses the box [lower, upper], or to a cell.

    A cut crosses if lower <= loc < upper, that is if it parts two points of the box.
    """
    node = node.copy()
    moving = np.arange(node.size)
    while moving.size:
        here = node[moving]
        edge = moving, partition.dim[here]
        loc = partition.loc[here]  # NaN at a cell, where both comparisons are false
        goes_left = upper[edge] <= loc
        goes_right = loc < lower[edge]
        below = np.where(goes_left, partition.left[here], partition.right[here])
        moves = goes_left | goes_right
        moving = moving[moves]
        node[moving] = below[moves]
    return node


def _split(
    lower: FloatArray, upper: FloatArray, dim: IntArray, loc: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Cut each box at ``loc`` of ``dim``: left and right halves in turn, two rows a box."""
    box = np.arange(dim.size)
    lower, upper = lower.repeat(2, axis=0), upper.repeat(2, axis=0)
    upper[2 * box, dim] = loc
    lower[2 * box + 1, dim] = loc
    return lower, upper


# --- the arrays ----------------------------------------------------------------------------------

Generation = tuple[IntArray, FloatArray, FloatArray, FloatArray, FloatArray]


def _join(lifetime: float, generations: list[Generation]) -> MondrianPartition:
    """Freeze generations of rows (dim, loc, time, lower, upper) into a partition."""
    dim, loc, time, lower, upper = map(np.concatenate, zip(*generations, strict=True))
    return _link(lifetime, dim, loc, time, lower, upper)


def _link(
    lifetime: float,
    dim: IntArray,
    loc: FloatArray,
    time: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> MondrianPartition:
    """Add the links: in generation order the children of the j-th cut are rows 2j+1 and 2j+2."""
    cut = np.flatnonzero(dim >= 0).astype(np.int32)
    parent = np.full(dim.size, -1, dtype=np.int32)
    left, right = parent.copy(), parent.copy()
    parent[1:] = cut.repeat(2)
    left[cut] = np.arange(1, dim.size, 2)
    right[cut] = left[cut] + 1
    columns = (parent, left, right, dim, loc, time, lower, upper)
    for column in columns:
        column.flags.writeable = False
    return MondrianPartition(lifetime, *columns)


def _trivial(point: FloatArray, lifetime: float) -> MondrianPartition:
    """Build the partition of a single point."""
    uncut = np.full(1, -1, dtype=np.int32), np.full(1, np.nan), np.full(1, np.inf)
    return _link(lifetime, *uncut, point[None], point[None])


# --- what is refused -----------------------------------------------------------------------------


def _generator(random_state: Seed, lower: FloatArray, upper: FloatArray) -> np.random.Generator:
    """Source of the extension from [lower, upper].

    A seed is mixed with that box: had the partition been sampled with the same seed and drawn from
    the same stream, the new cuts would depend on the old ones.
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    if isinstance(random_state, int | np.integer):
        box = np.concatenate((lower, upper)).view(np.uint32)
        return np.random.default_rng([int(random_state), *box.tolist()])
    return np.random.default_rng(random_state)


def _check_lifetime(lifetime: float) -> float:
    value = float(lifetime)
    if not value >= 0.0:
        raise ValueError(f"lifetime must be a number >= 0, got {lifetime!r}")
    return value


def _numbers(values: ArrayLike, name: str, ndim: int) -> FloatArray:
    """Copy ``values`` to float64; refuse text, objects, complex numbers and the wrong shape."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    with np.errstate(over="ignore"):  # of a longer float: infinite, and refused as such
        return array.astype(np.float64)


def _check_box(lower: ArrayLike, upper: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Bounds of a box as new float64 arrays; a ValueError names the first bad dimension."""
    low, high = _numbers(lower, "lower", 1), _numbers(upper, "upper", 1)
    if low.shape != high.shape or low.size == 0:
        raise ValueError(
            "lower and upper must have the same, non-zero length, "
            f"got shapes {low.shape} and {high.shape}"
        )
    for name, bound in (("lower", low), ("upper", high)):
        if (bad := ~np.isfinite(bound)).any():
            d = bad.argmax()
            raise ValueError(f"{name}[{d}] must be finite, got {bound[d]}")
    if (bad := low > high).any():
        d = bad.argmax()
        raise ValueError(f"lower[{d}]={low[d]} is greater than upper[{d}]={high[d]}")
    with np.errstate(over="ignore"):
        side = 2.0 * (high - low)  # twice the side: room for the sum of its parts
    if (bad := ~np.isfinite(side)).any():
        d = bad.argmax()
        raise ValueError(
            f"upper[{d}] - lower[{d}] overflows: {high[d]} - {low[d]}; rescale dim {d}"
        )
    return low, high


def _check_nested(
    lower: FloatArray,
    upper: FloatArray,
    outer_lower: FloatArray,
    outer_upper: FloatArray,
    action: str,
) -> None:
    """Refuse ``action`` unless [lower, upper] lies within [outer_lower, outer_upper]."""
    if lower.size != outer_lower.size:
        raise ValueError(
            f"cannot {action}: the smaller box has {lower.size} dim(s), "
            f"the larger box {outer_lower.size}"
        )
    if (bad := (lower < outer_lower) | (outer_upper < upper)).any():
        d = bad.argmax()
        raise ValueError(
            f"cannot {action}: in dim {d}, [{lower[d]}, {upper[d]}] does not lie within "
            f"[{outer_lower[d]}, {outer_upper[d]}]"
        )


def _check_size(lower: FloatArray, upper: FloatArray, lifetime: float) -> None:
    """Refuse a box on which the partition is expected to need more than `MAX_BYTES`."""
    side = upper - lower
    with np.errstate(over="ignore"):
        expected = float(np.prod(1.0 + lifetime * side[side > 0]))
    bytes_per_cell = 2 * (2 * 8 * side.size + 2 * 8 + 4 * 4)  # about two nodes a cell
    if expected * bytes_per_cell > MAX_BYTES:
        raise ValueError(
            f"a Mondrian process on this box until lifetime={lifetime!r} has {expected:.3g} cells "
            f"on average (the product of 1 + lifetime * side over {side.size} dim(s)), more than "
            f"the {MAX_BYTES // bytes_per_cell:,} that are allowed; "
            "choose a smaller lifetime or a smaller box"
        )


def _check_points(X: ArrayLike, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Rows as float64; a ValueError names the first row that is not in [lower, upper]."""
    points = _numbers(X, "X", 2)
    if points.shape[1] != lower.size:
        raise ValueError(f"X has {points.shape[1]} column(s), but the box has {lower.size} dim(s)")
    if (bad := ~((lower <= points) & (points <= upper))).any():
        row, d = np.argwhere(bad)[0]
        raise ValueError(
            f"row {row} of X is outside the box: in dim {d}, {points[row, d]} is not in "
            f"[{lower[d]}, {upper[d]}]; extend the partition to a box that contains it"
        )
    return points
