"""Predictive variance against Bayesian linear regression with a flat prior on the intercept."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.cholesky import centred_targets, signal_variance
from mondrian_kernel._linear.ridge import PredictiveVariance, solve
from ridge_problem import random_problem

PROBLEMS = {
    "few cells": random_problem(40),
    "many cells": random_problem(15, n_trees=20),
    "few cells, weighted": random_problem(40, weighted=True),
    "many cells, weighted": random_problem(15, n_trees=20, weighted=True),
}


def new_rows(problem, n=12, seed=0, far=True):
    """Features of rows that stay with their cells with probabilities between 0 and 1.

    One lies so far away that it has no features.
    """
    rng = np.random.default_rng(seed)
    Phi = problem.Phi()[rng.integers(len(problem.cells), size=n)]
    Phi = Phi * rng.uniform(0.01, 1.0, size=Phi.shape)
    Phi[0], Phi[1] = 0.0 if far else Phi[2], problem.Phi()[0]
    return sparse.csr_matrix(Phi)


def brute_force_covariance(problem, alpha, centre, Phi_new):
    Phi, Phi_new = problem.Phi(), Phi_new.toarray()
    missing = 1.0 - (Phi_new**2).sum(axis=1)
    prior = np.ones(Phi.shape[1])
    if centre:
        Phi, Phi_new = (np.c_[P, np.ones(len(P))] for P in (Phi, Phi_new))
        prior = np.r_[prior, 0.0]
    weight = np.ones(len(Phi)) if problem.weight is None else problem.weight
    precision = Phi.T @ (weight[:, None] * Phi) / alpha + np.diag(prior)
    return np.diag(missing) + Phi_new @ np.linalg.solve(precision, Phi_new.T)


def brute_force(problem, alpha, centre, Phi_new):
    return np.diag(brute_force_covariance(problem, alpha, centre, Phi_new))


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
class TestAgainstBruteForce:
    @pytest.mark.parametrize("far", [False, True])
    def test_factor(self, name, centre, alpha, far):
        problem, design = PROBLEMS[name], PROBLEMS[name].design(centre).level(-1)
        Phi_new = new_rows(problem, far=far)
        variance = PredictiveVariance(design, alpha)(Phi_new)
        assert_allclose(variance, brute_force(problem, alpha, centre, Phi_new), rtol=1e-9)

    def test_conjugate_gradients_from_above(self, name, centre, alpha):
        problem, design = PROBLEMS[name], PROBLEMS[name].design(centre).level(-1)
        Phi_new = new_rows(problem)
        ratio = PredictiveVariance(design, alpha, dense_size=0)(Phi_new)
        ratio /= brute_force(problem, alpha, centre, Phi_new)
        assert ratio.min() > 1 - 1e-9
        assert ratio.max() < 1 + 2e-6


@pytest.mark.parametrize("dense_size", [8000, 0])
@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_covariance(name, centre, dense_size):
    problem = PROBLEMS[name]
    Phi_new = new_rows(problem)
    design = problem.design(centre).level(-1)
    cov = PredictiveVariance(design, 0.1, dense_size=dense_size).covariance(Phi_new)
    assert_allclose(cov, brute_force_covariance(problem, 0.1, centre, Phi_new), atol=1e-5)


@pytest.mark.parametrize("dense_size", [8000, 0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_blocks_change_nothing(name, dense_size, monkeypatch):
    design, Phi_new = PROBLEMS[name].design(True).level(-1), new_rows(PROBLEMS[name])
    factor = PredictiveVariance(design, 0.1, dense_size=dense_size)
    whole = factor(Phi_new)
    monkeypatch.setattr(settings, "PANEL_NUMBERS", 100)
    assert_allclose(factor(Phi_new), whole, rtol=2e-6)
    assert factor(Phi_new[:0]).shape == (0,)


@pytest.mark.parametrize("dense_size", [8000, 0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_never_negative_even_where_rounding_rules(name, dense_size):
    problem = PROBLEMS[name]
    fitted = sparse.csr_matrix(problem.Phi())
    for alpha in (1e-9, 1e-11):
        design = problem.design(True).level(-1)
        variance = PredictiveVariance(design, alpha, dense_size=dense_size)(fitted)
        assert variance.min() > 0
        assert variance.max() < 1e-3


def test_far_away_the_variance_is_that_of_the_prior():
    problem = PROBLEMS["few cells"]
    nothing = sparse.csr_matrix((2, 24))
    assert_array_equal(PredictiveVariance(problem.design(False).level(-1), 0.1)(nothing), 1.0)
    assert np.all(PredictiveVariance(problem.design(True).level(-1), 0.1)(nothing) > 1.0)


@pytest.mark.parametrize("centre", [False, True])
def test_signal_variance_maximises_the_likelihood(centre):
    problem = random_problem(20, n_outputs=2, weighted=True)
    copies = np.repeat(np.arange(20), problem.weight.astype(int))
    Phi, Y = problem.Phi()[copies], problem.Y[copies]
    cov = Phi @ Phi.T + 0.2 * np.eye(len(Phi))
    inverse = np.linalg.inv(cov)
    if centre:
        one = np.ones((len(Phi), 1))
        inverse -= inverse @ one @ one.T @ inverse / (one.T @ inverse @ one)
    expected = np.einsum("it,ij,jt->t", Y, inverse, Y) / (len(Phi) - centre)
    design = problem.design(centre).level(-1)
    dual = solve(design, problem.Y, 0.2).dual
    target, _ = centred_targets(design, problem.Y)
    assert_allclose(signal_variance(design, target, dual), expected)


def test_signal_variance_of_one_row_and_an_intercept_is_zero():
    problem = random_problem(2, n_trees=1, k=2)
    design = problem._replace(cells=problem.cells[:1] * 0, groups=problem.groups[:1] * 0).design(
        True
    )
    assert_array_equal(signal_variance(design, np.zeros((1, 1)), np.zeros((1, 1))), 0.0)
