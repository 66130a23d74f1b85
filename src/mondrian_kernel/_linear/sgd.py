"""Averaged stochastic gradient descent on sparse features that split and grow."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mondrian_kernel._linear.losses import check_loss, penalty_per_row, smoothness
from mondrian_kernel._linear.operator import SparseRows
from mondrian_kernel._settings import SGD_AVERAGE_DEGREE, SGD_POWER
from mondrian_kernel._typing import FloatArray, IntArray


def inherit(W: FloatArray, parent_of: IntArray) -> FloatArray:
    """Hand the weight of a split cell to its children: row c of the result is W[parent_of[c]].

    Every score is unchanged, as the features of a row move to the children of its cells.

    Parameters
    ----------
    W : ndarray of shape (C, K)
        Weights.
    parent_of : ndarray of shape (C_new,), integers
        Old column of each new column.

    Returns
    -------
    W : ndarray of shape (C_new, K)
        Weights of the new columns.
    """
    return np.ascontiguousarray(W[parent_of])


def parents(coarse: IntArray, fine: IntArray, n_fine: int) -> IntArray:
    """Coarse cell of each fine cell, from both cells (N, M) of the rows: no cell is empty."""
    parent_of = np.empty(n_fine, np.int32)
    parent_of[fine] = coarse
    return parent_of


@dataclass
class SgdState:
    r"""Descend :math:`\sum_i s_i \ell(y_i, f_i) + \alpha\lVert W\rVert^2` one row at a time.

    Step t on row i of N, with λ = 2α/N and :math:`\eta_t = \eta_0 (1 + \lambda \eta_0 t)^{-p}`:

    .. math::
        W \leftarrow (W - \eta_t s_i \phi_i \nabla\ell) / (1 + \lambda\eta_t), \qquad
        b \leftarrow b - \eta_t s_i \nabla\ell

    in O(MK), then the average :math:`\bar W \propto \sum_t (t + 1) W_t`, which forgets where it
    started. η₀ is ``step`` over the largest curvature :math:`L s_i (\lVert\phi_i\rVert^2 + 1)` of a
    row seen so far. p is 3/4 for the smooth losses, as averages want it, and 1 for the hinge: the
    steps of Pegasos, :math:`1/\lambda t`, once t is large.

    Parameters
    ----------
    n_cells : int
        Number of weights of an output, C.
    n_outputs : int
        Number of outputs, K.
    loss : {"squared", "log_loss", "hinge"}
        Loss ℓ, for targets as in :mod:`mondrian_kernel._linear.losses`.
    alpha : float
        Penalty α.
    step : float, default=1.0
        First step relative to the inverse of the largest curvature.

    Examples
    --------
    >>> import numpy as np
    >>> cells = np.array([[0, 2], [0, 3], [1, 2], [1, 3]], np.int32)
    >>> y = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> state = SgdState(n_cells=4, n_outputs=1, loss="squared", alpha=1.0)
    >>> state.run(cells, y, passes=2000, rng=np.random.default_rng(0))
    >>> state.W_mean.ravel().round(1), state.b_mean.round(1)
    (array([-0.7,  0.7, -0.4,  0.4]), array([1.5]))
    """

    n_cells: int
    n_outputs: int
    loss: str
    alpha: float
    step: float = 1.0
    curvature: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        check_loss(self.loss)
        shape = (self.n_cells, self.n_outputs)
        self._U, self._V = np.zeros(shape), np.zeros(shape)
        self.b, self._b_sum = np.zeros(self.n_outputs), np.zeros(self.n_outputs)
        # Steps t, scale c, τ, sum of the average's weights: see the kernel.
        self._clock = np.array([0.0, 1.0, 0.0, 0.0])

    @property
    def n_steps(self) -> int:
        """Number of steps taken, since the last restart."""
        return int(self._clock[0])

    @property
    def W(self) -> FloatArray:
        """Current weights (C, K)."""
        return np.asarray(self._clock[1] * self._U[: self.n_cells])

    @property
    def W_mean(self) -> FloatArray:
        """Averaged weights (C, K); the current ones before the first step."""
        if self.n_steps == 0:
            return self.W
        _, _, tau, total = self._clock
        return np.asarray((tau * self._U[: self.n_cells] + self._V[: self.n_cells]) / total)

    @property
    def b_mean(self) -> FloatArray:
        """Averaged intercept (K,)."""
        return np.asarray(self._b_sum / self._clock[3]) if self.n_steps > 0 else self.b.copy()

    def run(
        self,
        cells: IntArray,
        Y: FloatArray,
        passes: int = 1,
        rng: np.random.Generator | None = None,
        *,
        values: FloatArray | None = None,
        sample_weight: FloatArray | None = None,
        n_rows: int | None = None,
    ) -> None:
        """Take a step on every row, ``passes`` times.

        Parameters
        ----------
        cells, values : ndarrays of shape (N, M), int32 and float64 or None
            Columns of the features of each row and their values; where None all are 1/√M.
        Y : ndarray of shape (N, K)
            Targets.
        passes : int, default=1
            How often each row is used.
        rng : Generator or None, default=None
            Orders the rows anew in every pass; where None they come as they are.
        sample_weight : ndarray of shape (N,) or None, default=None
            Weights s, 1 where None.
        n_rows : int or None, default=None
            Number of rows N that the penalty is spread over: all rows of a stream so far. The rows
            given, where None.
        """
        from mondrian_kernel._kernels.dual import sgd_pass

        features = self._features(cells, values)
        n = features.cells.shape[0]
        s = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
        if n == 0 or not s.any():
            return
        self.curvature = max(self.curvature, float((s * (features.square + 1.0)).max()))
        eta = self.step / (smoothness(self.loss, self.n_outputs) * self.curvature)
        decay = penalty_per_row(self.alpha, n if n_rows is None else n_rows)
        schedule = eta, SGD_POWER[self.loss], decay, SGD_AVERAGE_DEGREE
        state = self._U, self._V, self.b, self._b_sum, self._clock
        Y = np.ascontiguousarray(Y, dtype=float)
        order = np.arange(n)
        for _ in range(passes):
            if rng is not None:
                order = rng.permutation(n)
            sgd_pass(features, Y, s, order, self._code, schedule, state)

    def _features(self, cells: IntArray, values: FloatArray | None) -> SparseRows:
        if cells.size and not 0 <= cells.min() <= cells.max() < self.n_cells:
            raise ValueError(f"cells has columns outside [0, {self.n_cells}).")
        return SparseRows.of(cells, values)

    def scores(self, cells: IntArray, values: FloatArray | None = None) -> FloatArray:
        """Scores of rows by the averaged weights, shape (N, K): O(NMK), whatever C."""
        features = self._features(cells, values)
        if self.n_steps == 0:
            return features.gather(self._U) + self.b
        _, _, tau, total = self._clock
        sums = tau * features.gather(self._U) + features.gather(self._V)
        return np.asarray((sums + self._b_sum) / total)

    def inherit(self, parent_of: IntArray) -> None:
        """Split cells: new column c continues the old column ``parent_of[c]``; scores stay."""
        self._U, self._V = inherit(self._U, parent_of), inherit(self._V, parent_of)
        self.n_cells = len(parent_of)

    def restart(self) -> None:
        """Begin a new average, and the schedule of steps, at the average so far."""
        self._U, self.b = np.array(self.W_mean), np.array(self.b_mean)
        self._V, self._b_sum = np.zeros_like(self._U), np.zeros_like(self.b)
        self._clock[:] = 0.0, 1.0, 0.0, 0.0

    @property
    def _code(self) -> int:
        from mondrian_kernel._kernels.dual import HINGE, LOGISTIC, SOFTMAX, SQUARED

        if self.loss == "log_loss":
            return LOGISTIC if self.n_outputs == 1 else SOFTMAX
        return SQUARED if self.loss == "squared" else HINGE
