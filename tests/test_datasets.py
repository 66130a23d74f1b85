"""Data drawn with a known kernel."""

import numpy as np
from scipy import stats
from sklearn.metrics.pairwise import laplacian_kernel

from laws.level import FALSE_ALARM
from mondrian_kernel.datasets import make_laplace_gp


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
