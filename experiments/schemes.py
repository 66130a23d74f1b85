"""The three feature maps of the Laplace kernel, with the same number of non-zeros per row."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from experiments.claims import Claim
from mondrian_kernel import LaplaceFourierFeatures, MondrianFeatures, RandomBinningFeatures

SCHEMES = ("fourier", "binning", "mondrian")

Features = LaplaceFourierFeatures | RandomBinningFeatures | MondrianFeatures
Errors = dict[str, list[list[float]]]
"""Error of each scheme, for each repetition and each number of non-zeros."""
Tick = Callable[[float, str], None]
"""Reports which share of an experiment is done, and what comes next."""


def make_features(scheme: str, lifetime: float, n_nonzeros: int, seed: int) -> Features:
    """Return the transformer of a scheme with M non-zeros per row."""
    transformers: dict[str, type[Features]] = {
        "fourier": LaplaceFourierFeatures,
        "binning": RandomBinningFeatures,
        "mondrian": MondrianFeatures,
    }
    return transformers[scheme](lifetime, n_nonzeros, random_state=seed)


def sizes(scheme: str, largest: int) -> list[int]:
    """Numbers M of non-zeros up to the largest; Fourier features come in pairs."""
    return list(range(2, largest + 1, 2)) if scheme == "fourier" else list(range(1, largest + 1))


def columns_of_first(features: Features, n_nonzeros: int) -> NDArray[np.intp]:
    """Columns of the first M trees or grids, or M/2 frequencies, of a larger sample.

    They are a sample with M non-zeros per row, up to a factor that makes the norm 1.
    """
    if isinstance(features, LaplaceFourierFeatures):
        cosines = np.arange(n_nonzeros // 2)
        return np.concatenate([cosines, features.n_components // 2 + cosines])
    if isinstance(features, RandomBinningFeatures):
        return np.arange(features.column_indptr_[n_nonzeros])
    return np.arange(features.n_cells_per_tree_[:n_nonzeros].sum())


def repeat(
    errors: Callable[[str, int], list[float]], repetitions: int, seed: int, tick: Tick
) -> Errors:
    """Collect ``errors(scheme, seed)`` of all schemes for several seeds."""
    found: Errors = {scheme: [] for scheme in SCHEMES}
    for r in range(repetitions):
        for k, scheme in enumerate(SCHEMES):
            done = (r + k / len(SCHEMES)) / repetitions
            tick(done, f"{scheme}, repetition {r + 1} of {repetitions}")
            found[scheme].append(errors(scheme, seed + r))
    return found


def better_than_fourier(
    text: str, name: str, error: Errors, nonzeros: dict[str, list[int]], below: int | None = None
) -> Claim:
    """Check that Mondrian and binning have a lower mean error than Fourier for most M."""
    mean = {
        scheme: dict(zip(nonzeros[scheme], np.mean(values, axis=0), strict=True))
        for scheme, values in error.items()
    }
    compared = [M for M in nonzeros["fourier"] if below is None or below > M]
    ahead = {
        scheme: float(np.mean([mean[scheme][M] < mean["fourier"][M] for M in compared]))
        for scheme in ("mondrian", "binning")
    }
    last = compared[-1]
    which = "all M" if below is None else f"M < {below}"
    measured = {
        f"{name} at M = {last}, Mondrian": mean["mondrian"][last],
        "binning": mean["binning"][last],
        "Fourier": mean["fourier"][last],
        f"share of {which} at which Mondrian is better than Fourier": ahead["mondrian"],
        "at which binning is better": ahead["binning"],
    }
    return Claim(text, measured, held=min(ahead.values()) >= 0.9)
