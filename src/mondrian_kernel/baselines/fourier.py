"""Random Fourier features of the Laplace kernel, and the checks that its random features share."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._trees.checks import all_or_nothing, check_rows
from mondrian_kernel._typing import FloatArray

Seed = int | np.random.RandomState | None


class LaplaceFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Checks of parameters and rows that random features of the Laplace kernel share."""

    lifetime: float
    random_state: Seed
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lifetime": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def _training_rows(self, X: ArrayLike) -> tuple[FloatArray, np.random.RandomState]:
        """Validate the rows given to ``fit``, and return a generator with them."""
        return check_rows(self, X, reset=True), check_random_state(self.random_state)

    def _new_rows(self, X: ArrayLike) -> FloatArray:
        """Validate the rows given to ``transform``."""
        check_is_fitted(self)
        return check_rows(self, X)


class LaplaceFourierFeatures(LaplaceFeatures):
    r"""Random Fourier features of the Laplace kernel.

    .. math::

        \phi(x) = \sqrt{2 / C} \, [\cos(\omega_1^T x), \ldots, \cos(\omega_{C/2}^T x),
                                   \sin(\omega_1^T x), \ldots, \sin(\omega_{C/2}^T x)],
        \qquad \omega_{id} \sim \text{Cauchy}(0, \lambda) \text{ independent}

    The Cauchy distribution is the Fourier transform of the Laplace kernel in each column. So
    :math:`E[\phi(x)^T \phi(x')] = \exp(-\lambda \|x - x'\|_1)` for any number of columns. A cosine
    and a sine of the same frequency make :math:`\|\phi(x)\| = 1` exactly [1]_.

    Parameters
    ----------
    lifetime : float, default=1.0
        Inverse kernel width λ ≥ 0, the ``gamma`` of scikit-learn's ``laplacian_kernel``.
    n_components : int, default=100
        Number of features C: a cosine and a sine for each of C/2 frequencies. If C is odd, the last
        feature is a cosine with a random shift, and :math:`\|\phi(x)\|` is 1 only on average.
    random_state : int, RandomState instance or None, default=None
        Seed of the frequencies; an int gives the same features at every fit.

    Attributes
    ----------
    frequencies_ : ndarray of shape ((n_components + 1) // 2, n_features_in_)
        The frequencies ω.
    shift_ : float
        Shift of the last cosine if ``n_components`` is odd.
    n_features_in_ : int
        Number of columns of ``X`` in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if ``X`` has names that are all strings.

    See Also
    --------
    RandomBinningFeatures : Sparse features of the same kernel, from random grids.
    sklearn.kernel_approximation.RBFSampler : The same idea for the Gaussian kernel.

    References
    ----------
    .. [1] A. Rahimi and B. Recht, "Random features for large-scale kernel machines", NIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import laplacian_kernel
    >>> from mondrian_kernel import LaplaceFourierFeatures
    >>> X = np.array([[0.0, 0.0], [0.1, 0.2], [1.0, 0.5]])
    >>> fourier = LaplaceFourierFeatures(lifetime=2.0, n_components=20000, random_state=0)
    >>> Phi = fourier.fit_transform(X)
    >>> Phi.shape
    (3, 20000)
    >>> bool(np.allclose(Phi @ Phi.T, laplacian_kernel(X, gamma=2.0), atol=0.03))
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LaplaceFeatures._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self, lifetime: float = 1.0, n_components: int = 100, *, random_state: Seed = None
    ) -> None:
        self.lifetime = lifetime
        self.n_components = n_components
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw the frequencies. Only the number of columns of ``X`` is used.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : None
            Ignored.

        Returns
        -------
        LaplaceFourierFeatures
            The fitted transformer.
        """
        rows, rng = self._training_rows(X)
        draws = rng.standard_cauchy(size=((self.n_components + 1) // 2, rows.shape[1]))
        with np.errstate(over="ignore"):
            self.frequencies_: FloatArray = self.lifetime * draws
        self.shift_ = float(rng.uniform(0.0, 2.0 * np.pi))
        self._n_features_out = self.n_components
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Map rows to their features φ(x).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, from ``fit`` or new.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            All cosines, then all sines, then the shifted cosine, times √(2/C). The features of a
            row do not depend on the other rows.
        """
        rows = self._new_rows(X)
        # A BLAS product would round a row differently in batches of different size, and with a
        # large Cauchy frequency the cosine would differ. The cosines take longer anyway.
        with np.errstate(over="ignore", invalid="ignore"):
            phases = np.einsum("nd,kd->nk", rows, self.frequencies_)
        if not np.isfinite(phases).all():
            raise ValueError(
                f"X is so large at lifetime={self.lifetime} that the products of rows and "
                "frequencies overflow: scale X or lower the lifetime."
            )
        n_pairs = self._n_features_out // 2
        Phi = np.empty((len(rows), self._n_features_out))
        np.cos(phases[:, :n_pairs], out=Phi[:, :n_pairs])
        np.sin(phases[:, :n_pairs], out=Phi[:, n_pairs : 2 * n_pairs])
        np.cos(phases[:, n_pairs:] + self.shift_, out=Phi[:, 2 * n_pairs :])
        Phi *= np.sqrt(2.0 / self._n_features_out)
        return Phi
