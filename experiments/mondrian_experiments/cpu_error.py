"""Figure 6: test error on the CPU data against the non-zeros a row, beside the exact kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import linalg
from sklearn.kernel_ridge import KernelRidge

from mondrian_experiments import drawing
from mondrian_experiments.claims import Claim
from mondrian_experiments.cpu_data import Split
from mondrian_experiments.schemes import SCHEMES, columns_of_first, make_features, sizes

NEEDS_CPU_DATA = True
_LIFETIME, _ALPHA = 1e-6, 1e-4
_FEW = 15


def compute(
    split: Split, quick: bool, seed: int, tick: Callable[[float, str], None]
) -> dict[str, Any]:
    """Fit exact ridge regression on each scheme's features, and on the exact kernel."""
    largest, repetitions = (30, 2) if quick else (50, 5)
    tick(0.0, "exact kernel")
    exact = KernelRidge(alpha=_ALPHA, kernel="laplacian", gamma=_LIFETIME)
    exact.fit(split.X, split.centred)
    error: dict[str, list[list[float]]] = {scheme: [] for scheme in SCHEMES}
    for r in range(repetitions):
        for k, scheme in enumerate(SCHEMES):
            done = (r + k / len(SCHEMES)) / repetitions
            tick(0.2 + 0.8 * done, f"{scheme}, repetition {r + 1} of {repetitions}")
            error[scheme].append(_errors(scheme, split, largest, seed + r))
    return {
        "lifetime": _LIFETIME,
        "alpha": _ALPHA,
        "exact_error": split.percent("test", exact.predict(split.X_test)),
        "nonzeros": {scheme: sizes(scheme, largest) for scheme in SCHEMES},
        "test_error": error,
    }


def _errors(scheme: str, split: Split, largest: int, seed: int) -> list[float]:
    """Test errors for all M at once: normal equations of fewer features are a part of those."""
    features = make_features(scheme, _LIFETIME, largest, seed)
    Phi = features.fit_transform(split.X)
    A, b, Phi_test = Phi.T @ Phi, Phi.T @ split.centred, features.transform(split.X_test)
    if scheme != "fourier":
        A, Phi_test = A.toarray(), Phi_test.tocsc()
    errors = []
    for M in sizes(scheme, largest):
        first = columns_of_first(scheme, features, M)
        A_first = A[np.ix_(first, first)]
        # Features of norm 1 are larger by √(largest / M), which a smaller penalty makes up for.
        A_first.flat[:: first.size + 1] += _ALPHA * M / largest
        w = linalg.solve(A_first, b[first], assume_a="pos", overwrite_a=True)
        errors.append(split.percent("test", Phi_test[:, first] @ w))
    return errors


def claims(result: dict[str, Any]) -> list[Claim]:
    """Check the exact kernel's 3.1 %, and that binning and Mondrian are ahead for few non-zeros."""
    mean = {
        scheme: dict(zip(result["nonzeros"][scheme], np.mean(error, axis=0), strict=True))
        for scheme, error in result["test_error"].items()
    }
    few = [M for M in result["nonzeros"]["fourier"] if M < _FEW]
    ahead = {
        scheme: float(np.mean([mean[scheme][M] < mean["fourier"][M] for M in few]))
        for scheme in ("mondrian", "binning")
    }
    last = few[-1]
    exact = Claim(
        "The exact Laplace kernel has a test error of 3.1 %",
        {"test error in %": result["exact_error"]},
        held=abs(result["exact_error"] - 3.1) < 0.05,
    )
    return [
        *([] if result["quick"] else [exact]),  # on all rows of the CPU data
        Claim(
            f"Random binning and Mondrian kernel outperform Fourier features for M < {_FEW}",
            {
                f"test error in % at M = {last}, Mondrian": mean["mondrian"][last],
                "binning": mean["binning"][last],
                "Fourier": mean["fourier"][last],
                f"share of M < {_FEW} with Mondrian ahead of Fourier": ahead["mondrian"],
                "with binning ahead": ahead["binning"],
            },
            held=min(ahead.values()) >= 0.9,
        ),
    ]


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw the test error of each scheme and the line of the exact kernel."""
    figure, (ax,) = drawing.panels(1, 4.6, 3.0)
    drawing.scheme_curves(ax, result["nonzeros"], result["test_error"])
    exact = result["exact_error"]
    ax.axhline(exact, color=drawing.COLOUR["ink"], linewidth=1.2)
    ax.annotate(
        f"exact kernel, {exact:.2f} %", (1, exact), xycoords=("axes fraction", "data"),
        xytext=(0, 3), textcoords="offset points", ha="right", fontsize=8,
    )  # fmt: skip
    ax.set(ylabel="test error [%]", ylim=(0, 25))
    ax.set_title(f"{result['data']}, λ = {result['lifetime']:g}, δ² = {result['alpha']:g}")
    return {"cpu-error": figure}
