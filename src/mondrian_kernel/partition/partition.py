"""A sample of the Mondrian process on a box, and what can be done with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.partition.checks import (
    check_box,
    check_lifetime,
    check_nested,
    check_points,
    check_size,
)
from mondrian_kernel.partition.conditional import Seed, extended
from mondrian_kernel.partition.crossing import first_crossing, restricted
from mondrian_kernel.partition.tree import BoxTree


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
class MondrianPartition(BoxTree):
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
    >>> from mondrian_kernel import MondrianPartition
    >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
    >>> partition
    MondrianPartition(n_cells=7, n_dims=2, lifetime=1.0)
    >>> partition.at(0.0).n_cells
    1
    >>> wider = partition.extend([-1, 0], [2, 3], random_state=6)
    >>> wider.restrict([0, 0], [2, 1]).n_cells
    7
    """

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
        >>> from mondrian_kernel import MondrianPartition
        >>> MondrianPartition.sample([0.0], [1.0], lifetime=20.0, random_state=0).n_cells
        22
        """
        lifetime = check_lifetime(lifetime)
        lower, upper = check_box(lower, upper)
        # The process on a point never cuts, so its extension to the box is the process on the box.
        return cls._of_point(lower, lifetime)._extended(lower, upper, random_state)

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
        >>> from mondrian_kernel import MondrianPartition
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
        >>> from mondrian_kernel import MondrianPartition
        >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
        >>> [partition.at(lifetime).n_cells for lifetime in (0.0, 0.25, 0.5, 1.0)]
        [1, 1, 4, 7]
        """
        lifetime = check_lifetime(lifetime)
        if lifetime > self.lifetime:
            raise ValueError(
                f"lifetime={lifetime!r} is beyond the partition's own lifetime, {self.lifetime!r}; "
                "sample it with the larger lifetime and stop that one earlier"
            )
        keep = self.birth <= lifetime
        dim, loc, time = self.dim[keep], self.loc[keep], self.time[keep]
        uncut = time > lifetime
        dim[uncut], loc[uncut], time[uncut] = -1, np.nan, np.inf
        nodes = dim, loc, time, self.lower[keep], self.upper[keep]
        return self._of_generations(lifetime, [nodes])

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
        >>> from mondrian_kernel import MondrianPartition
        >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
        >>> partition.restrict([0.5, 0], [1, 1])
        MondrianPartition(n_cells=5, n_dims=2, lifetime=1.0)
        """
        lower, upper = check_box(lower, upper)
        check_nested(lower, upper, self.lower[0], self.upper[0], "restrict")
        return self._of_generations(self.lifetime, restricted(self, lower, upper))

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
        >>> from mondrian_kernel import MondrianPartition
        >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
        >>> wider = partition.extend([-1, 0], [2, 3], random_state=6)
        >>> wider
        MondrianPartition(n_cells=18, n_dims=2, lifetime=1.0)
        >>> bool(np.isin(partition.cuts.time, wider.cuts.time).all())
        True
        """
        lower, upper = check_box(lower, upper)
        check_nested(self.lower[0], self.upper[0], lower, upper, "extend")
        return self._extended(lower, upper, random_state)

    def _extended(
        self, lower: FloatArray, upper: FloatArray, random_state: Seed
    ) -> MondrianPartition:
        check_size(lower, upper, self.lifetime)
        return self._of_generations(self.lifetime, extended(self, lower, upper, random_state))

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
        >>> from mondrian_kernel import MondrianPartition
        >>> partition = MondrianPartition.sample([0, 0], [2, 1], lifetime=1.0, random_state=6)
        >>> partition.locate([[0.3, 0.2], [1.9, 0.8]])
        array([1, 6], dtype=int32)
        >>> partition.at(0.0).locate([[0.3, 0.2], [1.9, 0.8]])
        array([0, 0], dtype=int32)
        """
        X = check_points(X, self.lower[0], self.upper[0])
        root = np.zeros(len(X), dtype=np.int32)
        # A point is a box that no cut crosses, so its first crossing is a cell.
        leaf = first_crossing(self, root, X, X)
        cell_of_node = np.cumsum(self.dim < 0, dtype=np.int32) - 1
        cell: IntArray = cell_of_node[leaf]
        return cell

    def __repr__(self) -> str:
        n_dims = self.lower.shape[1]
        return (
            f"MondrianPartition(n_cells={self.n_cells}, n_dims={n_dims}, lifetime={self.lifetime})"
        )
