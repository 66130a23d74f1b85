"""Regression with the Mondrian kernel on dask collections."""

from __future__ import annotations

import copy
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from mondrian_kernel._path.choose import enough_trees
from mondrian_kernel._trees.checks import draw_seed
from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.cells import CellBlocks
from mondrian_kernel.dask.choose import block_scale, choose_block_width
from mondrian_kernel.dask.features import cells_of_block_trees, keep_names, plant
from mondrian_kernel.dask.inputs import beside, is_collection, row_array
from mondrian_kernel.dask.lazy import known_rows, map_rows
from mondrian_kernel.dask.linear import Linear, Spread, predict_mean, predict_std
from mondrian_kernel.dask.path import cell_nodes
from mondrian_kernel.dask.ridge import Solution, Variance, is_dense, solve_products, solve_sums
from mondrian_kernel.dask.summary import summarise
from mondrian_kernel.dask.sums import Sums, sum_rows
from mondrian_kernel.dask.targets import Centred, numbers
from mondrian_kernel.features import MondrianFeatures, features_at
from mondrian_kernel.regressor import MondrianKernelRegressor


class DaskMondrianKernelRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Ridge regression with the Mondrian kernel on rows in the blocks of a dask collection.

    .. math::
        \hat f(x) = b + w^\top \phi_\lambda(x), \qquad
        \min_{w, b} \sum_i s_i (y_i - b - w^\top \phi_\lambda(x_i))^2 + \alpha \lVert w \rVert^2

    The model is that of :class:`mondrian_kernel.MondrianKernelRegressor` with the same seed: the
    same trees and, up to rounding or the tolerance of the solver, the same weights. Rows never
    move; sums over them do.

    Parameters
    ----------
    lifetime : float or "auto", default="auto"
        Lifetime λ on the scaled inputs, or "auto" to choose it as the local estimator does: on at
        most 10 000 of the rows, which are fetched.
    alpha : float or "auto", default="auto"
        Penalty, as in :class:`sklearn.linear_model.Ridge`, or "auto" to choose it.
    n_estimators : int or "auto", default="auto"
        Number of trees M; "auto" as in :class:`mondrian_kernel.MondrianKernelRegressor`: of very
        many rows 100.
    scale : "std", None or array-like of shape (n_features,), default="std"
        What every input is divided by: its standard deviation, nothing, or the given numbers.
    relevance : {"auto", "learn", "equal"}, default="auto"
        How much each scaled input counts: learnt from at most 1000 of the rows, or all the same;
        "auto" learns it unless ``lifetime`` or ``scale`` are given as numbers. See
        :func:`mondrian_kernel._model.relevance.learn_relevance`.
    max_cells : int or None, default=None
        Bound on the number of cells of all trees.
    solver : {"auto", "dense", "lanczos"}, default="auto"
        "dense" sums up a matrix of C × C, in a few passes over the rows; "lanczos" multiplies with
        blocks, a pass for each of some tens or hundreds of steps. By default the former up to 8000
        cells.
    keep_cells : bool or "auto", default="auto"
        Whether Lanczos keeps the cells of all rows in the memory of the workers, M bytes a row or
        2 M where a tree has more than 256 cells. If not, rows are read and go down the trees again
        at every step. By default they are kept where they take less than half of what is free.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees.

    Attributes
    ----------
    lifetime_, alpha_ : float
        Lifetime and penalty of the fit.
    path_ : LifetimePath or None
        The path on which they were chosen: of few rows in one place, of many in blocks. None where
        both were given.
    coef_ : ndarray of shape (n_cells,) or (n_cells, n_outputs)
        Weights of the features.
    intercept_ : float or ndarray of shape (n_outputs,)
        Intercept, not penalised.
    features_ : MondrianFeatures
        The feature map, of the scaled inputs.
    relevance_ : ndarray of shape (n_features_in_,)
        How much each scaled input counts, 1 on average.
    scale_ : ndarray of shape (n_features_in_,)
        What the inputs are divided by: their scale over their relevance.
    signal_variance_, noise_variance_ : float or ndarray of shape (n_outputs,)
        Variance σ² of the function and σ²α of the noise, at their likeliest given λ and α.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input columns, where ``X`` had any.

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
        "lifetime": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "keep_cells": ["boolean", StrOptions({"auto"})],
    }

    def __init__(
        self,
        lifetime: float | str = "auto",
        alpha: float | str = "auto",
        n_estimators: int | str = "auto",
        *,
        scale: Any = "std",
        relevance: str = "auto",
        max_cells: int | None = None,
        solver: str = "auto",
        keep_cells: bool | str = "auto",
        random_state: Any = None,
    ) -> None:
        self.lifetime = lifetime
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.scale = scale
        self.relevance = relevance
        self.max_cells = max_cells
        self.solver = solver
        self.keep_cells = keep_cells
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DaskMondrianKernelRegressor:
        """Choose the width and fit.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Rows, finite. Read once for each level of the trees: ``persist`` it if it fits into the
            memory of the workers.
        y : dask array, series or dataframe of shape (n_samples,) or (n_samples, n_outputs)
            Targets, in the same blocks where the sizes of blocks are not known.
        sample_weight : dask array or series of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two, one of weight 0 is left out.

        Returns
        -------
        self : DaskMondrianKernelRegressor
            The fitted model.
        """
        rows, names = row_array(X)
        y = beside(y, rows, "y")
        blocks = Blocks(rows, y, sample_weight)
        summary = summarise(blocks, numeric=True)
        assert summary.targets is not None
        seed = draw_seed(self.random_state)
        scale, relevance = block_scale(self, blocks, summary, seed, numbers)
        blocks = blocks.scaled(scale)
        lifetime, alpha, path = choose_block_width(
            blocks, summary, seed,
            lifetime=self.lifetime, alpha=self.alpha, n_estimators=self.n_estimators,
            solver=self.solver,
        )  # fmt: skip
        n_trees = enough_trees(
            self.n_estimators, (summary.n_rows, blocks.n_dims), self.max_cells,
            partial(cells_of_block_trees, blocks, summary, scale, lifetime, seed),
        )  # fmt: skip
        features = MondrianFeatures(lifetime, n_trees, max_cells=self.max_cells)
        features._run(plant(blocks, summary, scale, n_trees, seed))
        dense = is_dense(self.solver, features.n_cells_)
        target = Centred(summary.targets.mean)
        cells = CellBlocks(blocks, features, target, keep=False if dense else self.keep_cells)
        sums = sum_rows(cells) if dense else None
        solution = solve_products(cells, alpha) if sums is None else solve_sums(sums, alpha)

        self.n_features_in_ = blocks.n_dims
        keep_names(self, names)
        self.scale_, self.relevance_, self.path_, self.alpha_ = scale, relevance, path, alpha
        self._offset, self._sums, self._one_output = target.mean, sums, y.ndim == 1
        self._stand_at(features, solution)
        return self

    def _stand_at(self, features: MondrianFeatures, solution: Solution) -> None:
        self.features_, self.lifetime_ = features, features.lifetime_
        free = solution.total_weight - 1.0
        signal = solution.quadratic / free if free > 0 else np.zeros_like(solution.quadratic)
        self._signal = signal
        one = self._one_output
        intercept = self._offset + solution.intercept
        self.coef_ = solution.coef[:, 0] if one else solution.coef
        self.intercept_ = float(intercept[0]) if one else intercept
        self.signal_variance_ = float(signal[0]) if one else signal
        self.noise_variance_ = self.signal_variance_ * self.alpha_

    def at(self, lifetime: float) -> DaskMondrianKernelRegressor:
        """Return the same trees fitted at a smaller lifetime, without a look at the rows.

        Parameters
        ----------
        lifetime : float
            Lifetime λ between 0 and that of ``features_``.

        Returns
        -------
        model : DaskMondrianKernelRegressor
            A fitted model which shares the trees; this one is not changed.
        """
        sums = self._dense_sums("at(lifetime)")
        features = self.features_.at(lifetime)
        model = copy.copy(self)
        model.lifetime = float(lifetime)
        model._sums = sums.coarsened(features.levels_.column[0][cell_nodes(self.features_)])
        model._stand_at(features, solve_sums(model._sums, self.alpha_))
        return model

    def predict(self, X: Any, return_std: bool = False) -> Any:
        r"""Predict rows, lazily where they are a collection.

        Parameters
        ----------
        X : dask array or dataframe, or array-like, of shape (n_samples, n_features)
            Rows.
        return_std : bool, default=False
            Also return the standard deviation of a new y at each row, from what is not known of the
            function and from the noise. Only after a fit with the dense solver.

        Returns
        -------
        mean : dask array or ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions.
        std : like ``mean``
            With ``return_std``.
        """
        check_is_fitted(self)
        model = Linear(
            features_at(self.features_.trees_, self.lifetime_), self.scale_,
            self.coef_, self.intercept_,
        )  # fmt: skip
        mean = self._map(predict_mean, model, X)
        if not return_std:
            return mean
        variance = Variance(self._dense_sums("return_std=True"), self.alpha_)
        signal = self._signal[0] if self._one_output else self._signal
        return mean, self._map(predict_std, Spread(model, variance, signal, self.alpha_), X)

    def _map(self, function: Any, model: Any, X: Any) -> Any:
        if is_collection(X):
            n_columns = None if self._one_output else self._signal.size
            meta = np.empty((0,) * (1 if self._one_output else 2))
            return map_rows(function, model, known_rows(self, X), n_columns, meta)
        return function(model, validate_data(self, X, reset=False, dtype=np.float64, order="C"))

    def _dense_sums(self, what: str) -> Sums:
        check_is_fitted(self)
        if self._sums is None:
            raise ValueError(
                f"{what} needs the matrix that solver='dense' makes; this model was fitted by "
                f"Lanczos, as it has {self.features_.n_cells_} cells. Fit with solver='dense', or "
                "with fewer cells (max_cells)."
            )
        return self._sums
