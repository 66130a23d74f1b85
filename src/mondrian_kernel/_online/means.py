"""A learner of one pass: sums of cells, for forests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._online.group import (
    Batch,
    CellLearner,
    Counts,
    Judged,
    LearnerGroup,
    Scores,
    as_table,
    by_level,
)
from mondrian_kernel._typing import FloatArray


@cache
def _kernels() -> Any:
    from mondrian_kernel._kernels import means

    return means


@dataclass(eq=False)
class Means(CellLearner):
    r"""Mean of the rows of each cell, shrunk to the mean of all rows; exact at any moment.

    .. math::
        f = b + \frac1M \sum_m \frac{\sum_{i \in c} s_i (y_i - b)}{\sum_{i \in c} s_i + \gamma^2}

    A row is added to the sums of its M cells and to the mean b, in O(M). The result equals a fit of
    all rows on the same trees, weighted by how much the half-life leaves of them.

    Parameters
    ----------
    n_outputs : int
        Number of outputs, K.
    alpha : float
        Shrinkage γ².
    centre : bool
        Whether b is the mean of y; 0 otherwise.
    half_life : float, default=inf
        Rows after which a row counts half.

    Attributes
    ----------
    sums : ndarray of shape (at least n_table, K + 2)
        Σ s p y, Σ s p and Σ s p² over the rows of each cell, with p the probability that a row
        lies in it: 1 for rows that the trees were grown on.
    totals : ndarray of shape (K + 1,)
        Σ s y and Σ s over all rows.
    growth : ndarray of shape (1,)
        See :class:`CellLearner`.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._online.group import LearnerGroup
    >>> from mondrian_kernel._online.means import Means
    >>> learner, value = Means(n_outputs=1, alpha=0.0, centre=True), np.array([0.5**0.5])
    >>> leaf, column = np.array([[0, 1], [0, 2]], np.int32), np.array([[0, 1, 2]], np.int32)
    >>> judged = LearnerGroup([learner], 1, value).learn(
    ...     leaf, column, [3], (), np.array([[1.0], [2.0]]), np.ones(2)
    ... )
    >>> 1.5 + value * learner.cell_weights(np.array([3]), value).ravel()
    array([1.5 , 1.25, 1.75])
    """

    tables = {"sums": 0.0}
    small = ("totals", "growth")
    loss = "squared"

    n_outputs: int
    alpha: float
    centre: bool
    half_life: float = np.inf
    n_table: int = 0
    sums: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    totals: FloatArray = field(default_factory=lambda: np.empty(0))
    growth: FloatArray = field(default_factory=lambda: np.ones(1))

    def __post_init__(self) -> None:
        if self.totals.size == 0:
            self.sums, self.totals = np.empty((0, self.n_outputs + 2)), np.zeros(self.n_outputs + 1)

    def check(self) -> None:
        """Raise ValueError unless the arrays fit together."""
        K = self.n_outputs
        self.check_arrays({"sums": (K + 2,), "totals": (K + 1,), "growth": (1,)})
        if (self.sums[:, K:] < 0).any() or self.totals[K] < 0:
            raise ValueError("The weight of a cell is negative.")

    @classmethod
    def after(cls, model: FittedModel, centre: bool, half_life: float = np.inf) -> Means:
        """Return a learner that continues the fit of a forest, whose ``sums`` are not None."""
        assert model.sums is not None
        n_cells, K = np.diff(model.levels.offset), model.n_outputs
        n_table = int(n_cells.max()) * n_cells.size
        learner = cls(K, model.alpha, centre, half_life, n_table)
        learner.sums = as_table(model.sums, n_cells, 0.0)
        # Every row lies in one cell of each tree, at each level.
        total = model.sums[:, K].sum() / (n_cells.size * model.levels.n_trees)
        learner.totals[:] = total * np.append(model.intercept, 1.0)
        return learner

    def fresh(self) -> Means:
        """Return a learner like this one that has seen no rows."""
        return Means(self.n_outputs, self.alpha, self.centre, self.half_life)

    def learn(
        self,
        batch: Batch,
        tables: Sequence[FloatArray],
        small: Sequence[NDArray[Any]],
        keep: FloatArray,
    ) -> Judged:
        """Train all learners on rows; see :class:`CellLearner`."""
        scores = np.empty((keep.size, *batch.Y.shape))
        options = self.alpha, self.centre, keep
        _kernels().learn_means(tuple(batch), *options, tuple(tables), tuple(small), scores)
        return Judged(scores, np.ones(scores.shape[:2]))

    def rescale(self) -> None:
        """Put the sums into units of the last row."""
        self.sums /= self.growth
        self.totals /= self.growth
        self.growth[:] = 1.0

    def write_scores(
        self,
        walk: Sequence[Any],
        group: LearnerGroup,
        weights: FloatArray,
        shares: FloatArray,
        out: Scores,
    ) -> None:
        """Write the mean scores of rows; see :meth:`CellLearner.write_scores`."""
        members, options = (group.rung, group.begin, group.value), (self.alpha, self.centre)
        known = tuple(group.tables), tuple(group.small.values())
        _kernels().mixed_means(tuple(walk), members, weights, *options, *known, out.mean)
        out.variance[:] = 1.0

    @property
    def offset(self) -> FloatArray:
        """Zeros: targets are taken as they are."""
        return np.zeros(self.n_outputs)

    def intercepts(self, small: dict[str, NDArray[Any]]) -> FloatArray:
        """Return the means b of all rows, (J, K)."""
        totals = small["totals"]
        if not self.centre or totals.item(-1) == 0.0:  # without rows, which all learners share
            return np.zeros((len(totals), self.n_outputs))
        b: FloatArray = totals[:, :-1] / totals[:, -1:]
        return b

    def cell_weights(self, n_cells: Counts, value: FloatArray) -> FloatArray:
        """Weights (F, K) of all cells, level after level: O(F) at every call."""
        sums, begin = by_level(self.sums, n_cells), 0
        b = self.intercepts({"totals": self.totals[None]})[0]
        W = np.empty((sums.shape[0], self.n_outputs))
        for n, feature in zip(n_cells.tolist(), value.tolist(), strict=True):
            part = slice(begin, begin + n)
            alpha = self.alpha * self.growth[0]
            _kernels().write_weights(sums[part], b, alpha, feature, W[part])
            begin += n
        return W
