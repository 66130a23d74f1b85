"""Targets of learners made of a block of y, by functions that pickle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._linear.losses import encode
from mondrian_kernel._typing import FloatArray


def numbers(y: NDArray[Any]) -> FloatArray:
    """Targets as a float64 matrix (n, T), also where n is 0."""
    Y: FloatArray = np.asarray(y, dtype=np.float64)
    return Y[:, None] if Y.ndim == 1 else Y


@dataclass(frozen=True)
class Centred:
    """Numbers less their mean (T,), to lose no digits where they are far from 0."""

    mean: FloatArray

    def __call__(self, y: NDArray[Any], weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Targets (n, T) and weights (n,)."""
        return numbers(y) - self.mean, weight


@dataclass(frozen=True)
class Encoded:
    """Classes as the columns that a loss takes, each with a factor of its rows' weights."""

    classes: NDArray[Any]
    factor: FloatArray
    loss: str

    def labels(self, y: NDArray[Any]) -> NDArray[np.intp]:
        """Numbers of classes (n,)."""
        return np.searchsorted(self.classes, y)

    def one_hot(self, y: NDArray[Any]) -> FloatArray:
        """Columns of zeros and ones, one for each class, (n, K)."""
        return np.eye(self.classes.size)[self.labels(y)]

    def __call__(self, y: NDArray[Any], weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Targets (n, K) and weights (n,)."""
        labels = self.labels(y)
        return encode(labels, self.classes.size, self.loss), weight * self.factor[labels]
