"""Figure 6: test error on the CPU data against the non-zeros per row, with the exact kernel."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import linalg
from sklearn.kernel_ridge import KernelRidge

from experiments import drawing, schemes
from experiments.claims import Claim
from experiments.cpu_data import Split

NEEDS_CPU_DATA = True
_LIFETIME, _ALPHA = 1e-6, 1e-4
_FEW = 15


def compute(split: Split, quick: bool, seed: int, tick: schemes.Tick) -> dict[str, Any]:
    """Fit exact ridge regression on each scheme's features, and on the exact kernel."""
    largest, repetitions = (30, 2) if quick else (50, 5)
    tick(0.0, "exact kernel")
    exact = KernelRidge(alpha=_ALPHA, kernel="laplacian", gamma=_LIFETIME)
    exact.fit(split.X, split.centred)

    def errors(scheme: str, seed: int) -> list[float]:
        return _errors(scheme, split, largest, seed)

    return {
        "lifetime": _LIFETIME,
        "alpha": _ALPHA,
        "exact_error": split.percent("test", exact.predict(split.X_test)),
        "nonzeros": {scheme: schemes.sizes(scheme, largest) for scheme in schemes.SCHEMES},
        "test_error": schemes.repeat(errors, repetitions, seed, tick),
    }


def _errors(scheme: str, split: Split, largest: int, seed: int) -> list[float]:
    """Test errors for all M: normal equations of fewer features are blocks of the largest."""
    features = schemes.make_features(scheme, _LIFETIME, largest, seed)
    Phi: Any = features.fit_transform(split.X)  # dense for Fourier, else sparse
    Phi_test: Any = features.transform(split.X_test)
    A, b = Phi.T @ Phi, Phi.T @ split.centred
    if scheme != "fourier":
        A, Phi_test = A.toarray(), Phi_test.tocsc()
    errors = []
    for M in schemes.sizes(scheme, largest):
        first = schemes.columns_of_first(features, M)
        A_first = A[np.ix_(first, first)]
        # M features of norm 1 are larger by √(largest / M); scaling the penalty is equivalent.
        A_first.flat[:: first.size + 1] += _ALPHA * M / largest
        w = linalg.solve(A_first, b[first], assume_a="pos", overwrite_a=True)
        errors.append(split.percent("test", Phi_test[:, first] @ w))
    return errors


def claims(result: dict[str, Any]) -> list[Claim]:
    """Check the exact kernel's 3.1 %, and which schemes are best for few non-zeros."""
    exact = Claim(
        "The exact Laplace kernel has a test error of 3.1 %",
        {"test error in %": result["exact_error"]},
        held=abs(result["exact_error"] - 3.1) < 0.05,
    )
    text = f"Random binning and the Mondrian kernel outperform Fourier features for M < {_FEW}"
    errors = result["test_error"], result["nonzeros"]
    few = schemes.better_than_fourier(text, "test error in %", *errors, below=_FEW)
    return [few] if result["quick"] else [exact, few]  # the 3.1 % are for all rows


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw the test error of each scheme and the line of the exact kernel."""
    figure, (ax,) = drawing.panels(1, 4.6, 3.0)
    drawing.scheme_curves(ax, result["nonzeros"], result["test_error"])
    exact = result["exact_error"]
    ax.axhline(exact, color=drawing.COLOUR["ink"], linewidth=1.2)
    beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "right"}
    drawing.note(ax, f"exact kernel, {exact:.2f} %", (1, exact), (0, 3), **beside)
    ax.set(ylabel="test error [%]", ylim=(0, 25))
    ax.set_title(f"{result['data']}, λ = {result['lifetime']:g}, δ² = {result['alpha']:g}")
    return {"cpu-error": figure}
