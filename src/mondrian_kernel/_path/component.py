"""Ridge regression at one lifetime of a path: a component of a mixture over widths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel._linear.cell_operator import CellOperator
from mondrian_kernel._linear.ridge import Fit, solve
from mondrian_kernel._linear.scores import centred_targets, signal_variance
from mondrian_kernel._linear.variance import PredictiveVariance
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import MondrianFeatures

_MEMORY = 1e9


@dataclass(eq=False)
class RidgeComponent:
    """Ridge regression on the features at one lifetime; ``keep`` holds the factor of its variance.

    ``offset`` is what was taken off the targets before the fit.
    """

    features: MondrianFeatures
    design: CellOperator
    alpha: float
    fit: Fit
    offset: FloatArray
    signal_variance: FloatArray
    keep: bool
    _variance: PredictiveVariance | None = None

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Mean of y at rows, (n,) or (n, n_outputs), and its deviation with noise if asked for."""
        Phi = self.features.transform(X)
        mean = Phi @ self.fit.coef + self.fit.intercept + self.offset
        shape = mean.shape[: 1 if mean.shape[1] == 1 else 2]
        if not return_std:
            return mean.reshape(shape)
        variance = self._variance or PredictiveVariance(self.design, self.alpha)
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
    designs = [path._design(t) for t in lifetimes]
    numbers = sum(min(d.n_rows, int(d.n_cells[0])) ** 2 for d in designs)
    parts = []
    for lifetime, design in zip(lifetimes, designs, strict=True):
        fit = solve(design, path._y, alpha)
        sigma2 = np.ones(fit.intercept.size)
        if profiled:
            sigma2 = signal_variance(design, centred_targets(design, path._y)[0], fit.dual)
        features = path.features(float(lifetime))
        keep = 8 * numbers <= _MEMORY
        parts.append(RidgeComponent(features, design, alpha, fit, path._offset, sigma2, keep))
    return parts
