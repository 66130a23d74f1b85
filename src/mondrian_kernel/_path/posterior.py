"""Bayesian kernel width: the posterior over lifetimes, and mixtures of models over widths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import logsumexp

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.cholesky import centred_targets, signal_variance
from mondrian_kernel._linear.ridge import PredictiveVariance
from mondrian_kernel._path.result import LifetimePath, RidgeRows
from mondrian_kernel._typing import FloatArray


@dataclass(frozen=True, eq=False)
class WidthMixture:
    r"""Models :math:`p_c(y \mid x)` of one data set with weights k_c: :math:`\sum_c k_c\, p_c`.

    The weights sum to 1. The models are fitted regressors with ``predict``, and with ``sample_y``
    where draws are wanted.
    """

    weights: FloatArray
    models: list[Any]

    def check(self) -> None:
        """Raise ValueError unless there is a positive weight for each model, with the sum 1."""
        if self.weights.shape != (len(self.models),) or not (self.weights > 0).all():
            raise ValueError("There is not one positive weight for each model.")
        if not np.isclose(self.weights.sum(), 1.0):
            raise ValueError(f"The weights have the sum {self.weights.sum()}.")

    def mean(self, X: ArrayLike) -> FloatArray:
        """Mean of y at rows."""
        return self._averaged([model.predict(X) for model in self.models])

    def mean_std(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation: the mean of the variances and the variance of the means."""
        means, stds = zip(*(m.predict(X, return_std=True) for m in self.models), strict=True)
        mean = self._averaged(means)
        squares = [std**2 + (part - mean) ** 2 for part, std in zip(means, stds, strict=True)]
        return mean, np.sqrt(self._averaged(squares))

    def mean_cov(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Mean and joint covariance, (n, n) or (n, n, n_outputs)."""
        means, covs = zip(*(m.predict(X, return_cov=True) for m in self.models), strict=True)
        mean = self._averaged(means)
        parts = []
        for part, cov in zip(means, covs, strict=True):
            away = part - mean
            parts.append(cov + away[:, None] * away[None, :])
        return mean, self._averaged(parts)

    def sample_y(self, X: ArrayLike, n_samples: int, rng: np.random.RandomState) -> FloatArray:
        """Draw targets: each draw from one model, picked by its weight."""
        picked = rng.choice(len(self.models), size=n_samples, p=self.weights)
        kinds, place = np.unique(picked, return_inverse=True)
        draws = [
            self.models[c].sample_y(X, int(np.sum(picked == c)), random_state=rng) for c in kinds
        ]
        joined: FloatArray = np.concatenate(draws, axis=-1)
        return joined[..., np.argsort(np.argsort(place, kind="stable"), kind="stable")]

    def _averaged(self, parts: Any) -> FloatArray:
        average: FloatArray = np.tensordot(self.weights, np.stack(parts), axes=1)
        return average


class RidgeComponent:
    """Ridge regression of a path at one lifetime; with ``keep`` it holds on to a dense factor.

    The signal variance is the likeliest where it is ``profiled``, else 1.
    """

    keep = False
    _variance: PredictiveVariance | None = None

    def __init__(self, path: LifetimePath, lifetime: float, alpha: float, profiled: bool) -> None:
        rows = path.model
        if not isinstance(rows, RidgeRows):
            raise ValueError("This path holds no ridge models.")
        self.features, self.alpha = path.features(lifetime), alpha
        self.operator = rows.operator(lifetime)
        self.fit = rows.fit(self.operator, alpha)
        self.signal_variance = np.ones(self.fit.intercept.size)
        if profiled:
            target, _ = centred_targets(self.operator, rows.y)
            self.signal_variance = signal_variance(self.operator, target, self.fit.dual)

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Mean of y at rows, (n,) or (n, n_outputs), and its deviation with noise if asked for."""
        Phi = self.features.transform(X)
        mean = Phi @ self.fit.coef + self.fit.intercept
        shape = mean.shape[: 1 if mean.shape[1] == 1 else 2]
        if not return_std:
            return mean.reshape(shape)
        variance = self._variance or PredictiveVariance(self.operator, self.alpha)
        if self.keep:
            self._variance = variance
        of_y = (variance(Phi) + self.alpha)[:, None] * self.signal_variance
        return mean.reshape(shape), np.sqrt(of_y).reshape(shape)


@dataclass(frozen=True, eq=False)
class LifetimePosterior:
    r"""Posterior over the lifetime λ, piecewise proportional to its prior.

    .. math::
        k_c = \frac{p(y \mid \lambda_c) \int_{\tau_c}^{\tau_{c+1}} p(\lambda)\, d\lambda}
                   {\sum_{c'} p(y \mid \lambda_{c'}) \int_{\tau_{c'}}^{\tau_{c'+1}} p(\lambda)\,
                   d\lambda}

    Made by :func:`lifetime_posterior`.

    Attributes
    ----------
    lifetimes : ndarray of shape (L,)
        Lifetimes λ_c of the path.
    edges : ndarray of shape (L + 1,)
        Ends τ of the intervals: 0, the lifetimes after the first, and Λ, the last.
    log_evidence : ndarray of shape (L,)
        Log marginal likelihood of y at each lifetime.
    weights : ndarray of shape (L,)
        Posterior probabilities k_c of the intervals. They sum to 1.
    alpha : float
        Ridge penalty δ².
    evidence : str
        Kind of marginal likelihood, "evidence" or "evidence-paper".
    path : LifetimePath
        The path.
    prior : frozen distribution
        The prior on λ.
    """

    lifetimes: FloatArray
    edges: FloatArray
    log_evidence: FloatArray
    weights: FloatArray
    alpha: float
    evidence: str
    path: LifetimePath = field(repr=False)
    prior: Any = field(repr=False)

    @cached_property
    def mean(self) -> float:
        """Posterior mean of λ."""
        held = np.flatnonzero(self.weights > np.finfo(float).eps)
        lowest, highest = self.prior.support() if hasattr(self.prior, "support") else (0.0, np.inf)
        edges = np.clip(self.edges, lowest, highest)
        a, b = edges[held, None], edges[held + 1, None]
        # Gauss and Legendre's nodes in [0, 1] and weights, repeated on equal parts.
        nodes, w = np.polynomial.legendre.leggauss(settings.MEAN_NODES)
        n_parts = max(1, settings.MEAN_PARTS // held.size)
        x = ((np.arange(n_parts)[:, None] + (nodes + 1.0) / 2.0) / n_parts).ravel()
        w = np.tile(w / (2.0 * n_parts), n_parts)
        # By parts: the mean over [a, b] is b minus the integral of the distribution function.
        means = b[:, 0] - (b - a)[:, 0] * (self._share(a, b, a + (b - a) * x) @ w)
        return float(self.weights[held] @ means / self.weights[held].sum())

    def _repr_html_(self) -> str:
        from mondrian_kernel._path.html_repr import posterior_html

        return posterior_html(self)

    def interval(self, p: float = 0.95) -> tuple[float, float]:
        """Equal-tailed interval of λ with posterior probability p.

        Parameters
        ----------
        p : float, default=0.95
            Probability, between 0 and 1.

        Returns
        -------
        lower, upper : float
            Quantiles (1 - p) / 2 and (1 + p) / 2.
        """
        if not 0 < p < 1:
            raise ValueError(f"p must lie between 0 and 1, got {p}.")
        return self._quantile((1.0 - p) / 2.0), self._quantile((1.0 + p) / 2.0)

    def _quantile(self, q: float) -> float:
        from scipy.optimize import brentq

        below = np.concatenate([[0.0], np.cumsum(self.weights)])
        last = int(np.flatnonzero(self.weights > 0)[-1])
        c = min(int(np.searchsorted(below, q, side="right")) - 1, last)
        a, b = self.edges[c], self.edges[c + 1]
        wanted = (q - below[c]) / self.weights[c]
        if wanted >= 1:
            return float(b)
        return float(brentq(lambda t: float(self._share(a, b, t)) - wanted, a, b, xtol=1e-14 * b))

    def _share(self, a: ArrayLike, b: ArrayLike, t: ArrayLike) -> FloatArray:
        """Part of the prior mass of [a, b] which lies in [a, t]."""
        part: FloatArray = np.exp(log_mass(self.prior, a, t) - log_mass(self.prior, a, b))
        return part

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = False) -> FloatArray: ...
    @overload
    def predict(self, X: ArrayLike, return_std: Literal[True]) -> tuple[FloatArray, FloatArray]: ...
    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        r"""Predict rows by the mixture over lifetimes, :math:`\sum_c k_c\, p(y \mid x, \lambda_c)`.

        Lifetimes whose weight is below 1e-6 of the largest are left out and the other weights
        scaled up. The ridge fits are made at the first call and kept.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, fitted before or new.
        return_std : bool, default=False
            Whether to return the standard deviation of y as well, by the law of total variance:
            mean of the variances plus variance of the means. The variance at one lifetime is
            :math:`\sigma^2 (v(x) + \alpha)`, with v as in
            :class:`~mondrian_kernel._linear.ridge.PredictiveVariance` and α for the noise.
            σ² is the likeliest at that lifetime; with ``evidence="evidence-paper"`` it is 1.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Mean of y.
        y_std : ndarray of the same shape
            Standard deviation of y, noise included; only with ``return_std``.
        """
        return self._mixture.mean_std(X) if return_std else self._mixture.mean(X)

    @cached_property
    def _mixture(self) -> WidthMixture:
        lifetimes, weights = self._likely(settings.NEGLIGIBLE_WEIGHT)
        how = self.alpha, self.evidence == "evidence"
        parts = [RidgeComponent(self.path, lifetime, *how) for lifetime in lifetimes.tolist()]
        keep = 8 * sum(part.operator.size**2 for part in parts) <= settings.MIXTURE_BYTES
        for part in parts:
            part.keep = keep
        return WidthMixture(weights, parts)

    def _likely(self, share: float) -> tuple[FloatArray, FloatArray]:
        """Lifetimes at least ``share`` times as likely as the likeliest, and weights of sum 1."""
        held = self.weights >= share * self.weights.max()
        return self.lifetimes[held], self.weights[held] / self.weights[held].sum()


def lifetime_posterior(
    path: LifetimePath, prior: Any, *, alpha: float | None = None, evidence: str = "evidence"
) -> LifetimePosterior:
    r"""Posterior over the lifetime λ of a path, given a prior.

    The marginal likelihood of y is taken as constant from each lifetime of the path to the next,
    and below the first as at the first: exact where the path holds every cut, for then no cell
    changes in between. As in the paper the prior is cut to [0, Λ], with Λ the last lifetime of the
    path: mass outside is cut off and the rest scaled up. So Λ itself ends the last interval
    and its own weight is 0, unless it is the only lifetime.

    Parameters
    ----------
    path : LifetimePath
        Path whose marginal likelihoods are used.
    prior : frozen distribution
        Prior on λ: anything with a ``cdf``, such as ``scipy.stats.gamma(2, scale=1.0)``.
    alpha : float or None, default=None
        Ridge penalty δ², one of ``path.alphas``. None: the path's best.
    evidence : {"evidence", "evidence-paper"}, default="evidence"
        Marginal likelihood with the signal variance at its best, or with variance 1 and noise
        alpha, as in the paper.

    Returns
    -------
    posterior : LifetimePosterior
        Weights, mean and intervals of λ, and predictions averaged over it.

    Notes
    -----
    All is done with logarithms: marginal likelihoods span thousands of nats, and a prior may put
    next to nothing where they are large. Where the path's solver is "lanczos" its determinants are
    estimates, with the standard error ``path.log_marginal_likelihood_std``, and so are the weights.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> from mondrian_kernel import lifetime_path
    >>> from mondrian_kernel._path.posterior import lifetime_posterior
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> path = lifetime_path(X, y, n_estimators=100, random_state=0)
    >>> posterior = lifetime_posterior(path, stats.gamma(2, scale=2.0))
    >>> lower, upper = posterior.interval(0.9)
    >>> bool(0 < lower < posterior.mean < upper < path.lifetimes[-1])
    True
    >>> mean, std = posterior.predict([[0.5], [3.0]], return_std=True)
    >>> bool(std[1] > 2 * std[0])  # far from the data little is known
    True
    """
    kinds = {
        "evidence": path.log_marginal_likelihood,
        "evidence-paper": path.log_marginal_likelihood_paper,
    }
    if evidence not in kinds:
        raise ValueError(f"evidence must be one of {tuple(kinds)}, got {evidence!r}.")
    if not callable(getattr(prior, "cdf", None)):
        raise TypeError(f"prior must be a frozen distribution with a cdf, got {prior!r}.")
    chosen = path.best_alpha if alpha is None else float(alpha)
    column = int(np.argmin(np.abs(np.log(path.alphas) - np.log(chosen)))) if chosen > 0 else 0
    if not np.isclose(path.alphas[column], chosen, rtol=1e-9, atol=0.0):
        raise ValueError(f"alpha={alpha} is not among those of the path, {path.alphas}.")

    lifetimes, log_evidence = path.lifetimes, kinds[evidence][:, column]
    if not np.isfinite(log_evidence).all():
        raise ValueError(
            "The path holds no likelihoods: beyond the dense solver it leaves them out when rows "
            "held out decide. Run it with criterion='evidence'."
        )
    edges = np.concatenate([[0.0], lifetimes[1:], lifetimes[-1:]])
    log_prior = log_mass(prior, edges[:-1], edges[1:])
    if not np.any(log_prior > -np.inf):
        raise ValueError(
            f"prior has no mass on [0, {lifetimes[-1]:.6g}], the lifetimes of the path."
        )
    log_weights = log_evidence + log_prior
    weights = np.exp(log_weights - logsumexp(log_weights))
    return LifetimePosterior(
        lifetimes, edges, log_evidence, weights, float(path.alphas[column]), evidence, path, prior
    )


def width_posterior(path: LifetimePath) -> LifetimePosterior:
    """Posterior over the lifetime under a prior that is uniform in its logarithm on the path."""
    positive = path.lifetimes[path.lifetimes > 0]
    return lifetime_posterior(path, stats.loguniform(positive[0], positive[-1]))


def likely_widths(path: LifetimePath) -> tuple[FloatArray, FloatArray]:
    """Lifetimes that are not negligible beside the likeliest, and their weights, which sum to 1."""
    return width_posterior(path)._likely(settings.UNLIKELY_WEIGHT)


def log_mass(prior: Any, a: ArrayLike, b: ArrayLike) -> FloatArray:
    """Logarithm of the prior mass of [a, b], without cancellation in either tail."""
    with np.errstate(divide="ignore", over="ignore"):
        lower = _log_difference(_log_tail(prior, b, "cdf"), _log_tail(prior, a, "cdf"))
        upper = _log_difference(_log_tail(prior, a, "sf"), _log_tail(prior, b, "sf"))
    log_mass: FloatArray = np.where(prior.cdf(a) < 0.5, lower, upper)
    return log_mass


def _log_tail(prior: Any, t: ArrayLike, tail: Literal["cdf", "sf"]) -> FloatArray:
    """Logarithm of the prior mass below (cdf) or above (sf) t, by the best method it has."""
    method: Callable[[ArrayLike], ArrayLike] | None = getattr(prior, f"log{tail}", None)
    if method is not None:
        return np.asarray(method(t), float)
    cdf = np.asarray(prior.cdf(t), float)
    log_tail: FloatArray = np.log(cdf) if tail == "cdf" else np.log1p(-cdf)
    return log_tail


def _log_difference(large: FloatArray, small: FloatArray) -> FloatArray:
    """Logarithm of exp(large) - exp(small)."""
    finite = np.where(large > -np.inf, large, 0.0)
    difference: FloatArray = large + np.log(-np.expm1(np.minimum(small - finite, 0.0)))
    return difference
