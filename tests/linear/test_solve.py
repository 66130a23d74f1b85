"""One ridge fit: equal to scikit-learn's Ridge, whichever way it is solved."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mondrian_kernel._linear.preconditioned
import mondrian_kernel._linear.solve as module
from mondrian_kernel._linear.solve import solve
from ridge_problem import mondrian_problem, random_problem, ridge

PROBLEMS = {
    "few cells": random_problem(40),
    "many cells": random_problem(15, n_trees=20),
    "weighted, two outputs": random_problem(40, weighted=True, n_outputs=2),
    "mondrian": mondrian_problem(120, 20, [4.0]),
}


@pytest.mark.parametrize("dense_size", [4000, 0], ids=["dense", "gradients"])
@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("alpha", [1e-2, 1.0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_equals_ridge(name, alpha, centre, dense_size, monkeypatch):
    monkeypatch.setattr(module, "DENSE_SIZE", dense_size)
    monkeypatch.setattr(mondrian_kernel._linear.preconditioned, "_TOL", 1e-10)
    problem = PROBLEMS[name]
    fit = solve(problem.design(centre).level(-1), problem.Y, alpha)
    model = ridge(problem, -1, alpha, centre)
    assert_allclose(fit.coef.T, model.coef_.reshape(problem.Y.shape[1], -1), atol=1e-8)
    assert_allclose(
        fit.intercept, np.broadcast_to(model.intercept_, fit.intercept.shape), atol=1e-8
    )


@pytest.mark.parametrize("centre", [False, True])
def test_dual_coefficients_are_residuals_over_alpha(centre):
    problem = random_problem(40, weighted=True)
    design = problem.design(centre).level(-1)
    fit = solve(design, problem.Y, 0.3)
    residual = problem.Y - problem.Phi() @ fit.coef - fit.intercept
    assert_allclose(0.3 * fit.dual, np.sqrt(problem.weight)[:, None] * residual, atol=1e-10)


@pytest.mark.parametrize("dense_size", [4000, 0], ids=["dense", "gradients"])
def test_constant_target_is_all_intercept(dense_size, monkeypatch):
    monkeypatch.setattr(module, "DENSE_SIZE", dense_size)
    problem = random_problem(20)
    fit = solve(problem.design(True).level(-1), np.full((20, 1), 3.0), 0.1)
    assert_allclose(fit.coef, 0.0, atol=1e-12)
    assert_allclose(fit.intercept, 3.0)
