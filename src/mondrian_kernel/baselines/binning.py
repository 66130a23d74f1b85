"""Random binning features of the Laplace kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval

from mondrian_kernel._trees.checks import all_or_nothing
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.baselines.fourier import LaplaceFeatures, Seed

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_INT32_MAX = int(np.iinfo(np.int32).max)
_INT64_MAX = int(np.iinfo(np.int64).max)
_EXACT_INTEGERS = 2**53  # up to here every integer is a float64, so a bin index is exact


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

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw the grids and make a feature of every cell that holds a training row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : None
            Ignored.

        Returns
        -------
        RandomBinningFeatures
            The fitted transformer.
        """
        self._fit(X)
        return self

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
        self._check_entries(columns.shape[1])
        return self._csr(columns)

    @all_or_nothing
    def _fit(self, X: ArrayLike) -> IntArray:
        """Draw the grids, number their cells and return the feature of each row, (M, N)."""
        rows, rng = self._training_rows(X)
        shape = (self.n_grids, rows.shape[1])
        with np.errstate(over="ignore"):
            self.inverse_widths_: FloatArray = self.lifetime / rng.standard_gamma(2.0, size=shape)
        self.shifts_: FloatArray = rng.uniform(size=shape)
        # The shift is uniform, so bins may start anywhere. Starting at the smallest value keeps
        # the indices small even if the data is far from 0.
        self.origin_: FloatArray = rows.min(axis=0)
        self.n_bins_ = self._count_bins(rows)

        tables: list[Ints] = []
        cells = np.empty((self.n_grids, len(rows)), dtype=np.int32)
        n_cells = []
        offsets = self._offsets(rows)
        for grid in range(self.n_grids):
            bins, _ = self._bins(offsets, grid)
            cells[grid] = _number_cells(bins, self.n_bins_[grid], _tabulate(tables))
            n_cells.append(len(tables[-1]))
        self.column_indptr_: Ints = np.cumsum([0, *n_cells], dtype=np.int64)
        self._codes: Ints = np.concatenate(tables)
        self._codes_indptr: Ints = np.cumsum([0, *map(len, tables)], dtype=np.int64)
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
        rows = self._new_rows(X)
        self._check_entries(len(rows))
        tables = iter(np.split(self._codes, self._codes_indptr[1:-1]))
        columns = np.empty((len(self.shifts_), len(rows)), dtype=np.int32)
        offsets = self._offsets(rows)
        for grid, column in enumerate(columns):
            bins, known = self._bins(offsets, grid)
            cells = _number_cells(bins, self.n_bins_[grid], _look_up(tables, known))
            column[:] = np.where(known, self.column_indptr_[grid] + cells, -1)
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

    def _check_entries(self, n_rows: int) -> None:
        _check_int32(n_rows * len(self.shifts_), "entries", "transform the rows in batches")

    def _offsets(self, rows: FloatArray) -> FloatArray:
        """Return x - origin_, transposed so that each column is contiguous."""
        with np.errstate(over="ignore"):
            return np.ascontiguousarray((rows - self.origin_).T)

    def _count_bins(self, rows: FloatArray) -> Ints:
        """Return how many bins the rows span in each grid and column; refuse too many."""
        with np.errstate(over="ignore", invalid="ignore"):
            extent = rows.max(axis=0) - self.origin_
            n_bins = np.floor(extent * self.inverse_widths_ + self.shifts_) + 1
        # A cell number times the number of bins must be an exact int64.
        limit = min(_EXACT_INTEGERS, _INT64_MAX // len(rows))
        too_many = ~(n_bins <= limit)
        if too_many.any():
            column = int(np.flatnonzero(too_many.any(axis=0))[0])
            raise ValueError(
                f"At lifetime={self.lifetime} the range of column {column} of X, "
                f"{extent[column]:g}, is cut into more than {limit} bins, more than can be "
                "numbered exactly: scale X or lower the lifetime."
            )
        counts: Ints = n_bins.astype(np.int64)
        return counts

    def _bins(self, offsets: FloatArray, grid: int) -> tuple[Ints, Bools]:
        """Return b(x), (D, N), and which rows lie within the training range in all columns."""
        with np.errstate(over="ignore", invalid="ignore"):
            bins = offsets * self.inverse_widths_[grid, :, None]
            bins += self.shifts_[grid, :, None]
        np.floor(bins, out=bins)
        inside = (bins >= 0) & (bins < self.n_bins_[grid, :, None])
        known: Bools = np.logical_and.reduce(inside, axis=0)
        return np.where(inside, bins, 0.0).astype(np.int64), known


_Renumber = Callable[[Ints], tuple[Ints, int]]
"""Turns the codes of rows into numbers below a count, and returns both."""


def _number_cells(bins: Ints, n_bins: Ints, renumber: _Renumber) -> Ints:
    """Turn the D bin indices of each row into one integer, the number of its cell in a grid.

    The indices are the digits of a number with bases `n_bins`, so no two cells share a number.
    `renumber` makes the numbers dense at the end, and earlier if the next digit would not fit in
    64 bits.
    """
    codes = np.zeros(1, dtype=np.int64)
    count = 1
    for digits, base in zip(bins, n_bins.tolist(), strict=True):
        if count * base > _INT64_MAX:
            codes, count = renumber(codes)
        codes = codes * base + digits
        count *= base
    return renumber(codes)[0]


def _tabulate(tables: list[Ints]) -> _Renumber:
    """Return a `renumber` that sorts the codes into a new table, appended to ``tables``."""

    def renumber(codes: Ints) -> tuple[Ints, int]:
        table, cells = np.unique(codes, return_inverse=True)
        tables.append(table)
        return cells.astype(np.int64, copy=False), len(table)

    return renumber


def _look_up(tables: Iterator[Ints], known: Bools) -> _Renumber:
    """Return a `renumber` that looks codes up in the next table, and clears `known` if missing."""

    def renumber(codes: Ints) -> tuple[Ints, int]:
        table = next(tables)
        cells = np.minimum(np.searchsorted(table, codes), len(table) - 1)
        np.logical_and(known, table[cells] == codes, out=known)
        return cells.astype(np.int64, copy=False), len(table)

    return renumber


def _check_int32(count: int, what: str, remedy: str) -> None:
    """Refuse a matrix that needs int64 indices: many linear models accept only int32."""
    if count > _INT32_MAX:
        raise ValueError(f"{count} {what} are more than int32 indices can address: {remedy}.")
