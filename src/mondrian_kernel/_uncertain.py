"""Base of regressors that predict with error bars."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._base import MondrianEstimator
from mondrian_kernel._model.ridge_model import ErrorBars
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._path.mixture import WidthMixture
from mondrian_kernel._typing import FloatArray


class UncertainRegressor(MondrianEstimator):
    """Predictions with standard deviations, covariances, intervals and draws."""

    _one_output: bool
    _bars: ErrorBars | None
    _mixture: WidthMixture | None

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
        mixture: WidthMixture | None = getattr(self, "_mixture", None)
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
        mixture: WidthMixture | None = getattr(self, "_mixture", None)
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
            and all(isinstance(part, UncertainRegressor) for part in mixture.models)
        ):
            raise ValueError("The mixture of widths is not one of regressors.")

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["_bars"] = None  # computed again when asked for
        return state
