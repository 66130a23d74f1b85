"""What the learners of a stream do with a row: a Kalman filter for kernels, means for forests.

A learner has a row in ``state``, and a row in ``table`` for each of its cells, level after level.
:mod:`mondrian_kernel._kernels.tables` has their columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from mondrian_kernel import _settings as settings
from mondrian_kernel._kernels.tables import (
    CENTRED_MEANS,
    FIRST,
    GROWTH,
    HINGE,
    KNOWN,
    LOGISTIC,
    MEANS,
    N_ROWS,
    SOFTMAX,
    SQUARED,
)
from mondrian_kernel._linear.losses import check_loss, smoothness
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Filter:
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
    most (passive-aggressive). With a half-life the shares P grow again, up to 1, so that new rows
    count more than old ones.

    The offset is, with the squared loss, the target of the first row, so that a large mean of y
    costs no precision; 0 with other losses. P is stored over the growth; 1 or more stands for 1.
    """

    n_outputs: int
    loss: str
    alpha: float
    known: ClassVar[float] = settings.FLAT_VARIANCE  # variance of the intercept without rows

    @property
    def code(self) -> int:
        """Number by which kernels know the rule."""
        return loss_code(self.loss, self.n_outputs)

    @property
    def fresh(self) -> FloatArray:
        """Table row of a cell without rows."""
        return np.append(np.zeros(self.n_outputs), 1.0)

    def after(self, model: FittedModel) -> tuple[FloatArray, FloatArray]:
        r"""Return the table and the state of a learner that continues a fit; its scores stay.

        A cell of n rows has the variance that these rows leave if the other cells are ignored,
        :math:`P = 1/(1 + L n \phi_c^2 / 2 \alpha)` with L the curvature of the loss.
        """
        levels, K = model.levels, self.n_outputs
        n_cells, counts = np.diff(levels.offset), rows_per_cell(model.trees, levels)
        curvature = smoothness(self.loss, K)
        squares = np.repeat(levels.values**2, n_cells)
        P = 1.0 / (1.0 + curvature * counts * squares / (2.0 * self.alpha))
        n_rows = counts.sum() / (n_cells.size * levels.n_trees)
        state = blank_state(self)
        state[KNOWN], state[N_ROWS] = 1.0 / (curvature * n_rows), max(1, round(n_rows))
        first = FIRST if self.loss == "squared" else FIRST + K
        state[first : first + K] = model.intercept
        return np.column_stack([model.cell_weights, P]), state

    def with_class(
        self, table: FloatArray, state: FloatArray
    ) -> tuple[Filter, FloatArray, FloatArray]:
        """Return learners of the logistic loss with a further class, which no row was of."""
        W, P, b = table[:, :-1], table[:, -1:], state[:, FIRST + self.n_outputs :]
        if self.n_outputs == 1:  # the log-odds of two classes
            W, b = np.hstack([-0.5 * W, 0.5 * W]), np.hstack([-0.5 * b, 0.5 * b])
        # One row in n + 2 is of a class that n rows were not of.
        rare = logsumexp(b, axis=1, keepdims=True) - np.log1p(state[:, [N_ROWS]])
        b = np.hstack([b, rare])
        table = np.hstack([W, np.zeros((len(W), 1)), P])
        state = np.hstack([state[:, :FIRST], np.zeros_like(b), b])
        return replace(self, n_outputs=b.shape[1]), table, state

    def cell_weights(
        self, table: FloatArray, state: FloatArray, n_cells: Counts, value: FloatArray
    ) -> FloatArray:
        """Weights (F, K) of all cells of one learner, level after level."""
        return table[:, :-1]

    def variances(
        self, table: FloatArray, state: FloatArray, n_cells: Counts, value: FloatArray
    ) -> FloatArray:
        """Variances (F,) of the weights in units of the prior's, level after level."""
        share: FloatArray = np.minimum(table[:, -1] * state[GROWTH], 1.0)
        return share

    def check(self) -> None:
        """Raise ValueError unless loss and penalty are possible."""
        check_loss(self.loss)
        if not (self.n_outputs > 0 and 0 < self.alpha < np.inf):
            raise ValueError(f"n_outputs={self.n_outputs} or alpha={self.alpha} is out of range.")


@dataclass(frozen=True)
class Means:
    r"""Mean of the rows of each cell, shrunk to the mean of all rows; exact at any moment.

    .. math::
        f = b + \frac1M \sum_m \frac{\sum_{i \in c} s_i (y_i - b)}{\sum_{i \in c} s_i + \gamma^2}

    A row is added to the sums of its M cells and to the mean b, in O(M). The result equals a fit of
    all rows on the same trees, weighted by how much the half-life leaves of them. ``alpha`` is the
    shrinkage γ²; b is 0 unless ``centre``. The offset is 0.
    """

    loss: ClassVar[str] = "squared"
    known: ClassVar[float] = 0.0  # weight of no rows
    n_outputs: int
    alpha: float
    centre: bool

    @property
    def code(self) -> int:
        """Number by which kernels know the rule."""
        return CENTRED_MEANS if self.centre else MEANS

    @property
    def fresh(self) -> FloatArray:
        """Table row of a cell without rows."""
        return np.zeros(self.n_outputs + 2)

    def after(self, model: FittedModel) -> tuple[FloatArray, FloatArray]:
        """Return the table and the state of a learner that continues the fit of a forest."""
        assert model.sums is not None
        n_cells, state = np.diff(model.levels.offset), blank_state(self)
        # Every row lies in one cell of each tree, at each level.
        total = model.sums[:, self.n_outputs].sum() / (n_cells.size * model.levels.n_trees)
        state[KNOWN], state[N_ROWS] = total, max(1, round(total))
        state[FIRST + self.n_outputs :] = model.intercept
        return model.sums, state

    def cell_weights(
        self, table: FloatArray, state: FloatArray, n_cells: Counts, value: FloatArray
    ) -> FloatArray:
        """Weights (F, K) of all cells of one learner, level after level."""
        sums, b = table, state[FIRST + self.n_outputs :]
        counts = sums[:, -1:] + self.alpha * state[GROWTH]
        W = (sums[:, :-2] - b * sums[:, -2:-1]) / np.where(counts > 0, counts, np.inf)
        weights: FloatArray = np.repeat(value, n_cells)[:, None] * W
        return weights

    def check(self) -> None:
        """Raise ValueError unless the shrinkage is possible."""
        if not (self.n_outputs > 0 and 0 <= self.alpha < np.inf):
            raise ValueError(f"n_outputs={self.n_outputs} or alpha={self.alpha} is out of range.")


def blank_state(rule: Filter | Means) -> FloatArray:
    """Return the state of a learner without rows."""
    state = np.zeros(FIRST + 2 * rule.n_outputs)
    state[GROWTH], state[KNOWN] = 1.0, rule.known
    return state


def loss_code(loss: str, n_outputs: int) -> int:
    """Return the number by which kernels know a loss."""
    if loss == "log_loss":
        return LOGISTIC if n_outputs == 1 else SOFTMAX
    return SQUARED if loss == "squared" else HINGE


def rows_per_cell(trees: Trees, levels: Levels) -> FloatArray:
    """Count the rows in each cell, (F,), level after level."""
    counts = np.zeros(levels.n_features)
    for begin, column in zip(levels.offset, levels.column, strict=False):
        top = trees.top_nodes(column)
        counts[begin + column[top]] = trees.count[top]
    return counts
