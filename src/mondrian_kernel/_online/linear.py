"""Linear learners of a stream, which predict together with those on trees."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.trend import Trend
from mondrian_kernel._trees.checks import check_numbers
from mondrian_kernel._typing import FloatArray


@dataclass(frozen=True, eq=False)
class Linear:
    r"""Linear functions of the columns, one for each of S rates of forgetting.

    .. math::
        f = c + \beta^\top z, \qquad z_d = h_d (x_d - m_d)

    with the columns cut off at four standard deviations 1/h from their means m. They are learnt by
    Kalman's filter with all covariances, in O(D²) a row; with the squared loss this is ridge
    regression, exactly. Trees need many rows to tell a slope in many columns, and have to tell it
    again after each change.

    ``ends`` (2, D) are where columns are cut off, with m between them, ``factor`` (D,) is h: 0
    until the spread of the columns is known. ``coef`` (S, D + 1, K) has c first, ``P`` (S, D + 1,
    D + 1) are the covariances.
    """

    ends: FloatArray
    factor: FloatArray
    coef: FloatArray
    P: FloatArray

    @classmethod
    def blank(cls, n_columns: int, n_rates: int, n_outputs: int, alpha: float) -> Linear:
        """Return functions that are constant, without rows."""
        P = np.tile(0.5 / alpha * np.eye(n_columns + 1), (n_rates, 1, 1))
        coef = np.zeros((n_rates, n_columns + 1, n_outputs))
        return cls(np.zeros((2, n_columns)), np.zeros(n_columns), coef, P)

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """All numbers, in the order in which kernels take them."""
        return self.ends, self.factor, self.coef, self.P

    def centred(self, X: FloatArray) -> Linear:
        """Return the functions with centre and scale of rows; they must have been constant."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean, std = X.mean(axis=0), X.std(axis=0)
        known = np.isfinite(mean) & np.isfinite(std) & (std > np.finfo(float).tiny)
        mean, std = np.where(known, mean, 0.0), np.where(known, std, 0.0)
        far = settings.LINEAR_END * std
        factor = np.divide(1.0, std, where=known, out=np.zeros_like(std))
        return Linear(np.stack([mean - far, mean + far]), factor, self.coef.copy(), self.P.copy())

    def trend(self, weights: FloatArray) -> Trend:
        """Return Σ_s weights_s β_sᵀz as a part of a record."""
        D, K = self.coef.shape[1] - 1, self.coef.shape[2]
        far, none = np.full(K, settings.LARGEST_NUMBER), np.empty(0)
        slopes: FloatArray = np.tensordot(weights, self.coef[:, 1:], axes=1)
        no_kernel = np.empty((0, D)), slopes, np.zeros(K), 1.0, none, none
        return Trend(self.ends, self.factor, *no_kernel, -far, far, linear=1.0)

    def with_columns(self, n_more: int, alpha: float) -> Linear:
        """Return the functions with further columns, whose spread is not known."""
        last, P = (0, n_more), Linear.blank(self.factor.size + n_more, len(self.P), 1, alpha).P
        P[:, :-n_more, :-n_more] = self.P
        return Linear(
            np.pad(self.ends, [(0, 0), last]),
            np.pad(self.factor, last),
            np.pad(self.coef, [(0, 0), last, (0, 0)]),
            P,
        )

    def with_class(self, n_rows: float) -> Linear:
        """Return log-odds with a further class, which none of so many rows was of."""
        coef = self.coef
        if coef.shape[2] == 1:  # the log-odds of two classes
            coef = np.concatenate([-0.5 * coef, 0.5 * coef], axis=2)
        more = np.zeros_like(coef[:, :, :1])
        more[:, 0, 0] = logsumexp(coef[:, 0], axis=1) - np.log1p(n_rows)
        return replace(self, coef=np.concatenate([coef, more], axis=2))

    def check(self) -> None:
        """Raise ValueError unless the arrays fit together."""
        D, S, K = self.factor.size, len(self.coef), self.coef.shape[-1]
        check_numbers(self, ends=(2, D), factor=(D,), coef=(S, D + 1, K), P=(S, D + 1, D + 1))
