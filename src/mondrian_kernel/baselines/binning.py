"""Random binning features of the Laplace kernel."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.baselines.numbering import (
    Bools,
    Ints,
    cells_of,
    look_up,
    most_bins,
    tabulate,
)

_INT32_MAX = int(np.iinfo(np.int32).max)


class RandomBinningFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Random binning features of the Laplace kernel.

    .. math::

        \phi(x) = M^{-1/2} \, [1_{b_1(x)}, \ldots, 1_{b_M(x)}], \qquad
        b_{md}(x) = \lfloor x_d / w_{md} + u_{md} \rfloor, \qquad
        w_{md} \sim \text{Gamma}(2, 1/\lambda), \quad u_{md} \sim \text{Uniform}(0, 1)

    Each of M grids cuts every dim into bins of one random width; a feature is the indicator of
    one cell of one grid. Two rows meet in a cell with probability
    :math:`\exp(-\lambda \|x - x'\|_1)` [1]_. Cells in which ``fit`` met no row have no feature:
    a new row there has no entry for that grid, which leaves its kernel to every training row as
    it was.

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
        The least training value of each dim, from where its bins are counted.
    inverse_widths_ : ndarray of shape (n_grids, n_features_in_)
        1/w of each grid and dim, 0 (one bin) at lifetime 0.
    shifts_ : ndarray of shape (n_grids, n_features_in_)
        u of each grid and dim, in widths.
    n_bins_ : ndarray of shape (n_grids, n_features_in_)
        Number of bins between the least and the greatest training value.
    column_indptr_ : ndarray of shape (n_grids + 1,)
        Grid m has the columns ``column_indptr_[m]`` to ``column_indptr_[m + 1] - 1``.
    n_features_in_ : int
        Number of dims D seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the dims, when ``X`` has names that are all strings.

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
        "lifetime": [Interval(Real, 0, None, closed="left")],
        "n_grids": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self, lifetime: float = 1.0, n_grids: int = 100, *, random_state: Any = None
    ) -> None:
        self.lifetime = lifetime
        self.n_grids = n_grids
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw the grids and give every cell that holds a training row a column.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : None
            Ignored.

        Returns
        -------
        RandomBinningFeatures
            Itself, fitted.
        """
        self._fit(X)
        return self

    def fit_transform(
        self, X: ArrayLike, y: object = None, **fit_params: Any
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
            What ``fit(X).transform(X)`` returns, in about half the time.
        """
        columns = self._fit(X)
        self._check_entries(columns.shape[1])
        return self._csr(columns)

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit(self, X: ArrayLike) -> IntArray:
        """Draw the grids, number their cells and return those of each row, one grid a row."""
        rows: FloatArray = validate_data(self, X, dtype=np.float64)
        rng = check_random_state(self.random_state)
        shape = (self.n_grids, rows.shape[1])
        with np.errstate(over="ignore"):
            self.inverse_widths_: FloatArray = self.lifetime / rng.standard_gamma(2.0, size=shape)
        self.shifts_: FloatArray = rng.uniform(size=shape)
        # The shift is uniform, so bins may be counted from anywhere; from the least value the
        # indices are small however far from 0 the data lies.
        self.origin_: FloatArray = rows.min(axis=0)
        self.n_bins_ = self._count_bins(rows)

        tables: list[Ints] = []
        cells = np.empty((self.n_grids, len(rows)), dtype=np.int32)
        n_cells = []
        dims = self._distance_to_origin(rows)
        for grid in range(self.n_grids):
            bins, _ = self._bins(dims, grid)
            cells[grid] = cells_of(bins, self.n_bins_[grid], tabulate(tables))
            n_cells.append(len(tables[-1]))
        self.column_indptr_: Ints = np.cumsum([0, *n_cells], dtype=np.int64)
        self._codes: Ints = np.concatenate(tables)
        self._codes_indptr: Ints = np.cumsum([0, *map(len, tables)], dtype=np.int64)
        self._n_features_out = int(self.column_indptr_[-1])
        _check_int32(self._n_features_out, "columns", "use fewer grids or a smaller lifetime")
        cells += self.column_indptr_[:-1, None].astype(np.int32)
        return cells

    def transform(self, X: ArrayLike) -> sp.csr_matrix[np.float64]:
        """Map rows to their features φ(x).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, seen in ``fit`` or new.

        Returns
        -------
        csr_matrix of shape (n_samples, column_indptr_[-1])
            float64 with int32 indices, sorted; every entry is 1/√M. A training row has M
            entries, a new row one for each grid that knows its cell.
        """
        check_is_fitted(self)
        rows: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        self._check_entries(len(rows))
        tables = iter(np.split(self._codes, self._codes_indptr[1:-1]))
        columns = np.empty((len(self.shifts_), len(rows)), dtype=np.int32)
        dims = self._distance_to_origin(rows)
        for grid, column in enumerate(columns):
            bins, known = self._bins(dims, grid)
            cells = cells_of(bins, self.n_bins_[grid], look_up(tables, known))
            column[:] = np.where(known, self.column_indptr_[grid] + cells, -1)
        return self._csr(columns)

    def _csr(self, columns: IntArray) -> sp.csr_matrix[np.float64]:
        """Φ of rows from their column in each grid (M, N), -1 where there is none."""
        n_grids, n_rows = columns.shape
        met = columns.T >= 0
        indptr = np.zeros(n_rows + 1, dtype=np.int32)
        np.cumsum(met.sum(axis=1), out=indptr[1:])
        data = np.full(int(indptr[-1]), 1.0 / np.sqrt(n_grids))
        return sp.csr_matrix((data, columns.T[met], indptr), shape=(n_rows, self._n_features_out))

    def _check_entries(self, n_rows: int) -> None:
        _check_int32(n_rows * len(self.shifts_), "entries", "transform the rows in batches")

    def _distance_to_origin(self, rows: FloatArray) -> FloatArray:
        """Return x - origin_ with one contiguous array a dim."""
        with np.errstate(over="ignore"):
            return np.ascontiguousarray((rows - self.origin_).T)

    def _count_bins(self, rows: FloatArray) -> Ints:
        """Return the number of bins of each grid and dim that the rows span, or refuse."""
        with np.errstate(over="ignore", invalid="ignore"):
            extent = rows.max(axis=0) - self.origin_
            n_bins = np.floor(extent * self.inverse_widths_ + self.shifts_) + 1
        limit = most_bins(len(rows))
        too_many = ~(n_bins <= limit)
        if too_many.any():
            dim = int(np.flatnonzero(too_many.any(axis=0))[0])
            raise ValueError(
                f"At lifetime={self.lifetime} the range of dim {dim} of X, {extent[dim]:g}, is "
                f"cut into more than {limit} bins, more than can be numbered exactly: scale X "
                "or lower the lifetime."
            )
        counts: Ints = n_bins.astype(np.int64)
        return counts

    def _bins(self, dims: FloatArray, grid: int) -> tuple[Ints, Bools]:
        """Return b(x), one array a dim, and which rows lie within the range of `fit` in all."""
        with np.errstate(over="ignore", invalid="ignore"):
            bins = dims * self.inverse_widths_[grid, :, None]
            bins += self.shifts_[grid, :, None]
        np.floor(bins, out=bins)
        inside = (bins >= 0) & (bins < self.n_bins_[grid, :, None])
        known: Bools = np.logical_and.reduce(inside, axis=0)
        return np.where(inside, bins, 0.0).astype(np.int64), known


def _check_int32(count: int, what: str, remedy: str) -> None:
    """Refuse a matrix that int32 indices cannot address; many linear models take no others."""
    if count > _INT32_MAX:
        raise ValueError(f"{count} {what} are more than int32 indices can address: {remedy}.")
