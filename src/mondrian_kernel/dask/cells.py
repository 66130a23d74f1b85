"""Rows of blocks as cells of trees, with their targets: what a linear learner is fitted on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.typing import NDArray

from mondrian_kernel.dask.blocks import Blocks, Rows, add, delayed_call, persist, total
from mondrian_kernel.dask.growth import Cuts
from mondrian_kernel.features import MondrianFeatures
from mondrian_kernel.gradient.design import Design
from mondrian_kernel.partition.trees import FloatArray, IntArray, Trees

_Encode = Callable[[NDArray[Any], FloatArray], tuple[FloatArray, FloatArray]]


class Part(NamedTuple):
    """Rows of a block: cells (n, M), increasing along a row; targets (n, T); weights (n,)."""

    cells: IntArray
    Y: FloatArray
    weight: FloatArray

    def design(self, n_cells: int) -> Design:
        """Φ of the rows."""
        return Design(self.cells, None, n_cells)


class CellBlocks:
    """Cells, targets and weights of the rows of all blocks.

    Parameters
    ----------
    blocks : Blocks
        The rows that the trees were grown on.
    features : MondrianFeatures
        The trees.
    encode : callable
        Makes targets (n, T) and weights of a block of y and of weights; goes to the workers.
    keep : bool
        Whether the cells stay in the memory of the workers, 4 M bytes a row; else the rows go down
        the trees again whenever the cells are asked for.
    """

    def __init__(
        self, blocks: Blocks, features: MondrianFeatures, encode: _Encode, *, keep: bool
    ) -> None:
        trees = features.trees_
        self.n_cells, self.n_trees = features.n_cells_, trees.n_trees
        self.cells_per_tree = features.n_cells_per_tree_
        parts = blocks.map(_find_cells, cuts_of(trees), features._cells.column, encode)
        self._parts = persist(parts) if keep else parts

    def sum(self, function: Callable[..., tuple[Any, ...]], *message: Any) -> tuple[Any, ...]:
        """Add up over the blocks ``function(part, *message)``, a tuple."""
        out: tuple[Any, ...] = total(delayed_call(self._parts, function, message), add)
        return out


def cuts_of(trees: Trees) -> Cuts:
    """Return the cuts of trees alone."""
    return Cuts(trees.root, trees.left, trees.right, trees.dim, trees.loc)


def _find_cells(rows: Rows, cuts: Cuts, column: IntArray, encode: _Encode) -> Part:
    assert rows.Y is not None
    return Part(column[cuts.leaves(rows.X)], *encode(rows.Y, rows.weight))
