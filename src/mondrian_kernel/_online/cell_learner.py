"""What every learner of a stream has: numbers for each cell, which grow, split and roll back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from operator import gt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._typing import FloatArray, IntArray

N_TUPLE = 5


@cache
def kernels() -> Any:
    """Return the compiled functions for all rungs; they are first loaded when they are needed."""
    from mondrian_kernel._kernels import rungs

    return rungs


class CellLearner(ABC):
    """A learner with a row of numbers for each cell of a rung: mutable.

    Attributes
    ----------
    n_outputs : int
        Number of outputs, K.
    n_cells : int
        Number of cells. The arrays are longer: they grow by doubling.
    """

    # Arrays with a row a cell, and what a new cell has in them; small arrays that rows change; and
    # rings, in which what a batch has written need not be taken back.
    _per_cell: ClassVar[dict[str, float]]
    _small: ClassVar[tuple[str, ...]]
    _rings: ClassVar[tuple[str, ...]] = ()
    n_outputs: int
    n_cells: int

    @abstractmethod
    def take(
        self,
        leaf: IntArray,
        column: IntArray,
        Y: FloatArray,
        sample_weight: FloatArray,
        per_cell: Sequence[tuple[FloatArray, ...]],
        small: Sequence[NDArray[Any]],
        losses: FloatArray,
    ) -> None:
        """Let all rungs take rows whose cells exist; ``losses`` (R, n) receives the losses.

        See :class:`Lessons`. ``per_cell`` are the arrays of a row a cell, one a rung; ``small``
        the small arrays and the rings, with the rungs in the first axis.
        """

    def make_room(self, n_cells: int) -> None:
        """Have room for the numbers of so many cells."""
        for name, value in self._per_cell.items():
            old: NDArray[Any] = getattr(self, name)
            if n_cells > old.shape[0]:
                new = np.full((max(n_cells, 2 * old.shape[0]), *old.shape[1:]), value)
                new[: old.shape[0]] = old
                setattr(self, name, new)


class Lessons:
    """Teaches the learners of all rungs: they take a batch of rows or give it back together.

    Nobody else may change the learners in between.

    Parameters
    ----------
    learners : sequence of R learners
        Learners of one kind, one for each of the first R rungs, at most five.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._online.cell_learner import Lessons
    >>> from mondrian_kernel._online.means import Means
    >>> leaf = np.array([[0, 1], [0, 2]], np.int32)  # of two rows in two trees
    >>> column = np.array([[0, 1, 1], [0, 1, 2]], np.int32)  # at two rungs
    >>> learners, y = [Means(1, 0.0, True), Means(1, 0.0, True)], np.array([[1.0], [2.0]])
    >>> lessons = Lessons(learners)
    >>> lessons.teach(leaf, column, [2, 3], (), y, np.ones(2))
    array([[1., 1.],
           [1., 1.]])
    >>> lessons.rollback()
    >>> learners[1].n_cells
    0
    """

    def __init__(self, learners: Sequence[Any]) -> None:
        self._learners = learners
        self._n_cells = [learner.n_cells for learner in learners]
        names = (*learners[0]._small, *learners[0]._rings)
        self._small = {
            name: np.stack([getattr(learner, name) for learner in learners]) for name in names
        }
        self._kept: tuple[Any, ...] | None = None
        self._collect()
        self._share()

    def _collect(self) -> None:
        """Note the arrays of a row a cell, by name, and how many cells they hold."""
        names = self._learners[0]._per_cell
        # Tuples of one length, whatever the number of rungs: a length is a type, to be compiled.
        n_more = N_TUPLE - len(self._learners)
        learners = [*self._learners, *[self._learners[-1]] * n_more]
        self._per_cell = [tuple([getattr(learner, name) for learner in learners]) for name in names]
        self._room = [a.shape[0] for a in self._per_cell[0][: len(self._learners)]]
        self._tables = tuple([
            a if a.ndim == 2 else a[:, None] for arrays in self._per_cell for a in arrays
        ])  # fmt: skip

    def _share(self) -> None:
        """Let the learners look at the small arrays that hold those of all rungs."""
        for r, learner in enumerate(self._learners):
            for name, values in self._small.items():
                setattr(learner, name, values[r])

    def teach(
        self,
        leaf: IntArray,
        column: IntArray,
        n_cells: list[int],
        origin: tuple[IntArray, ...],
        Y: FloatArray,
        sample_weight: FloatArray,
    ) -> FloatArray:
        """Let the learners take each row once, in order.

        Parameters
        ----------
        leaf : ndarray of shape (n, M), int32
            Node of each row's cell.
        column : ndarray of shape (at least R, n_nodes), int32
            Cell of each node at each rung.
        n_cells : list of at least R ints
            Number of cells there are by now.
        origin : tuple of ndarrays of int32, of every rung or of none
            Cells that have been cut: the k-th new cell is a part of the old cell ``origin[r][k]``
            and starts with its numbers, so that all scores stay.
        Y : ndarray of shape (n, K)
            Targets.
        sample_weight : ndarray of shape (n,)
            Positive weights.

        Returns
        -------
        losses : ndarray of shape (R, n)
            Loss of each row before it was learnt from.
        """
        learners, n_before = self._learners, self._n_cells
        n_cells = n_cells[: len(learners)]
        if any(map(gt, n_cells, self._room)):
            for learner, n in zip(learners, n_cells, strict=True):
                learner.make_room(n)
            self._collect()
        losses, old = np.empty((len(learners), leaf.shape[0])), np.array(n_before)
        n_kept = min(max(n_before), leaf.size)
        kept = [np.empty((len(learners), n_kept, a[0][:1].size)) for a in self._per_cell]
        kernels().keep(leaf, column, old, self._tables, tuple(kept))
        small = [self._small[name].copy() for name in learners[0]._small]
        # Before anything changes, so that an interrupt at any moment finds it.
        self._kept = n_before, leaf, column, kept, small
        self._count(n_cells)
        if any(map(len, origin)):
            none = np.empty(0, np.int32)
            kernels().inherit((*origin, *[none] * N_TUPLE)[:N_TUPLE], old, self._tables)
        learners[0].take(
            leaf, column, Y, sample_weight, self._per_cell, list(self._small.values()), losses
        )
        return losses

    def rollback(self) -> None:
        """Take back the last batch; a second time, or before there was one, nothing happens."""
        self._share()
        if self._kept is None:
            return
        n_before, leaf, column, kept, small = self._kept
        new_cell = self._learners[0]._per_cell.values()
        for arrays, saved, fresh in zip(self._per_cell, kept, new_cell, strict=True):
            for r, (a, n) in enumerate(zip(arrays, n_before, strict=False)):
                values = saved[r].reshape(-1, *a.shape[1:])
                a[n:] = fresh
                if n <= leaf.size:
                    a[:n] = values[:n]
                else:
                    cells = column[r].take(leaf).ravel()
                    a[cells[cells < n]] = values[cells < n]
        for name, before in zip(self._learners[0]._small, small, strict=True):
            self._small[name][:] = before
        self._count(n_before)
        self._kept = None

    def commit(self) -> None:
        """Forget how to take the last batch back."""
        self._kept = None

    def _count(self, n_cells: list[int]) -> None:
        for learner, n in zip(self._learners, n_cells, strict=True):
            learner.n_cells = n
        self._n_cells = n_cells
