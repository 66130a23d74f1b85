"""Bayesian width against numerical integration, and the mixture against brute-force regression."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad
from scipy.stats import multivariate_normal

from mondrian_kernel import MondrianFeatures, lifetime_path
from mondrian_kernel._path.posterior import lifetime_posterior

rng = np.random.default_rng(0)
X = rng.uniform(size=(40, 2))
Y = np.stack([np.sin(5 * X[:, 0]), X[:, 1] ** 2], axis=1) + 0.2 * rng.normal(size=(40, 2))
NEW = rng.uniform(-0.5, 1.5, size=(12, 2))
OPTIONS = {
    "n_estimators": 15, "max_lifetime": 8.0, "n_lifetimes": 20, "alphas": [0.01, 0.1, 1.0],
    "random_state": 0,
}  # fmt: skip
PRIORS = {
    "gamma": stats.gamma(2.0, scale=1.0),
    "uniform": stats.uniform(0.0, 5.0),
    "past the end": stats.gamma(3.0, scale=5.0),
    "below zero": stats.norm(0.0, 2.0),
}


def make_path(y=Y[:, 0], **options):
    return lifetime_path(X, y, **{**OPTIONS, **options})


@pytest.fixture(scope="module")
def path():
    return make_path()


@pytest.fixture(scope="module", params=PRIORS)
def posterior(request, path):
    return lifetime_posterior(path, PRIORS[request.param], alpha=0.1)


def integral(posterior, f, a, b):
    """∫ f(λ) p(λ) L(λ) dλ over [a, b], with L a step function, up to the constant max L."""
    path, prior = posterior.path, posterior.prior
    log_l = posterior.log_evidence

    def integrand(t):
        c = max(int(np.searchsorted(path.lifetimes, t, side="right")) - 1, 0)
        return f(t) * prior.pdf(t) * np.exp(log_l[c] - log_l.max())

    kinks = sorted([*path.lifetimes, *prior.support()])
    steps = [a, *(t for t in kinks if a < t < b), b]
    return sum(quad(integrand, lo, hi)[0] for lo, hi in pairwise(steps))


class TestAgainstIntegration:
    def test_weights(self, posterior):
        last = posterior.path.lifetimes[-1]
        total = integral(posterior, lambda t: 1.0, 0.0, last)
        edges = posterior.edges
        masses = [
            integral(posterior, lambda t: 1.0, a, b) if b > a else 0.0 for a, b in pairwise(edges)
        ]
        assert_allclose(posterior.weights, np.array(masses) / total, rtol=1e-7, atol=1e-12)
        assert_allclose(posterior.weights.sum(), 1.0)

    def test_mean(self, posterior):
        last = posterior.path.lifetimes[-1]
        total = integral(posterior, lambda t: 1.0, 0.0, last)
        assert_allclose(posterior.mean, integral(posterior, lambda t: t, 0.0, last) / total)

    @pytest.mark.parametrize("p", [0.1, 0.5, 0.95, 0.999])
    def test_interval(self, posterior, p):
        last = posterior.path.lifetimes[-1]
        total = integral(posterior, lambda t: 1.0, 0.0, last)
        lower, upper = posterior.interval(p)
        assert 0 <= lower < upper <= last
        for end, mass in ((lower, (1 - p) / 2), (upper, (1 + p) / 2)):
            assert_allclose(integral(posterior, lambda t: 1.0, 0.0, end) / total, mass, rtol=1e-7)


def test_exact_where_the_path_holds_every_cut():
    """The supplement's formula with the evidence of the features themselves, cut by cut."""
    rows, y = X[:12], Y[:12, 0]
    cuts = MondrianFeatures(6.0, 2, random_state=1).fit(rows).trees_.cuts.time
    lifetimes = np.array([0.0, *cuts, 6.0])
    path = lifetime_path(
        rows, y, n_estimators=2, lifetimes=lifetimes, alphas=[0.05], fit_intercept=False,
        random_state=1,
    )  # fmt: skip
    prior = stats.gamma(2.0, scale=2.0)

    def likelihood(lifetime):
        Phi = path.features(lifetime).transform(rows).toarray()
        return multivariate_normal(np.zeros(12), Phi @ Phi.T + 0.05 * np.eye(12)).pdf(y)

    middles = (lifetimes[1:] + lifetimes[:-1]) / 2
    masses = np.array([likelihood(t) for t in middles]) * np.diff(prior.cdf(lifetimes))
    posterior = lifetime_posterior(path, prior, evidence="evidence-paper")
    assert_allclose(posterior.weights[:-1], masses / masses.sum(), rtol=1e-8)
    assert posterior.weights[-1] == 0.0


