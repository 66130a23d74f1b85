"""Learners that keep a few numbers for each cell, and train together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from operator import gt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._typing import FloatArray, IntArray

Counts = NDArray[np.int64]
_NO_CELLS = np.empty(0, np.int32)


@cache
def compiled() -> Any:
    """Return the compiled loops, which are imported when they are needed."""
    from mondrian_kernel._kernels import learners

    return learners


class Batch(NamedTuple):
    """Rows that all learners learn from, in the order in which kernels take them.

    ``leaf`` int32 (n, M): node of each row's cell. ``column`` int32 (at least R·L, n_nodes): cell
    of each node at each rung, at each level. ``rung`` int64 (J,): rung of each learner. ``begin``
    int64 (J + 1,): first row of each learner in the tables. ``value`` (L,): feature of a row in its
    cells at each level. ``Y`` (n, K): targets. ``weight`` (n,): positive weights.
    """

    leaf: IntArray
    column: IntArray
    rung: Counts
    begin: Counts
    value: FloatArray
    Y: FloatArray
    weight: FloatArray


class Judged(NamedTuple):
    """What learners say of rows before they learn any of them.

    ``scores`` (J, n, K): scores, less the learner's ``offset``. ``variance`` (J, n): variance of
    an error in units of that of the signal.
    """

    scores: FloatArray
    variance: FloatArray


class Scores(NamedTuple):
    """Scores of new rows.

    ``mean`` (n, K): scores. ``variance`` (n,): variance of an error in units of that of the signal.
    """

    mean: FloatArray
    variance: FloatArray


class CellLearner(ABC):
    """A learner with a table row for each cell: mutable.

    A learner of L levels has in row c·L + l the numbers of cell c at level l.

    Attributes
    ----------
    n_outputs : int
        Number of outputs, K.
    alpha : float
        Penalty.
    half_life : float
        Rows after which a row counts half; infinite if none is forgotten.
    n_table : int
        Number of table rows in use. The tables are longer: they grow by doubling.
    growth : ndarray of shape (1,)
        Weight of the last row in units of the first one's. The tables are in the latter units, so
        that old rows lose weight without being touched.
    """

    # Tables, and the value of a new row of each; small arrays that rows change.
    tables: ClassVar[dict[str, float]]
    small: ClassVar[tuple[str, ...]]
    n_outputs: int
    alpha: float
    half_life: float
    n_table: int
    growth: FloatArray

    @abstractmethod
    def learn(
        self,
        batch: Batch,
        tables: Sequence[FloatArray],
        small: Sequence[NDArray[Any]],
        keep: FloatArray,
    ) -> Judged:
        """Train all learners on rows whose cells exist.

        ``tables`` has an array for each kind of table, with the rows of all learners; ``small``
        holds the small arrays, with the learners in the first axis. Before each row, earlier ones
        lose all but the share ``keep`` (J,) of their weight.
        """

    @abstractmethod
    def write_scores(
        self,
        walk: Sequence[Any],
        group: LearnerGroup,
        weights: FloatArray,
        shares: FloatArray,
        out: Scores,
    ) -> None:
        """Write the scores of new rows, without intercepts, mixed over the learners of a group.

        ``walk`` holds scaled rows, arrays of trees, lifetimes and cells of the nodes at each.
        ``weights`` (J,) mix the scores, ``shares`` (J,) their variances.
        """

    @abstractmethod
    def intercepts(self, small: dict[str, NDArray[Any]]) -> FloatArray:
        """Return the intercepts (J, K) of learners with these small arrays, less their offset."""

    @abstractmethod
    def rescale(self) -> None:
        """Put the tables into units of the last row: ``growth`` is 1 again."""

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
        if not (self.half_life > 0 and self.growth[0] >= 1):
            raise ValueError(f"half_life={self.half_life} or growth is out of range.")


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


class _Saved(NamedTuple):
    """The state of a group before a batch: table rows in use, and copies of what it changes."""

    n_table: list[int]
    leaf: IntArray
    column: IntArray
    tables: list[FloatArray]
    small: list[NDArray[Any]]


class LearnerGroup:
    """Learners at all rungs, which learn a batch or roll it back together.

    While the group is in use nothing else may change the learners.

    Parameters
    ----------
    learners : sequence of J learners
        Learners of one kind, the same number for each rung, rung after rung.
    n_rungs : int
        Number of rungs R.
    value : ndarray of shape (L,)
        Feature of a row in its cells at each level.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._online.group import LearnerGroup
    >>> from mondrian_kernel._online.means import Means
    >>> leaf = np.array([[0, 1], [0, 2]], np.int32)  # two rows in two trees
    >>> column = np.array([[0, 1, 1], [0, 1, 2]], np.int32)  # at two rungs
    >>> learners, y = [Means(1, 0.0, True), Means(1, 0.0, True)], np.array([[1.0], [2.0]])
    >>> group = LearnerGroup(learners, 2, np.array([0.5**0.5]))
    >>> group.learn(leaf, column, [2, 3], (), y, np.ones(2)).scores[:, :, 0]
    array([[1., 1.],
           [1., 1.]])
    >>> group.rollback()
    >>> learners[1].n_table
    0
    """

    def __init__(self, learners: Sequence[CellLearner], n_rungs: int, value: FloatArray) -> None:
        self._learners = learners
        self.value = value
        self.rung = np.repeat(np.arange(n_rungs), len(learners) // n_rungs)
        self._rungs = self.rung.tolist()
        self._keep = np.array([0.5 ** (1.0 / learner.half_life) for learner in learners])
        self._fastest = int(self._keep.argmin())  # whose weights of rows grow fastest
        self._n_table = [learner.n_table for learner in learners]
        names = learners[0].small
        stacked = [np.stack([getattr(learner, name) for learner in learners]) for name in names]
        self.small = dict(zip(names, stacked, strict=True))
        self._saved: _Saved | None = None
        self._collect_tables(self._n_table)

    def _collect_tables(self, n_table: list[int]) -> None:
        """Put the tables of all learners into one of each kind, with room for so many rows.

        Tables grow by doubling.
        """
        learners, kinds = self._learners, self._learners[0].tables
        room = [len(getattr(learner, next(iter(kinds)))) for learner in learners]
        room = [n if n >= more else max(more, 2 * n) for n, more in zip(room, n_table, strict=True)]
        begin = np.cumsum([0, *room])
        tables = []
        for name, value in kinds.items():
            old = [getattr(learner, name) for learner in learners]
            table = np.full((begin[-1], *old[0].shape[1:]), value)
            for first, part in zip(begin.tolist(), old, strict=False):
                table[first : first + len(part)] = part
            tables.append(table)
        self.begin, self.tables, self._room = begin, tables, room
        self._flat = tuple([a if a.ndim == 2 else a[:, None] for a in tables])
        self._share()

    def _share(self) -> None:
        """Make the arrays of the learners views of the arrays of the group."""
        begin = self.begin.tolist()
        for j, learner in enumerate(self._learners):
            for name, values in self.small.items():
                setattr(learner, name, values[j])
            for name, table in zip(learner.tables, self.tables, strict=True):
                setattr(learner, name, table[begin[j] : begin[j + 1]])

    def learn(
        self,
        leaf: IntArray,
        column: IntArray,
        n_cells: list[int],
        origin: tuple[IntArray, ...],
        Y: FloatArray,
        weight: FloatArray,
    ) -> Judged:
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
        judged : Judged
            Scores of the rows before any of them was learnt.
        """
        learners, n_levels = self._learners, self.value.size
        n_table = [n_cells[r] for r in self._rungs]
        if n_levels > 1:
            n_table = [n_levels * max(n_cells[:n_levels])] * len(learners)
        if any(map(gt, n_table, self._room)):
            self._collect_tables(n_table)
        if self.small["growth"].item(self._fastest) > settings.LARGEST_GROWTH:
            for learner in learners:
                learner.rescale()
        n_before = self._n_table
        old = np.array(n_before)
        n_kept = min(max(n_before), leaf.size * n_levels)
        kept = [np.empty((len(learners), n_kept, a.shape[1])) for a in self._flat]
        place = self.rung, self.begin
        compiled().keep(leaf, column, *place, n_levels, old, self._flat, tuple(kept))
        small = [values.copy() for values in self.small.values()]
        # Before anything changes, so that an interrupt at any moment finds it.
        self._saved = _Saved(n_before, leaf, column, kept, small)
        if n_table != n_before:
            self._set_sizes(n_table)
        if origin and origin[-1].size:  # no rung is cut more often than the last
            origins = (*origin, *[_NO_CELLS] * settings.MAX_RUNGS)[: settings.MAX_RUNGS]
            compiled().inherit(*place, origins, old, self._flat)
        batch = Batch(leaf, column, *place, self.value, Y, weight)
        return learners[0].learn(batch, self.tables, list(self.small.values()), self._keep)

    def rollback(self) -> None:
        """Undo the last batch; without one, or after a rollback, nothing happens."""
        self._share()
        saved = self._saved
        if saved is None:
            return
        n_levels, fresh = self.value.size, self._learners[0].tables.values()
        for table, kept, value in zip(self._flat, saved.tables, fresh, strict=True):
            for j, (n, r) in enumerate(zip(saved.n_table, self._rungs, strict=True)):
                a = table[self.begin[j] : self.begin[j + 1]]
                a[n:] = value
                if n <= saved.leaf.size * n_levels:
                    a[:n] = kept[j, :n]
                else:
                    rows = saved.column[r * n_levels : (r + 1) * n_levels, saved.leaf.ravel()]
                    rows = (rows.T.astype(np.int64) * n_levels + np.arange(n_levels)).ravel()
                    a[rows[rows < n]] = kept[j, : rows.size][rows < n]
        for values, before in zip(self.small.values(), saved.small, strict=True):
            values[:] = before
        self._set_sizes(saved.n_table)
        self._saved = None

    def commit(self) -> None:
        """Drop the copies that a rollback of the last batch would need."""
        self._saved = None

    def _set_sizes(self, n_table: list[int]) -> None:
        for learner, n in zip(self._learners, n_table, strict=True):
            learner.n_table = n
        self._n_table = n_table
