"""How the learners of a stream predict together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.losses import smoothness
from mondrian_kernel._online.filter import loss_code
from mondrian_kernel._online.group import Counts, Judged, compiled
from mondrian_kernel._typing import FloatArray

_ROWS = np.array(settings.MEAN_ROWS)


@dataclass(frozen=True, eq=False)
class Mixture:
    r"""Weights θ of J learners and H recent means of y in a common prediction.

    .. math::
        f = b + \sum_{j=1}^J \theta_j (f_j - b) + \sum_{h=1}^H \theta_{J+h} (\bar y_h - b)

    Here b is a common intercept. The weights are learnt by ridge regression of the targets on the
    terms as they were before the row was learnt; for other losses than the squared one, by Newton
    steps, and without b in the last sum. A sum below 1 shrinks to the intercept. At first the
    weights of all learners are 1/J, and this counts as 25 rows. Rows are forgotten at the rate
    1/2000. The recent means are of about 1, 8 and 64 rows: neighbouring targets of many streams
    are alike, more than the columns tell. Where they are not, their weights go to 0.

    Attributes
    ----------
    gram : ndarray of shape (J + H, J + H)
        Sum of the products of the terms.
    moment : ndarray of shape (J + H,)
        Sum of the products of terms and targets less b.
    error : ndarray of shape (J + 1,)
        Mean loss of each learner, and of the mixture, on rows they had not learnt: of all rows,
        and after 1024 rows a mean that forgets old rows at the rate 1/1024.
    recent : ndarray of shape (H, K)
        Running means of the targets.
    n_rows, n_batches : int
        Number of rows, and of batches that they came in.
    weights : ndarray of shape (J + H,)
        The weights θ.
    shares : ndarray of shape (J,)
        Absolute values of the weights of learners over the sum of these.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel._online.group import Judged
    >>> from mondrian_kernel._online.mixture import Mixture
    >>> y, ones = np.random.default_rng(0).normal(size=(5000, 1)), np.ones((2, 5000))
    >>> judged = Judged(np.stack([y, -y]), ones)
    >>> mixture, scores = Mixture.equal(2, 1).judge(judged, np.zeros(1), y, ones[0], "squared")
    >>> mixture.weights.round(1), mixture.error.round()
    (array([1., 0.]), array([0., 4., 1.]))
    """

    gram: FloatArray
    moment: FloatArray
    error: FloatArray
    recent: FloatArray
    n_rows: int
    n_batches: int
    weights: FloatArray
    shares: FloatArray

    @classmethod
    def equal(cls, n_learners: int, n_outputs: int, *, follows: bool = False) -> Mixture:
        """Return equal weights, before any row; recent means only if it ``follows``."""
        J, H = n_learners, len(settings.MEAN_ROWS) if follows else 0
        shares = np.full(J, 1.0 / J)
        return cls(
            gram=np.zeros((J + H, J + H)),
            moment=np.zeros(J + H),
            error=np.zeros(J + 1),
            recent=np.zeros((H, n_outputs)),
            n_rows=0,
            n_batches=0,
            weights=np.append(shares, np.zeros(H)),
            shares=shares,
        )

    def judge(
        self, judged: Judged, base: FloatArray, Y: FloatArray, weight: FloatArray, loss: str
    ) -> tuple[Mixture, FloatArray]:
        """Return the mixture after some more rows, and the scores (n, K) of these before.

        ``base`` (K,) is the common intercept.
        """
        gram, moment, error = self.gram.copy(), self.moment.copy(), self.error.copy()
        recent, mixed, n_batches = self.recent.copy(), np.empty(Y.shape), self.n_batches + 1
        weights, shares = np.empty_like(self.weights), np.empty_like(self.shares)
        kind = loss_code(loss, Y.shape[1]), smoothness(loss, Y.shape[1])
        compiled().judge(
            judged.scores,
            (base, _level(base, loss), Y, weight),
            kind,
            (self.weights, _ROWS[: len(recent)]),
            self.n_rows,
            n_batches,
            (gram, moment, error, recent),
            (mixed, weights, shares),
        )
        n_rows = self.n_rows + Y.shape[0]
        return Mixture(gram, moment, error, recent, n_rows, n_batches, weights, shares), mixed

    def of(self, learners: Counts) -> Mixture:
        """Return the mixture of some of the learners, or of copies of them."""
        J, terms = self.shares.size, self.moment.size
        chosen = np.append(learners, np.arange(J, terms))
        gram, moment = self.gram[np.ix_(chosen, chosen)], self.moment[chosen]
        error = self.error[np.append(learners, -1)]
        weights, shares = np.empty(chosen.size), np.empty(learners.size)
        size = self.n_rows, self.n_batches
        compiled().solve(gram, moment, error[-1], *size, weights, shares)
        return Mixture(gram, moment, error, self.recent, *size, weights, shares)

    def intercept(self, b: FloatArray, loss: str) -> FloatArray:
        """Return the part of f that all rows share, (K,), given the intercepts b (J, K)."""
        found: FloatArray = compiled().intercept(b, self.recent, self.weights, loss == "squared")
        return found

    def with_class(self) -> Mixture:
        """Return the mixture with a further output, of which the recent means are 0."""
        recent = self.recent
        if recent.shape[1] == 1:  # of -1 and 1
            recent = np.hstack([0.5 - 0.5 * recent, 0.5 + 0.5 * recent])
        return replace(self, recent=np.hstack([recent, np.zeros((len(recent), 1))]))

    def check(self) -> None:
        """Raise ValueError unless the arrays fit together."""
        J, (H, K) = self.shares.size, self.recent.shape
        shapes = {
            "gram": (J + H, J + H),
            "moment": (J + H,),
            "error": (J + 1,),
            "recent": (H, K),
            "weights": (J + H,),
            "shares": (J,),
        }
        if H not in (0, len(settings.MEAN_ROWS)):
            raise ValueError(f"The mixture has {H} recent means.")
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"{name} of the mixture is not finite or of shape {array.shape}.")
        if (self.error < 0).any() or (self.shares < 0).any() or self.n_rows < self.n_batches:
            raise ValueError("An error, a share or the number of rows of the mixture is negative.")


def _level(base: FloatArray, loss: str) -> FloatArray:
    """Return what recent means of targets are relative to: targets are scores or classes."""
    return base if loss == "squared" else np.zeros_like(base)
