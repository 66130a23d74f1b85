"""The three feature maps of the Laplace kernel, with the same number of non-zeros a row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import LaplaceFourierFeatures, MondrianFeatures, RandomBinningFeatures

SCHEMES = ("fourier", "binning", "mondrian")


def make_features(scheme: str, lifetime: float, n_nonzeros: int, seed: int) -> Any:
    """Return the transformer of a scheme with M non-zeros a row."""
    transformer: Any = {
        "fourier": LaplaceFourierFeatures,
        "binning": RandomBinningFeatures,
        "mondrian": MondrianFeatures,
    }[scheme]
    return transformer(lifetime, n_nonzeros, random_state=seed)


def sizes(scheme: str, largest: int) -> list[int]:
    """Numbers M of non-zeros up to the largest; Fourier features come in pairs."""
    return list(range(2, largest + 1, 2)) if scheme == "fourier" else list(range(1, largest + 1))


def columns_of_first(scheme: str, features: Any, n_nonzeros: int) -> NDArray[np.intp]:
    """Columns of the first M trees or grids, or M/2 frequencies, of a larger sample.

    They are a sample with M non-zeros a row; their values are to be scaled up to norm 1.
    """
    if scheme == "fourier":
        cosines = np.arange(n_nonzeros // 2)
        return np.concatenate([cosines, features.n_components // 2 + cosines])
    if scheme == "binning":
        return np.arange(features.column_indptr_[n_nonzeros])
    return np.arange(features.n_cells_per_tree_[:n_nonzeros].sum())
