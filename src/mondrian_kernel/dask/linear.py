"""Predictions of a linear model on Mondrian features, by functions that workers run on blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mondrian_kernel.dask.ridge import Variance
from mondrian_kernel.features import MondrianFeatures
from mondrian_kernel.partition.trees import FloatArray


class Linear(NamedTuple):
    """What a prediction needs."""

    features: MondrianFeatures
    scale: FloatArray
    coef: FloatArray
    intercept: FloatArray | float


class Spread(NamedTuple):
    """What a standard deviation needs."""

    linear: Linear
    variance: Variance
    signal: FloatArray
    alpha: float


def predict_mean(model: Linear, X: FloatArray) -> FloatArray:
    """Predictions of rows, of shape (n,) or (n, T)."""
    mean: FloatArray = model.features.transform(X / model.scale) @ model.coef + model.intercept
    return mean


def predict_std(model: Spread, X: FloatArray) -> FloatArray:
    """Return standard deviations of a new y at rows, of shape (n,) or (n, T)."""
    Phi = model.linear.features.transform(X / model.linear.scale)
    std: FloatArray = np.sqrt(np.multiply.outer(model.variance(Phi) + model.alpha, model.signal))
    return std
