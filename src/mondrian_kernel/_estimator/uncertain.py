"""Base of regressors that predict with error bars."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel import _settings as settings
from mondrian_kernel._estimator.targets import NumberEstimator
from mondrian_kernel._model.ridge_model import ErrorBars, log_marginal_likelihood
from mondrian_kernel._model.spread import Spread, unknown_spread
from mondrian_kernel._online.exact import ExactStream
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._path.posterior import LifetimePosterior, WidthMixture, width_posterior
from mondrian_kernel._trees.checks import check_shares, check_whole
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.on_disk import row_blocks


class UncertainRegressor(NumberEstimator):
    """Predictions with standard deviations, covariances, intervals and draws."""

    _bars: ErrorBars | None = None  # computed when asked for
    _mixture: WidthMixture | None = None  # of models at several lifetimes

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
        if isinstance(self._stream, ExactStream):
            return self._stream.evidence
        return log_marginal_likelihood(self._fitted(), self.n_jobs)

    @property
    def posterior_(self) -> LifetimePosterior:
        """Posterior over the lifetime, where predictions are averaged over it."""
        if self._mixture is None or self.path_ is None:
            raise AttributeError('posterior_ exists after a fit with lifetime="average".')
        return width_posterior(self.path_)

    def predict(
        self, X: ArrayLike, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        r"""Predict rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        return_std : bool, default=False
            Also return the standard deviation of a new y at each row: the local scale of errors
            of rows that were held out. Far from the data it grows to the standard deviation of y.
        return_cov : bool, default=False
            Also return the joint covariance of new y at the rows, that of the Gaussian process
            with the kernel of the trees and constant noise. It needs a factor of the fitted rows
            and is meant for some thousand of them.

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
        mixture = self._mixture
        if mixture is not None:
            if return_std:
                return mixture.mean_std(X)
            if return_cov:
                _check_joint(len(self._check_new(X)))
                return mixture.mean_cov(X)
            return mixture.mean(X)
        rows = self._check_new(X)
        if return_cov:
            _check_joint(len(rows))
        if return_std:
            mean, scale, spread = self._scores_and_scale(rows)
            return self._shaped(mean), self._shaped(scale * spread.unit_deviation)
        mean = self._shaped(self._scores_of(rows))
        if return_cov:
            model = self._fitted()
            stream = self._stream if isinstance(self._stream, Stream) else None
            variance = self._error_bars().variance if stream is None else stream
            cov = variance.covariance(model.features(rows, self.n_jobs))
            cov.flat[:: cov.shape[0] + 1] += model.alpha
            return mean, self._shaped(cov[:, :, None] * model.signal)
        return mean

    def predict_interval(
        self, X: ArrayLike, coverage: float | ArrayLike = 0.9, *, clip: bool = True
    ) -> FloatArray:
        """Interval for a new y at each row, calibrated on rows that were held out.

        Both ends are the prediction plus the local scale of the errors times a quantile of errors
        of rows held out, in units of their own scale. Each end has its own quantile, so intervals
        are skewed where the errors are.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        coverage : float or array-like of shape (n_coverages,), default=0.9
            Share of new targets to be inside, between 0 and 1.
        clip : bool, default=True
            Whether intervals end where y does: at 0 if no target of the fit was negative (or none
            was positive), and at the lowest or highest target if at least 1 % of the rows have it.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2) or (n_samples, 2, n_outputs)
            Lower and upper end. With several coverages, (n_coverages, ...) of these.
        """
        shares = check_shares(coverage, "coverage")
        tails = 0.5 * (1.0 - shares)
        ends = self._quantiles(X, np.concatenate([tails, 1.0 - tails]), clip)
        both = np.stack([ends[: shares.size], ends[shares.size :]], axis=2)
        return both if np.ndim(coverage) else both[0]

    def predict_quantiles(
        self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95), *, clip: bool = True
    ) -> FloatArray:
        """Quantiles of a new y at each row. They never cross.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        quantiles : array-like of shape (n_quantiles,), default=(0.05, 0.5, 0.95)
            Shares of new targets to lie below, between 0 and 1.
        clip : bool, default=True
            As in :meth:`predict_interval`.

        Returns
        -------
        values : ndarray of shape (n_samples, n_quantiles) or (n_samples, n_quantiles, n_outputs)
            Quantiles.
        """
        shares = check_shares(quantiles, "quantiles")
        return np.moveaxis(self._quantiles(X, shares, clip), 0, 1)

    def _quantiles(self, X: ArrayLike, shares: FloatArray, clip: bool) -> FloatArray:
        """Return quantiles of new y, (Q, n) or (Q, n, K), computed some rows at a time."""
        check_is_fitted(self)
        parts: Iterable[tuple[FloatArray, FloatArray, Spread]]
        if self._mixture is None:
            rows = self._check_new(X)
            parts = (self._scores_and_scale(rows[block]) for block in row_blocks(len(rows)))
        else:
            parts = [self._mixed_scores_and_scale(self._mixture, X)]
        found = []
        for mean, scale, spread in parts:
            values = mean + scale * spread.quantiles(shares, mean)
            found.append(np.clip(values, spread.lowest, spread.highest) if clip else values)
        return self._shaped(np.concatenate(found, axis=1))

    def _mixed_scores_and_scale(
        self, mixture: WidthMixture, X: ArrayLike
    ) -> tuple[FloatArray, FloatArray, Spread]:
        """Return what :meth:`_scores_and_scale` does, for a mixture of widths."""
        spread = self._fitted().spread
        assert spread is not None
        shape = (-1, spread.far.size)
        mean, std = (part.reshape(shape) for part in mixture.mean_std(X))
        return mean, std / spread.unit_deviation, spread

    def _scores_and_scale(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, Spread]:
        """Return predictions, the scale of their errors, (n, K) each, and the spread."""
        stream = self._stream
        if stream is not None and stream.n_rows == 1:  # one row says nothing of the errors
            model = self._fitted()
            unknown = unknown_spread(model.levels.n_features, model.intercept[None])
            return model.scores(rows, self.n_jobs), np.tile(unknown.far, (len(rows), 1)), unknown
        if isinstance(stream, Stream) and self._fixed is None:
            return *stream.scores_and_scale(rows, self.n_jobs), stream.spread()
        model = self._fitted()
        if model.spread is not None:
            return *model.scores_and_scale(rows, self.n_jobs), model.spread
        # Exact updates: the posterior deviation, and the errors of rows left out.
        bars = self._error_bars()
        std = bars.std(model.features(rows, self.n_jobs), model)
        return model.scores(rows, self.n_jobs), std, bars.spread(model.signal)

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
        n_samples, rng = check_whole(n_samples, "n_samples"), check_random_state(random_state)
        mixture = self._mixture
        if mixture is not None:
            _check_joint(len(self._check_new(X)))
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

    def _outputs(self, rows: FloatArray) -> FloatArray:
        mixture = self._mixture
        if mixture is None:
            return super()._outputs(rows)
        parts = [model._outputs(rows) for model in mixture.models]
        out: FloatArray = np.tensordot(mixture.weights, parts, axes=1)
        return out

    def _error_bars(self) -> ErrorBars:
        """Return the error bars of a fit or of exact updates, computed once."""
        if self._bars is None:
            self._bars = ErrorBars.of(self._fitted(), self.n_jobs)
        return self._bars

    def check(self) -> None:
        """Raise ValueError unless the fitted parts belong together."""
        super().check()
        model, mixture = self._fitted(), self._mixture
        if not isinstance(self._bars, ErrorBars | None) or model.signal.size != model.n_outputs:
            raise ValueError("The model is not one of a regression.")
        if model.rows is None and not isinstance(self._stream, Stream):
            raise ValueError("The rows of the fit are missing.")
        if mixture is not None and not (
            isinstance(mixture, WidthMixture)
            and all(isinstance(part, UncertainRegressor) for part in mixture.models)
        ):
            raise ValueError("The mixture of widths is not one of regressors.")

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["_bars"] = None  # computed again when asked for
        return state


def _check_joint(n_rows: int) -> None:
    """Raise ValueError if there are too many rows for a joint covariance."""
    if n_rows > settings.VARIANCE_DENSE_SIZE:
        raise ValueError(
            f"The joint covariance of {n_rows} rows is a matrix of {n_rows} × {n_rows} numbers, "
            f"more than {settings.VARIANCE_DENSE_SIZE} × {settings.VARIANCE_DENSE_SIZE}. Ask for "
            "fewer rows at once, or use return_std or predict_interval."
        )
