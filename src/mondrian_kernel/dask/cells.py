"""Rows of blocks as cells of trees, with their targets: what a linear learner is fitted on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._linear.operator import SparseRows
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.dask.blocks import Blocks, Rows, add, delayed_call, persist, send, total
from mondrian_kernel.dask.growth import Cuts
from mondrian_kernel.dask.room import is_room_for, slabs
from mondrian_kernel.features import MondrianFeatures

_Encode = Callable[[NDArray[Any], FloatArray], tuple[FloatArray, FloatArray]]


class Part(NamedTuple):
    """Some rows of a block: cells (n, M), increasing along a row; targets (n, T); weights (n,)."""

    cells: IntArray
    Y: FloatArray
    weight: FloatArray

    @property
    def features(self) -> SparseRows:
        """Φ of the rows."""
        return SparseRows.of(self.cells)


class CellBlocks:
    """Cells, targets and weights of the rows of all blocks.

    A block goes through some rows at a time, as cells take more memory than the rows they are of.

    Parameters
    ----------
    blocks : Blocks
        The rows that the trees were grown on.
    features : MondrianFeatures
        The trees.
    encode : callable
        Makes targets (n, T) and weights of a block of y and of weights; goes to the workers.
    keep : bool or "auto"
        Whether the cells stay in the memory of the workers, M bytes a row where no tree has more
        than 256 cells; else the rows go down the trees again whenever the cells are asked for.
        By default they stay where there is room for them.
    """

    def __init__(
        self, blocks: Blocks, features: MondrianFeatures, encode: _Encode, *, keep: bool | str
    ) -> None:
        trees, self.cells_per_tree = features.trees_, features.n_cells_per_tree_
        self.n_cells, self.n_trees = features.n_cells_, trees.n_trees
        finder = _Finder(cuts_of(trees), features.levels_.column[0], encode)
        self._blocks, self._finder = blocks, send(finder)
        dtype = np.min_scalar_type(int(self.cells_per_tree.max()) - 1)
        if keep == "auto":
            n_rows = int(trees.count[trees.root[0]])
            keep = is_room_for(n_rows * self.n_trees * dtype.itemsize)
        first = (np.cumsum(self.cells_per_tree) - self.cells_per_tree).astype(np.int32)
        self._kept = persist(blocks.map(_keep, first, dtype, sent=self._finder)) if keep else None

    def sum(self, function: Callable[..., tuple[Any, ...]], *message: Any) -> tuple[Any, ...]:
        """Add up over the rows ``function(part, *message)``, a tuple."""
        if self._kept is None:
            parts = self._blocks.map(_sum_found, function, *message, sent=self._finder)
        else:
            parts = delayed_call(self._kept, _sum_kept, (function, *message))
        out: tuple[Any, ...] = total(parts, add)
        return out


class _Finder(NamedTuple):
    cuts: Cuts
    column: IntArray
    encode: _Encode


class _Kept(NamedTuple):
    """Rows of a block: cells (n, M), counted within a tree from the ``first`` (M,) on."""

    cells: NDArray[np.unsignedinteger]
    first: IntArray
    Y: FloatArray
    weight: FloatArray


def cuts_of(trees: Trees) -> Cuts:
    """Return the cuts of trees alone."""
    return Cuts(trees.root, trees.left, trees.right, trees.dim, trees.loc)


def _find(rows: Rows, finder: _Finder) -> Iterator[Part]:
    assert rows.Y is not None
    for s in slabs(rows.X.shape[0], finder.cuts.root.size):
        cells = finder.column[finder.cuts.leaves(rows.X[s])]
        yield Part(cells, *finder.encode(rows.Y[s], rows.weight[s]))


def _sum_found(
    rows: Rows, finder: _Finder, function: Callable[..., tuple[Any, ...]], *message: Any
) -> tuple[Any, ...]:
    return reduce(add, (function(part, *message) for part in _find(rows, finder)))


def _keep(rows: Rows, finder: _Finder, first: IntArray, dtype: Any) -> _Kept:
    cells = np.concatenate([(part.cells - first).astype(dtype) for part in _find(rows, finder)])
    assert rows.Y is not None
    return _Kept(cells, first, *finder.encode(rows.Y, rows.weight))


def _sum_kept(
    kept: _Kept, function: Callable[..., tuple[Any, ...]], *message: Any
) -> tuple[Any, ...]:
    parts = (
        Part(kept.first + kept.cells[s].astype(np.int32), kept.Y[s], kept.weight[s])
        for s in slabs(*kept.cells.shape)
    )
    return reduce(add, (function(part, *message) for part in parts))
