"""The logarithm of a tridiagonal matrix against its eigenvalues."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import eigh

from mondrian_kernel._linear.lanczos import first_log


def by_eigenvalues(a, b, alphas):
    T = np.diag(a) + np.diag(b, 1) + np.diag(b, -1)
    values, V = eigh(T)
    return (V[0] ** 2) @ np.log(np.maximum(values, 0.0)[:, None] + alphas)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e7])
@pytest.mark.parametrize("n", [1, 2, 30])
def test_equals_the_sum_over_eigenvalues(n, scale):
    rng = np.random.default_rng(n)
    A = rng.normal(size=(n, n))
    # L Lᵀ of a bidiagonal L is tridiagonal and not negative
    diagonal, below = np.abs(np.diag(A)) * scale**0.5, rng.normal(size=n - 1) * scale**0.5
    a = diagonal**2 + np.append(0.0, below) ** 2
    b = np.abs(diagonal[:-1] * below)
    for alphas in (np.logspace(-4, 1, 11), np.array([0.3]), np.array([1e-8, 1e6])):
        expected = by_eigenvalues(a, b, alphas)
        # Eigenvalues are known up to rounding errors of the largest; their logs divide by alpha.
        largest = np.abs(a).max() + 2.0 * b.max(initial=0.0)
        rounding = 10 * np.finfo(float).eps * largest / alphas
        assert (
            np.abs(first_log(a, b, alphas) - expected) <= 1e-11 * np.abs(expected) + rounding
        ).all()


def test_what_comes_after_a_break_does_not_count():
    a, b, alphas = np.array([2.0, 1.0, 5.0, 4.0]), np.array([0.5, 0.0, 1.0]), np.array([0.1, 1.0])
    assert_allclose(first_log(a, b, alphas), first_log(a[:2], b[:1], alphas), rtol=1e-13)
