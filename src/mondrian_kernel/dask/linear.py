"""Predictions of a linear model on Mondrian features, by functions that workers run on blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.ridge import Variance
from mondrian_kernel.dask.room import slabs
from mondrian_kernel.features import MondrianFeatures


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
    parts = [Phi @ model.coef for Phi in _features(model, X)]
    mean: FloatArray = np.concatenate(parts) + model.intercept
    return mean


def predict_std(model: Spread, X: FloatArray) -> FloatArray:
    """Return standard deviations of a new y at rows, of shape (n,) or (n, T)."""
    variance = np.concatenate([model.variance(Phi) for Phi in _features(model.linear, X)])
    std: FloatArray = np.sqrt(np.multiply.outer(variance + model.alpha, model.signal))
    return std


def _features(model: Linear, X: FloatArray) -> Iterator[sparse.csr_matrix]:
    for s in slabs(X.shape[0], model.features.trees_.n_trees):
        yield model.features.transform(X[s] / model.scale)
