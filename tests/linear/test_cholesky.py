"""Dense scores against scikit-learn's Ridge, refits without each row, and scipy's likelihoods."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import linalg

import ridge_problem as brute
from mondrian_kernel._linear.cholesky import centred_targets, dense_scores, spectra
from ridge_problem import random_problem

ALPHAS = np.array([1e-3, 0.1, 2.0])

CASES = {
    "few cells": {"n_rows": 40},
    "many cells": {"n_rows": 15, "n_trees": 20},
    "few cells, weighted, two outputs": {"n_rows": 40, "weighted": True, "n_outputs": 2},
    "many cells, weighted, two outputs": {
        "n_rows": 15, "n_trees": 20, "weighted": True, "n_outputs": 2, "seed": 3,
    },
}  # fmt: skip


@pytest.fixture(params=CASES, scope="module")
def problem(request):
    return random_problem(**CASES[request.param])


def scores_of(problem, level, centre):
    design = problem.design(centre)
    return dense_scores(design, centred_targets(design, problem.Y)[0], ALPHAS)[level]


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("level", [0, 1, 2])
class TestAgainstBruteForce:
    def test_train_error(self, problem, level, centre):
        expected = [brute.train_error(problem, level, a, centre) for a in ALPHAS]
        assert_allclose(scores_of(problem, level, centre)[0].train_error, expected, rtol=1e-8)

    def test_leave_one_out_error(self, problem, level, centre):
        expected = [brute.loo_error(problem, level, a, centre) for a in ALPHAS]
        assert_allclose(scores_of(problem, level, centre)[0].loo_error, expected, rtol=1e-8)

    def test_evidence(self, problem, level, centre):
        scores = scores_of(problem, level, centre)[0]
        expected = np.array([brute.evidences(problem, level, a, centre) for a in ALPHAS])
        assert_allclose(scores.log_marginal_likelihood, expected[:, 0], rtol=1e-8, atol=1e-7)
        assert_allclose(scores.log_marginal_likelihood_paper, expected[:, 1], rtol=1e-8, atol=1e-7)
        assert_allclose(scores.log_marginal_likelihood_std, 0.0)


@pytest.mark.parametrize("centre", [False, True])
def test_dual_coefficients_solve_the_kernel_system(problem, centre):
    design = problem.design(centre).level(2)
    target, _ = centred_targets(design, problem.Y)
    ((_, dual),) = dense_scores(design, target, ALPHAS)
    for k, alpha in enumerate(ALPHAS):
        left = design.gram(dual[:, :, k].copy()) + alpha * dual[:, :, k]
        assert_allclose(left, target, atol=1e-10)


def test_leave_one_out_with_weights_leaves_all_copies_out():
    problem = random_problem(12, weighted=True, seed=5)
    counts = problem.weight.astype(int)
    copies = np.repeat(np.arange(12), counts)
    repeated = problem._replace(cells=problem.cells[copies], Y=problem.Y[copies], weight=None)
    weighted, plain = (scores_of(p, 2, True)[0] for p in (problem, repeated))
    assert_allclose(weighted.train_error, plain.train_error)
    assert_allclose(weighted.log_marginal_likelihood, plain.log_marginal_likelihood)
    assert_allclose(weighted.log_marginal_likelihood_paper, plain.log_marginal_likelihood_paper)
    # A repeated row whose copies stay is easier to predict.
    assert np.all(weighted.loo_error > plain.loo_error)


@pytest.mark.parametrize("centre", [False, True])
def test_spectra_rebuild_the_kernel_matrices(problem, centre):
    design = problem.design(centre)
    for level, (values, U) in enumerate(spectra(design)):
        assert np.all(values >= 0)
        K = design.level(level).gram(np.eye(design.n_rows))
        assert_allclose((U * values) @ U.T, K, atol=1e-12)
        assert_allclose(U.T @ U, np.eye(values.size), atol=1e-7)


@pytest.mark.parametrize("centre", [False, True])
def test_one_row(centre):
    problem = random_problem(1, n_trees=3, k=2)
    problem = problem._replace(cells=np.zeros((1, 1), np.int32), groups=np.zeros((1, 1), np.int32))
    design = problem.design(centre)
    ((scores, _),) = dense_scores(design, centred_targets(design, problem.Y)[0], ALPHAS)
    for values in scores:
        assert np.all(np.isfinite(values))
    if centre:  # the mean takes the only row, so nothing is left to be likely or not
        assert_allclose(scores.log_marginal_likelihood, 0.0, atol=1e-12)
        assert_allclose(scores.log_marginal_likelihood_paper, 0.0, atol=1e-12)


def test_goes_another_way_where_lapack_finds_no_eigenvalues(monkeypatch):
    problem, eigh = random_problem(40), linalg.eigh

    def failing(A, driver, **options):
        if driver == "evd":
            raise linalg.LinAlgError("did not converge")
        return eigh(A, driver=driver, **options)

    expected = [scores_of(problem, level, True)[0] for level in range(3)]
    monkeypatch.setattr(linalg, "eigh", failing)
    for level, scores in enumerate(expected):
        for found, value in zip(scores_of(problem, level, True)[0], scores, strict=True):
            assert_allclose(found, value, rtol=1e-9, atol=1e-12)
