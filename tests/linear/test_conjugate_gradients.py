"""Conjugate gradients with some rows as a preconditioner."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

import mondrian_kernel._linear.conjugate_gradients as module
from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.conjugate_gradients import Nystroem, conjugate_gradients, gradient_dual
from mondrian_kernel._settings import GRADIENT_TOL
from ridge_problem import mondrian_problem, random_problem

ALPHA = 0.01


@pytest.fixture(scope="module")
def design():
    return mondrian_problem(300, 40, [8.0]).design(True)


def centred_target(design, n_outputs=1):
    rng = np.random.default_rng(0)
    return design.centred(rng.normal(size=(design.n_rows, n_outputs)))


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_residual_is_as_small_as_promised(design, n_outputs):
    target = centred_target(design, n_outputs)
    dual = gradient_dual(design, target, ALPHA)
    residual = target - design.kernel_matrix() @ dual - ALPHA * dual
    # the residual that the recursion carries differs from the true one by rounding
    bound = 1.01 * GRADIENT_TOL * np.linalg.norm(target, axis=0)
    assert np.all(np.linalg.norm(residual, axis=0) <= bound)


def test_inverse_of_what_some_rows_tell_of_the_matrix(design):
    K, n = design.kernel_matrix(), design.n_rows
    inverse = Nystroem(design, ALPHA)(np.eye(n))
    plain = np.linalg.inv(inverse) - ALPHA * np.eye(n)
    # Nyström: between 0 and K, and of the rank of the rows; to the jitter of its inner factor
    jitter = 1e-5 * np.trace(K)
    assert np.linalg.eigvalsh(plain).min() > -jitter
    assert np.linalg.eigvalsh(K - plain).min() > -jitter
    assert np.linalg.matrix_rank(plain, tol=jitter) <= n // 2
    assert np.trace(plain) > np.trace(K) / 2


def test_fewer_steps_than_without(design, monkeypatch):
    steps = []
    gram = type(design).gram
    monkeypatch.setattr(type(design), "gram", lambda self, V: steps.append(1) or gram(self, V))
    target = centred_target(design)
    gradient_dual(design, target, ALPHA)
    with_rows = len(steps)
    steps.clear()
    monkeypatch.setattr(module, "Nystroem", lambda design, alpha: lambda R: R / alpha)
    gradient_dual(design, target, ALPHA)
    assert with_rows < len(steps) / 2


def test_copies_among_the_rows():
    problem = random_problem(30)
    twice = problem._replace(
        cells=np.tile(problem.cells, (4, 1)), Y=np.tile(problem.Y, (4, 1)), weight=None
    )
    design = twice.design(False).level(-1)
    dual = gradient_dual(design, twice.Y, 0.1)
    assert_allclose(design.kernel_matrix() @ dual + 0.1 * dual, twice.Y, atol=1e-5)


def test_nothing_to_solve(design):
    assert not gradient_dual(design, np.zeros((design.n_rows, 2)), ALPHA).any()


def test_too_few_steps_are_told(design, monkeypatch):
    monkeypatch.setattr(settings, "GRADIENT_STEPS", 2)
    with pytest.warns(ConvergenceWarning, match="alpha=0.01 is too small"):
        gradient_dual(design, centred_target(design), ALPHA)


@pytest.mark.parametrize("tied", [False, True])
def test_plain_conjugate_gradients_end_after_as_many_steps_as_rows(tied):
    """Where columns are tied they are one problem, whose matrix may mix them."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(12, 12))
    A, B = root @ root.T + np.eye(12), rng.normal(size=(6, 2))
    if not tied:
        A, B = A[:6, :6], rng.normal(size=(6, 3))
    seen = []

    def product(P):
        return (A @ P.ravel()).reshape(P.shape) if tied else A @ P

    def finished(now):
        seen.append(now)
        return np.linalg.norm(now.residual) < 1e-9

    dot = (lambda P, R: np.vdot(P, R)) if tied else module.dot_columns
    X, done = conjugate_gradients(product, B, finished, dot=dot, max_steps=40)
    assert done
    assert_allclose(product(X), B, atol=1e-8)
    assert len(seen) <= 15
    assert_allclose(seen[-1].gained, dot(X, B))
    assert not conjugate_gradients(product, B, lambda now: False, dot=dot, max_steps=2)[1]
