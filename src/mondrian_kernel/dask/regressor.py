"""Regression with the Mondrian kernel on dask collections."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._estimator.shared_docs import shared_docs
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.ridge_model import ErrorBars
from mondrian_kernel._path.choose import Choice
from mondrian_kernel._path.driver import Verbose
from mondrian_kernel._trees.checks import all_or_nothing
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.base import (
    BlockEstimator,
    docs_of,
    if_learnt,
    lazy,
    not_on_dask,
    unless_one,
)
from mondrian_kernel.dask.blocks import Blocks, numbers
from mondrian_kernel.dask.cells import (
    CellBlocks,
    CellProducts,
    Sums,
    join_matrix,
    sum_rows,
    sum_totals,
)
from mondrian_kernel.dask.cluster import is_collection, slabs
from mondrian_kernel.regressor import MondrianKernelRegressor


@dataclass(frozen=True)
class Centred:
    """Makes targets of numbers: less their mean (T,), so that no digits are lost far from 0."""

    mean: FloatArray

    n_classes: ClassVar[int] = 0
    columns = staticmethod(numbers)

    def __call__(self, y: NDArray[Any], weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Targets (n, T) and weights (n,)."""
        return numbers(y) - self.mean, weight


def is_dense(solver: str, n_features: int) -> bool:
    """Whether a solver by name makes the square matrix of so many features."""
    return solver == "dense" or (solver == "auto" and n_features <= settings.SUM_CELLS)


def fit_cells(
    model: FittedModel, cells: CellBlocks, solver: str, offset: FloatArray
) -> tuple[FittedModel, Sums | None]:
    """Return the record with the weights of ridge regression, and the sums of a dense solver.

    ``offset`` (T,) was taken off the targets.
    """
    dense = is_dense(solver, model.levels.n_features)
    sums = sum_rows(cells) if dense else sum_totals(cells)
    sums = replace(sums, mean=sums.mean + offset)
    if dense:
        return fit_sums(model, sums, cells.node), sums
    J = join_matrix(model.levels, cells.node)
    (W,) = CellProducts(cells, sums, [J]).solve(np.array([model.alpha]), settings.BLOCK_TOL)
    return _with_weights(model, sums.joined(J), W[:, :, 0]), None


def fit_sums(model: FittedModel, sums: Sums, node: NDArray[np.int64]) -> FittedModel:
    """Return the record with the weights of ridge regression, from sums over the finest cells."""
    joined = sums.joined(join_matrix(model.levels, node))
    return _with_weights(model, joined, joined.solve(model.alpha))


def _with_weights(model: FittedModel, sums: Sums, W: FloatArray) -> FittedModel:
    signal = sums.signal_variance(W, model.alpha)
    return replace(model, cell_weights=W, intercept=sums.intercept(W), signal=signal)


