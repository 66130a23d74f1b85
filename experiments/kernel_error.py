"""Figure 5: the largest error of the kernel against the non-zeros per row, for three schemes."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import sparse
from sklearn.metrics.pairwise import laplacian_kernel

from experiments import drawing, schemes
from experiments.claims import Claim

NEEDS_CPU_DATA = False
_LIFETIME, _ROWS, _REPETITIONS = 10.0, 100, 5


def compute(quick: bool, seed: int, tick: schemes.Tick) -> dict[str, Any]:
    """Compare kernels with the exact one on rows in the unit square."""
    largest = 30 if quick else 50
    X = np.random.default_rng(seed).uniform(size=(_ROWS, 2))
    exact = laplacian_kernel(X, gamma=_LIFETIME)

    def errors(scheme: str, seed: int) -> list[float]:
        features = schemes.make_features(scheme, _LIFETIME, largest, seed)
        Phi = sparse.csc_array(features.fit_transform(X)).toarray()
        found = []
        for M in schemes.sizes(scheme, largest):
            first = Phi[:, schemes.columns_of_first(features, M)]
            found.append(np.abs(first @ first.T * (largest / M) - exact).max())
        return found

    return {
        "lifetime": _LIFETIME,
        "rows": _ROWS,
        "nonzeros": {scheme: schemes.sizes(scheme, largest) for scheme in schemes.SCHEMES},
        "max_error": schemes.repeat(errors, _REPETITIONS, seed, tick),
    }


def claims(result: dict[str, Any]) -> list[Claim]:
    """Compare Mondrian and binning with Fourier at each number of non-zeros."""
    text = (
        "Per non-zero, the Mondrian kernel and random binning converge to the Laplace kernel "
        "faster than Fourier features"
    )
    errors = result["max_error"], result["nonzeros"]
    return [schemes.better_than_fourier(text, "largest error", *errors)]


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw the error of each scheme."""
    figure, (ax,) = drawing.panels(1, 4.6, 3.0)
    drawing.scheme_curves(ax, result["nonzeros"], result["max_error"])
    ax.set(ylabel="largest absolute error", ylim=(0, None))
    ax.set_title(f"{result['rows']} rows in $[0,1]^2$, λ = {result['lifetime']:g}")
    return {"kernel-error": figure}
