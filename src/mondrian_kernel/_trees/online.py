"""Mondrian trees that new rows extend, with the law of trees sampled on all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray

_NODES, _ROWS = range(2)
_DONE, _SAVED = range(2)
_NO_CELLS = np.empty(0, np.int32)
_NO_CAP = 2**63 - 1
_PER_NODE = ("tree", "parent", "left", "right", "dim", "loc", "time", "lower", "upper", "count")


@cache
def _kernels() -> Any:
    from mondrian_kernel._kernels import extend

    return extend


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
    on how the rows were split into batches, unless :meth:`deeper` was called in between.

    Build it with :meth:`from_trees` or :meth:`empty`.

    Attributes
    ----------
    lifetime : float
        Time Λ to which the trees run.
    rungs : ndarray of shape (R,)
        Lifetimes at which cells are numbered, increasing; the last one is Λ.
    seed : int
        Seed of the extension.

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

    def __init__(self, table: _Table, lifetime: float, rungs: FloatArray, seed: int) -> None:
        self._table = table
        self._batch = _Batch.start(0, table)
        self._refined: _Refined | None = None
        self._frozen: Trees | None = None
        leaves = table.left[: table.tally[_NODES]] < 0
        self._unfinished = bool((table.stop[: table.tally[_NODES]][leaves] < lifetime).any())
        self._seed = np.uint64(seed)
        self.seed = seed
        self.lifetime = lifetime
        self.rungs = rungs

    @classmethod
    def from_trees(
        cls,
        trees: Trees,
        seed: int,
        rungs: Sequence[float] | FloatArray | None = None,
        column: IntArray | None = None,
        stop: FloatArray | None = None,
        room: int = 0,
    ) -> OnlineTrees:
        """Trees that continue from ``trees``, which are copied.

        Parameters
        ----------
        trees : Trees
            Trees on rows, all on the same number of rows.
        seed : int
            Seed of the extension, below 2**64. It may be the seed that the trees were grown with:
            the streams differ.
        rungs : array-like of shape (R,) or None
            Lifetimes at which cells are numbered, increasing up to ``trees.lifetime``, which is
            the only one if None.
        column : ndarray of shape (R, n_nodes), int32, or None
            Cells of the nodes at each rung; ``trees.cells`` if None. With the ``column`` of other
            online trees, their :meth:`freeze`, seed, rungs and ``stop``, the result goes on as
            they would.
        stop : ndarray of shape (n_nodes,) or None
            Time to which the clock of each leaf has run; all to the lifetime if None.
        room : int
            Number of nodes to have room for at once.

        Returns
        -------
        online : OnlineTrees
            The trees, ready for new rows.
        """
        rungs = np.array([trees.lifetime] if rungs is None else rungs, dtype=np.float64)
        if rungs[-1] != trees.lifetime or np.any(np.diff(rungs) <= 0):
            raise ValueError(f"rungs={rungs} do not increase up to the lifetime {trees.lifetime}.")
        if column is None:
            column = np.stack([trees.cells(rung).column for rung in rungs])
        n_nodes = trees.time.size
        n_rows = trees.count[trees.root[0]] if n_nodes else 0
        whole = (column >= 0) & ((trees.parent < 0) | (column[:, trees.parent] < 0))
        per_tree = [np.bincount(trees.tree[top], minlength=trees.n_trees) for top in whole]
        nodes: dict[str, Any] = {name: getattr(trees, name) for name in _PER_NODE}
        table = _Table(
            tally=np.array([n_nodes, n_rows], dtype=np.int64),
            n_cells=np.array([[*n, sum(n)] for n in per_tree], dtype=np.int64),
            root=trees.root.copy(),
            column=column,
            touched=np.zeros(n_nodes, np.bool_),
            stop=np.full(n_nodes, trees.lifetime) if stop is None else stop,
            **nodes,
        )
        return cls(table.longer(max(room, 2 * n_nodes)), trees.lifetime, rungs, seed)

    @classmethod
    def empty(
        cls,
        n_dims: int,
        n_trees: int,
        lifetime: float,
        seed: int,
        rungs: Sequence[float] | FloatArray | None = None,
        room: int = 0,
    ) -> OnlineTrees:
        """Trees without rows; the first row will be the root of each. See :meth:`from_trees`."""
        none, never, box = np.empty(0, np.int32), np.empty(0), np.empty((0, n_dims))
        root = np.full(n_trees, -1, np.int32)
        links = (none, none, none, none, none)
        trees = Trees(lifetime, root, *links, never, never, box, box, none)
        n_rungs = 1 if rungs is None else len(rungs)
        return cls.from_trees(trees, seed, rungs, np.empty((n_rungs, 0), np.int32), room=room)

    @property
    def n_rows(self) -> int:
        """Number of rows that the trees hold."""
        return int(self._table.tally[_ROWS])

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

        Parameters
        ----------
        X : ndarray of shape (n, D), float64
            Rows, finite, whose ranges together with those of the earlier rows do not overflow.
        max_cells : int or None
            Bound on the number of cells of all trees together, at the lifetime. Once it is reached
            no cut is made any more: a row goes down by the cuts there are and joins the cell it
            arrives in. Boxes and counts on its way take it in as ever, so that all boxes still
            bound their rows tightly; but cuts which would have parted the row are missing, the
            cells grow, and the kernel becomes wider than Laplace. A tree's first row makes a cell
            in any case.

        Returns
        -------
        leaf : ndarray of shape (n, M), int32
            Node of each row's cell; its number at rung r is ``column[r, leaf]``. Not to be
            changed before the next call, as :meth:`rollback` reads it.
        """
        X = np.ascontiguousarray(X, dtype=np.float64)
        cap = _NO_CAP if max_cells is None else max_cells
        n_before = self.n_rows
        before, self._frozen = self._batch, None
        if before.progress[_SAVED]:
            self._table.touched[before.saved_node[: before.progress[_SAVED]]] = False
        n = 0 if self._unfinished else X.shape[0]
        self._batch, self._refined = _Batch.start(n, self._table), None
        try:
            if self._unfinished:
                self._refine(X, cap)
                self._batch = _Batch.start(X.shape[0], self._table)
            batch = self._batch
            while batch.progress[_DONE] < batch.leaf.size:
                if self._table.tally[_NODES] + 2 > self._table.time.size:
                    self._table = self._table.doubled()
                t = self._table
                _kernels().extend(
                    X, self._seed, self.lifetime, cap, self.rungs, t.n_cells, t.tally,
                    batch.tally, batch.progress, batch.leaf, batch.saved_node, batch.saved_box,
                    t.touched, t.root, t.tree, t.parent, t.left, t.right, t.dim, t.loc, t.time,
                    t.lower, t.upper, t.count, t.stop, t.column,
                )  # fmt: skip
            return batch.leaf
        except BaseException:
            self.rollback(n_before)
            raise

    def rollback(self, n_rows: int) -> None:
        """Return to the state in which the trees held ``n_rows``, before the last batch or now.

        Parameters
        ----------
        n_rows : int
            The :attr:`n_rows` of that state. If nothing was added since, nothing happens; so a
            caller may note it, extend, learn, and roll back if any of that fails.
        """
        from mondrian_kernel._kernels.refine import unrefine

        batch, t, done = self._batch, self._table, self._refined
        self._frozen = None
        if n_rows == batch.tally[_ROWS]:
            _kernels().undo(
                t.n_cells, batch.n_cells, t.tally, batch.tally, batch.progress, batch.leaf,
                batch.saved_node, batch.saved_box, t.touched,
                t.root, t.parent, t.left, t.right, t.lower, t.upper, t.count,
            )  # fmt: skip
            if done is not None:
                unrefine(
                    done.progress[_SAVED], done.cut_node, done.cut_stop, t.left, t.right, t.dim,
                    t.loc, t.time, t.stop, t.column,
                )  # fmt: skip
                t.tally[:], t.n_cells[:] = done.tally, done.n_cells
                self._batch, self._refined = _Batch.start(0, t), None
        elif n_rows != self.n_rows:
            raise ValueError(
                f"Cannot return to {n_rows} rows: there are {self.n_rows}, and "
                f"{batch.tally[_ROWS]} before the last batch."
            )

    def deeper(self, lifetime: float, n_rungs: int | None = None) -> OnlineTrees:
        r"""Return the trees with a later lifetime, which is a new rung.

        Nothing is cut at once, and the new rung has the cells of the one below. But where a row
        arrives in a leaf from now on, the clock of the leaf goes on to the new lifetime before the
        row is put in. The rows of the leaf are not at hand, so its whole box is cut, at the rate of
        its linear dimension and by the lack of memory as if the clock had never stopped. By
        projectivity the new row is parted from all others, early or late, as by trees that were
        run to the new lifetime at once; early rows are not parted from each other before a new
        row comes between them. Boxes made so bound their rows, no longer tightly, and counts are
        shares of that of the leaf.

        These trees keep their rungs, but must not be extended any more: memory is shared.

        Parameters
        ----------
        lifetime : float
            The new lifetime, later than the present one.
        n_rungs : int or None
            Number of rungs to have at most, the lowest ones are dropped; as many as now if None.

        Returns
        -------
        trees : OnlineTrees
            The trees, which :meth:`rollback` does not take back behind this.
        """
        if not self.lifetime < lifetime < np.inf:
            raise ValueError(f"lifetime={lifetime} is not later than {self.lifetime}, and finite.")
        t, last = self._table, self.rungs.size if n_rungs is None else n_rungs
        table = replace(
            t,
            n_cells=np.concatenate([t.n_cells, t.n_cells[-1:]])[-last:],
            column=np.concatenate([t.column, t.column[-1:]])[-last:],
            touched=np.zeros_like(t.touched),
        )
        return OnlineTrees(table, lifetime, np.append(self.rungs, lifetime)[-last:], self.seed)

    def shallower(self) -> OnlineTrees:
        """Return the trees stopped at the rung below their lifetime, which is then the last.

        What has been cut later is whole again: these are trees that were never run any further.
        Cells keep their numbers, nodes do not. Nothing is shared.
        """
        t, n = self._table, int(self._table.tally[_NODES])
        lifetime, column, parent = float(self.rungs[-2]), t.column[:-1, :n], t.parent[:n]
        kept = np.flatnonzero((parent < 0) | (column[-1, parent] < 0))
        whole = column[-1, kept] >= 0
        place = np.full(n + 1, -1, np.int32)  # of -1, the last one, too
        place[kept] = np.arange(kept.size)
        nodes: dict[str, Any] = {name: getattr(t, name)[kept] for name in (*_PER_NODE, "stop")}
        nodes["stop"][whole & (nodes["left"] >= 0)] = lifetime
        nodes["stop"] = np.minimum(nodes["stop"], lifetime)
        for name in ("left", "right", "dim"):
            nodes[name][whole] = -1
        for name in ("loc", "time"):
            nodes[name][whole] = np.inf
        for name in ("left", "right", "parent"):
            nodes[name] = place[nodes[name]]
        stop = nodes.pop("stop")
        trees = Trees(lifetime, place[t.root], **nodes)
        column = np.ascontiguousarray(column[:, kept])
        return OnlineTrees.from_trees(trees, self.seed, self.rungs[:-1], column, stop)

    @property
    def stop(self) -> FloatArray:
        """Time to which the clock of each leaf has run, shape (n_nodes,): a view."""
        return self._table.stop[: self._table.tally[_NODES]]

    @property
    def origin(self) -> tuple[IntArray, ...]:
        """Cells, at each rung, which the last batch has cut in two.

        The k-th entry is the old number of the k-th cell that it added by cutting one with rows;
        the other half keeps that number. They are the first that it added. See :meth:`deeper`.
        """
        if self._refined is None:
            return (_NO_CELLS,) * self.rungs.size
        pairs = zip(self._refined.origin, self._refined.n_origin, strict=True)
        return tuple([origin[:n] for origin, n in pairs])

    def _refine(self, X: FloatArray, cap: int) -> None:
        from mondrian_kernel._kernels.refine import refine

        t, n = self._table, X.shape[0] * self._table.root.size
        done = self._refined = _Refined.start(n, t)
        while not refine(
            X, self._seed, self.lifetime, cap, self.rungs, t.n_cells, t.tally, done.tally,
            done.progress, done.origin, done.n_origin, done.cut_node, done.cut_stop, t.root,
            t.tree, t.parent, t.left, t.right, t.dim, t.loc, t.time, t.lower, t.upper,
            t.count, t.stop, t.column,
        ):  # fmt: skip
            if t.tally[_NODES] + 2 > t.time.size:
                t = self._table = t.doubled()
            if done.n_origin.max() == done.origin.shape[1]:
                origin = np.concatenate([done.origin, np.empty_like(done.origin)], axis=1)
                done = self._refined = done._replace(origin=origin)

    def freeze(self) -> Trees:
        """Return the trees as they are: views of this object's arrays, without a copy.

        They are valid until the next call of :meth:`extend`, which changes the arrays in place. A
        node's parent may stand behind it in the table.
        """
        if self._frozen is None:
            t, n = self._table, int(self._table.tally[_NODES])
            self._frozen = Trees(
                self.lifetime, t.root, t.tree[:n], t.parent[:n], t.left[:n], t.right[:n],
                t.dim[:n], t.loc[:n], t.time[:n], t.lower[:n], t.upper[:n], t.count[:n],
            )  # fmt: skip
        return self._frozen

    def snapshot(self) -> Trees:
        """Return the trees as they are, copied: valid for ever."""
        trees = self.freeze()
        nodes: dict[str, Any] = {name: getattr(trees, name).copy() for name in _PER_NODE}
        return Trees(self.lifetime, trees.root.copy(), **nodes)

    def __reduce__(self) -> tuple[Callable[..., OnlineTrees], tuple[Any, ...]]:
        state = (self.freeze(), self.seed, self.rungs, self.column, self.stop)
        return OnlineTrees.from_trees, state