@shared_docs
class DaskMondrianKernelRegressor(BlockEstimator, MondrianKernelRegressor):
    r"""Ridge regression with the Mondrian kernel on rows in the blocks of a dask collection.

    .. math::
        \hat f(x) = b + w^\top \phi_\lambda(x), \qquad
        \min_{w, b} \sum_i s_i (y_i - b - w^\top \phi_\lambda(x_i))^2 + \alpha \lVert w \rVert^2

    The model is that of :class:`mondrian_kernel.MondrianKernelRegressor` with the same seed: the
    same trees and, up to rounding or the tolerance of the solver, the same weights. Rows stay
    on the workers; sums over them move. With ``lifetime="auto"`` it is the very same model, error
    bars included: the client reads the blocks one at a time and fits their compact form.

    Parameters
    ----------
    lifetime : float, "path" or "auto", default="path"
        As in :class:`mondrian_kernel.MondrianKernelRegressor`. For "path", lifetime and penalty are
        chosen on the same rows, at most 10 000, which are fetched.
    alpha, n_estimators
        As in :class:`mondrian_kernel.MondrianKernelRegressor`.
    <scale>
    <max_cells>
    solver : {"auto", "dense", "lanczos"}, default="auto"
        "dense" sums up a matrix of C × C, in a few passes over the rows; "lanczos" multiplies with
        blocks, a pass for each of some tens or hundreds of steps. By default the former up to 8000
        cells.
    <keep_cells>

    Attributes
    ----------
    <attributes>
    cell_weights_, intercept_, signal_variance_, noise_variance_
        As in :class:`mondrian_kernel.MondrianKernelRegressor`.

    Examples
    --------
    >>> import dask.array as da
    >>> from mondrian_kernel.dask import DaskMondrianKernelRegressor
    >>> X = da.random.default_rng(0).uniform(size=(1000, 2), chunks=(250, 2))
    >>> y = da.sin(6 * X[:, 0])
    >>> model = DaskMondrianKernelRegressor(3.0, 0.01, n_estimators=50, random_state=0)
    >>> mean = model.fit(X, y).predict(X)  # nothing is computed yet
    >>> bool(((mean - y) ** 2).mean().compute() < 0.01)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **MondrianKernelRegressor._parameter_constraints,
        **BlockEstimator._parameter_constraints,
    }

    def __init__(
        self,
        lifetime: float | str = "path",
        alpha: float | str = "auto",
        n_estimators: int | str = "auto",
        *,
        scale: Any = "std",
        relevance: str = "auto",
        max_cells: int | None = None,
        solver: str = "auto",
        keep_cells: bool | str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Verbose = 0,
    ) -> None:
        own: Any = {"scale": scale, "relevance": relevance}
        own |= {"max_cells": max_cells, "solver": solver}
        run: Any = {"random_state": random_state, "n_jobs": n_jobs, "verbose": verbose}
        super().__init__(lifetime, alpha, n_estimators, **own, **run)
        self.keep_cells = keep_cells

    @all_or_nothing
    @docs_of(MondrianKernelRegressor.fit)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: D102
        self._bars = self._mixture = None
        self._sums: Sums | None = None
        self._fit_blocks(MondrianKernelRegressor.fit, X, y, sample_weight, numeric=True)
        return self

    def _encoding(self, blocks: Blocks, n_dims: int) -> Centred:
        self._one_output = n_dims == 1
        return Centred(blocks.target_mean)

    def _choose(
        self, X: FloatArray, y: Any, weight: FloatArray, encode: Centred, seed: int
    ) -> Choice:
        return self._choose_width(X, encode.columns(y), unless_one(weight), seed)

    def _makes_matrix(self, n_features: int) -> bool:
        return is_dense(self.solver, n_features)

    def _solved(self, blank: FittedModel, cells: CellBlocks, encode: Centred) -> FittedModel:
        model, self._sums = fit_cells(blank, cells, self.solver, encode.mean)
        self._node = cells.node
        return model

    @docs_of(MondrianKernelRegressor.at)
    def at(self, lifetime: float) -> Self:  # noqa: D102
        if self._fitted().spread is not None:
            return super().at(lifetime)
        sums, model = self._dense_sums("at(lifetime)"), self._fitted()
        levels = self._levels_at(lifetime)
        other = self._copy_with(fit_sums(replace(model, levels=levels), sums, self._node))
        other.lifetime, other._bars = float(lifetime), None
        return other

    @docs_of(MondrianKernelRegressor.predict)
    def predict(  # noqa: D102
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> Any:
        if not is_collection(X):
            return super().predict(X, return_std, return_cov)
        if return_cov:
            raise ValueError("return_cov=True needs X in one place: pass an array.")
        n_columns = None if self._one_output else self._fitted().n_outputs
        mean = self._lazily("predict", X, n_columns)
        if not return_std:
            return mean
        if self._fitted().spread is None:
            self._error_bars()  # which go to the workers
        return mean, self._lazily("_std", X, n_columns)

    def _std(self, X: Any) -> FloatArray:
        """Return the standard deviation of a new y at rows, some of them at a time."""
        levels, predict = self._fitted().levels, super().predict
        parts = slabs(len(X), levels.n_levels * levels.n_trees)
        return np.concatenate([predict(X[s], return_std=True)[1] for s in parts])

    predict_interval = if_learnt(
        lazy(
            MondrianKernelRegressor.predict_interval,
            lambda model, coverage=0.9, **_: model._one_at_a_time("coverage", coverage, 2),
        )
    )
    predict_quantiles = if_learnt(
        lazy(
            MondrianKernelRegressor.predict_quantiles,
            lambda model, quantiles=range(3), **_: model._one_at_a_time(
                "output", 0, np.size(quantiles)
            ),
        )
    )

    def _one_at_a_time(self, what: str, asked: Any, n_columns: int) -> int:
        """Return the number of columns of an answer that is a matrix."""
        several = np.ndim(asked) > 0
        if several or not self._one_output:
            raise ValueError(
                f"Of a collection, one {what if several else 'output'} at a time: pass an array, "
                "or use X.map_partitions."
            )
        return n_columns

    def _error_bars(self) -> ErrorBars:
        """Return the variance from sums; of the rows no errors are known."""
        if self._fitted().rows is not None:
            return super()._error_bars()
        if self._bars is None:
            sums, model = self._dense_sums("return_std=True"), self._fitted()
            variance = sums.joined(join_matrix(model.levels, self._node)).variance(model.alpha)
            self._bars = ErrorBars(variance, np.empty((0, model.n_outputs)), np.empty(0))
        return self._bars

    def _for_workers(self, method: str) -> Self:
        model = super()._for_workers(method)
        model._sums, model._bars = None, self._bars if method == "_std" else None
        return model

    def _dense_sums(self, what: str) -> Sums:
        model = self._fitted()
        if self._sums is None:
            raise ValueError(
                f"{what} needs the matrix that solver='dense' makes; this model was fitted by "
                f"Lanczos, as it has {model.levels.n_features} cells. Fit with solver='dense', or "
                "with fewer cells (max_cells)."
            )
        return self._sums

    partial_fit = not_on_dask(MondrianKernelRegressor.partial_fit)
