"""Learners of one pass: a Kalman filter for kernels, and sums of cells for forests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtri

from mondrian_kernel._linear.losses import check_loss, smoothness
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._online.group import Batch, CellLearner, Counts, as_table, by_level
from mondrian_kernel._settings import FLAT_VARIANCE, RECENT_ROWS
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray


@cache
def _filter_kernels() -> Any:
    from mondrian_kernel._kernels import filter as kernels

    return kernels


@cache
def _means_kernels() -> Any:
    from mondrian_kernel._kernels import means

    return means


@dataclass(eq=False)
class Filter(CellLearner):
    r"""Take each row once towards the least :math:`\sum_i s_i \ell(y_i, f_i) + \alpha\|W\|^2`.

    .. math::
        f = b + W^\top \phi, \qquad
        W_c \leftarrow W_c - \frac{P_c \phi_c}{2\alpha} \frac{s \ell'}{1 + s \ell'' v}, \qquad
        v = \frac1{2\alpha} \sum_c P_c \phi_c^2 + v_b

    Every weight has a prior of variance 1/(2α) and keeps the share P of it that the rows have left:
    1 at first, then less with every row in its cell. The weights of a row's cells share its error
    in proportion to P. So a new cell learns fast, and one that has seen many rows hardly moves.
    There is no step size to set, and the weights need not be averaged. With all covariances this
    would be the Kalman filter, which solves ridge regression exactly in O(C²) a row; with the
    covariances between weights left out it takes O(M) a row. The hinge loss steps to its kink at
    most (passive-aggressive).

    Parameters
    ----------
    n_outputs : int
        Number of outputs, K.
    loss : {"squared", "log_loss", "hinge"}
        Loss ℓ, for targets as in :mod:`mondrian_kernel._linear.losses`.
    alpha : float
        Penalty α > 0.

    Attributes
    ----------
    W : ndarray of shape (at least n_table, K)
        Weights; 0 for new cells.
    P : ndarray of shape (at least n_table,)
        Variances of the weights in units of the prior's; 1 for new cells.
    b : ndarray of shape (K,)
        Intercepts, relative to ``offset``.
    b_variance : ndarray of shape (1,)
        Variance of the intercepts.
    offset : ndarray of shape (K,)
        Number that is subtracted from every target: with the squared loss the target of the first
        row, so that a large mean of y costs no precision; 0 with other losses.
    n_rows : ndarray of shape (1,), int64
        Number of rows learnt from.
    recent : ndarray of shape (2048, K)
        Errors of rows before they were learnt from, in units of :math:`\sqrt{2\alpha v +
        \alpha}`; only with the squared loss. Row i is at place i modulo 2048. The last 1024 are
        used; the others are there in case a batch is rolled back.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._online.learners import Filter
    >>> from mondrian_kernel._online.group import LearnerGroup
    >>> learner = Filter(n_outputs=1, loss="squared", alpha=0.1)
    >>> leaf, column = np.zeros((200, 2), np.int32), np.zeros((1, 1), np.int32)
    >>> y = np.where(np.arange(200) > 0, 3.0, 0.0)[:, None]
    >>> losses = LearnerGroup([learner], np.array([0.5**0.5])).learn(
    ...     leaf, column, [1], (), y, np.ones(200)
    ... )
    >>> losses[0, [1, -1]].round(3)
    array([9., 0.])
    """

    tables = {"W": 0.0, "P": 1.0}
    small = ("b", "b_variance", "offset", "n_rows")
    rings = ("recent",)

    n_outputs: int
    loss: str
    alpha: float
    n_table: int = 0
    W: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    P: FloatArray = field(default_factory=lambda: np.empty(0))
    b: FloatArray = field(default_factory=lambda: np.empty(0))
    b_variance: FloatArray = field(default_factory=lambda: np.full(1, FLAT_VARIANCE))
    offset: FloatArray = field(default_factory=lambda: np.empty(0))
    n_rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    recent: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        check_loss(self.loss)
        if self.b.size == 0:
            self.W = np.empty((0, self.n_outputs))
            self.b, self.offset = np.zeros(self.n_outputs), np.zeros(self.n_outputs)
            n_recent = 2 * RECENT_ROWS if self.loss == "squared" else 0
            self.recent = np.zeros((n_recent, self.n_outputs))

    def check(self) -> None:
        """Raise ValueError unless the arrays fit together."""
        check_loss(self.loss)
        K = self.n_outputs
        recent = 2 * RECENT_ROWS if self.loss == "squared" else 0, K
        tables = {"W": (K,), "P": ()}
        small = {"b": (K,), "b_variance": (1,), "offset": (K,), "n_rows": (1,), "recent": recent}
        self.check_arrays(tables | small)
        if not (self.P > 0).all() or self.b_variance[0] <= 0 or self.alpha == 0:
            raise ValueError("A variance or alpha is not positive.")
        if self.n_rows[0] < 0:
            raise ValueError("The number of rows is negative.")

    @classmethod
    def after(cls, model: FittedModel, loss: str) -> Filter:
        r"""Return a learner that continues a fit.

        Scores stay. A cell of n rows has the variance that these rows leave if the other cells are
        ignored, :math:`P = 1/(1 + L n \phi_c^2 / 2 \alpha)` with L the curvature of the loss.

        Parameters
        ----------
        model : FittedModel
            The fit.
        loss : str
            Loss ℓ.

        Returns
        -------
        learner : Filter
            The learner.
        """
        levels, n_outputs = model.levels, model.n_outputs
        n_cells, value = np.diff(levels.offset), levels.values
        counts, curvature = rows_per_cell(model.trees, levels), smoothness(loss, n_outputs)
        squares = np.repeat(value**2, n_cells)
        P = 1.0 / (1.0 + curvature * counts * squares / (2.0 * model.alpha))
        learner = cls(n_outputs, loss, model.alpha, int(n_cells.max()) * n_cells.size)
        learner.W = as_table(model.cell_weights, n_cells, 0.0)
        learner.P = as_table(P, n_cells, 1.0)
        n_rows = counts.sum() / (n_cells.size * levels.n_trees)
        learner.b_variance[0] = 1.0 / (curvature * n_rows)
        learner.n_rows[0] = max(1, round(n_rows))
        if loss == "squared":
            learner.offset = model.intercept.copy()
        else:
            learner.b = model.intercept.copy()
        if loss == "squared" and model.signal.size:
            # Until new rows have errors of their own: normal errors of the variance of the fit.
            # The factor 619 mixes their order.
            scores = ndtri((np.arange(RECENT_ROWS) * 619 % RECENT_ROWS + 0.5) / RECENT_ROWS)
            learner.recent = np.tile(scores[:, None] * np.sqrt(model.signal), (2, 1))
        return learner

    def fresh(self) -> Filter:
        """Return a learner like this one that has seen no rows."""
        return Filter(self.n_outputs, self.loss, self.alpha)

    def learn(
        self,
        batch: Batch,
        tables: Sequence[tuple[FloatArray, ...]],
        small: Sequence[NDArray[Any]],
        losses: FloatArray,
    ) -> None:
        """Train all rungs on rows; see :class:`CellLearner`."""
        kernels = _filter_kernels()
        code = kernels.CODES[self.loss]
        if code == kernels.LOGISTIC and self.n_outputs > 1:
            code = kernels.SOFTMAX
        kernels.learn(*batch, code, self.alpha, *tables, *small, losses)

    @property
    def intercept(self) -> FloatArray:
        """Intercept b, (K,)."""
        b: FloatArray = self.offset + self.b
        return b

    def cell_weights(self, n_cells: Counts, value: FloatArray) -> FloatArray:
        """Weights (F, K) of all cells, level after level."""
        return by_level(self.W, n_cells)

    def cell_sums(self, n_cells: Counts) -> None:
        """None: a filter keeps no sums."""

    def signal(self) -> FloatArray:
        """Variance σ² under which the errors of the last 1024 rows are likeliest, (K,)."""
        if self.recent.size == 0:
            return np.empty(0)
        variance = np.empty(self.n_outputs)
        _filter_kernels().mean_squares(self.recent, self.n_rows[0], RECENT_ROWS, variance)
        return variance

    def standard_errors(self) -> FloatArray:
        """Absolute errors of the last 1024 rows in units of their deviation, (n, K).

        One row of zeros before there are any.
        """
        n = int(self.n_rows[0])
        # The first row only sets the intercept.
        last = np.arange(max(1, n - RECENT_ROWS), n)
        if last.size == 0:
            return np.zeros((1, self.n_outputs))
        errors: FloatArray = np.abs(self.recent[last % self.recent.shape[0]])
        return errors

    def variance(self, Phi: sparse.csr_matrix, n_cells: Counts) -> FloatArray:
        """Variance of f at new rows in units of σ², (n,), given their features Φ (n, F)."""
        squares = Phi.multiply(Phi)
        known: FloatArray = squares @ by_level(self.P, n_cells)
        missing = np.maximum(1.0 - np.asarray(squares.sum(axis=1)).ravel(), 0.0)
        total: FloatArray = known + missing + 2.0 * self.alpha * self.b_variance[0]
        return total

    def covariance(self, Phi: sparse.csr_matrix, n_cells: Counts) -> FloatArray:
        """Joint covariance of f at new rows in units of σ², (n, n), given their features."""
        P = sparse.diags_array(by_level(self.P, n_cells))
        cov: FloatArray = (Phi @ P @ Phi.T).toarray()
        cov += 2.0 * self.alpha * self.b_variance[0]
        squares = np.asarray(Phi.multiply(Phi).sum(axis=1)).ravel()
        cov.flat[:: cov.shape[0] + 1] += np.maximum(1.0 - squares, 0.0)
        return cov


@dataclass(eq=False)
class Means(CellLearner):
    r"""Mean of the rows of each cell, shrunk to the mean of all rows; exact at any moment.

    .. math::
        f = b + \frac1M \sum_m \frac{\sum_{i \in c} s_i (y_i - b)}{\sum_{i \in c} s_i + \gamma^2}

    A row is added to the sums of its M cells and to the mean b, in O(M). The result equals a fit of
    all rows on the same trees.

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
    sums : ndarray of shape (at least n_table, K + 2)
        Σ s p y, Σ s p and Σ s p² over the rows of each cell, with p the probability that a row
        lies in it: 1 for rows that the trees were grown on.
    totals : ndarray of shape (K + 1,)
        Σ s y and Σ s over all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._online.group import LearnerGroup
    >>> from mondrian_kernel._online.learners import Means
    >>> learner, value = Means(n_outputs=1, alpha=0.0, centre=True), np.array([0.5**0.5])
    >>> leaf, column = np.array([[0, 1], [0, 2]], np.int32), np.array([[0, 1, 2]], np.int32)
    >>> losses = LearnerGroup([learner], value).learn(
    ...     leaf, column, [3], (), np.array([[1.0], [2.0]]), np.ones(2)
    ... )
    >>> learner.scores(column[0][leaf].astype(np.int64), np.ones((2, 2)), value).ravel().round(12)
    array([1.25, 1.75])
    """

    tables = {"sums": 0.0}
    small = ("totals",)

    n_outputs: int
    alpha: float
    centre: bool
    n_table: int = 0
    sums: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    totals: FloatArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if self.totals.size == 0:
            self.sums, self.totals = np.empty((0, self.n_outputs + 2)), np.zeros(self.n_outputs + 1)

    def check(self) -> None:
        """Raise ValueError unless the arrays fit together."""
        K = self.n_outputs
        self.check_arrays({"sums": (K + 2,), "totals": (K + 1,)})
        if (self.sums[:, K:] < 0).any() or self.totals[K] < 0:
            raise ValueError("The weight of a cell is negative.")

    @classmethod
    def after(cls, model: FittedModel, centre: bool) -> Means:
        """Return a learner that continues the fit of a forest, whose ``sums`` are not None."""
        assert model.sums is not None
        n_cells, K = np.diff(model.levels.offset), model.n_outputs
        learner = cls(K, model.alpha, centre, int(n_cells.max()) * n_cells.size)
        learner.sums = as_table(model.sums, n_cells, 0.0)
        # Every row lies in one cell of each tree, at each level.
        total = model.sums[:, K].sum() / (n_cells.size * model.levels.n_trees)
        learner.totals[:] = total * np.append(model.intercept, 1.0)
        return learner

    def fresh(self) -> Means:
        """Return a learner like this one that has seen no rows."""
        return Means(self.n_outputs, self.alpha, self.centre)

    def learn(
        self,
        batch: Batch,
        tables: Sequence[tuple[FloatArray, ...]],
        small: Sequence[NDArray[Any]],
        losses: FloatArray,
    ) -> None:
        """Train all rungs on rows; see :class:`CellLearner`."""
        _means_kernels().learn_means(*batch, self.alpha, self.centre, *tables, *small, losses)

    def scores(self, cells: IntArray, stay: FloatArray, value: FloatArray) -> FloatArray:
        """Scores (n, K) of rows in O(M) each, without the weights of all cells.

        ``cells`` (n, L·M) are rows of ``sums``, level after level; ``stay`` (n, L·M) are the
        probabilities that the rows lie in them; ``value`` has shape (L,).
        """
        out = np.empty((cells.shape[0], self.n_outputs))
        _means_kernels().average_means(
            cells, stay, value, self.alpha, self.centre, self.sums, self.totals, out
        )
        return out

    @property
    def intercept(self) -> FloatArray:
        """The mean b of all rows, (K,)."""
        total = self.totals[-1]
        b: FloatArray = self.totals[:-1] / (total if self.centre and total > 0 else np.inf)
        return b

    def cell_weights(self, n_cells: Counts, value: FloatArray) -> FloatArray:
        """Weights (F, K) of all cells, level after level: O(F) at every call."""
        sums, begin = by_level(self.sums, n_cells), 0
        W = np.empty((sums.shape[0], self.n_outputs))
        for n, feature in zip(n_cells.tolist(), value.tolist(), strict=True):
            part = slice(begin, begin + n)
            _means_kernels().write_weights(sums[part], self.intercept, self.alpha, feature, W[part])
            begin += n
        return W

    def cell_sums(self, n_cells: Counts) -> FloatArray:
        """Return the sums (F, K + 2) of all cells, level after level."""
        return by_level(self.sums, n_cells)

    def signal(self) -> FloatArray:
        """Empty: a forest has no prior variance."""
        return np.empty(0)


def rows_per_cell(trees: Trees, levels: Levels) -> FloatArray:
    """Count the rows in each cell, (F,), level after level."""
    counts = np.zeros(levels.n_features)
    for begin, column in zip(levels.offset, levels.column, strict=False):
        top = trees.top_nodes(column)
        counts[begin + column[top]] = trees.count[top]
    return counts
