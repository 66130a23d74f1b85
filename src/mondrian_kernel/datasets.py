"""Data whose kernel width is known."""

from __future__ import annotations

from typing import Any

from scipy import linalg
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
