"""Forest learning in one pass: the sums and counts of every cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mondrian_kernel._online.cell_learner import CellLearner
from mondrian_kernel._typing import FloatArray, IntArray


@dataclass(eq=False)
class Means(CellLearner):
    r"""Mean of the rows of each cell, shrunk to that of all rows; exact at any moment.

    .. math::
        f = b + \frac1M \sum_m \frac{\sum_{i \in c} s_i (y_i - b)}{\sum_{i \in c} s_i + \gamma^2}

    A row adds to the sums of its M cells and to those of the mean b, nothing else: O(M), and equal
    to a fit of all rows on the same trees.

    Parameters
    ----------
    n_outputs : int
        Number of outputs, K.
    alpha : float
        Shrinkage γ².
    centre : bool
        Whether b is the mean of y; 0 otherwise.

    Attributes
    ----------
    sums : ndarray of shape (at least n_cells, K + 1)
        Sums of s y and, last, of s in each cell; of rows which are not certain to lie in it, by
        their probability.
    counts : ndarray of shape (at least n_cells,)
        Sums of s, of such rows by the square of their probability.
    totals : ndarray of shape (K + 1,)
        Sums over all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._online.cell_learner import Lessons
    >>> from mondrian_kernel._online.means import Means
    >>> learner = Means(n_outputs=1, alpha=0.0, centre=True)
    >>> leaf, column = np.array([[0, 1], [0, 2]], np.int32), np.array([[0, 1, 2]], np.int32)
    >>> losses = Lessons([learner]).teach(
    ...     leaf, column, [3], (), np.array([[1.0], [2.0]]), np.ones(2)
    ... )
    >>> learner.scores(column[0][leaf], np.ones((2, 2))).ravel()
    array([1.25, 1.75])
    """

    _per_cell = {"sums": 0.0, "counts": 0.0}
    _small = ("totals",)

    n_outputs: int
    alpha: float
    centre: bool
    n_cells: int = 0
    sums: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    counts: FloatArray = field(default_factory=lambda: np.empty(0))
    totals: FloatArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if self.totals.size == 0:
            self.sums, self.totals = np.empty((0, self.n_outputs + 1)), np.zeros(self.n_outputs + 1)

    @classmethod
    def of(
        cls,
        Phi: sparse.csr_matrix,
        Y: FloatArray,
        sample_weight: FloatArray | None,
        alpha: float,
        n_trees: int,
        centre: bool,
    ) -> Means:
        """Return the means of rows given by their features Φ (N, C) and targets (N, K)."""
        s = np.ones(Y.shape[0]) if sample_weight is None else sample_weight
        SY = s[:, None] * np.hstack([Y, np.ones((Y.shape[0], 1))])
        return cls(
            Y.shape[1], alpha, centre, Phi.shape[1],
            sums=Phi.T @ SY * np.sqrt(n_trees), counts=Phi.multiply(Phi).T @ s * n_trees,
            totals=SY.sum(axis=0),
        )  # fmt: skip

    def fresh(self) -> Means:
        """Return a learner like this one that has seen nothing."""
        return Means(self.n_outputs, self.alpha, self.centre)

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
        """Let all rungs take rows; see :class:`Lessons`."""
        from mondrian_kernel._kernels.means import learn_means

        learn_means(
            leaf, column, Y, sample_weight, self.alpha, self.centre, *per_cell, *small, losses
        )

    def scores(self, cells: IntArray, values: FloatArray) -> FloatArray:
        """Scores (n, K) of rows that lie in ``cells`` (n, M) with these probabilities."""
        from mondrian_kernel._kernels.means import average_means

        out = np.empty((cells.shape[0], self.n_outputs))
        average_means(
            cells, values, self.alpha, self.centre, self.sums, self.counts, self.totals, out
        )
        return out

    @property
    def intercept(self) -> FloatArray:
        """The mean b of all rows, (K,)."""
        total = self.totals[-1]
        b: FloatArray = self.totals[:-1] / (total if self.centre and total > 0 else np.inf)
        return b

    def coef(self, n_trees: int) -> FloatArray:
        """Weights (C, K) of the features, whose values are over √M."""
        n = self.n_cells
        counts = self.counts[:n] + self.alpha
        sums = self.sums[:n, :-1] - self.sums[:n, -1:] * self.intercept
        coef: FloatArray = sums / np.where(counts > 0, counts, np.inf)[:, None] / np.sqrt(n_trees)
        return coef
