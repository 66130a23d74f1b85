"""Parts of the hinge minimiser: the best intercept and the value of the dual."""

import numpy as np
import pytest

from linear.sparse_problem import features, minimise, rows_of, targets
from mondrian_kernel._linear.losses import value
from mondrian_kernel._linear.minimise import best_intercept, dual_value


def test_best_intercept_beats_every_kink():
    rng = np.random.default_rng(0)
    Y = np.where(rng.normal(size=(25, 3)) > 0.3, 1.0, -1.0)
    F, s = rng.normal(size=Y.shape), rng.integers(0, 3, size=25).astype(float)
    b = best_intercept(Y, F, s)
    for k in range(3):
        y, f = Y[:, [k]], F[:, [k]]
        candidates = [s @ value("hinge", y, f + c) for c in (y - f)[:, 0]]
        assert s @ value("hinge", y, f + b[k]) == pytest.approx(min(candidates))


def test_dual_value_is_below_the_optimum_wherever_it_is_taken():
    cells, n_cells, Phi = features()
    _, Y = targets(Phi, "hinge", 3)
    found = minimise(cells, n_cells, Y, "hinge", 0.1, tol=1e-9)
    design, rng = rows_of(cells, n_cells), np.random.default_rng(0)
    for scale in (0.1, 1.0, 5.0):
        A = rng.uniform(0.0, scale, size=Y.shape)
        assert dual_value(design, Y, A, 0.1) <= found.objective
    assert dual_value(design, Y, found.dual * Y, 0.1) == pytest.approx(found.objective, rel=1e-8)


def test_rows_of_weight_zero_are_ignored():
    cells, n_cells, Phi = features()
    _, Y = targets(Phi, "hinge", 2)
    s = np.repeat([1.0, 0.0], 30)
    found = minimise(cells, n_cells, Y, "hinge", 0.1, sample_weight=s)
    half = minimise(cells[:30], n_cells, Y[:30], "hinge", 0.1)
    assert found.objective == pytest.approx(half.objective, rel=2e-6)
    assert not found.dual[30:].any()
