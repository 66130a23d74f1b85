"""Predictive variance where rows are too many for a factor: from a sample of them, corrected."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq

from mondrian_kernel._linear.design import Design, flat_design
from mondrian_kernel._linear.krylov import krylov
from mondrian_kernel._linear.variance import PredictiveVariance
from mondrian_kernel._typing import FloatArray

SAMPLE = 8000
_LOOKED_AT = 2000
_PROBES = 8
_PROBE_TOL = 1e-2
_FACTORS = (1e-6, 1e2)


class SampledVariance:
    r"""Variance of f at new rows from a random 8000 of the fitted rows, in units of σ².

    Fewer rows leave a variance :math:`v_s(x)` that is too large. Its odds are multiplied by one
    factor,

    .. math::
        \frac{v(x)}{1 - v(x)} = c\, \frac{v_s(x)}{1 - v_s(x)},

    so that far from the data it stays that of the prior, 1. With G the inverse of the kernel matrix
    plus αI, row i left out has the variance v with :math:`\alpha G_{ii} = 1 / (1 + s_i v/\alpha)`;
    c is the factor for which the mean of these, over rows that are not in the sample, is the trace
    of αG over N, which a few random vectors tell nearly exactly.

    Parameters
    ----------
    design : Design
        The fitted rows, at one level.
    alpha : float
        Penalty α.
    """

    def __init__(self, design: Design, alpha: float) -> None:
        rng = np.random.default_rng(0)
        order = rng.permutation(design.n_rows)
        sample = np.sort(order[:SAMPLE])
        n_cells = int(design.n_cells[0])
        self._sample = PredictiveVariance(
            flat_design(
                design.cells[sample], n_cells, design.sample_weight[sample],
                centre=design.centre, n_jobs=design.n_jobs,
            ),
            alpha,
        )  # fmt: skip
        self.rows = np.sort(order[SAMPLE : SAMPLE + _LOOKED_AT])
        self._factor = 1.0
        alone = self(_features(design, self.rows))
        signs = design.centred(rng.choice([-1.0, 1.0], size=(design.n_rows, _PROBES)))
        shift = np.array([alpha])
        solved = krylov(design, signs, shift, _PROBE_TOL).solution[:, :, 0].T
        mean_share = alpha * np.einsum("nk,nk->", signs, solved) / (_PROBES * design.n_rows)
        s = design.sample_weight[self.rows]

        def excess(factor: float) -> float:
            v = _scaled_odds(alone, factor)
            return float(np.mean(1.0 / (1.0 + s * v / alpha)) - mean_share)

        low, high = _FACTORS
        if excess(high) < 0 < excess(low):
            self._factor = float(brentq(excess, low, high))
        self._left_out = _scaled_odds(alone, self._factor)
        self._alpha, self._weight = alpha, s

    def __call__(self, Phi_new: sparse.csr_matrix) -> FloatArray:
        """Variance of each row of ``Phi_new`` (n, C), of shape (n,)."""
        return _scaled_odds(self._sample(Phi_new), self._factor)

    def covariance(self, Phi_new: sparse.csr_matrix) -> FloatArray:
        """Joint covariance of f at the rows of ``Phi_new`` (n, C): correlations of the sample's."""
        cov = self._sample.covariance(Phi_new)
        alone = np.diag(cov)
        scale = np.sqrt(_scaled_odds(alone, self._factor) / alone)
        scaled: FloatArray = cov * np.outer(scale, scale)
        return scaled

    def standard_errors(self, dual: FloatArray) -> FloatArray:
        r"""Leave-one-out errors of :attr:`rows` in units of their deviation, (n, T).

        With a the dual coefficients (N, T) of scaled rows the error of a row of weight s is
        :math:`|a_i| (s v + \alpha) / \sqrt s`, and its deviation :math:`\sqrt{v + \alpha}`.
        """
        v, s = self._left_out[:, None], self._weight[:, None]
        errors: FloatArray = np.abs(dual[self.rows]) * (v * s + self._alpha) / np.sqrt(s)
        return errors / np.sqrt(v + self._alpha)


def _features(design: Design, rows: NDArray[np.intp]) -> sparse.csr_matrix:
    """Features of fitted rows, without their weights."""
    cells = design.cells[rows]
    n, n_trees = cells.shape
    data = np.full(cells.size, n_trees**-0.5)
    indptr = np.arange(0, cells.size + 1, n_trees)
    return sparse.csr_matrix((data, cells.ravel(), indptr), (n, int(design.n_cells[0])))


def _scaled_odds(v: FloatArray, factor: float) -> FloatArray:
    """Multiply the odds of v; what an intercept adds to a variance of 1 stays."""
    inside = np.minimum(v, 1.0)
    scaled: FloatArray = factor * inside / (1.0 - inside + factor * inside)
    return scaled + (v - inside)
