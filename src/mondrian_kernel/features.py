"""Mondrian features: sparse random features of the Laplace kernel, at every lifetime."""

from __future__ import annotations

import copy
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._trees.checks import (
    all_or_nothing,
    check_budget,
    check_columns,
    check_rows,
    draw_seed,
)
from mondrian_kernel._trees.levels import (
    Levels,
    check_lifetimes,
    continue_trees,
    grow_trees,
    online_levels,
    reached_levels,
)
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray


class MondrianFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Sparse random features whose inner product approximates the Laplace kernel.

    .. math::
        \phi(x)^\top \phi(x') = k_M(x, x') \approx \exp(-\lambda \lVert x - x' \rVert_1)

    M Mondrian trees run to the time λ on the rows given to :meth:`fit`. Each of their cells is a
    feature. A fitted row has exactly M non-zero features, each :math:`1/\sqrt{M}`, and k_M is the
    share of trees in which two rows lie in the same cell.

    A new row may lie outside the boxes of the fitted rows, where the trees have not been cut. Its
    feature in a tree is the mean over these cuts, in closed form: the product of
    :math:`\exp(-\Delta (t_1 - t_0))` over the nodes on its way, with Δ the L1 distance to the
    node's box and :math:`[t_0, t_1]` the time in which the node exists. The expected kernel
    between a fitted and a new row is then exactly the Laplace kernel. Far from the data all
    features go to 0.

    With several lifetimes the kernel is a mixture of widths on the same trees:

    .. math::
        \mathrm{E}\, k_M(x, x') = \sum_l w_l \exp(-\lambda_l \lVert x - x' \rVert_1)

    Columns are not scaled.

    Parameters
    ----------
    lifetime : float, array-like of shape (L,) or frozen scipy distribution, default=1.0
        Time λ at which the trees stop, the ``gamma`` of
        :func:`sklearn.metrics.pairwise.laplacian_kernel`. ``np.inf`` grows the trees until no
        cell holds two different rows. Several increasing lifetimes give a mixture of kernels. A
        distribution, such as ``scipy.stats.gamma(2)``, is replaced by 16 of its quantiles with
        equal weights.
    n_estimators : int, default=100
        Number of trees M. The error of the kernel is of the order :math:`1/\sqrt{M}`.
    weights : array-like of shape (L,) or None, default=None
        Weights of several lifetimes, positive. They are divided by their sum. Equal if None.
    max_cells : int or None, default=None
        Bound on the number of cells of all trees together, at the last lifetime. If it is reached
        earlier, all trees stop there, with a warning, and ``lifetime_`` is that time.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees.
    n_jobs : int or None, default=None
        Threads. None: all cores, or ``OMP_NUM_THREADS``. The result does not depend on it.

    Attributes
    ----------
    lifetime_ : float
        Time to which the trees have run.
    n_cells_ : int
        Number of cells at all lifetimes, the number of features.
    n_cells_per_tree_ : ndarray of shape (n_estimators,)
        Number of cells of each tree, at all lifetimes.
    levels_ : Levels
        Lifetimes, their weights and the cells at each of them.
    trees_ : Trees
        The trees; a view made by :meth:`at` shares them.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of input columns, and their names where ``X`` had any.

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
        "lifetime": [Interval(Real, 0, np.inf, closed="both"), "array-like", HasMethods("ppf")],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "weights": ["array-like", None],
        "max_cells": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    _online: OnlineTrees | None = None  # the trees of a stream, which `trees_` shows

    def __init__(
        self,
        lifetime: Any = 1.0,
        n_estimators: int = 100,
        *,
        weights: ArrayLike | None = None,
        max_cells: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.lifetime = lifetime
        self.n_estimators = n_estimators
        self.weights = weights
        self.max_cells = max_cells
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def from_trees(
        cls,
        trees: Trees,
        levels: Levels | float,
        *,
        seed: int = 0,
        n_jobs: int | None = None,
        names_of: Any = None,
    ) -> MondrianFeatures:
        """Return a fitted transformer around trees that exist already; it shares the arrays.

        ``levels`` are the cells at one or more lifetimes, or a lifetime. ``seed`` is that of
        :meth:`partial_fit`. The columns have the names that the estimator ``names_of`` knows.
        """
        if not isinstance(levels, Levels):
            levels = Levels.of(trees, np.array([float(levels)]))
        one = levels.n_levels == 1
        how = (float(levels.lifetimes[0]), None) if one else (levels.lifetimes, levels.weights)
        features = cls(how[0], trees.n_trees, weights=how[1], n_jobs=n_jobs)
        features.n_features_in_ = trees.n_dims
        if hasattr(names_of, "feature_names_in_"):
            features.feature_names_in_ = names_of.feature_names_in_
        features.trees_, features.levels_, features._seed = trees, levels, seed
        return features

    def fit(self, X: ArrayLike, y: object = None) -> MondrianFeatures:
        """Grow the trees on the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : ignored

        Returns
        -------
        self : MondrianFeatures
            The fitted transformer.
        """
        self._grow(X)
        return self

    def fit_transform(self, X: ArrayLike, y: object = None, **fit_params: Any) -> sparse.csr_matrix:
        r"""Grow the trees on the rows of X and return their features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : ignored

        Returns
        -------
        Phi : csr_matrix of shape (n_samples, n_cells_)
            Features of the rows: M non-zeros a row, each :math:`1/\sqrt{M}`, for each lifetime.
        """
        leaf = self._grow(X)
        return self.levels_.features(leaf, None)

    @all_or_nothing
    def _grow(self, X: ArrayLike) -> IntArray:
        """Grow the trees and return the leaf of each row in each tree."""
        rows = check_rows(self, X, reset=True)
        lifetimes, weights = check_lifetimes(self.lifetime, self.weights)
        self._seed = draw_seed(self.random_state)
        trees, leaf = grow_trees(
            rows, float(lifetimes[-1]), self.n_estimators, self._seed, self.max_cells, self.n_jobs
        )
        self._online = None
        self.trees_, self.levels_ = trees, reached_levels(trees, lifetimes, weights)
        return leaf

    @property
    def lifetime_(self) -> float:
        """Time to which the trees have run."""
        return float(self.levels_.lifetimes[-1])

    @property
    def n_cells_(self) -> int:
        """Number of cells at all lifetimes, the number of features."""
        return self.levels_.n_features

    _n_features_out = n_cells_  # scikit-learn's name of it

    @property
    def n_cells_per_tree_(self) -> NDArray[np.int64]:
        """Number of cells of each tree, at all lifetimes."""
        return np.asarray(self.levels_.per_tree.sum(axis=0))

    def check(self) -> None:
        """Raise ValueError unless trees, levels and names of columns belong together."""
        self.trees_.check()
        self.levels_.check(self.trees_)
        check_columns(self, self.trees_.n_dims)
        if not 0 <= self._seed < 2**64:
            raise ValueError("The seed is out of range.")

    def partial_fit(self, X: ArrayLike, y: object = None) -> MondrianFeatures:
        """Extend the trees by new rows, after :meth:`fit` or without one.

        The trees have the distribution of trees grown on all rows at once. New features are
        appended: old ones keep their numbers, and older rows are 0 in new ones. The result depends
        on the order of the rows, not on how they are split into batches. Once there are
        ``max_cells`` cells no more are made, and new rows join those there are. Only features
        of one lifetime can be extended. If anything fails, nothing has changed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : ignored

        Returns
        -------
        self : MondrianFeatures
            The transformer; unchanged if anything fails.
        """
        self._validate_params()
        first = not hasattr(self, "trees_")
        rows = check_rows(self, X, reset=first)
        lifetimes, _ = check_lifetimes(self.lifetime, self.weights)
        if lifetimes.size > 1:
            raise ValueError(
                f"partial_fit extends the cells at one lifetime, but there are {lifetimes.size}. "
                "Pass a number as lifetime."
            )
        if first:
            check_budget(self.max_cells, self.n_estimators)
            self._seed = draw_seed(self.random_state)
            stop = float(lifetimes[0])
            online = OnlineTrees.empty(rows.shape[1], self.n_estimators, stop, self._seed)
            online.extend(rows, self.max_cells)
            self._follow(online)
        else:
            self._learn(rows)
        return self

    def _learn(self, rows: FloatArray) -> None:
        """Extend trees that exist by valid rows."""
        online = self._continued()
        n_before = online.n_rows
        try:
            online.extend(rows, self.max_cells)
            self._follow(online)
        except BaseException:
            online.rollback(n_before)
            self._follow(online)
            raise

    def _continued(self) -> OnlineTrees:
        """Return online trees that continue ``trees_``, with their features at the first rung."""
        return self._online or continue_trees(self.trees_, self.levels_, self._seed)

    def _follow(self, online: OnlineTrees) -> None:
        """Show the present state of trees that go on growing."""
        self._online = online
        self.trees_, self.levels_ = online.freeze(), online_levels(online, slice(0, 1))

    def _add_columns(self, n_more: int) -> None:
        """Continue with further columns, in which all rows so far are 0."""
        self._follow(self._continued().widened(n_more))
        self.n_features_in_ += n_more

    def __getstate__(self) -> dict[str, Any]:
        # Online trees are made again from the trees and the numbers of their cells.
        return {name: v for name, v in super().__getstate__().items() if name != "_online"}

    def transform(self, X: ArrayLike) -> sparse.csr_matrix:
        """Map rows to their features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, fitted before or new.

        Returns
        -------
        Phi : csr_matrix of shape (n_samples, n_cells_)
            At most M non-zeros a row for each lifetime.
        """
        check_is_fitted(self)
        rows = check_rows(self, X)
        node, log_stay = self.trees_.walk_through(rows, self.levels_.lifetimes, self.n_jobs)
        return self.levels_.features(node, log_stay)

    def apply(self, X: ArrayLike) -> IntArray:
        """Return the columns of the cells of rows at the last lifetime, one for each tree, int32.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, fitted before or new. For a new row it is the cell it would lie in if no further
            cut separated it from the fitted rows.
        """
        check_is_fitted(self)
        node, _ = self.trees_.walk(check_rows(self, X), self.lifetime_, self.n_jobs)
        cells: IntArray = self.levels_.column[-1][node] + np.int32(self.levels_.offset[-2])
        return cells

    def at(self, lifetime: float) -> MondrianFeatures:
        """Return the same trees stopped at an earlier time: the features of a wider kernel.

        They equal those of a fit with this lifetime and the same seed, and share the memory of
        these unless these are learning online.

        Parameters
        ----------
        lifetime : float
            Time λ between 0 and ``lifetime_``.
        """
        check_is_fitted(self)
        if not 0 <= lifetime <= self.lifetime_:
            raise ValueError(
                f"lifetime={lifetime} lies outside [0, lifetime_={self.lifetime_}], the time these "
                "trees have run. Fit with a larger lifetime to see narrower kernels."
            )
        view, trees = copy.copy(self), self._online.snapshot() if self._online else self.trees_
        view.lifetime, view.weights, view._online = float(lifetime), None, None
        view.trees_, view.levels_ = trees, Levels.of(trees, np.array([lifetime]))
        return view

    def kernel(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray[np.float64]:
        """Approximate kernel between rows, :math:`k_M(x, y) = φ(x)^T φ(y)`, in [0, 1].

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
            Rows.
        Y : array-like of shape (n_samples_Y, n_features) or None, default=None
            Rows, ``X`` where None. Unbiased where at least one row of a pair was fitted.
        """
        Phi = self.transform(X)
        return np.asarray((Phi @ (Phi if Y is None else self.transform(Y)).T).toarray())

    def score_samples(self, X: ArrayLike) -> FloatArray:
        r"""Return how normal rows are, to find outliers.

        .. math::
            s(x) = \frac1M \sum_m \ln \frac{p_m(x) \, n_m(x)}{N}

        with :math:`n_m` of the N fitted rows in the cell of x in tree m, and :math:`p_m` the
        probability that x lies in this cell: 1 for fitted rows. With several lifetimes it is their
        weighted mean. A fitted row that is alone in all its cells has the score -ln N. A row far
        from all others has a lower one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, fitted before or new.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            At most 0; the lower, the more abnormal, as in
            :meth:`sklearn.ensemble.IsolationForest.score_samples`.
        """
        check_is_fitted(self)
        return self.levels_.log_shares(self.trees_, check_rows(self, X), self.n_jobs)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "trees_")
