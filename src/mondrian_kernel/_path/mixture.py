"""Predictions averaged over kernel widths: a mixture of models on the same trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel._typing import FloatArray


@dataclass(frozen=True, eq=False)
class WidthMixture:
    r"""Models :math:`p_c(y \mid x)` of one data set with weights k_c: :math:`\sum_c k_c\, p_c`.

    Parameters
    ----------
    weights : ndarray of shape (n_models,)
        Weights k_c, which sum to 1.
    models : list of estimators
        Fitted regressors with ``predict``, and with ``sample_y`` where draws are wanted.
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
