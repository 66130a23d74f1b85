"""One ridge fit: equal to scikit-learn's Ridge, whichever way it is solved."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mondrian_kernel._linear.ridge import log_det, solve
from mondrian_kernel._settings import FIT_PROBES
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
def test_equals_ridge(name, alpha, centre, dense_size):
    problem = PROBLEMS[name]
    operator = problem.design(centre).level(-1)
    fit = solve(operator, problem.Y, alpha, dense_size=dense_size, tol=1e-10)
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
def test_constant_target_is_all_intercept(dense_size):
    problem = random_problem(20)
    fit = solve(problem.design(True).level(-1), np.full((20, 1), 3.0), 0.1, dense_size=dense_size)
    assert_allclose(fit.coef, 0.0, atol=1e-12)
    assert_allclose(fit.intercept, 3.0)


def literal(design, alpha):
    return np.linalg.slogdet(design.kernel_matrix() + alpha * np.eye(design.n_rows))[1]


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("n_rows", [15, 60], ids=["more cells", "more rows"])
def test_log_determinant(n_rows, centre):
    design = random_problem(n_rows, weighted=True).design(centre).level(-1)
    assert_allclose(log_det(design, 0.1), literal(design, 0.1), rtol=1e-10)


def test_log_determinant_by_random_vectors():
    design, alpha = mondrian_problem(400, 30, [5.0]).design(True), 0.1
    # zᵀ ln(A) z of signs z has the variance 2 (‖B‖² - Σ B_ii²) with B = ln A; eight of them, and
    # six standard errors (one in 10⁹) and what Lanczos leaves at its tolerance
    values, U = np.linalg.eigh(design.kernel_matrix() + alpha * np.eye(400))
    B = (U * np.log(values)) @ U.T
    error = np.sqrt(2 * (np.sum(B**2) - np.sum(np.diag(B) ** 2)) / FIT_PROBES)
    assert abs(log_det(design, alpha, dense_size=0) - literal(design, alpha)) < 6 * error
