"""Learners that keep a few numbers for each cell, and train together at several widths."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from operator import gt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._settings import MAX_RUNGS
from mondrian_kernel._typing import FloatArray, IntArray

Counts = NDArray[np.int64]
_NO_CELLS = np.empty(0, np.int32)


@cache
def _kernels() -> Any:
    from mondrian_kernel._kernels import rungs

    return rungs


class Batch(NamedTuple):
    """Rows that all rungs learn from, in the order in which kernels take them.

    ``leaf`` int32 (n, M): node of each row's cell. ``column`` int32 (at least R·L, n_nodes): cell
    of each node at each rung, or at each level of the one learner. ``value`` (L,): feature of a row
    in its cells at each level. ``Y`` (n, K): targets. ``weight`` (n,): positive weights.
    """

    leaf: IntArray
    column: IntArray
    value: FloatArray
    Y: FloatArray
    weight: FloatArray


class CellLearner(ABC):
    """A learner with a table row for each cell: mutable.

    A learner of L levels has in row c·L + l the numbers of cell c at level l.

    Attributes
    ----------
    n_outputs : int
        Number of outputs, K.
    alpha : float
        Penalty.
    n_table : int
        Number of table rows in use. The tables are longer: they grow by doubling.
    """

    # Tables, and the value of a new row of each; small arrays that rows change; and rings, which
    # are long enough that a batch need not be erased from them.
    tables: ClassVar[dict[str, float]]
    small: ClassVar[tuple[str, ...]]
    rings: ClassVar[tuple[str, ...]] = ()
    n_outputs: int
    alpha: float
    n_table: int

    @abstractmethod
    def learn(
        self,
        batch: Batch,
        tables: Sequence[tuple[FloatArray, ...]],
        small: Sequence[NDArray[Any]],
        losses: FloatArray,
    ) -> None:
        """Train all rungs on rows whose cells exist; ``losses`` (R, n) receives their losses.

        ``tables`` has a tuple for each kind of table, with one table for each rung; ``small`` holds
        the small arrays and the rings, with the rungs in the first axis.
        """

    def check_arrays(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Raise ValueError unless all arrays are finite and of these shapes; tables may be longer.

        ``shapes`` of tables are those of one row.
        """
        for name, shape in shapes.items():
            array: NDArray[Any] = getattr(self, name)
            found = array.shape[1:] if name in self.tables else array.shape
            if found != shape or (name in self.tables and not self.n_table <= array.shape[0]):
                raise ValueError(f"{name} has the shape {array.shape}.")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} is not finite.")
        if not (self.n_outputs > 0 and self.n_table >= 0 and 0 <= self.alpha < np.inf):
            raise ValueError(f"n_outputs, n_table or alpha={self.alpha} is out of range.")

    def make_room(self, n_table: int) -> None:
        """Make the tables long enough for so many rows."""
        for name, value in self.tables.items():
            old: FloatArray = getattr(self, name)
            if n_table > old.shape[0]:
                new = np.full((max(n_table, 2 * old.shape[0]), *old.shape[1:]), value)
                new[: old.shape[0]] = old
                setattr(self, name, new)


def by_level(table: FloatArray, n_cells: Counts) -> FloatArray:
    """Return the rows of a table, level after level: a view if there is one level."""
    n_levels = len(n_cells)
    if n_levels == 1:
        return table[: int(n_cells[0])]
    return np.concatenate([table[level::n_levels][:n] for level, n in enumerate(n_cells)])


def as_table(values: FloatArray, n_cells: Counts, fill: float) -> FloatArray:
    """Return a copy of values that are in order of levels as a table; see :func:`by_level`."""
    n_levels = len(n_cells)
    table = np.full((int(n_cells.max()) * n_levels, *values.shape[1:]), fill)
    begin = 0
    for level, n in enumerate(n_cells):
        table[level::n_levels][:n] = values[begin : begin + n]
        begin += n
    return table


@dataclass(frozen=True)
class _Saved:
    """The state of a group before a batch: table rows in use, and copies of what it changes."""

    n_table: list[int]
    leaf: IntArray
    column: IntArray
    tables: list[FloatArray]
    small: list[NDArray[Any]]


