"""Figure 5: the largest error of the kernel against the non-zeros a row, for three schemes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import sparse
from sklearn.metrics.pairwise import laplacian_kernel

from mondrian_experiments import drawing
from mondrian_experiments.claims import Claim
from mondrian_experiments.schemes import SCHEMES, columns_of_first, make_features, sizes

NEEDS_CPU_DATA = False
_LIFETIME, _ROWS, _REPETITIONS = 10.0, 100, 5


def compute(quick: bool, seed: int, tick: Callable[[float, str], None]) -> dict[str, Any]:
    """Compare kernels with the exact one on rows in the unit square; small at any rate."""
    largest = 30 if quick else 50
    X = np.random.default_rng(seed).uniform(size=(_ROWS, 2))
    exact = laplacian_kernel(X, gamma=_LIFETIME)
    error: dict[str, list[list[float]]] = {scheme: [] for scheme in SCHEMES}
    for r in range(_REPETITIONS):
        tick(r / _REPETITIONS, f"repetition {r + 1} of {_REPETITIONS}")
        for scheme in SCHEMES:
            features = make_features(scheme, _LIFETIME, largest, seed + r)
            Phi = sparse.csc_array(features.fit_transform(X)).toarray()
            error[scheme].append([])
            for M in sizes(scheme, largest):
                first = Phi[:, columns_of_first(scheme, features, M)]
                K = first @ first.T * (largest / M)
                error[scheme][-1].append(np.abs(K - exact).max())
    return {
        "lifetime": _LIFETIME,
        "rows": _ROWS,
        "nonzeros": {scheme: sizes(scheme, largest) for scheme in SCHEMES},
        "max_error": error,
    }


def claims(result: dict[str, Any]) -> list[Claim]:
    """Compare Mondrian and binning with Fourier at each number of non-zeros."""
    mean = {
        scheme: dict(zip(result["nonzeros"][scheme], np.mean(error, axis=0), strict=True))
        for scheme, error in result["max_error"].items()
    }
    pairs = result["nonzeros"]["fourier"]
    ahead = {
        scheme: float(np.mean([mean[scheme][M] < mean["fourier"][M] for M in pairs]))
        for scheme in ("mondrian", "binning")
    }
    last = pairs[-1]
    return [
        Claim(
            "Mondrian kernel and random binning converge to the Laplace kernel faster than Fourier "
            "features, per non-zero",
            {
                f"max error at M = {last}, Mondrian": mean["mondrian"][last],
                "binning": mean["binning"][last],
                "Fourier": mean["fourier"][last],
                "share of all M with Mondrian ahead of Fourier": ahead["mondrian"],
                "with binning ahead": ahead["binning"],
            },
            held=min(ahead.values()) >= 0.9,
        )
    ]


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw the error of each scheme."""
    figure, (ax,) = drawing.panels(1, 4.6, 3.0)
    drawing.scheme_curves(ax, result["nonzeros"], result["max_error"])
    ax.set(ylabel="maximum absolute error", ylim=(0, None))
    ax.set_title(f"{result['rows']} rows in $[0,1]^2$, λ = {result['lifetime']:g}")
    return {"kernel-error": figure}
