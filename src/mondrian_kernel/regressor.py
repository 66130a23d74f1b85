"""Regression with the Mondrian kernel: width chosen on the lifetime path, with error bars."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._base import MondrianEstimator, shared_docs
from mondrian_kernel._model.fitted import FittedModel, TrainingRows
from mondrian_kernel._model.ridge_model import ErrorBars, fit_ridge, log_marginal_likelihood
from mondrian_kernel._online.exact import ExactStream
from mondrian_kernel._online.learners import Filter
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._path.checks import check_weights, join_copies
from mondrian_kernel._path.choose import cells_of_trees, choose_width, enough_trees
from mondrian_kernel._path.driver import Verbose
from mondrian_kernel._path.mixture import WidthMixture
from mondrian_kernel._path.posterior import LifetimePosterior, likely_widths, width_posterior
from mondrian_kernel._path.result import CRITERIA
from mondrian_kernel._settings import EXACT_SIZE
from mondrian_kernel._trees.checks import check_ranges, draw_seed
from mondrian_kernel._trees.levels import Levels, grow_trees
from mondrian_kernel._typing import FloatArray


@shared_docs
class MondrianKernelRegressor(MultiOutputMixin, RegressorMixin, MondrianEstimator):
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
        columns. "auto" chooses it. "average" predicts by the mixture of all lifetimes that the
        data leave likely (see ``posterior_``), at the price of a fit for each.
    alpha : float or "auto", default="auto"
        Penalty, as in :class:`sklearn.linear_model.Ridge`, or "auto" to choose it.
    n_estimators : int or "auto", default="auto"
        Number of trees M. More trees come closer to the exact kernel, at a cost in proportion.
        "auto" takes 4000, or as many as 30 million pairs of a row and a tree and 1.2 GB of boxes
        allow, but at least 100. A stream without a fit has 100.
    criterion : {"loo", "holdout", "evidence", "evidence-paper"}, default="loo"
        What decides between widths. "loo" is the leave-one-out error; above 2000 rows, where it
        is not exact, the error on a fifth of the rows held out. "holdout" is that error for any
        number of rows. The others are marginal likelihoods, which always decide where
        ``lifetime="average"``.
    <scale>
    <max_cells>
    solver : {"auto", "dense", "lanczos"}, default="auto"
        How the path is solved; see :func:`lifetime_path`.
    <random_state>

    Attributes
    ----------
    <attributes>
    cell_weights_ : ndarray of shape (n_cells,) or (n_cells, n_outputs)
        Weights of the cells.
    intercept_ : float or ndarray of shape (n_outputs,)
        Intercept, not penalised.
    signal_variance_, noise_variance_ : float or ndarray of shape (n_outputs,)
        Variance σ² of the function and σ²α of the noise, at their likeliest given λ and α.
    log_marginal_likelihood_ : float
        Log-likelihood of y at these, computed when asked for. It is estimated where rows and cells
        are both above 8000, and NaN once the rows have been forgotten by ``partial_fit``.
    posterior_ : LifetimePosterior
        Only with ``lifetime="average"``: the posterior over λ, its prior uniform in ln λ on
        ``path_``. The other attributes are then those of the likeliest lifetime.

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
        **MondrianEstimator._parameter_constraints,
        "lifetime": [
            *MondrianEstimator._parameter_constraints["lifetime"],
            StrOptions({"average"}),
        ],
        "criterion": [StrOptions(set(CRITERIA))],
        "solver": [StrOptions({"auto", "dense", "lanczos"})],
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
            Weights. A row of weight 2 counts as two, one of weight 0 is left out. Error bars take
            weights as counts of rows: scale shares to a mean of 1 first.

        Returns
        -------
        self : MondrianKernelRegressor
            The fitted model.
        """
        rows, targets, weight = self._check_fit(
            X, y, sample_weight, multi_output=True, y_numeric=True
        )
        Y = targets.astype(np.float64).reshape(rows.shape[0], -1)
        seed = draw_seed(self.random_state)
        scale, relevance = self._learn_columns(rows, Y, weight, seed)
        rows = rows / scale
        check_ranges(rows)
        average = self.lifetime == "average"
        lifetime, alpha, path = choose_width(
            rows,
            Y,
            weight,
            seed,
            lifetime="auto" if average else self.lifetime,
            alpha=self.alpha,
            n_estimators=self.n_estimators,
            criterion="evidence" if average else self.criterion,
            solver=self.solver,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        lifetimes, likely = np.array([lifetime]), np.ones(1)
        if average:
            assert path is not None
            lifetimes, likely = likely_widths(path)
        longest = float(lifetimes[-1])
        n_trees = enough_trees(
            self.n_estimators,
            rows.shape,
            self.max_cells,
            partial(cells_of_trees, rows, longest, seed),
        )
        rows, Y, weight = join_copies(rows, Y, weight)
        trees, leaf = grow_trees(rows, longest, n_trees, seed, self.max_cells, self.n_jobs)
        if weight is None:
            weight = np.ones(rows.shape[0])
        best = min(lifetimes[np.argmax(likely)], trees.lifetime)
        blank = FittedModel(
            trees,
            Levels.of(trees, np.array([best])),
            np.empty((0, Y.shape[1])),
            np.empty(Y.shape[1]),
            scale,
            relevance,
            float(alpha),
            seed,
            np.empty(Y.shape[1]),
            TrainingRows(leaf, Y, weight),
        )
        self._one_output = targets.ndim == 1
        self._set_fitted(fit_ridge(blank, self.n_jobs, rows), path)
        self._bars: ErrorBars | None = None
        self._mixture: WidthMixture | None = None
        if average:
            models = [self.at(min(t, trees.lifetime)) for t in lifetimes]
            self._mixture = WidthMixture(likely, models)
        return self

    @property
    def cell_weights_(self) -> FloatArray:
        """Weights of the cells."""
        return self._shaped(self._fitted().cell_weights)

    @property
    def intercept_(self) -> Any:
        """Intercept, not penalised."""
        return self._shaped(self._fitted().intercept)[()]

    @property
    def signal_variance_(self) -> Any:
        """Variance of the function before any row is seen."""
        return self._shaped(self._fitted().signal)[()]

    @property
    def noise_variance_(self) -> Any:
        """Variance of the noise."""
        return self.signal_variance_ * self.alpha_

    @property
    def log_marginal_likelihood_(self) -> float:
        """Log-likelihood of y, computed when asked for."""
        return log_marginal_likelihood(self._fitted(), self.n_jobs)

    @property
    def posterior_(self) -> LifetimePosterior:
        """Posterior over the lifetime, where predictions are averaged over it."""
        if getattr(self, "_mixture", None) is None or self.path_ is None:
            raise AttributeError('posterior_ exists after a fit with lifetime="average".')
        return width_posterior(self.path_)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MondrianKernelRegressor:
        """Learn from further rows, after :meth:`fit` or from nothing.

        After a fit, or where ``lifetime`` is a number, the model is at any moment the exact fit of
        all rows so far on its trees, error bars included, at O(min(C, N)²) a row. When rows and
        cells are both more than 4000 a warning says that from now on each row is used once and
        forgotten: O(M) a row, approximate.

        With ``lifetime="auto"`` and no fit, every row is used once from the beginning. Up to five
        widths share the trees. The one with the lowest error on unseen rows predicts. When the
        narrowest wins, a narrower one is added. The error bars rest on the errors of the last
        1024 rows before they were learnt from.

        Without a fit, ``scale="std"`` is taken from the first 1024 rows. The relevances, if they
        are to be learnt, are taken from the first 4096, unless updates are exact. ``alpha="auto"``
        is 0.1. Memory grows with the number of cells, until ``max_cells``; from then on no cell is
        cut any more, but all learn.

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
        first = not hasattr(self, "_model")
        rows, targets = self._check_batch(X, y, multi_output=True, y_numeric=True)
        Y = targets.astype(np.float64).reshape(rows.shape[0], -1)
        self._learn(rows, Y, check_weights(sample_weight, rows))
        if first:
            self._one_output = targets.ndim == 1
        self._bars = self._mixture = None
        return self

    def _next_stream(self, n_columns: int, n_outputs: int, n_new: int) -> Stream | ExactStream:
        first = not hasattr(self, "_model")
        stream = None if first else self._stream
        if isinstance(stream, Stream) or (first and isinstance(self.lifetime, str)):
            return super()._next_stream(n_columns, n_outputs, n_new)
        if first:
            exact = ExactStream.begin(
                n_outputs,
                n_columns,
                self._stream_trees(),
                float(self.lifetime),
                self._stream_alpha,
                self.scale,
                draw_seed(self.random_state),
            )
        else:
            exact = stream or ExactStream.after(self._model)
        if exact.size(n_new) <= EXACT_SIZE:
            return exact
        warnings.warn(
            f"Rows and cells are more than {EXACT_SIZE}, too many for exact updates. From now on "
            "each row is used once and forgotten, which is approximate. To stay exact, fit all "
            "rows anew, or lower n_estimators or lifetime.",
            UserWarning,
            stacklevel=4,
        )
        if first:
            return super()._next_stream(n_columns, n_outputs, n_new)
        return Stream.after(self._model, self._continuing_learner(self._model))

    def _blank_learner(self, n_outputs: int) -> Filter:
        return Filter(n_outputs, "squared", self._stream_alpha)

    def _continuing_learner(self, model: FittedModel) -> Filter:
        return Filter.after(model, "squared")

    def at(self, lifetime: float) -> MondrianKernelRegressor:
        """Return the same trees fitted at one other, smaller lifetime.

        Parameters
        ----------
        lifetime : float
            Lifetime λ between 0 and that of the trees.

        Returns
        -------
        model : MondrianKernelRegressor
            A fitted model which shares the trees; this one is not changed.
        """
        model = self._fitted()
        if model.rows is None:
            raise ValueError("The rows were forgotten by partial_fit: there is no other lifetime.")
        longest = model.trees.lifetime
        if not 0 <= lifetime <= longest:
            raise ValueError(
                f"lifetime={lifetime} lies outside [0, {longest}], the time these trees have run."
            )
        levels = Levels.of(model.trees, np.array([float(lifetime)]))
        other = self._copy_with(fit_ridge(replace(model, levels=levels), self.n_jobs, None))
        other.lifetime = float(lifetime)
        other._bars = other._mixture = None
        return other

    def predict(
        self, X: ArrayLike, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        r"""Predict rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        return_std : bool, default=False
            Also return the standard deviation of a new y at each row: the uncertainty about the
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
        mixture = getattr(self, "_mixture", None)
        if mixture is not None:
            if return_std:
                return mixture.mean_std(X)
            return mixture.mean_cov(X) if return_cov else mixture.mean(X)
        rows, model = self._check_new(X), self._fitted()
        mean = self._shaped(model.scores(rows, self.n_jobs))
        if return_std:
            Phi = model.features(rows, self.n_jobs)
            return mean, self._shaped(self._error_bars().std(Phi, model))
        if return_cov:
            cov = self._error_bars().variance.covariance(model.features(rows, self.n_jobs))
            cov.flat[:: cov.shape[0] + 1] += model.alpha
            return mean, self._shaped(cov[:, :, None] * model.signal)
        return mean

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> FloatArray:
        """Interval for a new y at each row, calibrated by leaving rows out.

        The half-width is the predictive standard deviation times a quantile of the rows' own
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
        sigma = np.sqrt(self._fitted().signal)  # the unit of the errors' deviations
        factor = self._error_bars().quantile(coverage) / np.where(sigma > 0, sigma, 1.0)
        half = std * self._shaped(factor)
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
        mixture = getattr(self, "_mixture", None)
        if mixture is not None:
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

    def _error_bars(self) -> ErrorBars:
        """Return the error bars of a fit, computed once, or the present ones of a stream."""
        if isinstance(self._stream, Stream):
            errors = self._stream.standard_errors()
            return ErrorBars(self._stream, errors, np.ones(errors.shape[0]))
        if self._bars is None:
            self._bars = ErrorBars.of(self._fitted(), self.n_jobs)
        return self._bars

    def check(self) -> None:
        """Raise ValueError unless the fitted parts belong together."""
        super().check()
        model, mixture = self._model, getattr(self, "_mixture", None)
        if self._one_output:
            self._check_scores(1)
        if not isinstance(self._bars, ErrorBars | None) or model.signal.size != model.n_outputs:
            raise ValueError("The model is not one of a regression.")
        if model.rows is None and not isinstance(self._stream, Stream):
            raise ValueError("The rows of the fit are missing.")
        if mixture is not None and not (
            isinstance(mixture, WidthMixture)
            and all(isinstance(part, MondrianKernelRegressor) for part in mixture.models)
        ):
            raise ValueError("The mixture of widths is not one of regressors.")

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["_bars"] = None
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