def test_thousands_of_nats_and_a_prior_of_next_to_nothing(path):
    """Evidence and prior each span more than a double holds; their sum decides."""
    prior = stats.norm(300.0, 1.0)
    posterior = lifetime_posterior(path, prior, alpha=0.1)
    assert prior.cdf(path.lifetimes[-1]) == 0.0
    assert np.all(np.isfinite(posterior.weights))
    assert_allclose(posterior.weights.sum(), 1.0)
    lower, upper = posterior.interval(0.9)
    assert posterior.edges[-3] < lower < posterior.mean < upper < path.lifetimes[-1]
    tail = lifetime_posterior(path, stats.norm(-60.0, 1.0), alpha=0.1)
    assert tail.interval(0.9)[0] < tail.mean < 0.05
    assert tail.weights[0] > 0.99


def test_a_prior_with_a_cdf_alone(path):
    class Exponential:
        def cdf(self, t):
            return -np.expm1(-np.maximum(t, 0.0))

    ours = lifetime_posterior(path, Exponential())
    scipys = lifetime_posterior(path, stats.expon())
    assert_allclose(ours.weights, scipys.weights, rtol=1e-8)
    assert_allclose(ours.mean, scipys.mean)
    assert_allclose(ours.interval(), scipys.interval(), rtol=1e-6)


def test_the_only_lifetime_has_all_the_weight():
    path = lifetime_path(X, Y[:, 0], n_estimators=5, lifetimes=[2.0], alphas=[0.1])
    posterior = lifetime_posterior(path, stats.uniform(0.0, 1.0))
    assert_allclose(posterior.weights, [1.0])
    assert_allclose(posterior.mean, 0.5)
    assert_allclose(posterior.predict(NEW), path.predict(NEW))
    narrow = lifetime_posterior(path, stats.norm(1.3, 0.01))
    assert_allclose(narrow.mean, 1.3)
    assert_allclose(narrow.interval(0.9), stats.norm(1.3, 0.01).interval(0.9))


def component(path, lifetime, alpha, y, *, intercept, profiled, new=NEW):
    """Mean and variance of new y by Bayesian linear regression with a nearly flat intercept."""
    features = path.features(lifetime)
    Phi, Phi_new = features.transform(X).toarray(), features.transform(new).toarray()
    missing = 1.0 - (Phi_new**2).sum(axis=1)
    precision = np.eye(Phi.shape[1])
    if intercept:
        Phi, Phi_new = (np.c_[P, np.ones(len(P))] for P in (Phi, Phi_new))
        precision = np.diag(np.r_[np.ones(Phi.shape[1] - 1), 0.0])
    A = Phi.T @ Phi / alpha + precision
    w = np.linalg.solve(A, Phi.T @ y / alpha)
    quadratic = ((y - Phi @ w) ** 2).sum() / alpha + w @ precision @ w
    sigma2 = quadratic / (len(y) - intercept) if profiled else 1.0
    posterior = np.einsum("ij,ji->i", Phi_new, np.linalg.solve(A, Phi_new.T))
    return Phi_new @ w, sigma2 * (missing + posterior + alpha)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("evidence", ["evidence", "evidence-paper"])