class LearnerGroup:
    """The learners of all rungs, which learn a batch or roll it back together.

    While the group is in use nothing else may change the learners.

    Parameters
    ----------
    learners : sequence of R learners
        Learners of one kind, one for each of the first R rungs; or one learner, of L levels.
    value : ndarray of shape (L,)
        Feature of a row in its cells at each level.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._online.group import LearnerGroup
    >>> from mondrian_kernel._online.learners import Means
    >>> leaf = np.array([[0, 1], [0, 2]], np.int32)  # two rows in two trees
    >>> column = np.array([[0, 1, 1], [0, 1, 2]], np.int32)  # at two rungs
    >>> learners, y = [Means(1, 0.0, True), Means(1, 0.0, True)], np.array([[1.0], [2.0]])
    >>> group = LearnerGroup(learners, np.array([0.5**0.5]))
    >>> group.learn(leaf, column, [2, 3], (), y, np.ones(2)).round(12)
    array([[0., 1.],
           [0., 1.]])
    >>> group.rollback()
    >>> learners[1].n_table
    0
    """

    def __init__(self, learners: Sequence[CellLearner], value: FloatArray) -> None:
        self._learners = learners
        self._value = value
        self._n_table = [learner.n_table for learner in learners]
        kind = learners[0]
        self._small = {
            name: np.stack([getattr(learner, name) for learner in learners])
            for name in (*kind.small, *kind.rings)
        }
        self._saved: _Saved | None = None
        self._collect_tables()
        self._share_small()

    def _collect_tables(self) -> None:
        # Tuples of one length, whatever the number of rungs: every length is compiled anew.
        n_more = MAX_RUNGS - len(self._learners)
        learners = [*self._learners, *[self._learners[-1]] * n_more]
        names = self._learners[0].tables
        self._tables = [tuple([getattr(learner, name) for learner in learners]) for name in names]
        self._room = [table.shape[0] for table in self._tables[0][: len(self._learners)]]
        self._flat = tuple(
            [a if a.ndim == 2 else a[:, None] for tables in self._tables for a in tables]
        )

    def _share_small(self) -> None:
        """Make the small arrays of the learners views of the arrays of the group."""
        for r, learner in enumerate(self._learners):
            for name, values in self._small.items():
                setattr(learner, name, values[r])

    def learn(
        self,
        leaf: IntArray,
        column: IntArray,
        n_cells: list[int],
        origin: tuple[IntArray, ...],
        Y: FloatArray,
        weight: FloatArray,
    ) -> FloatArray:
        """Learn from each row once, in order.

        Parameters
        ----------
        leaf, column, Y, weight
            See :class:`Batch`.
        n_cells : list of at least R·L ints
            Present number of cells at each.
        origin : tuple of ndarrays of int32, one for each rung, or empty
            Cells that have been cut: the k-th new cell is a part of the old cell ``origin[r][k]``
            and starts with its numbers, so that no score changes.

        Returns
        -------
        losses : ndarray of shape (R, n)
            Loss of each row before it was learnt from.
        """
        learners, n_before, n_levels = self._learners, self._n_table, self._value.size
        n_table = n_cells[: len(learners)]
        if n_levels > 1:
            n_table = [n_levels * max(n_cells[:n_levels])]
        if any(map(gt, n_table, self._room)):
            for learner, n in zip(learners, n_table, strict=True):
                learner.make_room(n)
            self._collect_tables()
        losses, old = np.empty((len(learners), leaf.shape[0])), np.array(n_before)
        n_kept = min(max(n_before), leaf.size * n_levels)
        kept = [np.empty((len(learners), n_kept, a[0][:1].size)) for a in self._tables]
        _kernels().keep(leaf, column, n_levels, old, self._flat, tuple(kept))
        small = [self._small[name].copy() for name in learners[0].small]
        # Before anything changes, so that an interrupt at any moment finds it.
        self._saved = _Saved(n_before, leaf, column, kept, small)
        self._set_sizes(n_table)
        if any(map(len, origin)):
            origins = (*origin, *[_NO_CELLS] * MAX_RUNGS)[:MAX_RUNGS]
            _kernels().inherit(origins, old, self._flat)
        arrays = list(self._small.values())
        batch = Batch(leaf, column, self._value, Y, weight)
        learners[0].learn(batch, self._tables, arrays, losses)
        return losses

    def rollback(self) -> None:
        """Undo the last batch; without one, or after a rollback, nothing happens."""
        self._share_small()
        saved = self._saved
        if saved is None:
            return
        n_levels = self._value.size
        kind = self._learners[0]
        for tables, kept, fresh in zip(
            self._tables, saved.tables, kind.tables.values(), strict=True
        ):
            for r, (a, n) in enumerate(zip(tables, saved.n_table, strict=False)):
                values = kept[r].reshape(-1, *a.shape[1:])
                a[n:] = fresh
                if n <= saved.leaf.size * n_levels:
                    a[:n] = values[:n]
                else:
                    rows = saved.column[r * n_levels : (r + 1) * n_levels, saved.leaf.ravel()]
                    rows = (rows.T.astype(np.int64) * n_levels + np.arange(n_levels)).ravel()
                    a[rows[rows < n]] = values[rows < n]
        for name, before in zip(kind.small, saved.small, strict=True):
            self._small[name][:] = before
        self._set_sizes(saved.n_table)
        self._saved = None

    def commit(self) -> None:
        """Drop the copies that a rollback of the last batch would need."""
        self._saved = None

    def _set_sizes(self, n_table: list[int]) -> None:
        for learner, n in zip(self._learners, n_table, strict=True):
            learner.n_table = n
        self._n_table = n_table
