"""How the learners of a stream predict together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from mondrian_kernel._linear.losses import smoothness
from mondrian_kernel._online.group import Counts, Judged
from mondrian_kernel._online.learners import loss_code
from mondrian_kernel._settings import LEAST_SHARE, MIXTURE_KEEP, MIXTURE_PRIOR
from mondrian_kernel._typing import FloatArray


@cache
def _kernels() -> Any:
    from mondrian_kernel._kernels import learners

    return learners


@dataclass(frozen=True, eq=False)
class Mixture:
    r"""Weights θ of J learners in :math:`f = b + \sum_j \theta_j (f_j - b)`, b a common intercept.

    They are learnt by ridge regression of the targets on the scores of the learners, each before
    it had learnt the row; for other losses than the squared one, by Newton steps. A sum below
    1 shrinks to the intercept. At first all weights are 1/J, and this counts as 25 rows. Rows are
    forgotten at the rate 1/5000.

    Attributes
    ----------
    gram : ndarray of shape (J, J)
        Sum of the products of the scores less b.
    moment : ndarray of shape (J,)
        Sum of the products of scores and targets less b.
    error : ndarray of shape (J + 1,)
        Mean loss of each learner, and of the mixture, on rows they had not learnt: of all rows,
        and after 1024 rows a mean that forgets old rows at the rate 1/1024.
    n_rows : int
        Number of rows.
    weights : ndarray of shape (J,)
        The weights θ.
    shares : ndarray of shape (J,)
        Their absolute values over the sum of these.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._online.group import Judged
    >>> from mondrian_kernel._online.mixture import Mixture
    >>> y, ones = np.random.default_rng(0).normal(size=(5000, 1)), np.ones((2, 5000))
    >>> judged = Judged(np.stack([y, -y]), ones)
    >>> mixture, scores = Mixture.equal(2).judge(judged, np.zeros(1), y, ones[0], "squared")
    >>> mixture.weights.round(1), mixture.error.round()
    (array([1., 0.]), array([0., 4., 1.]))
    """

    gram: FloatArray
    moment: FloatArray
    error: FloatArray
    n_rows: int
    weights: FloatArray
    shares: FloatArray

    @classmethod
    def equal(cls, n_learners: int) -> Mixture:
        """Return equal weights, before any row."""
        gram, equal = np.zeros((n_learners, n_learners)), np.full(n_learners, 1.0 / n_learners)
        return cls(gram, np.zeros(n_learners), np.zeros(n_learners + 1), 0, equal, equal)

    def judge(
        self, judged: Judged, base: FloatArray, Y: FloatArray, weight: FloatArray, loss: str
    ) -> tuple[Mixture, FloatArray]:
        """Return the mixture after some more rows, and the scores (n, K) of these before.

        ``base`` (K,) is the common intercept.
        """
        gram, moment, error = self.gram.copy(), self.moment.copy(), self.error.copy()
        mixed = np.empty(Y.shape)
        _kernels().judge(
            judged.scores,
            base,
            Y,
            weight,
            loss_code(loss, Y.shape[1]),
            smoothness(loss, Y.shape[1]),
            self.weights,
            self.n_rows,
            gram,
            moment,
            error,
            mixed,
        )
        n_rows = self.n_rows + Y.shape[0]
        return Mixture(gram, moment, error, n_rows, *_solved(gram, moment, error, n_rows)), mixed

    def of(self, learners: Counts) -> Mixture:
        """Return the mixture of some of the learners, or of copies of them."""
        gram, moment = self.gram[np.ix_(learners, learners)], self.moment[learners]
        error = self.error[np.append(learners, -1)]
        solved = _solved(gram, moment, error, self.n_rows)
        return Mixture(gram, moment, error, self.n_rows, *solved)

    def check(self) -> None:
        """Raise ValueError unless the arrays fit together."""
        J = self.moment.size
        arrays = self.gram, self.moment, self.error, self.weights, self.shares
        if [a.shape for a in arrays] != [(J, J), (J,), (J + 1,), (J,), (J,)]:
            raise ValueError("The arrays of the mixture have other shapes.")
        if not all(a.dtype == np.float64 and np.isfinite(a).all() for a in arrays):
            raise ValueError("A number of the mixture is not finite, or of another type.")
        if (self.error < 0).any() or (self.shares < 0).any() or self.n_rows < 0:
            raise ValueError("An error, a share or the number of rows of the mixture is negative.")


def _solved(
    gram: FloatArray, moment: FloatArray, error: FloatArray, n_rows: int
) -> tuple[FloatArray, FloatArray]:
    """Return weights and shares.

    The prior counts as 25 rows, of scores of mean size and of the mean error. Learners with hardly
    any share get none: they would only cost time.
    """
    J = moment.size
    equal = np.full(J, 1.0 / J)
    total = float(gram.trace()) / J
    if J == 1 or total == 0.0:
        return equal, equal
    n_kept = (1.0 - MIXTURE_KEEP**n_rows) / (1.0 - MIXTURE_KEEP)
    unit = total / n_kept + 2.0 * float(error[-1])
    A = gram / unit + MIXTURE_PRIOR * np.eye(J)
    weights = equal + np.linalg.solve(A, (moment - gram @ equal) / unit)
    weights[np.abs(weights) < LEAST_SHARE * np.abs(weights).max()] = 0.0
    shares = np.abs(weights)
    return weights, shares / shares.sum()