def test_mixture_of_bayesian_regressions(intercept, evidence):
    path = make_path(Y, fit_intercept=intercept)
    posterior = lifetime_posterior(path, stats.gamma(2.0), alpha=0.1, evidence=evidence)
    mean, std = posterior.predict(NEW, return_std=True)
    assert mean.shape == std.shape == (12, 2)
    for t in range(2):
        parts = [
            component(
                path, lifetime, 0.1, Y[:, t],
                intercept=intercept, profiled=evidence == "evidence",
            )
            for lifetime in path.lifetimes
        ]  # fmt: skip
        means, variances = (np.array(a) for a in zip(*parts, strict=True))
        k = posterior.weights
        expected = k @ means
        assert_allclose(mean[:, t], expected, atol=1e-5)
        second = k @ (variances + means**2)
        assert_allclose(std[:, t], np.sqrt(second - expected**2), rtol=1e-4)
    assert_allclose(posterior.predict(NEW), mean)


def test_one_output_is_one_dimensional(posterior):
    mean, std = posterior.predict(NEW, return_std=True)
    assert mean.shape == std.shape == posterior.predict(NEW).shape == (12,)
    assert std.min() > 0


def test_far_away_only_the_prior_is_left(path):
    posterior = lifetime_posterior(path, stats.uniform(1.0, 6.0), alpha=0.1)
    mean, std = posterior.predict([[1e6, -1e6], [2e6, 2e6]], return_std=True)
    assert_allclose(mean[0], mean[1])
    assert_allclose(std[0], std[1])
    assert std[0] > posterior.predict(X, return_std=True)[1].max()


def test_factors_that_are_too_large_are_not_kept(path, monkeypatch):
    kept = lifetime_posterior(path, PRIORS["gamma"]).predict(NEW, return_std=True)
    monkeypatch.setattr("mondrian_kernel._settings.MIXTURE_BYTES", 0.0)
    posterior = lifetime_posterior(path, PRIORS["gamma"])
    again = posterior.predict(NEW, return_std=True)
    assert all(part._variance is None for part in posterior._mixture.models)
    assert_allclose(again, kept)


def test_pickles(posterior):
    copy = pickle.loads(pickle.dumps(posterior))
    assert_allclose(copy.predict(NEW), posterior.predict(NEW))
    assert copy.interval() == posterior.interval()


def test_default_alpha_is_the_best(path):
    posterior = lifetime_posterior(path, PRIORS["gamma"])
    assert posterior.alpha == path.best_alpha


class TestBadInput:
    @pytest.mark.parametrize("prior", [stats.uniform(100.0, 1.0), stats.uniform(-3.0, 2.0)])
    def test_prior_without_mass(self, path, prior):
        with pytest.raises(ValueError, match="no mass on"):
            lifetime_posterior(path, prior)

    def test_prior_without_cdf(self, path):
        with pytest.raises(TypeError, match="cdf"):
            lifetime_posterior(path, 3.0)

    @pytest.mark.parametrize("alpha", [0.5, 0.0, -1.0])
    def test_alpha_not_on_the_path(self, path, alpha):
        with pytest.raises(ValueError, match="not among"):
            lifetime_posterior(path, PRIORS["gamma"], alpha=alpha)

    def test_unknown_evidence(self, path):
        with pytest.raises(ValueError, match="evidence must be"):
            lifetime_posterior(path, PRIORS["gamma"], evidence="loo")

    @pytest.mark.parametrize("p", [0.0, 1.0, -0.1])
    def test_interval(self, posterior, p):
        with pytest.raises(ValueError, match="between 0 and 1"):
            posterior.interval(p)


def test_path_without_likelihoods_is_refused():
    rng = np.random.default_rng(0)
    rows, targets = rng.uniform(size=(60, 2)), rng.normal(size=60)
    path = lifetime_path(
        rows, targets, n_estimators=10, lifetimes=[1.0, 2.0], solver="lanczos",
        criterion="holdout", validation=(rows[:5], targets[:5]), random_state=0,
    )  # fmt: skip
    assert np.isnan(path.loo_error).all()
    with pytest.raises(ValueError, match="criterion='evidence'"):
        path.posterior(stats.uniform(0, 2))
