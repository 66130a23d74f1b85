r"""The smooth part of a model: kernel ridge regression on landmarks.

Wide kernels have few large eigenvalues, so some hundred landmarks z carry them exactly, and few
trees would carry them with noise. Narrow kernels are the other way round. So a model is a trend,

.. math:: g(x) = b + \sum_z c_z \, k(x, z) + \gamma \, x^\top \beta,

and Mondrian trees for what is left of y. With no more rows than landmarks the trend is exact kernel
ridge regression.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.spatial.distance import cdist

from mondrian_kernel import _settings as settings
from mondrian_kernel._trees.checks import check_numbers
from mondrian_kernel._typing import FloatArray, RowArray


@dataclass(frozen=True, eq=False)
class Trend:
    r"""A linear combination of kernels around landmarks, for rows as the trees see them.

    The kernel is :math:`\sum_l w_l \exp(-\lambda_l \lVert x - z \rVert_1)`, as of the trees, or
    without lifetimes the smooth Matérn kernel :math:`(1 + r) e^{-r}`,
    :math:`r = \lVert x - z \rVert_2 / width`. Smooth functions may want columns more alike than the
    trees do, so rows are multiplied by a factor for each column first. Or they are multiplied by a
    matrix: then the kernel compares them along other directions than the columns.

    Attributes
    ----------
    ends : ndarray of shape (2, D)
        Ends at which columns are cut off: a few rows far from all others would leave a wide gap,
        in which a smooth function is free.
    factor : ndarray of shape (D,) or (D, D)
        Factors of the columns, or directions, one a column.
    landmarks : ndarray of shape (m, D)
        Landmarks z, as :meth:`seen` returns them.
    coef : ndarray of shape (m, K) or (m + D, K)
        Coefficients c and, with a linear part, β.
    intercept : ndarray of shape (K,)
        Intercept b.
    width : float
        Width of the Matérn kernel.
    lifetimes, shares : ndarrays of shape (L,)
        Lifetimes λ and weights w of the Laplace kernel; empty for the Matérn kernel. Each
        lifetime is four times the one before.
    low, high : ndarrays of shape (K,)
        Bounds of g: its range on the fitted rows, and a tenth of it beyond. A smooth function that
        was fitted closely may have any value where there are no rows.
    linear : float
        Unit γ of the linear part; 0 without one.
    """

    ends: FloatArray
    factor: FloatArray
    landmarks: FloatArray
    coef: FloatArray
    intercept: FloatArray
    width: float
    lifetimes: FloatArray
    shares: FloatArray
    low: FloatArray
    high: FloatArray
    linear: float = 0.0

    def __call__(self, rows: RowArray) -> FloatArray:
        """Return the trend of rows (n, D), of shape (n, K)."""
        parts = [self.at(block) @ self.coef for block in _blocks(rows)]
        return np.clip(np.concatenate(parts) + self.intercept, self.low, self.high)

    def rescaled(self, std: FloatArray, mean: FloatArray) -> Trend:
        """Return std · g + mean, for each output."""
        own = {name: std * getattr(self, name) + mean for name in ("intercept", "low", "high")}
        return replace(self, coef=std * self.coef, **own)

    def around(self, rows: FloatArray) -> Trend:
        """Return the trend with other rows as its landmarks."""
        return replace(self, landmarks=self.seen(rows))

    def seen(self, rows: RowArray) -> FloatArray:
        """Return rows as the kernel sees them: cut off at the ends, centred, times the factors."""
        seen: FloatArray = np.clip(rows, *self.ends) - self.ends.mean(axis=0)
        if self.factor.ndim == 1:
            return seen * self.factor
        turned = np.zeros((seen.shape[0], self.factor.shape[1]))
        for column, along in zip(seen.T, self.factor, strict=True):  # as of _distances
            turned += column[:, None] * along
        return turned

    @property
    def is_smooth(self) -> bool:
        """Whether the kernel is the Matérn kernel."""
        return self.lifetimes.size == 0

    def kernel(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the kernel between rows, with the factors in them, and landmarks, (n, m).

        The result has the type of the rows. Single precision is three times as fast.
        """
        real, Z = rows.dtype.type, self.landmarks.astype(rows.dtype)
        if self.is_smooth:
            r = np.sqrt(_distances(rows, Z, "sqeuclidean"))
            r *= real(1.0 / self.width)
            K: NDArray[Any] = np.exp(-r)
            r += real(1.0)
            K *= r
            return K
        E = _distances(rows, Z, "cityblock")
        E *= real(-self.lifetimes[0])
        np.exp(E, out=E)
        K = real(self.shares[0]) * E
        for share in self.shares[1:]:  # each lifetime is four times the one before
            np.square(E, out=E)
            np.square(E, out=E)
            K += real(share) * E
        return K

    def at(self, rows: RowArray) -> FloatArray:
        """Return what the coefficients multiply: kernels of rows, and the rows if there is β.

        Rows are those that the trees see. The kernels have the digits of single precision.
        """
        seen = self.seen(rows)
        K = self.kernel(seen.astype(np.float32)).astype(np.float64)
        return K if self.linear == 0.0 else np.hstack([K, self.linear * seen])

    def features(self, rows: FloatArray, L: FloatArray) -> NDArray[np.float32]:
        """Return L⁻¹ k of rows, with k as of :meth:`at`, and last 1."""
        B = np.ones((rows.shape[0], L.shape[0] + 1), np.float32)
        for begin in range(0, rows.shape[0], settings.TREND_BLOCK):
            K = self.at(rows[begin : begin + settings.TREND_BLOCK])
            half = linalg.solve_triangular(L, K.T, lower=True, check_finite=False)
            B[begin : begin + settings.TREND_BLOCK, :-1] = half.T
        return B

    def check(self, n_columns: int, n_outputs: int) -> None:
        """Raise ValueError unless the arrays fit together."""
        m = self.landmarks.shape[0]
        n_coef = m if self.linear == 0.0 else m + n_columns
        one = (n_outputs,)
        check_numbers(
            self,
            ends=(2, n_columns),
            factor=(n_columns,) * min(max(self.factor.ndim, 1), 2),
            landmarks=(m, n_columns),
            coef=(n_coef, n_outputs),
            intercept=one,
            low=one,
            high=one,
            lifetimes=self.shares.shape,
            shares=self.lifetimes.shape,
        )
        widths = np.array([self.width, self.linear])
        possible = (
            self.factor.ndim < 3
            and np.isfinite(widths).all()
            and self.width > 0
            and self.linear >= 0
        )
        if not possible or (self.lifetimes < 0).any():
            raise ValueError("The kernel of the trend has an impossible width.")


def _distances(
    A: NDArray[Any], B: NDArray[Any], kind: Literal["cityblock", "sqeuclidean"]
) -> NDArray[Any]:
    """Return distances between rows of A and of B, in their type.

    Those of a row do not depend on the rows beside it, as they might by a matrix product.
    """
    if A.dtype == np.float64:
        return np.asarray(cdist(A, B, kind))
    from mondrian_kernel._kernels.dense import distances

    distance = np.empty((A.shape[0], B.shape[0]), np.float32)
    by_column = np.ascontiguousarray(B.T)
    distances(A, by_column, kind == "sqeuclidean", distance)
    return distance


def _blocks(rows: RowArray) -> Iterator[RowArray]:
    for begin in range(0, max(rows.shape[0], 1), settings.TREND_BLOCK):
        yield rows[begin : begin + settings.TREND_BLOCK]
