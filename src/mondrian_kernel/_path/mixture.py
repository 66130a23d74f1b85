"""Predictions averaged over kernel widths: a mixture of models on the same trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel._linear.cell_operator import CellOperator
from mondrian_kernel._linear.ridge import Fit, solve
from mondrian_kernel._linear.scores import centred_targets, signal_variance
from mondrian_kernel._linear.variance import PredictiveVariance
from mondrian_kernel._path.result import LifetimePath, RidgeRows
from mondrian_kernel._settings import MIXTURE_BYTES
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import MondrianFeatures


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

    def check(self) -> None:
        """Raise ValueError unless there is a positive weight for each model, with the sum 1."""
        if self.weights.shape != (len(self.models),) or not (self.weights > 0).all():
            raise ValueError("There is not one positive weight for each model.")
        if not np.isclose(self.weights.sum(), 1.0):
            raise ValueError(f"The weights have the sum {self.weights.sum()}.")

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


@dataclass(eq=False)
class RidgeComponent:
    """Ridge regression at one lifetime; ``keep`` tells whether it holds on to a dense factor."""

    features: MondrianFeatures
    operator: CellOperator
    alpha: float
    fit: Fit
    signal_variance: FloatArray
    keep: bool
    _variance: PredictiveVariance | None = None

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Mean of y at rows, (n,) or (n, n_outputs), and its deviation with noise if asked for."""
        Phi = self.features.transform(X)
        mean = Phi @ self.fit.coef + self.fit.intercept
        shape = mean.shape[: 1 if mean.shape[1] == 1 else 2]
        if not return_std:
            return mean.reshape(shape)
        variance = self._variance or PredictiveVariance(self.operator, self.alpha)
        if self.keep:
            self._variance = variance
        of_y = (variance(Phi) + self.alpha)[:, None] * self.signal_variance
        return mean.reshape(shape), np.sqrt(of_y).reshape(shape)


def components(
    path: LifetimePath, lifetimes: FloatArray, alpha: float, *, profiled: bool
) -> list[RidgeComponent]:
    """Fit ridge regression at each lifetime; factors are kept while they fit in 1 GB together.

    The signal variance is the likeliest where it is ``profiled``, else 1.
    """
    rows = path.model
    if not isinstance(rows, RidgeRows):
        raise ValueError("This path holds no ridge models.")
    operators = [rows.operator(t) for t in lifetimes.tolist()]
    keep = 8 * sum(operator.size**2 for operator in operators) <= MIXTURE_BYTES
    parts = []
    for lifetime, operator in zip(lifetimes.tolist(), operators, strict=True):
        fit = solve(operator, rows.y, alpha)
        fit = fit._replace(intercept=fit.intercept + rows.offset)
        sigma2 = np.ones(fit.intercept.size)
        if profiled:
            sigma2 = signal_variance(operator, centred_targets(operator, rows.y)[0], fit.dual)
        features = path.features(lifetime)
        parts.append(RidgeComponent(features, operator, alpha, fit, sigma2, keep))
    return parts
