"""Predictions averaged over kernel widths: a mixture of models on the same trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from mondrian_kernel.partition.trees import FloatArray
from mondrian_kernel.path.posterior import LifetimePosterior
from mondrian_kernel.path.result import LifetimePath

_NEGLIGIBLE = 1e-3


@dataclass(frozen=True, eq=False)
class WidthMixture:
    r"""Models :math:`p_c(y \mid x)` of one data set with weights k_c: :math:`\sum_c k_c\, p_c`.

    Parameters
    ----------
    weights : ndarray of shape (n_models,)
        Weights k_c, which sum to 1.
    models : list of estimators
        Fitted regressors with ``predict`` and ``sample_y``.
    """

    weights: FloatArray
    models: list[Any]

    def mean(self, X: ArrayLike) -> FloatArray:
        """Mean of y at rows."""
        return self._averaged([model.predict(X) for model in self.models])

    def mean_std(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation: the mean of the variances and the variance of the means."""
        means, stds = zip(*(m.predict(X, return_std=True) for m in self.models), strict=True)
        mean = self._averaged(means)
        squares = [std**2 + (part - mean) ** 2 for part, std in zip(means, stds, strict=True)]
        return mean, np.sqrt(self._averaged(squares))

    def mean_cov(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Mean and joint covariance, (n, n) or (n, n, n_outputs)."""
        means, covs = zip(*(m.predict(X, return_cov=True) for m in self.models), strict=True)
        mean = self._averaged(means)
        parts = []
        for part, cov in zip(means, covs, strict=True):
            away = part - mean
            parts.append(cov + away[:, None] * away[None, :])
        return mean, self._averaged(parts)

    def sample_y(self, X: ArrayLike, n_samples: int, rng: np.random.RandomState) -> FloatArray:
        """Draw targets: each draw from one model, picked by its weight."""
        picked = rng.choice(len(self.models), size=n_samples, p=self.weights)
        kinds, place = np.unique(picked, return_inverse=True)
        draws = [
            self.models[c].sample_y(X, int(np.sum(picked == c)), random_state=rng) for c in kinds
        ]
        joined: FloatArray = np.concatenate(draws, axis=-1)
        return joined[..., np.argsort(np.argsort(place, kind="stable"), kind="stable")]

    def _averaged(self, parts: Any) -> FloatArray:
        average: FloatArray = np.tensordot(self.weights, np.stack(parts), axes=1)
        return average


def width_posterior(path: LifetimePath) -> LifetimePosterior:
    """Posterior over the lifetime under a prior that is uniform in its logarithm on the path."""
    prior = stats.loguniform(path.lifetimes[0], path.lifetimes[-1])
    return path.posterior(prior, alpha=path.best_alpha)


def likely_widths(path: LifetimePath) -> tuple[FloatArray, FloatArray]:
    """Lifetimes that are not negligible beside the likeliest, and their weights, which sum to 1."""
    posterior = width_posterior(path)
    held = posterior.weights >= _NEGLIGIBLE * posterior.weights.max()
    weights = posterior.weights[held]
    return posterior.lifetimes[held], weights / weights.sum()
