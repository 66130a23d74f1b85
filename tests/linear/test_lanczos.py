"""Lanczos against the dense solver, of few rows to rounding in everything."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.cholesky import centred_targets, weights
from mondrian_kernel._linear.lanczos import krylov
from ridge_problem import ALPHAS, LIFETIMES, dense, lanczos, mondrian_problem, random_problem


@pytest.fixture(scope="module", params=["mondrian", "weighted, two outputs"])
def problem(request):
    if request.param == "mondrian":
        return mondrian_problem(250, 40, LIFETIMES)
    return random_problem(60, weighted=True, n_outputs=2)


@pytest.mark.parametrize("centre", [False, True])
def test_solves_and_scores_agree_with_dense(problem, centre):
    design = problem.design(centre)
    _, mean = centred_targets(design, problem.Y)
    pairs = zip(lanczos(problem, centre), dense(problem, centre), strict=True)
    for index, ((scores, dual), (expected, exact_dual)) in enumerate(pairs):
        level = design.level(index)
        for name in (
            "train_error",
            "loo_error",
            "log_marginal_likelihood",
            "log_marginal_likelihood_paper",
        ):
            assert_allclose(getattr(scores, name), getattr(expected, name), rtol=1e-6)
        assert not scores.loo_error_std.any()
        assert not scores.log_marginal_likelihood_std.any()
        for k in range(ALPHAS.size):
            size = np.abs(exact_dual[..., k]).max()
            assert_allclose(dual[..., k], exact_dual[..., k], atol=1e-6 * size)
            fits = [weights(level, d[..., k], mean) for d in (dual, exact_dual)]
            a, b = (level.gather(coef) + intercept for coef, intercept in fits)
            assert_allclose(a, b, atol=1e-6 * np.abs(problem.Y).max())


@pytest.mark.parametrize("centre", [False, True])
def test_residual_is_below_the_tolerance(centre):
    problem = mondrian_problem(250, 40, LIFETIMES)
    design = problem.design(centre).level(2)
    target, _ = centred_targets(design, problem.Y)
    for tol in (1e-2, 1e-6):
        dual = krylov(design, target, ALPHAS, tol).solution[0]
        residual = target - design.gram(dual) - ALPHAS * dual
        assert np.linalg.norm(residual, axis=0).max() <= 1.1 * tol * np.linalg.norm(target)


def test_column_of_zeros_has_zero_duals():
    problem = random_problem(30, n_outputs=2)
    problem = problem._replace(Y=problem.Y * [1.0, 0.0])
    pairs = zip(lanczos(problem, True), dense(problem, True), strict=True)
    for (scores, dual), (expected, _) in pairs:
        assert_array_equal(dual[:, 1], 0.0)
        assert_allclose(scores.train_error, expected.train_error, rtol=1e-6)


def test_warns_where_steps_were_not_enough(monkeypatch):
    problem = mondrian_problem(250, 40, LIFETIMES)
    monkeypatch.setattr(settings, "KRYLOV_STEPS", 5)
    with pytest.warns(ConvergenceWarning, match=r"after 5 steps.*alpha=0.001"):
        lanczos(problem, True, tol=1e-3)
