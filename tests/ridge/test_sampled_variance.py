"""Variances from a sample of rows against those of all rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import mondrian_kernel.ridge.sampled_variance as module
from mondrian_kernel import MondrianFeatures
from mondrian_kernel.ridge.design import flat_design
from mondrian_kernel.ridge.left_out import standard_loo_errors
from mondrian_kernel.ridge.sampled_variance import SampledVariance
from mondrian_kernel.ridge.solve import solve
from mondrian_kernel.ridge.variance import PredictiveVariance

RNG = np.random.default_rng(0)
X, NEW = RNG.uniform(size=(900, 2)), RNG.uniform(size=(200, 2))
Y = np.sin(6 * X[:, :1]) + 0.1 * RNG.normal(size=(900, 1))
FEATURES = MondrianFeatures(3.0, 80, random_state=0)
PHI = FEATURES.fit_transform(X)
CELLS = PHI.indices.reshape(900, 80)


@pytest.fixture(params=[(0.1, None, True), (0.01, None, False), (0.1, 3, True)], ids=str)
def case(request, monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 450)
    alpha, most, centre = request.param
    weight = None if most is None else RNG.integers(1, most + 1, size=900) * 1.0
    design = flat_design(CELLS, FEATURES.n_cells_, weight, centre=centre)
    return alpha, design, SampledVariance(design, alpha), PredictiveVariance(design, alpha)


def test_variance_at_new_rows(case):
    _, _, sampled, exact = case
    Phi = FEATURES.transform(NEW)
    ratio = sampled(Phi) / exact(Phi)
    assert_allclose(np.median(ratio), 1.0, atol=0.15)
    low, high = np.quantile(ratio, [0.05, 0.95])
    assert 0.5 < low < high < 1.9
    # Without the factor all would be too large.
    assert np.median(sampled._sample(Phi) / exact(Phi)) > 1.25


def test_far_away_it_is_that_of_the_prior(case):
    _, _, sampled, exact = case
    nothing = sparse.csr_matrix((1, FEATURES.n_cells_))
    assert_allclose(sampled(nothing), exact(nothing), rtol=0.01)


def test_leave_one_out_errors(case):
    alpha, design, sampled, exact = case
    expected = standard_loo_errors(design, Y, alpha, exact)[sampled.rows]
    errors = sampled.standard_errors(solve(design, Y, alpha).dual)
    assert_allclose(np.median(errors / expected), 1.0, atol=0.05)
    assert_allclose(np.quantile(errors, 0.9), np.quantile(expected, 0.9), rtol=0.1)


def test_covariance_has_the_variances(case):
    _, _, sampled, _ = case
    Phi = FEATURES.transform(NEW)
    cov = sampled.covariance(Phi)
    assert_allclose(np.diag(cov), sampled(Phi), rtol=1e-6)
    assert np.linalg.eigvalsh(cov).min() > -1e-9
