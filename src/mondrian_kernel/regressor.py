"""Regression with the Mondrian kernel: width chosen on the lifetime path, with error bars."""

from __future__ import annotations

import copy
from functools import cached_property, partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from mondrian_kernel._linear.cell_operator import CellOperator
from mondrian_kernel._linear.ridge import log_det, solve, standard_loo_errors
from mondrian_kernel._linear.scores import centred_targets, evidences, signal_variance
from mondrian_kernel._linear.variance import PredictiveVariance, SampledVariance
from mondrian_kernel._model.relevance import scale_and_relevance
from mondrian_kernel._online.filter import Filter
from mondrian_kernel._online.model import check_new
from mondrian_kernel._online.regression import learn_regression
from mondrian_kernel._online.scores import linear_scores
from mondrian_kernel._path.checks import check_weights, join_copies, with_weight
from mondrian_kernel._path.choose import cells_of_trees, choose_width, enough_trees
from mondrian_kernel._path.driver import Verbose
from mondrian_kernel._path.mixture import WidthMixture
from mondrian_kernel._path.posterior import LifetimePosterior, likely_widths, width_posterior
from mondrian_kernel._path.result import CRITERIA
from mondrian_kernel._settings import VARIANCE_DENSE_SIZE
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import MondrianFeatures, check_budget, check_ranges, draw_seed

_Bars = tuple[PredictiveVariance | SampledVariance | Filter, FloatArray, FloatArray | None]


class MondrianKernelRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Ridge regression with the Mondrian kernel, an approximation to the Laplace kernel.

    .. math::
        \hat f(x) = b + w^\top \phi_\lambda(x), \qquad
        \min_{w, b} \sum_i s_i (y_i - b - w^\top \phi_\lambda(x_i))^2 + \alpha \lVert w \rVert^2

    The width 1/λ and the penalty α are chosen on the lifetime path, where one set of trees gives
    every width.

    Parameters
    ----------
    lifetime : float, "auto" or "average", default="auto"
        Lifetime λ of the kernel :math:`\exp(-\lambda \lVert x - x' \rVert_1)` on the scaled
        inputs; "auto" to choose it; or "average" to predict by the mixture of all lifetimes that
        the data leave likely (see ``posterior_``), at a fit for each.
    alpha : float or "auto", default="auto"
        Penalty, as in :class:`sklearn.linear_model.Ridge`, or "auto" to choose it.
    n_estimators : int or "auto", default="auto"
        Number of trees M. More trees come closer to the exact kernel, at a cost in proportion;
        the width is chosen with some hundreds of them. "auto": 4000, or as many as go with 30
        million pairs of a row and a tree and with 1.2 GB of boxes, but at least 100;
        ``features_.n_estimators`` tells. A stream without a fit has 100.
    criterion : {"loo", "holdout", "evidence", "evidence-paper"}, default="loo"
        What decides between widths: the leave-one-out error (above 2000 rows, where it is not
        exact, the error on a fifth of the rows held out instead), that error for any number of
        rows, or the marginal likelihood, which always decides where ``lifetime="average"``.
    scale : "std", None or array-like of shape (n_features,), default="std"
        What every input is divided by: its standard deviation, nothing, or the given numbers. A
        Laplace kernel adds up the dims, so that they should be on one scale.
    relevance : {"auto", "learn", "equal"}, default="auto"
        How much each scaled input counts: learnt from at most 1000 of the rows, or all the same;
        "auto" learns it unless ``lifetime`` or ``scale`` are given as numbers. See
        :func:`mondrian_kernel._model.relevance.learn_relevance`.
    max_cells : int or None, default=None
        Bound on the number of cells of all trees.
    solver : {"auto", "dense", "lanczos"}, default="auto"
        How the path is solved; see :func:`lifetime_path`.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees.
    n_jobs : int or None, default=None
        Threads. The trees and the choice do not depend on it.
    verbose : int or callable, default=0
        Whether to print how the path advances, or what to call instead: the ``callback`` of
        :func:`lifetime_path`.

    Attributes
    ----------
    lifetime_, alpha_ : float
        Lifetime and penalty of the fit.
    path_ : LifetimePath or None
        The path on which they were chosen; None where both were given.
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
    log_marginal_likelihood_ : float
        Log-likelihood of y at these, made when first asked for; estimated where rows and cells are
        both above 8000.
    posterior_ : LifetimePosterior
        Only with ``lifetime="average"``: the posterior over λ, its prior uniform in ln λ on
        ``path_``. ``lifetime_``, ``coef_`` and so on are then those of the likeliest lifetime.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input columns, where ``X`` had any.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import MondrianKernelRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = MondrianKernelRegressor(n_estimators=200, random_state=0).fit(X, y)
    >>> mean, std = model.predict(X[:2], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((2,), True)
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "lifetime": [Interval(Real, 0, None, closed="left"), StrOptions({"auto", "average"})],
        "alpha": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "n_estimators": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "criterion": [StrOptions(set(CRITERIA))],
        "scale": [StrOptions({"std"}), None, "array-like"],
        "relevance": [StrOptions({"auto", "learn", "equal"})],
        "max_cells": [Interval(Integral, 1, None, closed="left"), None],
        "solver": [StrOptions({"auto", "dense", "lanczos"})],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose", callable],
    }

    def __init__(
        self,
        lifetime: float | str = "auto",
        alpha: float | str = "auto",
        n_estimators: int | str = "auto",
        *,
        criterion: str = "loo",
        scale: Any = "std",
        relevance: str = "auto",
        max_cells: int | None = None,
        solver: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Verbose = 0,
    ) -> None:
        self.lifetime = lifetime
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.scale = scale
        self.relevance = relevance
        self.max_cells = max_cells
        self.solver = solver
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MondrianKernelRegressor:
        """Choose the width and fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two, one of weight 0 is left out. Error bars take
            them as counts of rows: give shares a mean of 1 first.

        Returns
        -------
        self : MondrianKernelRegressor
            The fitted model.
        """
        rows, targets = validate_data(
            self, X, y, dtype=np.float64, order="C", multi_output=True, y_numeric=True
        )
        check_budget(self.max_cells, self.n_estimators)
        Y = targets.astype(np.float64).reshape(rows.shape[0], -1)
        rows, Y, weight = with_weight(rows, Y, check_weights(sample_weight, rows))
        seed = draw_seed(self.random_state)
        scale, relevance = scale_and_relevance(self, rows, Y, weight, seed)
        rows = rows / scale
        check_ranges(rows)
        average = self.lifetime == "average"
        lifetime, alpha, path = choose_width(
            rows, Y, weight, seed, lifetime="auto" if average else self.lifetime,
            alpha=self.alpha, n_estimators=self.n_estimators,
            criterion="evidence" if average else self.criterion, solver=self.solver,
            n_jobs=self.n_jobs, verbose=self.verbose,
        )  # fmt: skip
        lifetimes, weights = np.array([lifetime]), np.ones(1)
        if average:
            assert path is not None
            lifetimes, weights = likely_widths(path)
        longest = float(lifetimes[-1])
        n_trees = enough_trees(
            self.n_estimators,
            rows.shape,
            self.max_cells,
            partial(cells_of_trees, rows, longest, seed),
        )
        rows, Y, weight = join_copies(rows, Y, weight)
        features = MondrianFeatures(longest, n_trees, max_cells=self.max_cells, n_jobs=self.n_jobs)
        leaf = features._grow(rows, seed)
        self.scale_, self.relevance_, self.path_, self.alpha_ = scale, relevance, path, alpha
        self._leaf, self._Y, self._weight, self._one_output = leaf, Y, weight, targets.ndim == 1
        self.__dict__.pop("_mixture", None)
        self._stand_at(features)
        if average:
            models = [self.at(min(t, features.lifetime_)) for t in lifetimes]
            self._stand_at(models[int(np.argmax(weights))].features_)
            self._mixture = WidthMixture(weights, models)
        return self

    @property
    def posterior_(self) -> LifetimePosterior:
        """Posterior over the lifetime, where predictions are averaged over it."""
        if "_mixture" not in self.__dict__ or self.path_ is None:
            raise AttributeError('posterior_ exists after a fit with lifetime="average".')
        return width_posterior(self.path_)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MondrianKernelRegressor:
        """Learn from further rows, after :meth:`fit` or from nothing.

        After a fit, or where ``lifetime`` is a number, the model is at any moment the exact fit of
        all rows so far on its trees, error bars included, at O(min(C, N)²) a row. When rows and
        cells are both more than 4000 a warning says that from now on each row is taken once and
        forgotten: O(M) a row, approximate (:class:`mondrian_kernel._online.filter.Filter`).

        So it is from the beginning where ``lifetime="auto"`` and there was no fit: then a ladder
        of widths lives on the same trees, of which the one predicts that does best on rows it has
        not learnt from, and that climbs (:class:`mondrian_kernel._online.stream.Stream`). The error
        bars rest on the errors of the last 1024 rows before they were learnt from.

        Without a fit, ``scale="std"`` is taken from the first 1024 rows; how much each dim counts,
        if that is to be learnt, from the first 4096, unless updates are exact, which keep dims
        alike; and ``alpha="auto"`` is 0.1. Memory grows with the number of cells, until
        ``max_cells``; from then on no cell is cut any more, but all learn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 0 is left out.

        Returns
        -------
        self : MondrianKernelRegressor
            The model; unchanged if anything fails.
        """
        if self.lifetime == "average":
            raise ValueError(
                'partial_fit follows one lifetime: set lifetime="auto" or a number instead of '
                '"average".'
            )
        learn_regression(self, X, y, sample_weight)
        return self

    def _stand_at(self, features: MondrianFeatures) -> None:
        """Fit on features of the rows; what error bars need is made when first asked for."""
        self.features_, self.lifetime_ = features, features.lifetime_
        for made_of_rows in ("_bars", "_ridge", "_stream", "_kept", "log_marginal_likelihood_"):
            self.__dict__.pop(made_of_rows, None)
        design = self._design()
        fit = solve(design, self._Y, self.alpha_)
        target, _ = centred_targets(design, self._Y)
        variance = signal_variance(design, target, fit.dual)
        self._coef, self._intercept, self._signal = fit.coef, fit.intercept, variance
        one = self._one_output
        self.coef_ = fit.coef[:, 0] if one else fit.coef
        self.intercept_ = float(fit.intercept[0]) if one else fit.intercept
        self.signal_variance_ = float(variance[0]) if one else variance
        self.noise_variance_ = self.signal_variance_ * self.alpha_

    @cached_property
    def log_marginal_likelihood_(self) -> float:
        """Log-likelihood of y, made when first asked for."""
        check_is_fitted(self)
        design, alphas = self._design(), np.array([self.alpha_])
        n = design.total_weight - design.centre
        determinant = np.array([log_det(design, self.alpha_)])
        profiled, _ = evidences(
            n * self._signal[:, None],
            determinant,
            alphas,
            n_rows=design.n_rows,
            total_weight=design.total_weight,
            centre=design.centre,
        )
        return float(profiled[0])

    def _design(self) -> CellOperator:
        features = self.features_
        cells, n_cells = features._cells.column[self._leaf], features.n_cells_
        return CellOperator(cells, n_cells, sample_weight=self._weight, n_jobs=self.n_jobs)

    def at(self, lifetime: float) -> MondrianKernelRegressor:
        """Return the same trees fitted at another, smaller lifetime.

        Parameters
        ----------
        lifetime : float
            Lifetime λ between 0 and that of ``features_``.

        Returns
        -------
        model : MondrianKernelRegressor
            A fitted model which shares the trees; this one is not changed.
        """
        check_is_fitted(self)
        if self._leaf is None:
            raise ValueError("The rows were forgotten by partial_fit: there is no other lifetime.")
        model = copy.copy(self)
        model.__dict__.pop("_mixture", None)
        model.lifetime = float(lifetime)
        model._stand_at(self.features_.at(lifetime))
        return model

    def predict(
        self, X: ArrayLike, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        r"""Predict rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        return_std : bool, default=False
            Also return the standard deviation of a new y at each row: what is not known of the
            function, :math:`\sigma^2 v(x)`, and the noise, :math:`\sigma^2 \alpha`. Far from the
            data it grows to that of the prior. Where rows and cells are both above 10 000, v is
            estimated from 8000 of the rows.
        return_cov : bool, default=False
            Also return the joint covariance of new y at the rows.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions.
        std : ndarray like ``mean``
            With ``return_std``.
        cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_outputs)
            With ``return_cov``.
        """
        if return_std and return_cov:
            raise ValueError("Ask for one of return_std and return_cov, not both.")
        mixture: WidthMixture | None = self.__dict__.get("_mixture")
        if mixture is not None:
            if return_std:
                return mixture.mean_std(X)
            return mixture.mean_cov(X) if return_cov else mixture.mean(X)
        rows = check_new(self, X) / self.scale_
        scores = linear_scores(self.features_, rows, self._coef, self._intercept)
        mean = self._shaped(scores)
        if return_std:
            v = self._error_bars()[0](self.features_.transform(rows)) + self.alpha_
            return mean, self._shaped(np.sqrt(np.outer(v, self._signal)))
        if return_cov:
            cov = self._error_bars()[0].covariance(self.features_.transform(rows))
            cov.flat[:: cov.shape[0] + 1] += self.alpha_
            return mean, self._shaped(cov[:, :, None] * self._signal)
        return mean

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> FloatArray:
        """Interval for a new y at each row, calibrated by leaving rows out.

        The half-width is the predictive standard deviation times the quantile of the rows' own
        leave-one-out errors in units of theirs, so that it holds for errors that are not normal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Share of new targets to be inside, between 0 and 1.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2) or (n_samples, 2, n_outputs)
            Lower and upper end.
        """
        check_is_fitted(self)
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie between 0 and 1, got {coverage}.")
        mean, std = self.predict(X, return_std=True)
        _, errors, weight = self._error_bars()
        quantile = weighted_quantile(errors, weight, coverage)
        sigma = np.sqrt(self._signal)  # the unit of the errors' deviations
        factor = quantile / np.where(sigma > 0, sigma, 1.0)
        half = std * (factor[0] if self._one_output else factor)
        return np.stack([mean - half, mean + half], axis=1)

    def sample_y(self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0) -> FloatArray:
        """Draw targets at rows from the joint predictive distribution.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=0
            Seed of the draws.

        Returns
        -------
        y : ndarray of shape (n_rows, n_samples) or (n_rows, n_outputs, n_samples)
            Draws.
        """
        rng = check_random_state(random_state)
        if self.__dict__.get("_mixture") is not None:
            mixture: WidthMixture = self.__dict__["_mixture"]
            return mixture.sample_y(X, n_samples, rng)
        mean, cov = self.predict(X, return_cov=True)
        if self._one_output:
            one: FloatArray = rng.multivariate_normal(mean, cov, n_samples).T
            return one
        draws = [
            rng.multivariate_normal(mean[:, t], cov[:, :, t], n_samples).T
            for t in range(mean.shape[1])
        ]
        return np.stack(draws, axis=1)

    def _shaped(self, values: FloatArray) -> FloatArray:
        return values[..., 0] if self._one_output else values

    def _error_bars(self) -> _Bars:
        """Variance at new rows; leave-one-out errors (n, T) in units of their deviation; weights.

        The errors are those of all rows or, where these are too many for a factor, of some.
        """
        if self._leaf is None:
            learner = self._stream.learner
            return learner, learner.standard_errors(), None
        bars: _Bars | None = self.__dict__.get("_bars")
        if bars is None:
            design = self._design()
            if min(design.n_rows, self.features_.n_cells_) <= VARIANCE_DENSE_SIZE:
                exact = PredictiveVariance(design, self.alpha_)
                errors = standard_loo_errors(design, self._Y, self.alpha_, exact)
                bars = exact, errors, self._weight
            else:
                sampled = SampledVariance(design, self.alpha_)
                dual = solve(design, self._Y, self.alpha_).dual
                weight = None if self._weight is None else self._weight[sampled.rows]
                bars = sampled, sampled.standard_errors(dual), weight
            self._bars = bars
        return bars

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__().copy()
        state.pop("_bars", None)
        state.pop("_ridge", None)
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def weighted_quantile(errors: FloatArray, weight: FloatArray | None, share: float) -> FloatArray:
    """Quantile of each column of ``errors`` (N, T), a row of weight s counting as s rows.

    Between two rows it is the larger one.
    """
    if weight is None:
        plain: FloatArray = np.quantile(errors, share, axis=0, method="higher")
        return plain
    order = np.argsort(errors, axis=0)
    below = np.cumsum(weight[order], axis=0)
    wanted = 1.0 + share * (weight.sum() - 1.0)
    index = np.minimum((below < wanted * (1 - 1e-12)).sum(axis=0), errors.shape[0] - 1)
    at = np.take_along_axis(order, index[None], axis=0)
    quantile: FloatArray = np.take_along_axis(errors, at, axis=0)[0]
    return quantile
