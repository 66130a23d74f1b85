"""How the learners of a stream predict together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel._online.learners import Counts
from mondrian_kernel._typing import FloatArray


@cache
def mixing() -> Any:
    """Return the compiled loops, which are imported when they are needed."""
    from mondrian_kernel._kernels import mixture

    return mixture


@dataclass(frozen=True, eq=False)
class Mixture:
    r"""Weights θ of T learners and H recent means of y in a common prediction: arrays that change.

    .. math::
        f = b + \sum_{j=1}^T \theta_j (f_j - b) + \sum_{h=1}^H \theta_{T+h} (\bar y_h - b)

    Here b is a common intercept. The weights are learnt by ridge regression of the targets on the
    terms as they were before the row was learnt; for other losses than the squared one, by Newton
    steps, and without b in the last sum. A sum below 1 shrinks to the intercept. At first the
    weights of all learners, J on trees and then the linear ones, are 1/T, and this counts as 25
    rows. Rows are forgotten at the rate
    1/2000. The recent means are of about 1, 8 and 64 rows: neighbouring targets of many streams
    are alike, more than the columns tell. Where they are not, their weights go to 0.

    ``gram`` (T + H, T + H) and ``moment`` (T + H,) are sums of the products of the terms, and of
    these with the targets less b. ``error`` (J + 1,) is the mean loss of the J, and of the
    mixture, on rows they had not learnt: of all rows, and after 1024 rows a mean that forgets old
    rows at the rate 1/1024. ``recent`` (H, K) are running means of the targets. ``counts`` (3,) are
    the numbers of rows and of batches, and the mean expected variance of errors. ``weights``
    (T + H,) are θ; ``shares`` (J,) are the absolute
    values of those of the J over the sum of these.
    """

    gram: FloatArray
    moment: FloatArray
    error: FloatArray
    recent: FloatArray
    counts: FloatArray
    weights: FloatArray
    shares: FloatArray

    @classmethod
    def equal(
        cls, n_learners: int, n_outputs: int, *, n_linear: int = 0, follows: bool = False
    ) -> Mixture:
        """Return equal weights, before any row; recent means only if it ``follows``."""
        J, H = n_learners, len(settings.MEAN_ROWS) if follows else 0
        T = J + n_linear
        n = T + H
        sums = np.zeros((n, n)), np.zeros(n), np.zeros(J + 1), np.zeros((H, n_outputs))
        weights = np.append(np.full(T, 1.0 / T), np.zeros(H))
        return cls(*sums, np.zeros(3), weights, np.full(J, 1.0 / J))

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """All numbers, in the order in which kernels take them."""
        sums = self.gram, self.moment, self.error, self.recent, self.counts
        return *sums, self.weights, self.shares

    def of(self, learners: Counts) -> Mixture:
        """Return the mixture of some of the learners on trees, or of copies of them."""
        chosen = np.append(learners, np.arange(self.shares.size, self.moment.size))
        gram, moment = self.gram[np.ix_(chosen, chosen)], self.moment[chosen]
        error = self.error[np.append(learners, -1)]
        weights, shares = np.empty(chosen.size), np.empty(learners.size)
        mixing().solve(gram, moment, error[-1], self.counts, len(self.recent), weights, shares)
        sums = gram, moment, error, self.recent.copy(), self.counts.copy()
        return Mixture(*sums, weights, shares)

    def intercept(self, b: FloatArray, loss: str) -> FloatArray:
        """Return the part of f that all rows share, (K,), given the intercepts b (T, K)."""
        found: FloatArray = mixing().intercept(b, self.recent, self.weights, loss == "squared")
        return found

    def with_class(self) -> Mixture:
        """Return the mixture with a further output, of which the recent means are 0."""
        recent = self.recent
        if recent.shape[1] == 1:  # of -1 and 1
            recent = np.hstack([0.5 - 0.5 * recent, 0.5 + 0.5 * recent])
        return replace(self, recent=np.hstack([recent, np.zeros((len(recent), 1))]))

    def check(self) -> None:
        """Raise ValueError unless the arrays fit together."""
        if self.recent.ndim != 2 or len(self.recent) not in (0, len(settings.MEAN_ROWS)):
            raise ValueError(f"The mixture has recent means of shape {self.recent.shape}.")
        J, H = self.shares.size, len(self.recent)
        n_linear = max(self.moment.size - J - H, 0)
        blank = Mixture.equal(J, self.recent.shape[1], n_linear=n_linear, follows=H > 0)
        for name, expected in vars(blank).items():
            array = np.asarray(getattr(self, name))
            if (array.shape, array.dtype) != (np.shape(expected), np.asarray(expected).dtype):
                raise ValueError(f"{name} of the mixture has the shape {array.shape}.")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} of the mixture is not finite.")
        if (self.error < 0).any() or (self.shares < 0).any() or self.counts[0] < self.counts[1]:
            raise ValueError("An error, a share or the number of rows of the mixture is negative.")
