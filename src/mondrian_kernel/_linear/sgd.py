"""Averaged stochastic gradient descent on cells that split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mondrian_kernel._linear.losses import check_loss, penalty_per_row, smoothness
from mondrian_kernel._linear.operator import gather_cells
from mondrian_kernel._settings import SGD_AVERAGE_DEGREE, SGD_POWER
from mondrian_kernel._typing import FloatArray, IntArray


def parents(coarse: IntArray, fine: IntArray, n_fine: int) -> IntArray:
    """Coarse cell of each fine cell, from both cells (N, M) of the rows: no cell is empty."""
    parent_of = np.empty(n_fine, np.int32)
    parent_of[fine] = coarse
    return parent_of


@dataclass
class SgdState:
    r"""Descend :math:`\sum_i \ell(y_i, f_i) + \alpha\lVert W\rVert^2` one row at a time.

    Step t on row i of N, with λ = 2α/N and :math:`\eta_t = \eta_0 (1 + \lambda \eta_0 t)^{-p}`:

    .. math::
        W \leftarrow (W - \eta_t \phi_i \nabla\ell) / (1 + \lambda\eta_t), \qquad
        b \leftarrow b - \eta_t \nabla\ell

    in O(MK), then the average :math:`\bar W \propto \sum_t (t + 1) W_t`, which forgets where it
    started. η₀ is the inverse of the largest curvature, :math:`L (\lVert\phi_i\rVert^2 + 1) = 2 L`.
    p is 3/4 for the smooth losses, best for averages, and 1 for the hinge: the steps of Pegasos,
    :math:`1/\lambda t`, once t is large. Losses and targets are those of
    :mod:`mondrian_kernel._linear.losses`.

    Examples
    --------
    >>> import numpy as np
    >>> cells = np.array([[0, 2], [0, 3], [1, 2], [1, 3]], np.int32)
    >>> y = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> state = SgdState(n_cells=4, n_outputs=1, loss="squared", alpha=1.0)
    >>> state.run(cells, y, 2000, np.random.default_rng(0))
    >>> state.W_mean.ravel().round(1), state.b_mean.round(1)
    (array([-0.7,  0.7, -0.4,  0.4]), array([1.5]))
    """

    n_cells: int
    n_outputs: int
    loss: str
    alpha: float

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

    def run(self, cells: IntArray, Y: FloatArray, passes: int, rng: np.random.Generator) -> None:
        """Take a step on every row, ``passes`` times, each time in another order.

        ``cells`` (N, M) are the cells of the rows, ``Y`` (N, K) their targets.
        """
        from mondrian_kernel._kernels.descent import sgd_pass

        if cells.size and not 0 <= cells.min() <= cells.max() < self.n_cells:
            raise ValueError(f"cells has columns outside [0, {self.n_cells}).")
        eta = 0.5 / smoothness(self.loss, self.n_outputs)
        decay = penalty_per_row(self.alpha, cells.shape[0])
        schedule = eta, SGD_POWER[self.loss], decay, SGD_AVERAGE_DEGREE
        state = self._U, self._V, self.b, self._b_sum, self._clock
        cells, Y = np.ascontiguousarray(cells, dtype=np.int32), np.ascontiguousarray(Y, dtype=float)
        for _ in range(passes):
            sgd_pass(cells, Y, rng.permutation(cells.shape[0]), self._code, schedule, state)

    def scores(self, cells: IntArray) -> FloatArray:
        """Scores of rows by the averaged weights, shape (N, K): O(NMK), whatever C."""
        if self.n_steps == 0:
            return gather_cells(cells, self._U) + self.b
        _, _, tau, total = self._clock
        sums = tau * gather_cells(cells, self._U) + gather_cells(cells, self._V)
        return np.asarray((sums + self._b_sum) / total)

    def inherit(self, parent_of: IntArray) -> None:
        """Hand the weights of split cells to their children: row c is that of ``parent_of[c]``.

        Every score is unchanged, as the features of a row move to the children of its cells.
        """
        self._U, self._V = self._U[parent_of], self._V[parent_of]
        self.n_cells = len(parent_of)

    def restart(self) -> None:
        """Begin a new average, and the schedule of steps, at the average so far."""
        self._U, self.b = np.array(self.W_mean), np.array(self.b_mean)
        self._V, self._b_sum = np.zeros_like(self._U), np.zeros_like(self.b)
        self._clock[:] = 0.0, 1.0, 0.0, 0.0

    @property
    def _code(self) -> int:
        from mondrian_kernel._kernels.descent import HINGE, LOGISTIC, SOFTMAX, SQUARED

        if self.loss == "log_loss":
            return LOGISTIC if self.n_outputs == 1 else SOFTMAX
        return SQUARED if self.loss == "squared" else HINGE
