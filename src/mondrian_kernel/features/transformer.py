"""Mondrian features: sparse random features of the Laplace kernel, at every lifetime."""

from __future__ import annotations

import copy
import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel._trees.trees import Cells, Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features.checks import (
    check_budget,
    check_more_ranges,
    check_rows,
    draw_seed,
)
from mondrian_kernel.features.csr import cell_features


class MondrianFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Sparse random features whose inner product approximates the Laplace kernel.

    .. math::
        \phi(x)^\top \phi(x') = k_M(x, x') \approx \exp(-\lambda \lVert x - x' \rVert_1)

    M Mondrian trees are run to the time λ on the rows given to :meth:`fit`. Each of their cells is
    a feature; a row of the fitted data has exactly M non-zero features, each :math:`1/\sqrt{M}`,
    and k_M is the share of trees in which two rows lie in the same cell.

    A row that was not fitted may be parted from its cell by cuts outside the boxes of the fitted
    rows. Its feature in a tree is the mean over these cuts, in closed form: the product of
    :math:`\exp(-\Delta (t_1 - t_0))` over the nodes on its way, with Δ the L1 distance to the
    node's box and :math:`[t_0, t_1]` the node's time. The expected kernel between a fitted and a
    new row is then exactly the Laplace kernel; far from the data all features go to 0.

    Inputs are not scaled: the kernel is the one that is asked for.

    Parameters
    ----------
    lifetime : float, default=1.0
        Time λ at which the trees stop, the ``gamma`` of
        :func:`sklearn.metrics.pairwise.laplacian_kernel`. ``np.inf`` grows the trees until no
        cell holds two different rows.
    n_estimators : int, default=100
        Number of trees M. The error of the kernel is of the order :math:`1/\sqrt{M}`.
    max_cells : int or None, default=None
        Bound on the number of cells C of all trees together. If it is reached before ``lifetime``
        all trees stop there, with a warning, and ``lifetime_`` tells the time.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees.
    n_jobs : int or None, default=None
        Threads. The result does not depend on it.

    Attributes
    ----------
    lifetime_ : float
        Time at which the trees stand: ``lifetime``, or less where ``max_cells`` stopped them.
    n_cells_ : int
        Number of cells C, the number of features.
    n_cells_per_tree_ : ndarray of shape (n_estimators,)
        Number of cells of each tree.
    trees_ : Trees
        The trees; a view made by :meth:`at` shares them.
    n_features_in_ : int
        Number of input coordinates.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input columns, where ``X`` had any.

    See Also
    --------
    LaplaceFourierFeatures : Dense Fourier features of the same kernel.
    RandomBinningFeatures : Random grids instead of random trees.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import laplacian_kernel
    >>> from mondrian_kernel import MondrianFeatures
    >>> X = np.random.default_rng(0).uniform(size=(200, 3))
    >>> features = MondrianFeatures(lifetime=2.0, n_estimators=500, random_state=0)
    >>> Phi = features.fit_transform(X)
    >>> bool(np.abs((Phi @ Phi.T).toarray() - laplacian_kernel(X, gamma=2.0)).max() < 0.15)
    True
    >>> wider = features.at(0.5)  # the same trees, a wider kernel
    >>> bool(np.abs(wider.kernel(X) - laplacian_kernel(X, gamma=0.5)).max() < 0.15)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "lifetime": [Interval(Real, 0, np.inf, closed="both")],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "max_cells": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        lifetime: float = 1.0,
        n_estimators: int = 100,
        *,
        max_cells: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.lifetime = lifetime
        self.n_estimators = n_estimators
        self.max_cells = max_cells
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: object = None) -> MondrianFeatures:
        """Grow the trees on the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : ignored
            Present for pipelines.

        Returns
        -------
        self : MondrianFeatures
            The fitted transformer.
        """
        self._fit(X)
        return self

    def fit_transform(self, X: ArrayLike, y: object = None, **fit_params: Any) -> sparse.csr_matrix:
        r"""Grow the trees on the rows of X and return their features, M non-zeros a row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : ignored
            Present for pipelines.

        Returns
        -------
        Phi : csr_matrix of shape (n_samples, n_cells_)
            Features of the rows, each :math:`1/\sqrt{M}`.
        """
        leaf = self._fit(X)
        return cell_features(self._cells.column[leaf], None, self.n_cells_)

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit(self, X: ArrayLike) -> IntArray:
        X = check_rows(self, X, reset=True)
        return self._grow(X, draw_seed(self.random_state))

    def _grow(self, X: FloatArray, seed: int) -> IntArray:
        """Grow the trees from a seed on valid rows; return the leaf of each row in each tree."""
        check_budget(self.max_cells, self.n_estimators)
        leaf = self._run(Growth(X, self.n_estimators, seed, self.n_jobs))
        self._seed = seed  # further rows go on with it
        return leaf

    def _run(self, growth: Growth) -> IntArray:
        """Let trees grow to the lifetime or to the bound on cells, and stand there."""
        lifetime = float(self.lifetime)
        if self.max_cells is None:
            growth.advance(lifetime)
        else:
            lifetime = growth.advance_within(lifetime, self.max_cells)
            if lifetime < self.lifetime:
                warnings.warn(
                    f"max_cells={self.max_cells} was reached before lifetime={self.lifetime}: the "
                    f"trees stop at lifetime_={lifetime:.6g} and their kernel is that much wider. "
                    "Raise max_cells, or lower lifetime or n_estimators.",
                    UserWarning,
                    stacklevel=5,
                )
        self.trees_, leaf = growth.freeze(lifetime)
        self.n_features_in_ = self.trees_.n_dims
        self._stand_at(lifetime)
        return leaf

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: object = None) -> MondrianFeatures:
        """Extend the trees by new rows, after :meth:`fit` or from nothing.

        The trees have the law of trees grown on all rows at once. Features are appended: one that
        exists keeps its number, and older rows have the value 0 in new ones. The result depends
        on the rows in their order, not on how they are split into batches. Once there are
        ``max_cells`` cells no more are made, and new rows join those there are.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : ignored
            Present for pipelines.

        Returns
        -------
        self : MondrianFeatures
            The transformer; unchanged if anything fails.
        """
        first = not hasattr(self, "trees_")
        rows = check_rows(self, X, reset=first)
        if first:
            check_budget(self.max_cells, self.n_estimators)
            online = OnlineTrees.empty(
                rows.shape[1], self.n_estimators, float(self.lifetime), draw_seed(self.random_state)
            )
        else:
            check_more_ranges(self.trees_, rows)
            online = self._stream()
        n_before = online.n_rows
        try:
            online.extend(rows, self.max_cells)
            self._follow(online)
        except BaseException:
            online.rollback(n_before)
            if not first:
                self._follow(online)
            raise
        return self

    def _stream(self) -> OnlineTrees:
        """Online trees that continue ``trees_``, with their features at the first rung."""
        online: OnlineTrees | None = self.__dict__.get("_online")
        if online is not None:
            return online
        seed = self._seed if hasattr(self, "_seed") else draw_seed(self.random_state)
        trees, rungs, column = self.trees_, [self.lifetime_], [self._cells.column]
        if self.lifetime_ < trees.lifetime:
            rungs.append(trees.lifetime)
            column.append(trees.cells(trees.lifetime).column)
        return OnlineTrees.from_trees(trees, seed, rungs, np.stack(column))

    def _follow(self, online: OnlineTrees, rung: int = 0) -> None:
        """Stand on trees that go on growing, at one of their rungs."""
        cells = Cells(online.column[rung], online.n_cells_per_tree[rung])
        self.__dict__.update(
            _online=online, _seed=online.seed, trees_=online.freeze(), _cells=cells,
            lifetime_=float(online.rungs[rung]), n_cells_=int(online.n_cells[rung]),
            n_cells_per_tree_=cells.per_tree,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        # Online trees are made again from the trees and the numbers of their cells.
        state: dict[str, Any] = super().__getstate__().copy()
        state.pop("_online", None)
        return state

    def _stand_at(self, lifetime: float) -> None:
        self.__dict__.pop("_online", None)
        self.lifetime_ = lifetime
        self._cells: Cells = self.trees_.cells(lifetime)
        self.n_cells_ = self._cells.total
        self.n_cells_per_tree_ = self._cells.per_tree

    def transform(self, X: ArrayLike) -> sparse.csr_matrix:
        """Map rows to their features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, fitted before or new.

        Returns
        -------
        Phi : csr_matrix of shape (n_samples, n_cells_)
            At most M non-zeros a row; int32 indices.
        """
        node, log_stay = self._walk(X)
        return cell_features(self._cells.column[node], log_stay, self.n_cells_)

    def apply(self, X: ArrayLike) -> IntArray:
        """Return the cell of each row in each tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, fitted before or new. For a new row it is the cell it would lie in if no further
            cut parted it from the fitted rows.

        Returns
        -------
        cells : ndarray of shape (n_samples, n_estimators), int32
            Number of the cell, which is the column of its feature.
        """
        node, _ = self._walk(X)
        return self._cells.column[node]

    def _walk(self, X: ArrayLike) -> tuple[IntArray, FloatArray]:
        check_is_fitted(self)
        return self.trees_.walk(check_rows(self, X), self.lifetime_, self.n_jobs)

    def at(self, lifetime: float) -> MondrianFeatures:
        """Return the same trees stopped at an earlier time: the features of a wider kernel.

        Parameters
        ----------
        lifetime : float
            Time λ between 0 and ``lifetime_``.

        Returns
        -------
        features : MondrianFeatures
            A fitted transformer which shares the memory of this one, unless this one is learning
            online. Its features equal those of a fit with this lifetime and the same seed.
        """
        check_is_fitted(self)
        if not 0 <= lifetime <= self.lifetime_:
            raise ValueError(
                f"lifetime={lifetime} lies outside [0, lifetime_={self.lifetime_}], the time these "
                "trees have run. Fit with a larger lifetime to see narrower kernels."
            )
        view = copy.copy(self)
        view.lifetime = float(lifetime)
        online: OnlineTrees | None = self.__dict__.get("_online")
        if online is not None:  # whose arrays further rows will change
            view.trees_ = online.snapshot()
        view._stand_at(float(lifetime))
        return view

    def kernel(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray[np.float64]:
        """Approximate Laplace kernel between rows, :math:`k_M(x, y) = φ(x)^T φ(y)`.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
            Rows.
        Y : array-like of shape (n_samples_Y, n_features) or None, default=None
            Rows, ``X`` where None. Unbiased where at least one row of a pair was fitted.

        Returns
        -------
        K : ndarray of shape (n_samples_X, n_samples_Y)
            Kernel values in [0, 1].
        """
        Phi = self.transform(X)
        other = Phi if Y is None else self.transform(Y)
        K: NDArray[np.float64] = (Phi @ other.T).toarray()
        return K

    @property
    def _n_features_out(self) -> int:
        return self.n_cells_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def features_at(
    trees: Trees,
    lifetime: float,
    n_jobs: int | None = None,
    *,
    seed: int | None = None,
    names_of: Any = None,
) -> MondrianFeatures:
    """Return a fitted transformer around trees that exist already, at a lifetime.

    Further rows go on with ``seed``. It knows the columns by the names that ``names_of`` was shown,
    if any.
    """
    features = MondrianFeatures(float(lifetime), trees.n_trees, n_jobs=n_jobs)
    features.trees_ = trees
    features.n_features_in_ = trees.n_dims
    if hasattr(names_of, "feature_names_in_"):
        features.feature_names_in_ = names_of.feature_names_in_
    if seed is not None:
        features._seed = seed
    features._stand_at(float(lifetime))
    return features
