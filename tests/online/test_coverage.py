"""Intervals of young streams: the share of new targets inside is the one asked for."""

import numpy as np
import pytest

from mondrian_kernel import MondrianKernelRegressor

SEEDS, N_TEST = 8, 500


def drawn(kind, n, rng):
    """Rows and targets: a smooth function with noise, noise that differs, or noise alone."""
    X = rng.uniform(size=(n, 3))
    noise = np.where(X[:, 1] < 0.5, 0.05, 0.5) if kind == "uneven" else 0.3
    f = 0.0 if kind == "noise" else np.sin(6 * X[:, 0]) + X[:, 1]
    return X, f + noise * rng.normal(size=n)


@pytest.mark.parametrize("batch", [10, 100])
@pytest.mark.parametrize("kind", ["smooth", "uneven", "noise"])
def test_young_streams_cover(kind, batch):
    """After 200 and 500 rows no fewer than asked for, and not many more, as errors still fall.

    Errors of one stream have a spread of their own, of some 100 rows as its quantiles have.
    """
    inside = {200: [], 500: []}
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        model = MondrianKernelRegressor(n_estimators=10, random_state=seed)
        for n in range(batch, 501, batch):
            model.partial_fit(*drawn(kind, batch, rng))
            if n in inside:
                X, y = drawn(kind, N_TEST, rng)
                low, high = model.predict_interval(X).T
                inside[n].append(np.mean((low <= y) & (y <= high)))
    for n, shares in inside.items():
        deviation = np.sqrt(0.9 * 0.1 * (1 / N_TEST + 1 / 100) / SEEDS)
        assert 0.9 - 3 * deviation < np.mean(shares) < 0.96, (n, shares)
