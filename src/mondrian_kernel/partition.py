"""The Mondrian process on a box: sample it, stop it earlier, restrict it, extend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel._trees.boxes import (
    BoxTree,
    Level,
    Seed,
    check_box,
    check_nested,
    check_points,
    check_size,
    extended_levels,
    first_crossing,
    restricted_levels,
)
from mondrian_kernel._trees.checks import naming
from mondrian_kernel._typing import FloatArray, IntArray

__all__ = ["BoxCells", "BoxCuts", "Level", "MondrianPartition"]


class BoxCuts(NamedTuple):
    """The cuts of a partition in time order: their ``time``, column ``dim`` and place ``loc``."""

    time: FloatArray
    dim: IntArray
    loc: FloatArray


class BoxCells(NamedTuple):
    """The boxes of the cells of a partition: ``lower`` and ``upper``, one row per cell."""

    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class MondrianPartition(BoxTree):
    r"""A sample of the Mondrian process on a box, with all its cells.

    A cell :math:`c` with sides :math:`|c_1|, \ldots, |c_D|`, born at time :math:`t`, is cut at time

    .. math:: T = t + \min_d T_d, \quad T_d \sim \mathrm{Exp}(|c_d|) \text{ independent},

    in the column :math:`d` with the smallest :math:`T_d`, at a location uniform on that side. Cuts
    after the lifetime :math:`\lambda` are not made. The expected number of cells is
    :math:`\prod_d (1 + \lambda |X_d|)`.

    Create one with :meth:`sample`. The tree of cuts is stored in flat, read-only arrays with one
    row per node, level after level: node 0 is the whole box, and the two children of a node are
    neighbours. A cut at ``loc`` sends ``x[dim] <= loc`` left and ``x[dim] > loc`` right.

    Attributes
    ----------
    lifetime : float
        :math:`\lambda`, the time at which the process was stopped.
    parent, left, right : int32 array of shape (n_nodes,)
        Parent and children of each node; -1 where there is none.
    dim : int32 array of shape (n_nodes,)
        Column in which the node is cut; -1 for a cell, which is not cut.
    loc : float64 array of shape (n_nodes,)
        Location of the cut; NaN for a cell.
    time : float64 array of shape (n_nodes,)
        Time of the cut; infinity for a cell.
    lower, upper : float64 array of shape (n_nodes, n_columns)
        Box of the node.

    Examples
    --------
    >>> from mondrian_kernel import MondrianPartition
    >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
    >>> partition
    MondrianPartition(n_cells=7, n_columns=2, lifetime=1.0)
    >>> partition.at(0.0).n_cells
    1
    >>> wider = partition.extend([-1, 0], [2, 3], random_state=6)
    >>> wider.restrict([0, 0], [2, 1]).n_cells
    7
    """

    @classmethod
    def sample(
        cls, lower: ArrayLike, upper: ArrayLike, lifetime: float, *, random_state: Seed = None
    ) -> MondrianPartition:
        r"""Run the Mondrian process on :math:`X = \prod_d [l_d, u_d]` until :math:`\lambda`.

        Parameters
        ----------
        lower, upper : array-like of shape (n_columns,)
            The box :math:`X`; a side may have length zero.
        lifetime : float
            :math:`\lambda \ge 0`.
        random_state : int, Generator, RandomState or None, default=None
            Random seed or generator; the same seed gives the same partition.

        Returns
        -------
        MondrianPartition

        Examples
        --------
        >>> from mondrian_kernel import MondrianPartition
        >>> MondrianPartition.sample([0.0], [1.0], lifetime=20.0, random_state=0).n_cells
        22
        """
        lifetime = _check_lifetime(lifetime)
        lower, upper = check_box(lower, upper)
        # A point is never cut, so extending the process on a point to the box samples the box.
        uncut = np.full(1, -1, dtype=np.int32), np.full(1, np.nan), np.full(1, np.inf)
        point = cls.from_levels(lifetime, [Level(*uncut, lower[None], lower[None])])
        return point.extend(lower, upper, random_state=random_state)

    @property
    def n_cells(self) -> int:
        r"""Number of cells, :math:`N_\lambda`: one more than the number of cuts."""
        return (self.dim.size + 1) // 2

    @property
    def birth(self) -> FloatArray:
        """Time at which each node appears: the time of its parent's cut, 0 for the whole box."""
        birth = self.time[self.parent]
        birth[0] = 0.0
        return birth

    @property
    def cuts(self) -> BoxCuts:
        """Time, column and location of every cut, in time order.

        Examples
        --------
        >>> from mondrian_kernel import MondrianPartition
        >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=0.5, random_state=6)
        >>> time, dim, loc = partition.cuts
        >>> time.round(3), dim, loc.round(3)
        (array([0.3  , 0.302, 0.485]),
         array([0, 0, 1], dtype=int32),
         array([0.869, 1.782, 0.924]))
        """
        cut = np.flatnonzero(self.dim >= 0)
        cut = cut[np.argsort(self.time[cut], kind="stable")]
        return BoxCuts(self.time[cut], self.dim[cut], self.loc[cut])

    def cells(self, lifetime: float | None = None) -> BoxCells:
        """Boxes of the cells, at the partition's own lifetime or an earlier one.

        Parameters
        ----------
        lifetime : float or None, default=None
            At most the partition's own, which is the default.

        Returns
        -------
        BoxCells
            ``lower`` and ``upper``, each of shape (n_cells, n_columns). A cell holds the points
            with ``lower < x <= upper``, and those on the lower faces of the whole box.

        Examples
        --------
        >>> from mondrian_kernel import MondrianPartition
        >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
        >>> lower, upper = partition.cells()
        >>> bool(np.isclose((upper - lower).prod(axis=1).sum(), 2.0))
        True
        >>> partition.cells(0.0)
        BoxCells(lower=array([[0., 0.]]), upper=array([[2., 1.]]))
        """
        if lifetime is not None:
            return self.at(lifetime).cells()
        cell = self.dim < 0
        return BoxCells(self.lower[cell], self.upper[cell])

    def at(self, lifetime: float) -> MondrianPartition:
        """Stop the same process earlier: drop every cut after ``lifetime``.

        Parameters
        ----------
        lifetime : float
            At most the partition's own.

        Returns
        -------
        MondrianPartition
            Its cells are unions of cells of this partition.
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
        nodes = Level(dim, loc, time, self.lower[keep], self.upper[keep])
        return self.from_levels(lifetime, [nodes])

    def restrict(self, lower: ArrayLike, upper: ArrayLike) -> MondrianPartition:
        r"""Restrict the process to a sub-box :math:`A \subseteq X`: keep the cuts that cross it.

        By projectivity the result is a sample of the Mondrian process on :math:`A`.

        Parameters
        ----------
        lower, upper : array-like of shape (n_columns,)
            The box :math:`A`, within the partition's own box.

        Returns
        -------
        MondrianPartition
        """
        lower, upper = check_box(lower, upper)
        check_nested((lower, upper), (self.lower[0], self.upper[0]), "restrict")
        return self.from_levels(self.lifetime, restricted_levels(self, lower, upper))

    def extend(
        self, lower: ArrayLike, upper: ArrayLike, *, random_state: Seed = None
    ) -> MondrianPartition:
        r"""Extend the process to a larger box :math:`X \supseteq A` (the conditional Mondrian).

        Let a cell of :math:`X` hold a cell of :math:`A` that exists from :math:`t_0` to
        :math:`t_1`. A cut that misses :math:`A` comes first if

        .. math:: t_0 + \min_d T_d < t_1, \quad T_d \sim \mathrm{Exp}(|X_d| - |A_d|),

        at a location uniform on :math:`X_d \setminus A_d`. Otherwise the old cut at :math:`t_1`
        continues across the cell of :math:`X`. If this partition is a sample of the Mondrian
        process on :math:`A`, the result is a sample of the Mondrian process on :math:`X`. Every
        old cut is kept, and restricting the result to :math:`A` returns this partition.

        Parameters
        ----------
        lower, upper : array-like of shape (n_columns,)
            The box :math:`X`, which contains the partition's own box.
        random_state : int, Generator, RandomState or None, default=None
            Random seed or generator; the same seed gives the same extension. It may be the seed
            used to sample the partition: the two use different random numbers.

        Returns
        -------
        MondrianPartition
        """
        lower, upper = check_box(lower, upper)
        check_nested((self.lower[0], self.upper[0]), (lower, upper), "extend")
        check_size(lower, upper, self.lifetime)
        return self.from_levels(self.lifetime, extended_levels(self, lower, upper, random_state))

    def locate(self, X: ArrayLike) -> IntArray:
        """Cell of each row of ``X``, as an index into :meth:`cells`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Points within the partition's box.

        Returns
        -------
        int32 array of shape (n_rows,)

        Examples
        --------
        >>> from mondrian_kernel import MondrianPartition
        >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
        >>> partition.locate([[0.3, 0.2], [1.9, 0.8]])
        array([1, 6], dtype=int32)
        """
        X = check_points(X, self.lower[0], self.upper[0])
        root = np.zeros(len(X), dtype=np.int32)
        # A point is a box that no cut crosses, so its first crossing is a cell.
        leaf = first_crossing(self, root, X, X)
        cell_of_node = np.cumsum(self.dim < 0, dtype=np.int32) - 1
        cell: IntArray = cell_of_node[leaf]
        return cell

    def __repr__(self) -> str:
        return (
            f"MondrianPartition(n_cells={self.n_cells}, n_columns={self.lower.shape[1]}, "
            f"lifetime={self.lifetime})"
        )


def _check_lifetime(lifetime: float) -> float:
    """Lifetime as a float that is at least 0."""
    with naming("lifetime"):
        value = float(lifetime)
    if not value >= 0.0:
        raise ValueError(f"lifetime must be a number >= 0, got {lifetime!r}")
    return value
