"""Rivals of the Mondrian features: Fourier features and random binning of the Laplace kernel."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._trees.checks import all_or_nothing, check_rows
from mondrian_kernel._typing import FloatArray, IntArray

__all__ = ["LaplaceFourierFeatures", "RandomBinningFeatures"]

Seed = int | np.random.RandomState | None
Ints = NDArray[np.int64]

_INT32_MAX = int(np.iinfo(np.int32).max)
_EXACT_INTEGERS = 2**53  # up to here every integer is a float64, so a bin index is exact


class LaplaceFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A fit, and checks of parameters, that features of the Laplace kernel share."""

    lifetime: float
    random_state: Seed
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lifetime": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw what is random. Fourier features use only the number of columns of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : None
            Ignored.

        Returns
        -------
        self : transformer
            The fitted transformer.
        """
        self._fit(X)
        return self

    def _fit(self, X: ArrayLike) -> Any:
        raise NotImplementedError


class LaplaceFourierFeatures(LaplaceFeatures):
    r"""Random Fourier features of the Laplace kernel.

    .. math::

        \phi(x) = \sqrt{2 / C} \, [\cos(\omega_1^T x), \ldots, \cos(\omega_{C/2}^T x),
                                   \sin(\omega_1^T x), \ldots, \sin(\omega_{C/2}^T x)],
        \qquad \omega_{id} \sim \text{Cauchy}(0, \lambda) \text{ independent}

    The Cauchy distribution is the Fourier transform of the Laplace kernel in each column. So
    :math:`E[\phi(x)^T \phi(x')] = \exp(-\lambda \|x - x'\|_1)` for any number of columns. A cosine
    and a sine of the same frequency make :math:`\|\phi(x)\| = 1` exactly [1]_.

    Parameters
    ----------
    lifetime : float, default=1.0
        Inverse kernel width λ ≥ 0, the ``gamma`` of scikit-learn's ``laplacian_kernel``.
    n_components : int, default=100
        Number of features C: a cosine and a sine for each of C/2 frequencies. If C is odd, the last
        feature is a cosine with a random shift, and :math:`\|\phi(x)\|` is 1 only on average.
    random_state : int, RandomState instance or None, default=None
        Seed of the frequencies; an int gives the same features at every fit.

    Attributes
    ----------
    frequencies_ : ndarray of shape ((n_components + 1) // 2, n_features_in_)
        The frequencies ω.
    shift_ : float
        Shift of the last cosine if ``n_components`` is odd.
    n_features_in_ : int
        Number of columns of ``X`` in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if ``X`` has names that are all strings.

    See Also
    --------
    RandomBinningFeatures : Sparse features of the same kernel, from random grids.
    sklearn.kernel_approximation.RBFSampler : The same idea for the Gaussian kernel.

    References
    ----------
    .. [1] A. Rahimi and B. Recht, "Random features for large-scale kernel machines", NIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import laplacian_kernel
    >>> from mondrian_kernel import LaplaceFourierFeatures
    >>> X = np.array([[0.0, 0.0], [0.1, 0.2], [1.0, 0.5]])
    >>> fourier = LaplaceFourierFeatures(lifetime=2.0, n_components=20000, random_state=0)
    >>> Phi = fourier.fit_transform(X)
    >>> Phi.shape
    (3, 20000)
    >>> bool(np.allclose(Phi @ Phi.T, laplacian_kernel(X, gamma=2.0), atol=0.03))
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LaplaceFeatures._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self, lifetime: float = 1.0, n_components: int = 100, *, random_state: Seed = None
    ) -> None:
        self.lifetime = lifetime
        self.n_components = n_components
        self.random_state = random_state

    @all_or_nothing
    def _fit(self, X: ArrayLike) -> None:
        rows, rng = check_rows(self, X, reset=True), check_random_state(self.random_state)
        draws = rng.standard_cauchy(size=((self.n_components + 1) // 2, rows.shape[1]))
        with np.errstate(over="ignore"):
            self.frequencies_: FloatArray = self.lifetime * draws
        self.shift_ = float(rng.uniform(0.0, 2.0 * np.pi))
        self._n_features_out = self.n_components

    def transform(self, X: ArrayLike) -> FloatArray:
        """Map rows to their features φ(x).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, from ``fit`` or new.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            All cosines, then all sines, then the shifted cosine, times √(2/C). The features of a
            row do not depend on the other rows.
        """
        check_is_fitted(self)
        rows = check_rows(self, X)
        # A BLAS product would round a row differently in batches of different size, and with a
        # large Cauchy frequency the cosine would differ. The cosines take longer anyway.
        with np.errstate(over="ignore", invalid="ignore"):
            phases = np.einsum("nd,kd->nk", rows, self.frequencies_)
        if not np.isfinite(phases).all():
            raise ValueError(
                f"X is so large at lifetime={self.lifetime} that the products of rows and "
                "frequencies overflow: scale X or lower the lifetime."
            )
        n_pairs = self._n_features_out // 2
        Phi = np.empty((len(rows), self._n_features_out))
        np.cos(phases[:, :n_pairs], out=Phi[:, :n_pairs])
        np.sin(phases[:, :n_pairs], out=Phi[:, n_pairs : 2 * n_pairs])
        np.cos(phases[:, n_pairs:] + self.shift_, out=Phi[:, 2 * n_pairs :])
        Phi *= np.sqrt(2.0 / self._n_features_out)
        return Phi


class RandomBinningFeatures(LaplaceFeatures):
    r"""Random binning features of the Laplace kernel.

    .. math::

        \phi(x) = M^{-1/2} \, [1_{b_1(x)}, \ldots, 1_{b_M(x)}], \qquad
        b_{md}(x) = \lfloor x_d / w_{md} + u_{md} \rfloor, \qquad
        w_{md} \sim \text{Gamma}(2, 1/\lambda), \quad u_{md} \sim \text{Uniform}(0, 1)

    Each of M grids cuts every column into bins of one random width. A feature is 1/√M in one cell
    of one grid and 0 elsewhere. Two rows share a cell with probability
    :math:`\exp(-\lambda \|x - x'\|_1)` [1]_. Only cells with training rows have a feature. A new
    row in another cell has no entry for that grid, and its kernel to the training rows is
    unchanged.

    Parameters
    ----------
    lifetime : float, default=1.0
        Inverse kernel width λ ≥ 0, the ``gamma`` of scikit-learn's ``laplacian_kernel``.
    n_grids : int, default=100
        Number of grids M, and of non-zeros in a training row.
    random_state : int, RandomState instance or None, default=None
        Seed of widths and shifts; an int gives the same features at every fit.

    Attributes
    ----------
    origin_ : ndarray of shape (n_features_in_,)
        The smallest training value of each column, where its bins start.
    inverse_widths_ : ndarray of shape (n_grids, n_features_in_)
        1/w for each grid and column; 0 (a single bin) at lifetime 0.
    shifts_ : ndarray of shape (n_grids, n_features_in_)
        u for each grid and column, in widths.
    n_bins_ : ndarray of shape (n_grids, n_features_in_)
        Number of bins between the smallest and the largest training value.
    column_indptr_ : ndarray of shape (n_grids + 1,)
        Grid m has the features ``column_indptr_[m]`` to ``column_indptr_[m + 1] - 1``.
    n_features_in_ : int
        Number of columns of ``X`` in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if ``X`` has names that are all strings.

    See Also
    --------
    LaplaceFourierFeatures : Dense features of the same kernel.

    References
    ----------
    .. [1] A. Rahimi and B. Recht, "Random features for large-scale kernel machines", NIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import laplacian_kernel
    >>> from mondrian_kernel import RandomBinningFeatures
    >>> X = np.array([[0.0, 0.0], [0.1, 0.2], [1.0, 0.5]])
    >>> binning = RandomBinningFeatures(lifetime=2.0, n_grids=10000, random_state=0).fit(X)
    >>> Phi = binning.transform(X)
    >>> Phi.nnz
    30000
    >>> bool(np.allclose((Phi @ Phi.T).toarray(), laplacian_kernel(X, gamma=2.0), atol=0.03))
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LaplaceFeatures._parameter_constraints,
        "n_grids": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self, lifetime: float = 1.0, n_grids: int = 100, *, random_state: Seed = None
    ) -> None:
        self.lifetime = lifetime
        self.n_grids = n_grids
        self.random_state = random_state

    def fit_transform(
        self, X: ArrayLike, y: object = None, **fit_params: object
    ) -> sp.csr_matrix[np.float64]:
        """Draw the grids and return the features of the rows, M non-zeros each.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : None
            Ignored.
        **fit_params : dict
            Ignored.

        Returns
        -------
        csr_matrix of shape (n_samples, column_indptr_[-1])
            The same as ``fit(X).transform(X)``, in about half the time.
        """
        columns = self._fit(X)
        _check_int32(
            len(self.shifts_) * columns.shape[1], "entries", "transform the rows in batches"
        )
        return self._csr(columns)

    @all_or_nothing
    def _fit(self, X: ArrayLike) -> IntArray:
        """Draw grids, number the cells with training rows and return the feature of each (M, N)."""
        rows, rng = check_rows(self, X, reset=True), check_random_state(self.random_state)
        shape = (self.n_grids, rows.shape[1])
        with np.errstate(over="ignore"):
            self.inverse_widths_: FloatArray = self.lifetime / rng.standard_gamma(2.0, size=shape)
        self.shifts_: FloatArray = rng.uniform(size=shape)
        # The shift is uniform, so bins may start anywhere. Starting at the smallest value keeps
        # the indices small even if the data is far from 0.
        self.origin_: FloatArray = rows.min(axis=0)
        self.n_bins_ = self._count_bins(rows)

        self._factors = 2 * rng.randint(2**63, size=shape[1], dtype=np.uint64) + 1
        cells, tables = np.empty((self.n_grids, len(rows)), np.int32), []
        offsets = self._offsets(rows)
        for grid in range(self.n_grids):
            table, cells[grid] = np.unique(self._codes_of(offsets, grid)[0], return_inverse=True)
            tables.append(table)
        self._codes = np.concatenate(tables)
        self.column_indptr_: Ints = np.cumsum([0, *map(len, tables)], dtype=np.int64)
        self._n_features_out = int(self.column_indptr_[-1])
        _check_int32(self._n_features_out, "features", "use fewer grids or a smaller lifetime")
        cells += self.column_indptr_[:-1, None].astype(np.int32)
        return cells

    def transform(self, X: ArrayLike) -> sp.csr_matrix[np.float64]:
        """Map rows to their features φ(x).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, from ``fit`` or new.

        Returns
        -------
        csr_matrix of shape (n_samples, column_indptr_[-1])
            float64 with int32 indices, sorted; every entry is 1/√M. A training row has M entries.
            A new row has one for each grid in which its cell holds a training row.
        """
        check_is_fitted(self)
        rows = check_rows(self, X)
        _check_int32(len(self.shifts_) * len(rows), "entries", "transform the rows in batches")
        columns = np.empty((len(self.shifts_), len(rows)), dtype=np.int32)
        offsets = self._offsets(rows)
        for grid, column in enumerate(columns):
            first, end = self.column_indptr_[grid : grid + 2]
            codes, inside = self._codes_of(offsets, grid)
            place = np.minimum(first + np.searchsorted(self._codes[first:end], codes), end - 1)
            column[:] = np.where(inside & (self._codes[place] == codes), place, -1)
        return self._csr(columns)

    def _csr(self, columns: IntArray) -> sp.csr_matrix[np.float64]:
        """Φ from the feature of each row in each grid (M, N), -1 where there is none."""
        n_grids, n_rows = columns.shape
        is_known = columns.T >= 0
        indptr = np.zeros(n_rows + 1, dtype=np.int32)
        np.cumsum(is_known.sum(axis=1), out=indptr[1:])
        data = np.full(int(indptr[-1]), 1.0 / np.sqrt(n_grids))
        shape = (n_rows, self._n_features_out)
        return sp.csr_matrix((data, columns.T[is_known], indptr), shape=shape)

    def _offsets(self, rows: FloatArray) -> FloatArray:
        """Return x - origin_, transposed so that each column is contiguous."""
        with np.errstate(over="ignore"):
            return np.ascontiguousarray((rows - self.origin_).T)

    def _count_bins(self, rows: FloatArray) -> Ints:
        """Return how many bins the rows span in each grid and column; refuse too many."""
        with np.errstate(over="ignore", invalid="ignore"):
            extent = rows.max(axis=0) - self.origin_
            n_bins = np.floor(extent * self.inverse_widths_ + self.shifts_) + 1
        too_many = ~(n_bins <= _EXACT_INTEGERS)
        if too_many.any():
            column = int(np.flatnonzero(too_many.any(axis=0))[0])
            raise ValueError(
                f"At lifetime={self.lifetime} the range of column {column} of X, "
                f"{extent[column]:g}, is cut into more bins than can be numbered exactly: scale X "
                "or lower the lifetime."
            )
        counts: Ints = n_bins.astype(np.int64)
        return counts

    def _codes_of(
        self, offsets: FloatArray, grid: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return a number for the cell of each row, and which rows lie in the training range.

        It is the sum of the bin indices times random odd factors, modulo 2⁶⁴. Two cells of a
        million have the same number with a probability below 1e-6.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            bins = offsets * self.inverse_widths_[grid, :, None]
            bins += self.shifts_[grid, :, None]
        np.floor(bins, out=bins)
        inside = (bins >= 0) & (bins < self.n_bins_[grid, :, None])
        digits = np.where(inside, bins, 0.0).astype(np.uint64)
        codes: NDArray[np.uint64] = self._factors @ digits
        return codes, np.logical_and.reduce(inside, axis=0)


def _check_int32(count: int, what: str, remedy: str) -> None:
    """Refuse a matrix that needs int64 indices: many linear models accept only int32."""
    if count > _INT32_MAX:
        raise ValueError(f"{count} {what} are more than int32 indices can address: {remedy}.")
