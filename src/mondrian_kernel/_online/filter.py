"""A learner of one pass: a Kalman filter, for kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.losses import check_loss, smoothness
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
    compiled,
)
from mondrian_kernel._trees.levels import Levels
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray


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
    most (passive-aggressive). With a half-life the shares P grow again, up to 1, so that new rows
    count more than old ones.

    Parameters
    ----------
    n_outputs : int
        Number of outputs, K.
    loss : {"squared", "log_loss", "hinge"}
        Loss ℓ, for targets as in :mod:`mondrian_kernel._linear.losses`.
    alpha : float
        Penalty α > 0.
    half_life : float, default=inf
        Rows after which a row counts half.

    Attributes
    ----------
    W : ndarray of shape (at least n_table, K)
        Weights; 0 for new cells.
    P : ndarray of shape (at least n_table,)
        Variances of the weights in units of the prior's, over ``growth``; at least 1 stands for
        1, as of new cells.
    b : ndarray of shape (K,)
        Intercepts, relative to ``offset``.
    b_variance : ndarray of shape (1,)
        Variance of the intercepts.
    offset : ndarray of shape (K,)
        Number that is subtracted from every target: with the squared loss the target of the first
        row, so that a large mean of y costs no precision; 0 with other losses.
    n_rows : ndarray of shape (1,), int64
        Number of rows learnt from.
    growth : ndarray of shape (1,)
        See :class:`CellLearner`.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._online.filter import Filter
    >>> from mondrian_kernel._online.group import LearnerGroup
    >>> learner = Filter(n_outputs=1, loss="squared", alpha=0.1)
    >>> leaf, column = np.zeros((200, 2), np.int32), np.zeros((1, 1), np.int32)
    >>> y = np.where(np.arange(200) > 0, 3.0, 0.0)[:, None]
    >>> group = LearnerGroup([learner], 1, np.array([0.5**0.5]))
    >>> for i in range(2):
    ...     scores = group.learn(leaf, column, [1], (), y, np.ones(200)).scores
    >>> scores[0, -1].round(2)
    array([3.])
    """

    tables = {"W": 0.0, "P": 1.0}
    small = ("b", "b_variance", "growth", "offset", "n_rows")

    n_outputs: int
    loss: str
    alpha: float
    half_life: float = np.inf
    n_table: int = 0
    W: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    P: FloatArray = field(default_factory=lambda: np.empty(0))
    b: FloatArray = field(default_factory=lambda: np.empty(0))
    b_variance: FloatArray = field(default_factory=lambda: np.full(1, settings.FLAT_VARIANCE))
    offset: FloatArray = field(default_factory=lambda: np.empty(0))
    n_rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    growth: FloatArray = field(default_factory=lambda: np.ones(1))

    def __post_init__(self) -> None:
        check_loss(self.loss)
        if self.b.size == 0:
            self.W = np.empty((0, self.n_outputs))
            self.b, self.offset = np.zeros(self.n_outputs), np.zeros(self.n_outputs)

    def check(self) -> None:
        """Raise ValueError unless the arrays fit together."""
        check_loss(self.loss)
        K, one = self.n_outputs, (1,)
        tables = {"W": (K,), "P": ()}
        small = {"b": (K,), "b_variance": one, "growth": one, "offset": (K,), "n_rows": one}
        self.check_arrays(tables | small)
        if not (self.P > 0).all() or self.b_variance[0] <= 0 or self.alpha == 0:
            raise ValueError("A variance or alpha is not positive.")
        if self.n_rows[0] < 0:
            raise ValueError("The number of rows is negative.")

    @classmethod
    def after(cls, model: FittedModel, loss: str, half_life: float = np.inf) -> Filter:
        r"""Return a learner that continues a fit.

        Scores stay. A cell of n rows has the variance that these rows leave if the other cells are
        ignored, :math:`P = 1/(1 + L n \phi_c^2 / 2 \alpha)` with L the curvature of the loss.

        Parameters
        ----------
        model : FittedModel
            The fit.
        loss : str
            Loss ℓ.
        half_life : float, default=inf
            Rows after which a row counts half.

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
        n_table = int(n_cells.max()) * n_cells.size
        learner = cls(n_outputs, loss, model.alpha, half_life, n_table)
        learner.W = as_table(model.cell_weights, n_cells, 0.0)
        learner.P = as_table(P, n_cells, 1.0)
        n_rows = counts.sum() / (n_cells.size * levels.n_trees)
        learner.b_variance[0] = 1.0 / (curvature * n_rows)
        learner.n_rows[0] = max(1, round(n_rows))
        if loss == "squared":
            learner.offset = model.intercept.copy()
        else:
            learner.b = model.intercept.copy()
        return learner

    def with_class(self) -> Filter:
        """Return a learner of the logistic loss with a further class, which no row was of."""
        W, b = self.W, self.b
        if b.size == 1:  # the log-odds of two classes
            W, b = np.hstack([-0.5 * W, 0.5 * W]), np.append(-0.5 * b, 0.5 * b)
        # One row in n + 2 is of a class that n rows were not of.
        rare = logsumexp(b) - np.log1p(self.n_rows[0])
        return replace(
            self,
            n_outputs=b.size + 1,
            W=np.hstack([W, np.zeros((W.shape[0], 1))]),
            b=np.append(b, rare),
            offset=np.zeros(b.size + 1),
        )

    def fresh(self) -> Filter:
        """Return a learner like this one that has seen no rows."""
        return Filter(self.n_outputs, self.loss, self.alpha, self.half_life)

    def learn(
        self,
        batch: Batch,
        tables: Sequence[FloatArray],
        small: Sequence[NDArray[Any]],
        keep: FloatArray,
    ) -> Judged:
        """Train all learners on rows; see :class:`CellLearner`."""
        shape = keep.size, *batch.Y.shape
        judged = Judged(np.empty(shape), np.empty(shape[:2]))
        code = loss_code(self.loss, self.n_outputs)
        state = tuple(tables), tuple(small), tuple(judged)
        compiled().learn(tuple(batch), code, self.alpha, keep, *state)
        return judged

    def rescale(self) -> None:
        """Put the variances into their own units."""
        np.minimum(self.P * self.growth, 1.0, out=self.P)
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
        members = (group.rung, group.begin, group.value), weights, shares, self.alpha
        spread = group.small["b_variance"], group.small["growth"]
        compiled().mixed_scores(tuple(walk), *members, tuple(group.tables), spread, tuple(out))

    def intercepts(self, small: dict[str, NDArray[Any]]) -> FloatArray:
        """Return the intercepts of learners, less their offset, (J, K)."""
        b: FloatArray = small["b"]
        return b

    def cell_weights(self, n_cells: Counts, value: FloatArray) -> FloatArray:
        """Weights (F, K) of all cells, level after level."""
        return by_level(self.W, n_cells)

    def variances(self, n_cells: Counts, value: FloatArray) -> FloatArray:
        """Variances (F,) of the weights in units of the prior's, level after level."""
        share: FloatArray = np.minimum(by_level(self.P, n_cells) * self.growth, 1.0)
        return share


def loss_code(loss: str, n_outputs: int) -> int:
    """Return the number by which kernels know a loss."""
    kernels = compiled()
    code: int = kernels.CODES[loss]
    return kernels.SOFTMAX if code == kernels.LOGISTIC and n_outputs > 1 else code


def rows_per_cell(trees: Trees, levels: Levels) -> FloatArray:
    """Count the rows in each cell, (F,), level after level."""
    counts = np.zeros(levels.n_features)
    for begin, column in zip(levels.offset, levels.column, strict=False):
        top = trees.top_nodes(column)
        counts[begin + column[top]] = trees.count[top]
    return counts
