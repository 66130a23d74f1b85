"""Mondrian trees that new rows extend, with the law of trees sampled on all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._kernels.tables import Batch, NodeTable, OnlineTable
from mondrian_kernel._trees.checks import check_more_ranges
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray, RowArray

# Entries of ``tally`` and of ``progress``, and what ``extend`` returns, as in the kernels.
_NODES, _ROWS = range(2)
_SAVED = 4
_TOO_LARGE, _NO_NODES = 1, 2
_NO_CAP = 2**63 - 1
_LARGE = np.finfo(np.float64).max / 4


@cache
def _kernels() -> Any:
    from mondrian_kernel._kernels import extend

    return extend.extend, extend.undo


class KeptRows(NamedTuple):
    """All rows of trees that a fit has grown and further rows have extended since.

    ``n_nodes`` (M,) are the numbers of nodes of the fit's trees, whose nodes come first: a node
    before all on its left, and these before those on its right. ``X`` are the rows as the trees see
    them, and ``leaf`` their leaves, of the fit and then of each batch.
    """

    n_nodes: NDArray[np.int64]
    X: list[RowArray]
    leaf: list[IntArray]


class OnlineTrees:
    r"""M Mondrian trees that grow with a stream of rows: mutable, until :meth:`freeze` is called.

    Each new row extends each tree by the conditional Mondrian. At a node with box B, alive from
    :math:`t_0` to :math:`t_1`, a row at L1 distance Δ from B is parted from B at the time
    :math:`t_0 + E` with :math:`E \sim \mathrm{Exp}(\Delta)`, if that is before :math:`t_1`; else B
    is enlarged and the row goes on to a child. Trees that were extended row by row, in any order
    and in batches of any size, have the law of trees sampled on all rows at once; boxes, counts
    and times are exact (but see :meth:`deeper`). Nodes are appended, never copied nor renumbered,
    and so are cells: a feature keeps its number, older rows have the value 0 in new ones.

    The trees depend on what they were made from, on the rows in their order, and on the seed; not
    on how the rows were split into batches, unless :meth:`deeper` was called in between. Cells are
    numbered at the lifetimes ``rungs`` (R,), which increase up to ``lifetime``.

    Build it with :meth:`from_trees` or :meth:`empty`.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._trees.online import OnlineTrees
    >>> X = np.random.default_rng(0).uniform(size=(200, 3))
    >>> trees = OnlineTrees.empty(n_dims=3, n_trees=50, lifetime=2.0, seed=0)
    >>> leaf = trees.extend(X[:150])
    >>> cell = trees.column[-1, leaf]  # of 150 rows in 50 trees
    >>> leaf = trees.extend(X[150:])
    >>> trees.n_rows, trees.freeze().n_trees
    (200, 50)
    """

    def __init__(self, table: OnlineTable, lifetime: float, rungs: FloatArray, seed: int) -> None:
        self._table = table
        self._batch = Batch.start(0, table)
        self._frozen: Trees | None = None
        self.rows: KeptRows | None = None
        n = int(table.tally[_NODES])
        self._unfinished = bool((table.stop[:n][table.left[:n] < 0] < lifetime).any())
        self._seed, self.seed, self.lifetime, self.rungs = np.uint64(seed), seed, lifetime, rungs

    @classmethod
    def from_trees(
        cls,
        trees: Trees,
        seed: int,
        rungs: Sequence[float] | FloatArray | None = None,
        column: IntArray | None = None,
        stop: FloatArray | None = None,
        rows: KeptRows | None = None,
        room: int = 0,
        per_tree: NDArray[np.int64] | None = None,
    ) -> OnlineTrees:
        """Trees that continue from ``trees``, which are copied.

        The seed may be that which the trees were grown with: the streams differ. Cells are numbered
        at ``rungs``, which increase up to ``trees.lifetime``, by default that alone; ``column`` (R,
        n_nodes) are their numbers, by default those of ``trees.cells``. ``stop`` (n_nodes,) is the
        time to which the clock of each leaf has run, by default the lifetime; ``rows`` are all rows
        of the trees, if these are to be kept. With rungs, column, stop, rows and seed of other
        online trees and their :meth:`freeze`, the result goes on as they would. There is room for
        ``room`` nodes at once. ``per_tree`` (R, M) are the numbers of cells of each tree, which are
        counted unless they are given.
        """
        rungs = np.array([trees.lifetime] if rungs is None else rungs, dtype=np.float64)
        if rungs[-1] != trees.lifetime or np.any(np.diff(rungs) <= 0):
            raise ValueError(f"rungs={rungs} do not increase up to the lifetime {trees.lifetime}.")
        if column is None:
            column = np.stack([trees.cells(rung).column for rung in rungs])
        n_nodes = trees.time.size
        n_rows = trees.count[trees.root[0]] if n_nodes else 0
        if per_tree is None:
            tops = trees.top_nodes(column)
            count = partial(np.bincount, minlength=trees.n_trees)
            per_tree = np.stack([count(trees.tree[is_top]) for is_top in tops])
        table = OnlineTable(
            *trees.nodes,
            column,
            np.hstack([per_tree, per_tree.sum(axis=1, keepdims=True)]),
            np.full(n_nodes, trees.lifetime) if stop is None else stop,
            np.zeros(n_nodes, np.bool_),
            np.array([n_nodes, n_rows], dtype=np.int64),
        )
        new = cls(table.with_room(max(room, 2 * n_nodes)), trees.lifetime, rungs, seed)
        new.rows = rows and KeptRows(rows.n_nodes, list(rows.X), list(rows.leaf))
        return new

    @classmethod
    def empty(
        cls,
        n_dims: int,
        n_trees: int,
        lifetime: float,
        seed: int,
        rungs: Sequence[float] | FloatArray | None = None,
    ) -> OnlineTrees:
        """Trees without rows; the first row will be the root of each. See :meth:`from_trees`."""
        none, never, box = np.empty(0, np.int32), np.empty(0), np.empty((0, n_dims))
        root = np.full(int(n_trees), -1, np.int32)
        links = none, none, none, none, none
        trees = Trees(lifetime, root, *links, never, never, box, box, none)
        n_rungs = 1 if rungs is None else len(rungs)
        return cls.from_trees(trees, seed, rungs, np.empty((n_rungs, 0), np.int32))

    @property
    def table(self) -> OnlineTable:
        """The nodes, with room for more; further rows change or replace them."""
        return self._table

    @property
    def n_rows(self) -> int:
        """Number of rows that the trees hold."""
        return self._table.tally.item(_ROWS)

    @property
    def n_cells(self) -> NDArray[np.int64]:
        """Number of cells of all trees at each rung, shape (R,)."""
        return self._table.n_cells[:, -1].copy()

    @property
    def n_cells_per_tree(self) -> NDArray[np.int64]:
        """Number of cells of each tree at each rung, shape (R, M)."""
        return self._table.n_cells[:, :-1].copy()

    @property
    def column(self) -> IntArray:
        """Cells of the nodes at each rung, shape (R, n_nodes): a view, as in :meth:`freeze`.

        ``column[r, node]`` is the number of the cell that the node is, or lies in, at the rung,
        and -1 for a node that has been cut by then. Further rows append columns; they change none.
        """
        return self._table.column[:, : int(self._table.tally[_NODES])]

    def extend(self, X: FloatArray, max_cells: int | None = None) -> IntArray:
        """Extend every tree by new rows, all of them or, if interrupted, none.

        Raises ValueError if the ranges of the rows (n, D) and of the earlier rows overflow.
        Returns the leaf of each row (n, M); its cell at rung r is ``column[r, leaf]``. The array
        must not be changed before the next call, as :meth:`rollback` reads it.

        ``max_cells`` bounds the number of cells of all trees together, at the lifetime. Once it is
        reached no cut is made any more: a row goes down by the cuts there are and joins the cell it
        arrives in. Boxes and counts on its way take it in as ever; but cuts which would have parted
        the row are missing, the cells grow, and the kernel becomes wider than Laplace. A tree's
        first row makes a cell in any case.
        """
        # Where a fit has made boxes of single precision, they hold rows of it.
        X = np.ascontiguousarray(X.astype(self._table.lower.dtype, copy=False), dtype=np.float64)
        n_before, extend, begins, bound = self.n_rows, _kernels()[0], True, self.bound
        self.start(X.shape[0], reuse=False)
        try:
            while status := extend(X, begins, bound, *self.arrays(max_cells)):
                begins, bound = False, self.make_room(status, X)
            return self._batch.leaf
        except BaseException:
            self.rollback(n_before)
            raise

    def start(self, n_rows: int, *, reuse: bool) -> None:
        """Begin a batch; it may ``reuse`` the arrays of the last one, which it then overwrites."""
        self._frozen, old = None, self._batch
        if reuse and old.leaf.shape[0] == n_rows:
            return
        if n_saved := old.progress.item(_SAVED):
            self._table.touched[old.saved_node[:n_saved]] = False
        self._batch = Batch.start(n_rows, self._table, refines=self._unfinished)

    def arrays(self, max_cells: int | None) -> tuple[Any, ...]:
        """Return seed, lifetime, bound of cells, rungs, nodes and batch, as the kernel has them."""
        cap = _NO_CAP if max_cells is None else min(max_cells, _NO_CAP)
        draw = self._seed, self.lifetime, cap, self.rungs
        return *draw, tuple(self._table), tuple(self._batch)

    def make_room(self, status: int, X: FloatArray) -> float:
        """Do what the kernel has stopped for; return the bound of the rows from now on."""
        if status == _TOO_LARGE:
            check_more_ranges(self._table, X)
        elif status == _NO_NODES:
            self._table = self._table.doubled()
        else:
            origin = self._batch.origin
            origin = np.hstack([origin, np.full_like(origin, -1)])
            self._batch = self._batch._replace(origin=origin)
        return np.inf

    @property
    def leaf(self) -> IntArray:
        """Leaves (n, M) of the rows of the last batch."""
        return self._batch.leaf

    @property
    def bound(self) -> float:
        """Size of numbers below which no range overflows, nor does the sum of all ranges."""
        bound: float = _LARGE / self._table.lower.shape[1]
        return bound

    def keep_rows(self, X: FloatArray) -> None:
        """Remember the rows (n, D) of the last batch, or forget all when these are many."""
        rows = self.rows
        kept: Any = X.astype(self._table.lower.dtype)
        most = 0 if rows is None else settings.KEPT_ROWS * len(rows.X[0])
        if rows is None or self.n_rows > most or (kept != X).any():
            self.rows = None
            return
        rows.X.append(kept)
        rows.leaf.append(self.leaf.copy())

    def rollback(self, n_rows: int) -> None:
        """Return to the state in which the trees held ``n_rows``, before the last batch or now.

        If nothing was added since, nothing happens; so a caller may note :attr:`n_rows`, extend,
        learn, and roll back if any of that fails.
        """
        batch, rows = self._batch, self.rows
        self._frozen = None
        while rows is not None and sum(map(len, rows.X)) > n_rows:
            del rows.X[-1], rows.leaf[-1]
        if n_rows == batch.tally[_ROWS]:
            _kernels()[1](self._table, batch)
        elif n_rows != self.n_rows:
            raise ValueError(
                f"Cannot return to {n_rows} rows: there are {self.n_rows}, and "
                f"{batch.tally[_ROWS]} before the last batch."
            )

    def deeper(self, lifetime: float, n_rungs: int | None = None) -> OnlineTrees:
        """Return the trees with a later lifetime, which is a new rung.

        Nothing is cut at once, and the new rung has the cells of the one below. But where a row
        arrives in a leaf from now on, the clock of the leaf goes on to the new lifetime before the
        row is put in. The rows of the leaf are not stored, so its whole box is cut, at the rate of
        its linear dimension and by the lack of memory as if the clock had never stopped. By
        projectivity the new row is parted from all others, early or late, as by trees that were
        run to the new lifetime at once; early rows are not parted from each other before a new
        row comes between them. Boxes made so bound their rows, no longer tightly, and counts are
        shares of that of the leaf.

        There are at most ``n_rungs``, by default as many as now; the lowest ones are dropped. These
        trees keep their rungs, but must not be extended any more: memory is shared.
        :meth:`rollback` does not take the result back behind this.
        """
        if not self.lifetime < lifetime < np.inf:
            raise ValueError(f"lifetime={lifetime} is not later than {self.lifetime}, and finite.")
        t, last = self._table, self.rungs.size if n_rungs is None else n_rungs
        table = t._replace(
            n_cells=np.concatenate([t.n_cells, t.n_cells[-1:]])[-last:],
            column=np.concatenate([t.column, t.column[-1:]])[-last:],
            touched=np.zeros_like(t.touched),
        )
        return OnlineTrees(table, lifetime, np.append(self.rungs, lifetime)[-last:], self.seed)

    def widened(self, n_more: int) -> OnlineTrees:
        """Return the trees with further columns, in which all rows so far are 0.

        Such columns add nothing to the sides of a box, so these are trees as sampled on rows that
        had the columns from the beginning. No memory is shared.
        """
        trees = self.freeze()
        zeros = np.zeros((trees.time.size, n_more))
        lower: FloatArray = np.hstack([trees.lower, zeros])
        upper: FloatArray = np.hstack([trees.upper, zeros])
        nodes = trees.nodes._replace(lower=lower, upper=upper)
        wider = Trees(self.lifetime, *nodes)
        return OnlineTrees.from_trees(wider, self.seed, self.rungs, self.column, self.stop)

    @property
    def stop(self) -> FloatArray:
        """Time to which the clock of each leaf has run, shape (n_nodes,): a view."""
        return self._table.stop[: self._table.tally[_NODES]]

    @property
    def origin(self) -> IntArray:
        """Cells, at each rung, which the last batch has cut in two, shape (R, any).

        The k-th entry is the old number of the k-th cell that it added by cutting one with rows;
        the other half keeps that number. They are the first that it added; -1 stands behind them.
        See :meth:`deeper`.
        """
        return self._batch.origin

    def freeze(self) -> Trees:
        """Return the trees as they are: views of this object's arrays, without a copy.

        They are valid until the next call of :meth:`extend`, which changes the arrays in place. A
        node's parent may stand behind it in the table.
        """
        if self._frozen is None:
            n, t = int(self._table.tally[_NODES]), self._table
            nodes = (array[:n] for array in t[1 : len(NodeTable._fields)])
            self._frozen = Trees(self.lifetime, *NodeTable._make([t.root, *nodes]))
        return self._frozen

    def snapshot(self) -> Trees:
        """Return a copy of the trees as they are, which further rows do not change."""
        return Trees(self.lifetime, *NodeTable._make(a.copy() for a in self.freeze().nodes))

    def __reduce__(self) -> tuple[Callable[..., OnlineTrees], tuple[Any, ...]]:
        return OnlineTrees.from_trees, self.state

    @property
    def state(self) -> tuple[Any, ...]:
        """What :meth:`from_trees` makes equal trees of: views."""
        return self.freeze(), self.seed, self.rungs, self.column, self.stop, self.rows