@dataclass(frozen=True, eq=False)
class _Table:
    """The nodes; see :mod:`mondrian_kernel._kernels.extend`. Its arrays are changed in place."""

    tally: NDArray[np.int64]
    n_cells: NDArray[np.int64]
    root: IntArray
    tree: IntArray
    parent: IntArray
    left: IntArray
    right: IntArray
    dim: IntArray
    loc: FloatArray
    time: FloatArray
    lower: FloatArray
    upper: FloatArray
    count: IntArray
    column: IntArray
    touched: NDArray[np.bool_]
    stop: FloatArray

    def doubled(self) -> _Table:
        """Return a table with room for twice the nodes in use, which are copied."""
        return self.longer(2 * int(self.tally[_NODES]))

    def longer(self, room: int) -> _Table:
        """Return a table with room for so many nodes and some more; those in use are copied."""
        n = int(self.tally[_NODES])

        def copied(a: NDArray[Any]) -> NDArray[Any]:
            b = np.empty((room + 64, *a.shape[1:]), a.dtype)
            b[:n] = a[:n]
            return b

        nodes = {name: copied(getattr(self, name)) for name in (*_PER_NODE, "touched", "stop")}
        nodes["touched"][n:] = False
        column = np.empty((self.column.shape[0], room + 64), np.int32)
        column[:, :n] = self.column[:, :n]
        return replace(self, column=column, **nodes)


