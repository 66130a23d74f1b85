"""Mondrian features of dask collections."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._trees.checks import check_budget, check_ranges, draw_seed
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.growth import BlockGrowth
from mondrian_kernel.dask.inputs import is_collection, row_array
from mondrian_kernel.dask.lazy import known_rows, map_rows
from mondrian_kernel.dask.summary import Summary, summarise
from mondrian_kernel.features import MondrianFeatures, features_at


class DaskMondrianFeatures(MondrianFeatures):
    r"""Mondrian features of rows that lie in the blocks of a dask array or dataframe.

    .. math::
        \phi(x)^\top \phi(x') = k_M(x, x') \approx \exp(-\lambda \lVert x - x' \rVert_1)

    The same trees, bit for bit, as :class:`mondrian_kernel.MondrianFeatures` grows on all rows in
    one place with the same seed, whatever the blocks and the workers. Rows never move: the cuts go
    to the blocks, which answer with the bounds of their rows, once for each level of the trees.
    :meth:`transform` of a collection is lazy; of an array it is that of the parent.

    Parameters
    ----------
    lifetime : float, default=1.0
        Time λ at which the trees stop.
    n_estimators : int, default=100
        Number of trees M.
    max_cells : int or None, default=None
        Bound on the number of cells C of all trees together.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees.

    Attributes
    ----------
    lifetime_, n_cells_, n_cells_per_tree_, trees_, n_features_in_, feature_names_in_
        As in :class:`mondrian_kernel.MondrianFeatures`.
    n_rounds_ : int
        Passes over the rows that it took to grow the trees.

    Examples
    --------
    >>> import dask.array as da
    >>> from mondrian_kernel.dask import DaskMondrianFeatures
    >>> X = da.random.default_rng(0).uniform(size=(1000, 3), chunks=(250, 3))
    >>> features = DaskMondrianFeatures(lifetime=2.0, random_state=0).fit(X)
    >>> Phi = features.transform(X)  # nothing is computed yet
    >>> Phi.numblocks, Phi.shape[1] == features.n_cells_
    ((4, 1), True)
    >>> Phi.blocks[0].compute().shape[0]
    250
    """

    # Workers are many: each task has one thread.
    n_jobs = None

    def __init__(
        self,
        lifetime: float = 1.0,
        n_estimators: int = 100,
        *,
        max_cells: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.lifetime = lifetime
        self.n_estimators = n_estimators
        self.max_cells = max_cells
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: object = None) -> DaskMondrianFeatures:
        """Grow the trees on the rows of X.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Rows, finite. Read once for each level of the trees: ``persist`` it if it fits into the
            memory of the workers.
        y : ignored
            Present for pipelines.

        Returns
        -------
        self : DaskMondrianFeatures
            The fitted transformer.
        """
        check_budget(self.max_cells, self.n_estimators)
        rows, names = row_array(X)
        seed = draw_seed(self.random_state)
        blocks = Blocks(rows)
        growth = plant(blocks, summarise(blocks), np.ones(blocks.n_dims), self.n_estimators, seed)
        self._run(growth)
        self.n_rounds_ = growth.n_rounds
        keep_names(self, names)
        return self

    def fit_transform(self, X: Any, y: object = None, **fit_params: Any) -> da.Array:
        """Grow the trees on the rows of X and return their features, lazily."""
        return self.fit(X).transform(X)

    def transform(self, X: Any) -> da.Array | sparse.csr_matrix:
        """Map rows to their features.

        Parameters
        ----------
        X : dask array or dataframe, or array-like, of shape (n_samples, n_features)
            Rows, fitted before or new.

        Returns
        -------
        Phi : dask array of csr_matrix blocks, or csr_matrix, of shape (n_samples, n_cells_)
            Lazy where X is; at most M non-zeros a row.
        """
        check_is_fitted(self)
        if not is_collection(X):
            return super().transform(X)
        model, meta = features_at(self.trees_, self.lifetime_), sparse.csr_matrix((0, 0))
        return map_rows(MondrianFeatures.transform, model, known_rows(self, X), self.n_cells_, meta)

    def apply(self, X: Any) -> da.Array | NDArray[np.int32]:
        """Return the cell of each row in each tree, lazily where X is a collection.

        Parameters
        ----------
        X : dask array or dataframe, or array-like, of shape (n_samples, n_features)
            Rows, fitted before or new.

        Returns
        -------
        cells : dask array or ndarray of shape (n_samples, n_estimators), int32
            Number of the cell, which is the column of its feature.
        """
        check_is_fitted(self)
        if not is_collection(X):
            return super().apply(X)
        model, meta = features_at(self.trees_, self.lifetime_), np.empty((0, 0), np.int32)
        n_trees = self.trees_.n_trees
        return map_rows(MondrianFeatures.apply, model, known_rows(self, X), n_trees, meta)

    def kernel(self, X: Any, Y: Any = None) -> FloatArray:
        """Approximate kernel between rows, a matrix in memory; collections are computed first."""
        return super().kernel(*(Z.compute() if is_collection(Z) else Z for Z in (X, Y)))


def plant(
    blocks: Blocks, summary: Summary, scale: FloatArray, n_trees: int, seed: int
) -> BlockGrowth:
    """Return trees at time 0 on blocks with columns that were divided by ``scale``."""
    box = summary.box(scale)
    check_ranges(box.reshape(2, -1))
    return BlockGrowth(blocks, summary.n_rows, box, n_trees, seed)


def cells_of_block_trees(
    blocks: Blocks, summary: Summary, scale: FloatArray, lifetime: float, seed: int, n_trees: int
) -> int:
    """Return the number of cells of a few trees at a lifetime."""
    few = plant(blocks, summary, scale, n_trees, seed)
    few.advance_within(lifetime, n_trees * summary.n_rows)
    return few.n_cells


def keep_names(estimator: Any, names: NDArray[np.object_] | None) -> None:
    """Remember the names of columns, or forget those of an earlier fit."""
    if names is not None:
        estimator.feature_names_in_ = names
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
