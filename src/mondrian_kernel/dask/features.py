"""Mondrian features of dask collections."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from mondrian_kernel._trees.checks import all_or_nothing, check_budget, draw_seed
from mondrian_kernel._trees.levels import check_lifetimes, reached_levels, run_growth
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.base import docs_of, keep_names, lazy, map_rows, not_on_dask
from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.cluster import is_collection, known_rows, row_array
from mondrian_kernel.dask.shares import start_growth
from mondrian_kernel.features import MondrianFeatures


class DaskMondrianFeatures(MondrianFeatures):
    r"""Mondrian features of rows that lie in the blocks of a dask array or dataframe.

    .. math::
        \phi(x)^\top \phi(x') = k_M(x, x') \approx \exp(-\lambda \lVert x - x' \rVert_1)

    The same trees, bit for bit, as :class:`mondrian_kernel.MondrianFeatures` grows on all rows in
    one place with the same seed, whatever the blocks and the workers. If the rows fit on each
    worker, workers share the trees. Else rows never move: the cuts go to the blocks, which answer
    with the bounds of their rows, once for each level of the trees.
    :meth:`transform` of a collection is lazy; of an array it is that of the parent.

    Parameters
    ----------
    lifetime, n_estimators, weights, max_cells, random_state
        As in :class:`mondrian_kernel.MondrianFeatures`.

    Attributes
    ----------
    lifetime_, n_cells_, n_cells_per_tree_, levels_, trees_, n_features_in_, feature_names_in_
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
    n_jobs = 1

    def __init__(
        self,
        lifetime: Any = 1.0,
        n_estimators: int = 100,
        *,
        weights: ArrayLike | None = None,
        max_cells: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.lifetime = lifetime
        self.n_estimators = n_estimators
        self.weights = weights
        self.max_cells = max_cells
        self.random_state = random_state

    @all_or_nothing
    @docs_of(MondrianFeatures.fit)
    def fit(self, X: Any, y: object = None) -> DaskMondrianFeatures:  # noqa: D102
        check_budget(self.max_cells, self.n_estimators)
        lifetimes, weights = check_lifetimes(self.lifetime, self.weights)
        rows, names = row_array(X)
        seed = draw_seed(self.random_state)
        growth = start_growth(Blocks(rows), self.n_estimators, seed)
        trees, _ = run_growth(growth, float(lifetimes[-1]), self.max_cells)
        self.n_features_in_, self._seed = trees.n_dims, seed
        keep_names(self, names)
        self.n_rounds_ = growth.n_rounds
        self.trees_, self.levels_ = trees, reached_levels(trees, lifetimes, weights)
        return self

    @docs_of(MondrianFeatures.fit_transform)
    def fit_transform(self, X: Any, y: object = None, **fit_params: Any) -> da.Array:  # noqa: D102
        return self.fit(X).transform(X)

    partial_fit = not_on_dask(MondrianFeatures.partial_fit)

    transform = lazy(MondrianFeatures.transform, lambda self: self.n_cells_)
    apply = lazy(MondrianFeatures.apply, lambda self: self.trees_.n_trees, np.int32)

    def _lazily(self, method: str, X: Any, n_columns: int, dtype: Any) -> da.Array:
        model = MondrianFeatures.from_trees(self.trees_, self.levels_)
        shape = 0, n_columns
        none = sparse.csr_matrix(shape) if dtype is float else np.empty(shape, dtype)
        return map_rows(method, model, known_rows(self, X), none)

    def kernel(self, X: Any, Y: Any = None) -> FloatArray:
        """Approximate kernel between rows, a matrix in memory; collections are computed first."""
        return super().kernel(*(Z.compute() if is_collection(Z) else Z for Z in (X, Y)))