class _Batch(NamedTuple):
    """The last batch and what it takes to undo it; see :mod:`mondrian_kernel._kernels.extend`."""

    tally: NDArray[np.int64]
    n_cells: NDArray[np.int64]
    progress: NDArray[np.int64]
    leaf: IntArray
    saved_node: IntArray
    saved_box: FloatArray

    @staticmethod
    def start(n_rows: int, table: _Table) -> _Batch:
        n_trees, n_dims = table.root.size, table.lower.shape[1]
        n_leaves = (int(table.tally[_NODES]) + n_trees) // 2
        n_saved = min(n_rows * n_trees, n_leaves)
        return _Batch(
            table.tally.copy(),
            table.n_cells.copy(),
            np.zeros(2, np.int64),
            np.empty((n_rows, n_trees), np.int32),
            np.empty(n_saved, np.int32),
            np.empty((n_saved, 2 * n_dims)),
        )


class _Refined(NamedTuple):
    """What a batch has cut before its rows came; see :mod:`mondrian_kernel._kernels.refine`."""

    tally: NDArray[np.int64]
    n_cells: NDArray[np.int64]
    progress: NDArray[np.int64]
    origin: IntArray
    n_origin: NDArray[np.int64]
    cut_node: IntArray
    cut_stop: FloatArray

    @staticmethod
    def start(n: int, table: _Table) -> _Refined:
        n_rungs = table.n_cells.shape[0]
        return _Refined(
            table.tally.copy(),
            table.n_cells.copy(),
            np.zeros(2, np.int64),
            np.empty((n_rungs, n + 16), np.int32),
            np.zeros(n_rungs, np.int64),
            np.empty(n, np.int32),
            np.empty(n),
        )
