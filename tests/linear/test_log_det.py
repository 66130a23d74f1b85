"""The log-determinant, exact and by random vectors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mondrian_kernel._linear.log_det as module
from mondrian_kernel._linear.dense import kernel_matrix
from mondrian_kernel._linear.log_det import log_det
from ridge_problem import mondrian_problem, random_problem


def literal(design, alpha):
    return np.linalg.slogdet(kernel_matrix(design) + alpha * np.eye(design.n_rows))[1]


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("n_rows", [15, 60], ids=["more cells", "more rows"])
def test_exact(n_rows, centre):
    design = random_problem(n_rows, weighted=True).design(centre).level(-1)
    assert_allclose(log_det(design, 0.1), literal(design, 0.1), rtol=1e-10)


def test_by_random_vectors(monkeypatch):
    design, alpha = mondrian_problem(400, 30, [5.0]).design(True), 0.1
    monkeypatch.setattr(module, "DENSE_SIZE", 0)
    # zᵀ ln(A) z of signs z has the variance 2 (‖B‖² - Σ B_ii²) with B = ln A; eight of them, and
    # six standard errors (one in 10⁹) and what Lanczos leaves at its tolerance
    values, U = np.linalg.eigh(kernel_matrix(design) + alpha * np.eye(400))
    B = (U * np.log(values)) @ U.T
    error = np.sqrt(2 * (np.sum(B**2) - np.sum(np.diag(B) ** 2)) / module._PROBES)
    assert abs(log_det(design, alpha) - literal(design, alpha)) < 6 * error
