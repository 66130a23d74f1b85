"""Variances from a sample of rows against those of all rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from laws.level import assert_close
from mondrian_kernel import MondrianFeatures
from mondrian_kernel._linear.cell_operator import CellOperator
from mondrian_kernel._linear.ridge import solve, standard_loo_errors
from mondrian_kernel._linear.variance import PredictiveVariance, SampledVariance
from mondrian_kernel._settings import FIT_PROBES, ONE_FIT_PROBE_TOL

RNG = np.random.default_rng(0)
X, NEW = RNG.uniform(size=(900, 2)), RNG.uniform(size=(200, 2))
Y = np.sin(6 * X[:, :1]) + 0.1 * RNG.normal(size=(900, 1))
FEATURES = MondrianFeatures(3.0, 80, random_state=0)
PHI = FEATURES.fit_transform(X)
CELLS = PHI.indices.reshape(900, 80)


@pytest.fixture(params=[(0.1, None, True), (0.01, None, False), (0.1, 3, True)], ids=str)
def case(request):
    alpha, most, centre = request.param
    weight = None if most is None else RNG.integers(1, most + 1, size=900) * 1.0
    design = CellOperator(CELLS, FEATURES.n_cells_, sample_weight=weight, centre=centre)
    sampled = SampledVariance(design, alpha, n_sample=450)
    return alpha, design, sampled, PredictiveVariance(design, alpha)


def shares(design, alpha):
    """αG with G the inverse of the kernel matrix plus αI, less the intercept's share."""
    G = np.linalg.inv(design.kernel_matrix() + alpha * np.eye(design.n_rows))
    return alpha * G - design.centre * np.outer(design.mean_direction, design.mean_direction)


def test_odds_are_those_of_the_sample_times_one_factor(case):
    _, _, sampled, _ = case
    Phi = FEATURES.transform(NEW)
    odds, alone = (v / (1.0 - v) for v in (sampled(Phi), sampled._sample(Phi)))
    assert_allclose(odds / alone, odds[0] / alone[0])


def test_the_factor_gives_the_mean_share_of_all_rows(case):
    """The trace of αG over N, estimated with z of random signs as zᵀαGz/N.

    That has the variance 2 Σ_{i≠j} (αG)_ij² / N². Its Krylov solution leaves out rᵀαGr/N for a
    residual r, at most the square of the tolerance.
    """
    alpha, design, sampled, _ = case
    v = sampled(PHI[sampled.rows])
    claimed = np.mean(1.0 / (1.0 + design.sample_weight[sampled.rows] * v / alpha))
    B = shares(design, alpha)
    off_diagonal = (B**2).sum() - (np.diag(B) ** 2).sum()
    standard_error = np.sqrt(2.0 * off_diagonal / FIT_PROBES) / design.n_rows
    expected = np.trace(B) / design.n_rows
    assert_close(claimed, expected, standard_error, bias=ONE_FIT_PROBE_TOL**2)


def test_it_is_closer_than_the_sample_alone(case):
    _, _, sampled, exact = case
    Phi = FEATURES.transform(NEW)
    off, off_alone = (np.abs(np.log(v(Phi) / exact(Phi))) for v in (sampled, sampled._sample))
    assert off.mean() < off_alone.mean()


def test_far_away_it_is_that_of_the_prior(case):
    _, design, sampled, _ = case
    nothing = sparse.csr_matrix((1, FEATURES.n_cells_))
    assert_allclose(sampled(nothing), sampled._sample(nothing) if design.centre else 1.0)


def test_leave_one_out_errors(case):
    """Those of all rows, had the variances of the rows left out been exact."""
    alpha, design, sampled, exact = case
    assert_allclose(sampled._left_out, sampled(PHI[sampled.rows]))
    share = np.diag(shares(design, alpha))[sampled.rows]
    sampled._left_out = alpha * (1.0 / share - 1.0) / design.sample_weight[sampled.rows]
    errors = sampled.standard_errors(solve(design, Y, alpha).dual)
    assert_allclose(errors, standard_loo_errors(design, Y, alpha, exact)[sampled.rows])


def test_covariance_has_the_variances(case):
    _, _, sampled, _ = case
    Phi = FEATURES.transform(NEW)
    cov = sampled.covariance(Phi)
    assert_allclose(np.diag(cov), sampled(Phi), rtol=1e-6)
    assert np.linalg.eigvalsh(cov).min() > -1e-9
