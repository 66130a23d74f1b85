"""Kernel learning in one pass: a Kalman filter that keeps a variance for each weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mondrian_kernel._linear.losses import check_loss, smoothness
from mondrian_kernel._online.cell_learner import CellLearner
from mondrian_kernel._typing import FloatArray, IntArray

N_RECENT = 1024
_FLAT = 1e6


@cache
def _kernels() -> Any:
    from mondrian_kernel._kernels import filter as core

    return core


@dataclass(eq=False)
class Filter(CellLearner):
    r"""Take each row once towards the least :math:`\sum_i s_i \ell(y_i, f_i) + \alpha\|W\|^2`.

    .. math::
        f = b + W^\top \phi, \qquad
        W_c \leftarrow W_c - \frac{P_c \phi_c}{2\alpha} \frac{s \ell'}{1 + s \ell'' v}, \qquad
        v = \frac1{2\alpha} \sum_c P_c \phi_c^2 + v_b

    Every weight has a prior of variance 1/(2α), for which α stands in the objective, and keeps the
    share P of it that the rows have left open: at first 1, then less with every row in its cell.
    The weights of a row's cells share its error in proportion to P. So a cell that is new learns
    fast and one that has seen much hardly moves, there is no step size to set, and the weights
    settle without being averaged. This is Kalman's filter, for which ridge regression is exact,
    with the covariances between weights left out: O(M) a row instead of O(C²). The hinge is
    stepped down to its kink at most (passive-aggressive).

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
    W : ndarray of shape (at least n_cells, K)
        Weights; 0 for cells to come.
    P : ndarray of shape (at least n_cells,)
        Variances of the weights in units of the prior's; 1 for cells to come.
    b : ndarray of shape (K,)
        Intercepts.
    b_variance : ndarray of shape (1,)
        Variance of the intercepts.
    recent : ndarray of shape (2048, K)
        Errors of rows before they were learnt from, in units of :math:`\sqrt{2\alpha v +
        \alpha}`; only of the squared loss. A ring: row i has place i modulo 2048. The last 1024
        count; the others are there if a batch is taken back.
    n_rows : ndarray of shape (1,), int64
        Number of rows taken.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._online.cell_learner import Lessons
    >>> from mondrian_kernel._online.filter import Filter
    >>> lessons = Lessons([Filter(n_outputs=1, loss="squared", alpha=0.1)])
    >>> leaf, column = np.zeros((200, 2), np.int32), np.zeros((1, 1), np.int32)
    >>> losses = lessons.teach(leaf, column, [1], (), np.full((200, 1), 3.0), np.ones(200))
    >>> losses[0, [0, -1]].round(3)
    array([9., 0.])
    """

    _per_cell = {"W": 0.0, "P": 1.0}
    _small = ("b", "b_variance", "n_rows")
    _rings = ("recent",)

    n_outputs: int
    loss: str
    alpha: float
    n_cells: int = 0
    W: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    P: FloatArray = field(default_factory=lambda: np.empty(0))
    b: FloatArray = field(default_factory=lambda: np.empty(0))
    b_variance: FloatArray = field(default_factory=lambda: np.full(1, _FLAT))
    recent: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    n_rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    def __post_init__(self) -> None:
        check_loss(self.loss)
        if self.b.size == 0:
            self.W, self.b = np.empty((0, self.n_outputs)), np.zeros(self.n_outputs)
            n_recent = 2 * N_RECENT if self.loss == "squared" else 0
            self.recent = np.zeros((n_recent, self.n_outputs))

    def fresh(self) -> Filter:
        """Return a learner like this one that has seen nothing."""
        return Filter(self.n_outputs, self.loss, self.alpha)

    @classmethod
    def after(
        cls, coef: FloatArray, intercept: FloatArray, counts: FloatArray, n_trees: int,
        loss: str, alpha: float,
    ) -> Filter:  # fmt: skip
        r"""Return a learner that goes on from weights fitted otherwise.

        Scores stay. A cell of n rows has the variance that these leave open if the cell is looked
        at alone, :math:`P = 1/(1 + L n / 2 \alpha M)` with L the curvature of the loss.

        Parameters
        ----------
        coef, intercept : ndarrays of shape (C, K) and (K,)
            Weights.
        counts : ndarray of shape (C,)
            Rows in each cell.
        n_trees : int
            Number of trees, M.
        loss, alpha
            As of the class.

        Returns
        -------
        learner : Filter
            The learner.
        """
        learner = cls(coef.shape[1], loss, alpha, coef.shape[0])
        curvature = smoothness(loss, coef.shape[1])
        learner.W, learner.b = coef.copy(), intercept.copy()
        learner.P = 1.0 / (1.0 + curvature * counts / (2.0 * alpha * n_trees))
        learner.b_variance[0] = n_trees / (curvature * counts.sum())
        return learner

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
        core = _kernels()
        code = core.CODES[self.loss]
        if code == core.LOGISTIC and self.n_outputs > 1:
            code = core.SOFTMAX
        core.learn(leaf, column, Y, sample_weight, code, self.alpha, *per_cell, *small, losses)

    def standard_errors(self) -> FloatArray:
        """Return the absolute errors of late rows, standardised: (n, K); 0 before there are any."""
        n = int(self.n_rows[0])
        # The first row only finds the intercept: what it is off by says nothing.
        late = np.arange(max(1, n - N_RECENT), n)
        if late.size == 0:
            return np.zeros((1, self.n_outputs))
        errors: FloatArray = np.abs(self.recent[late % self.recent.shape[0]])
        return errors

    def signal(self) -> FloatArray:
        """Variance σ² under which late errors are likeliest, (K,)."""
        variance = np.empty(self.n_outputs)
        _kernels().late_squares(self.recent, self.n_rows[0], N_RECENT, variance)
        return variance

    def __call__(self, Phi: sparse.csr_matrix) -> FloatArray:
        """Variance of f at new rows in units of σ², (n,); see ``PredictiveVariance``."""
        squares = Phi.multiply(Phi)
        known: FloatArray = squares @ self.P[: self.n_cells]
        missing = np.maximum(1.0 - np.asarray(squares.sum(axis=1)).ravel(), 0.0)
        total: FloatArray = known + missing + 2.0 * self.alpha * self.b_variance[0]
        return total

    def covariance(self, Phi: sparse.csr_matrix) -> FloatArray:
        """Joint covariance of f at new rows in units of σ², (n, n)."""
        cov: FloatArray = (Phi @ sparse.diags_array(self.P[: self.n_cells]) @ Phi.T).toarray()
        cov += 2.0 * self.alpha * self.b_variance[0]
        squares = np.asarray(Phi.multiply(Phi).sum(axis=1)).ravel()
        cov.flat[:: cov.shape[0] + 1] += np.maximum(1.0 - squares, 0.0)
        return cov
