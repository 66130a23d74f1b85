"""Generated data: one set with a known kernel width, one with a skewed column and local noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg, special
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.utils import check_random_state

from mondrian_kernel._typing import FloatArray


def make_laplace_gp(
    n_samples: int = 1000,
    n_features: int = 2,
    *,
    lifetime: float = 10.0,
    noise: float = 0.01,
    random_state: Any = None,
) -> tuple[FloatArray, FloatArray]:
    r"""Draw a function from a Gaussian process with a Laplace kernel, at uniform rows.

    .. math::
        y = f(x) + \varepsilon, \quad f \sim GP(0, \exp(-\lambda \lVert x - x' \rVert_1)), \quad
        \varepsilon \sim N(0, \text{noise}^2), \quad x \sim U[0, 1]^D

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows N; the cost is O(N³).
    n_features : int, default=2
        Number of columns D.
    lifetime : float, default=10.0
        Lifetime λ of the kernel.
    noise : float, default=0.01
        Standard deviation of the noise.
    random_state : int, RandomState instance or None, default=None
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    y : ndarray of shape (n_samples,)
        Targets.

    Examples
    --------
    >>> from mondrian_kernel.datasets import make_laplace_gp
    >>> X, y = make_laplace_gp(100, random_state=0)
    >>> X.shape, y.shape
    ((100, 2), (100,))
    """
    rng = check_random_state(random_state)
    X: FloatArray = rng.uniform(size=(n_samples, n_features))
    K = laplacian_kernel(X, gamma=lifetime)
    K.flat[:: n_samples + 1] += noise**2
    y: FloatArray = linalg.cholesky(K, lower=True) @ rng.standard_normal(n_samples)
    return X, y


def make_skewed(
    n_samples: int = 1000, *, random_state: Any = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Draw rows with interactions, a jump, a skewed column, and noise that grows along a column.

    .. math::
        y = 2 \sin(3 \pi x_1 x_2) + 1.5 \cos(\pi (x_2 + 2 x_3)) + 1[x_3 > 0.6]
            + 2 \Phi(\tfrac12 \ln x_4) + x_5 + \sigma \varepsilon, \quad
        \sigma = 0.2 \cdot 5^{x_5}, \quad \varepsilon \sim N(0, 1)

    The fourth column is log-normal, :math:`\ln x_4 \sim N(0, 2^2)`, and only its rank matters: Φ is
    the normal distribution function. The others are uniform on [0, 1]. The sixth has no effect.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    random_state : int, RandomState instance or None, default=None
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, 6)
        Rows.
    y : ndarray of shape (n_samples,)
        Targets.
    noise : ndarray of shape (n_samples,)
        Standard deviation σ of the noise in each target.

    Examples
    --------
    >>> from mondrian_kernel.datasets import make_skewed
    >>> X, y, noise = make_skewed(100, random_state=0)
    >>> X.shape, bool(0.2 <= noise.min() < noise.max() <= 1)
    ((100, 6), True)
    """
    rng = check_random_state(random_state)
    X: FloatArray = rng.uniform(size=(n_samples, 6))
    X[:, 3] = rng.lognormal(sigma=2.0, size=n_samples)
    smooth = 2 * np.sin(3 * np.pi * X[:, 0] * X[:, 1]) + 1.5 * np.cos(
        np.pi * (X[:, 1] + 2 * X[:, 2])
    )
    rank = special.ndtr(np.log(X[:, 3]) / 2)
    noise: FloatArray = 0.2 * 5 ** X[:, 4]
    y: FloatArray = smooth + (X[:, 2] > 0.6) + 2 * rank + X[:, 4]
    return X, y + noise * rng.standard_normal(n_samples), noise
