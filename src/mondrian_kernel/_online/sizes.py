"""The local size of the errors of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel._online.group import LearnerGroup, Scores
from mondrian_kernel._online.means import Means
from mondrian_kernel._online.mixture import Mixture
from mondrian_kernel._online.rows import put_at
from mondrian_kernel._typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ErrorSizes:
    r"""Local scale :math:`e^{g(x)}` of the errors u of a stream, :math:`g = \mathrm{E} \ln |u|`.

    The means of ln|u| in the cells of each width predict together, as the learners of y do. They
    forget, so they follow a change of the noise.

    Attributes
    ----------
    learners : list of R Means
        One learner for each width. A :class:`LearnerGroup` of them learns.
    mixture : Mixture
        How they predict together.
    recent : ndarray of shape (2048, K)
        g at the last rows before their batch was learnt; row i is at place i modulo 2048.
    """

    learners: list[Means]
    mixture: Mixture
    recent: FloatArray

    @classmethod
    def begin(cls, n_outputs: int, n_rungs: int, recent: FloatArray | None = None) -> ErrorSizes:
        """Return sizes of 1 everywhere, before any row."""
        learners = [
            Means(n_outputs, settings.SIZE_SHRINKAGE, True, settings.SIZE_HALF_LIFE)
            for _ in range(n_rungs)
        ]
        recent = (
            np.zeros((2 * settings.RECENT_ROWS, n_outputs)) if recent is None else recent.copy()
        )
        return cls(learners, Mixture.equal(n_rungs, n_outputs), recent)

    def learn(
        self,
        group: LearnerGroup,
        cells: tuple[IntArray, IntArray, list[int], tuple[IntArray, ...]],
        errors: FloatArray,
        least: FloatArray,
        n_before: int,
    ) -> ErrorSizes:
        """Return the sizes after more rows, of which ``n_before`` came before.

        ``group`` is that of the learners, ``cells`` are the first arguments of its ``learn``.
        Errors (n, K) below ``least`` (n, 1) count as that.
        """
        Y = np.log(np.maximum(np.abs(errors), np.maximum(least, np.finfo(float).tiny)))
        weight = np.full(len(Y), float(n_before > 0))  # the first row has no error
        base = self.learners[0].intercepts(group.small)[0].copy()
        judged = group.learn(*cells, Y, weight)
        if n_before == 0:
            return self
        mixture, mixed = self.mixture.judge(judged, base, Y, weight, "squared")
        put_at(self.recent, n_before, mixed)
        return ErrorSizes(self.learners, mixture, self.recent)

    def scale(self, group: LearnerGroup, walk: Sequence[Any]) -> FloatArray:
        """Return the local scale at new rows, (n, K)."""
        g = np.empty((len(walk[0]), self.learners[0].n_outputs))
        b = self.learners[0].intercepts(group.small)
        mixing = group, self.mixture.weights, self.mixture.shares
        self.learners[0].write_scores(walk, *mixing, Scores(g, np.empty(0)))
        found: FloatArray = np.exp(g + self.mixture.intercept(b, "squared"))
        return found

    def check(self) -> None:
        """Raise ValueError unless the parts fit together; learners and mixture check themselves."""
        R, K = len(self.learners), self.mixture.recent.shape[1]
        shape = 2 * settings.RECENT_ROWS, K
        if self.recent.shape != shape or not np.isfinite(self.recent).all():
            raise ValueError("The sizes of the last errors have another shape, or are infinite.")
        blank = Means(K, settings.SIZE_SHRINKAGE, True, settings.SIZE_HALF_LIFE)
        alike = all(
            isinstance(learner, Means)
            and (learner.n_outputs, learner.alpha, learner.centre, learner.half_life)
            == (blank.n_outputs, blank.alpha, blank.centre, blank.half_life)
            for learner in self.learners
        )
        if not alike or self.mixture.shares.size != R or self.mixture.moment.size != R:
            raise ValueError("The learners of sizes of errors are of other kinds.")


def least_error(mean_square: float, variance: FloatArray) -> FloatArray:
    """Return a small share of the usual error at each row, (n, 1), in units of its deviation."""
    least: FloatArray = settings.SPREAD_FLOOR * np.sqrt(mean_square / variance)[:, None]
    return least
