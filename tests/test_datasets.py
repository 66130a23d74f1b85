"""Generated data follow their formulas."""

import numpy as np
from scipy import stats
from sklearn.metrics.pairwise import laplacian_kernel

from laws.level import FALSE_ALARM
from mondrian_kernel.datasets import make_laplace_gp, make_skewed


def test_whitened_targets_are_standard_normal():
    X, y = make_laplace_gp(400, 3, lifetime=2.0, noise=0.1, random_state=0)
    assert X.min() >= 0
    assert X.max() <= 1
    K = laplacian_kernel(X, gamma=2.0) + 0.01 * np.eye(400)
    white = np.linalg.solve(np.linalg.cholesky(K), y)
    assert stats.kstest(white, "norm").pvalue > FALSE_ALARM
    wrong = np.linalg.solve(np.linalg.cholesky(laplacian_kernel(X, gamma=20.0)), y)
    assert stats.kstest(wrong, "norm").pvalue < FALSE_ALARM


def test_seed():
    for a, b in zip(
        make_laplace_gp(20, random_state=1), make_laplace_gp(20, random_state=1), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_skewed_data_have_the_noise_and_the_tail_they_say():
    X, y, noise = make_skewed(10_000, random_state=0)
    a, b, c, tail, place, _ = X.T
    f = 2 * np.sin(3 * np.pi * a * b) + 1.5 * np.cos(np.pi * (b + 2 * c)) + np.where(c > 0.6, 1, 0)
    f += 2 * stats.lognorm.cdf(tail, s=2.0) + place
    assert stats.kstest((y - f) / noise, "norm").pvalue > FALSE_ALARM
    assert stats.kstest((y - f) / noise.mean(), "norm").pvalue < FALSE_ALARM
    assert stats.kstest(tail, stats.lognorm(s=2.0).cdf).pvalue > FALSE_ALARM
