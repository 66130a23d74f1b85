"""Diagonals and determinants by random vectors: within what they claim."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import hadamard

import ridge_problem
from mondrian_kernel import _settings as settings
from mondrian_kernel._linear import lanczos as module
from mondrian_kernel._linear.cholesky import centred_targets
from mondrian_kernel._linear.lanczos import lanczos_scores
from ridge_problem import ALPHAS, LIFETIMES, dense, mondrian_problem, random_problem

lanczos = partial(ridge_problem.lanczos, exact_rows=0)  # by random vectors though rows are few


@pytest.mark.parametrize("centre", [False, True])
def test_evidence_within_five_standard_errors(centre):
    problem = mondrian_problem(400, 60, LIFETIMES)
    exact = dense(problem, centre)
    for seed in range(2):
        fast = lanczos(problem, centre, tol=1e-4, seed=seed)
        for (scores, _), (expected, _) in zip(fast, exact, strict=True):
            assert np.all(scores.log_marginal_likelihood_std > 0)
            for kind in ("log_marginal_likelihood", "log_marginal_likelihood_paper"):
                error = np.abs(getattr(scores, kind) - getattr(expected, kind))
                assert np.all(error <= 5 * scores.log_marginal_likelihood_std + 1e-3)


@pytest.mark.parametrize(
    ("kind", "std", "first"),
    # The smallest alpha is too small for leave-one-out errors, see below.
    [
        ("log_marginal_likelihood", "log_marginal_likelihood_std", 0),
        ("loo_error", "loo_error_std", 1),
    ],
)
def test_standard_errors_are_the_spread_over_seeds(kind, std, first):
    problem = mondrian_problem(150, 20, [1.0, 4.0])
    runs = [lanczos(problem, True, tol=1e-2, seed=seed) for seed in range(24)]
    for level in range(2):
        values = np.array([getattr(r[level][0], kind) for r in runs])[:, first:]
        claimed = np.mean([getattr(r[level][0], std) for r in runs], axis=0)[first:]
        assert np.all(np.abs(np.log(values.std(axis=0, ddof=1) / claimed)) < np.log(2.0))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("centre", [False, True])
def test_leave_one_out_estimate(centre, weighted):
    """Within 30 % of the exact value at alpha 0.01 and 10 % above, on 600 rows.

    At alpha 0.001 it is of no use: the random vectors see little of so small a diagonal.
    """
    problem = mondrian_problem(600, 60, LIFETIMES)
    if weighted:
        problem = problem._replace(weight=np.random.default_rng(5).integers(1, 4, 600) * 1.0)
    fast, exact = lanczos(problem, centre, tol=1e-4), dense(problem, centre)
    for (scores, _), (expected, _) in zip(fast, exact, strict=True):
        assert_allclose(scores.loo_error[1], expected.loo_error[1], rtol=0.3)
        assert_allclose(scores.loo_error[2:], expected.loo_error[2:], rtol=0.1)


class Hadamard:
    """In place of random signs a complete set of orthogonal ones, whose mean of zzᵀ is I."""

    def choice(self, signs, size):
        assert size == (16, 16)
        return hadamard(16).astype(float)


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_estimates_are_exact_with_a_complete_set_of_probes(centre, weighted, monkeypatch):
    monkeypatch.setattr(settings, "PROBE_BIN", 1)
    problem = random_problem(16, weighted=weighted, n_outputs=2)
    if weighted:  # so much that its neighbours hardly matter
        problem.weight[3] = 300.0
    design = problem.design(centre)
    target, _ = centred_targets(design, problem.Y)
    fast = lanczos_scores(design, target, ALPHAS, 1e-12, Hadamard(), exact_rows=0, probe_tol=1e-12)
    for (scores, _), (expected, _) in zip(fast, dense(problem, centre), strict=True):
        assert_allclose(scores.log_marginal_likelihood, expected.log_marginal_likelihood, rtol=1e-7)
        assert_allclose(
            scores.log_marginal_likelihood_paper, expected.log_marginal_likelihood_paper, rtol=1e-7
        )
        assert_allclose(scores.loo_error, expected.loo_error, rtol=1e-6)


def test_probes_grow_fewer_with_the_rows():
    assert [module.n_probes(n) for n in (1, 500, 1000, 100_000)] == [16, 16, 8, 2]
