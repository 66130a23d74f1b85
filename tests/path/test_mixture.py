"""The mixture over widths against its definition, component by component."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from mondrian_kernel import MondrianKernelRegressor
from mondrian_kernel._path.posterior import WidthMixture, likely_widths

RNG = np.random.default_rng(0)
X, NEW = RNG.uniform(size=(60, 2)), RNG.uniform(-0.2, 1.2, size=(7, 2))
Y = np.stack([np.sin(6 * X[:, 0]), X[:, 1] ** 2], axis=1) + 0.1 * RNG.normal(size=(60, 2))


@pytest.fixture(scope="module", params=[1, 2], ids=["one output", "two outputs"])
def model(request):
    y = Y[:, 0] if request.param == 1 else Y
    return MondrianKernelRegressor("average", n_estimators=40, random_state=0).fit(X, y)


def test_weights_are_those_of_the_posterior_over_the_path(model):
    path = model.path_
    prior = stats.loguniform(path.lifetimes[0], path.lifetimes[-1])
    posterior = path.posterior(prior, alpha=model.alpha_)
    lifetimes, weights = likely_widths(path)
    assert len(lifetimes) > 1
    at = np.searchsorted(path.lifetimes, lifetimes)
    assert_allclose(weights, posterior.weights[at] / posterior.weights[at].sum())
    assert posterior.weights[at].sum() > 0.99
    assert_allclose([m.lifetime_ for m in model._mixture.models], lifetimes)
    assert model.lifetime_ == lifetimes[np.argmax(weights)]
    assert_allclose(model.posterior_.weights, posterior.weights)


def test_components_are_fits_at_their_lifetimes(model):
    part = model._mixture.models[0]
    columns = model.model_.columns
    alone = MondrianKernelRegressor(part.lifetime_, model.alpha_, 40, scale=None, random_state=0)
    alone.fit(columns(X), Y[:, 0] if part._one_output else Y)
    assert_allclose(part.predict(NEW), alone.predict(columns(NEW)), rtol=1e-9, atol=1e-12)


def test_moments_are_those_of_the_mixture(model):
    weights, models = model._mixture.weights, model._mixture.models
    parts = [m.predict(NEW, return_cov=True) for m in models]
    mean = sum(k * m for k, (m, _) in zip(weights, parts, strict=True))
    second = sum(
        k * (cov + m[:, None] * m[None]) for k, (m, cov) in zip(weights, parts, strict=True)
    )
    cov = second - mean[:, None] * mean[None]
    assert_allclose(model.predict(NEW), mean, rtol=1e-9)
    assert_allclose(model.predict(NEW, return_cov=True)[1], cov, atol=1e-9)
    parts = [m.predict(NEW, return_std=True) for m in models]
    second = sum(k * (std**2 + m**2) for k, (m, std) in zip(weights, parts, strict=True))
    assert_allclose(model.predict(NEW, return_std=True)[1] ** 2, second - mean**2, rtol=1e-7)


def test_samples_pick_components_by_weight():
    class Constant:
        def __init__(self, value):
            self.value = value

        def sample_y(self, X, n_samples, random_state):
            return self.value + 0.01 * random_state.normal(size=(len(X), n_samples))

    mixture = WidthMixture(np.array([0.25, 0.75]), [Constant(-1.0), Constant(1.0)])
    draws = mixture.sample_y(NEW, 4000, np.random.RandomState(0))
    assert draws.shape == (7, 4000)
    upper = draws > 0
    assert (upper == upper[0]).all()  # a draw is one function
    assert abs(upper[0].mean() - 0.75) < 5 * np.sqrt(0.25 * 0.75 / 4000)
    assert abs(np.corrcoef(upper[0, :-1], upper[0, 1:])[0, 1]) < 5 / np.sqrt(4000)


def test_draws_follow_the_mean(model):
    draws = model.sample_y(NEW, 2000, random_state=0)
    mean, std = model.predict(NEW, return_std=True)
    assert (np.abs(draws.mean(axis=-1) - mean) < 5 * std / np.sqrt(2000)).all()


def test_intervals_are_calibrated_by_the_likeliest_width(model):
    interval = model.predict_interval(NEW, 0.8, clip=False)
    mean, std = (part[:, None] for part in model.predict(NEW, return_std=True))
    factor = (interval - mean) / std
    assert_allclose(factor, np.broadcast_to(factor[:1], factor.shape))
    best = model.at(model.lifetime_)
    mean, std = (part[:, None] for part in best.predict(NEW, return_std=True))
    assert_allclose(factor, (best.predict_interval(NEW, 0.8, clip=False) - mean) / std)


def test_only_an_average_has_a_posterior(model):
    with pytest.raises(AttributeError, match='lifetime="average"'):
        _ = model.at(model.lifetime_).posterior_
    with pytest.raises(ValueError, match="partial_fit follows one lifetime"):
        model.partial_fit(X, Y)
