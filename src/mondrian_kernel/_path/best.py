"""The best of a grid of lifetimes and alphas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._typing import FloatArray


@dataclass(frozen=True, eq=False)
class BestOfGrid(ABC):
    """Reads the best (lifetime, alpha) off ``score`` (L, A); lower is better, NaN not looked at."""

    lifetimes: FloatArray
    n_cells: NDArray[np.int64]
    alphas: FloatArray

    @property
    @abstractmethod
    def score(self) -> FloatArray:
        """Value of the criterion, of shape (L, A)."""

    @property
    def best_index(self) -> tuple[int, int]:
        """Indices of the best lifetime and alpha."""
        k, a = np.unravel_index(int(np.nanargmin(self.score)), self.score.shape)
        return int(k), int(a)

    @property
    def best_lifetime(self) -> float:
        """Lifetime λ̂ with the best score."""
        return float(self.lifetimes[self.best_index[0]])

    @property
    def best_alpha(self) -> float:
        """Alpha with the best score."""
        return float(self.alphas[self.best_index[1]])

    def _repr_html_(self) -> str:
        from mondrian_kernel._path.html_repr import path_html

        return path_html(self)
