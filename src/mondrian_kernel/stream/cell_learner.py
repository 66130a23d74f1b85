"""What every learner of a stream has: numbers for each cell, which grow, split and roll back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel.partition.trees import FloatArray, IntArray


class CellLearner(ABC):
    """A learner with a row of numbers for each cell: mutable.

    Attributes
    ----------
    n_cells : int
        Number of cells. The arrays are longer: they grow by doubling.
    """

    # Arrays with a row a cell and what a new cell has in them; small arrays that rows change.
    _per_cell: ClassVar[dict[str, float]]
    _small: ClassVar[tuple[str, ...]]
    n_cells: int

    def learn(
        self,
        cells: IntArray,
        n_cells: int,
        origin: IntArray,
        Y: FloatArray,
        sample_weight: FloatArray,
    ) -> FloatArray:
        """Take each row once, in order.

        Parameters
        ----------
        cells : ndarray of shape (n, M), int32
            Cells of the rows.
        n_cells : int
            Number of cells there are by now.
        origin : ndarray of int32
            Cells that have been cut: the k-th new cell is a part of the old cell ``origin[k]``
            and starts with its numbers, so that all scores stay.
        Y : ndarray of shape (n, K)
            Targets.
        sample_weight : ndarray of shape (n,)
            Positive weights.

        Returns
        -------
        losses : ndarray of shape (n,)
            Loss of each row before it was learnt from.
        """
        n_before = self.n_cells
        self._widen(n_cells)
        touched = cells[0] if cells.shape[0] == 1 else np.unique(cells)
        # Before anything changes, so that an interrupt at any moment finds it.
        self._saved = (
            n_before,
            touched,
            {name: getattr(self, name)[touched] for name in self._per_cell},
            {name: getattr(self, name).copy() for name in self._small},
        )
        for k, old in enumerate(origin.tolist(), n_before):  # a part may have been cut again
            for name in self._per_cell:
                getattr(self, name)[k] = getattr(self, name)[old]
        return self._take(cells, Y, sample_weight)

    @abstractmethod
    def _take(self, cells: IntArray, Y: FloatArray, sample_weight: FloatArray) -> FloatArray:
        """Learn from rows whose cells all exist; return the loss of each before."""

    def rollback(self) -> None:
        """Take back the last batch; a second time nothing happens."""
        saved = self.__dict__.pop("_saved", None)
        if saved is None:
            return
        n_cells, touched, per_cell, small = saved
        for name, values in per_cell.items():
            getattr(self, name)[touched] = values
            getattr(self, name)[n_cells : self.n_cells] = self._per_cell[name]
        self.n_cells = n_cells
        for name, values in small.items():
            getattr(self, name)[:] = values

    def commit(self) -> None:
        """Forget how to take the last batch back."""
        self.__dict__.pop("_saved", None)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_saved"}

    def _widen(self, n_cells: int) -> None:
        if n_cells <= self.n_cells:
            return
        for name, value in self._per_cell.items():
            old: NDArray[Any] = getattr(self, name)
            if n_cells > old.shape[0]:
                new = np.full((max(n_cells, 2 * old.shape[0]), *old.shape[1:]), value)
                new[: old.shape[0]] = old
                setattr(self, name, new)
        self.n_cells = n_cells
