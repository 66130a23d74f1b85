"""Paths through blocks are paths in one place."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import lifetime_path
from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.cells import CellBlocks, join_matrix, sum_rows
from mondrian_kernel.dask.path import lifetime_path as path_on_blocks
from mondrian_kernel.dask.regressor import Centred
from mondrian_kernel.features import MondrianFeatures

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(500, 3))
TARGETS = np.c_[np.sin(ROWS[:, 0]), ROWS[:, 1] + 0.1 * rng.normal(size=500)]
WEIGHTS = rng.uniform(0.5, 2.0, size=500)
HELD_OUT = rng.uniform(size=500) < 0.2
LIFETIMES, ALPHAS = np.array([0.0, 0.1, 0.2, 0.4]), np.logspace(-2, 0, 3)


def in_blocks(a):
    return da.from_array(a, chunks=(170,) + (-1,) * (a.ndim - 1))


@pytest.mark.parametrize(("solver", "rtol"), [("dense", 1e-8), ("lanczos", 1e-2)])
def test_path(solver, rtol):
    path = lifetime_path(
        ROWS[~HELD_OUT],
        TARGETS[~HELD_OUT],
        validation=(ROWS[HELD_OUT], TARGETS[HELD_OUT]),
        sample_weight=WEIGHTS[~HELD_OUT],
        lifetimes=LIFETIMES,
        alphas=ALPHAS,
        n_estimators=15,
        solver="dense",
        random_state=2,
    )
    found = path_on_blocks(
        in_blocks(ROWS[~HELD_OUT]),
        in_blocks(TARGETS[~HELD_OUT]),
        validation=(in_blocks(ROWS[HELD_OUT]), in_blocks(TARGETS[HELD_OUT])),
        sample_weight=in_blocks(WEIGHTS[~HELD_OUT]),
        lifetimes=LIFETIMES,
        alphas=ALPHAS,
        n_estimators=15,
        solver=solver,
        random_state=2,
    )
    assert_array_equal(found.lifetimes, path.lifetimes)
    assert_array_equal(found.n_cells, path.n_cells)
    assert_allclose(found.train_error, path.train_error, rtol=rtol)
    assert_allclose(found.validation_error, path.validation_error, rtol=rtol)
    for name in "log_marginal_likelihood", "log_marginal_likelihood_paper":
        if solver == "dense":
            assert_allclose(getattr(found, name), getattr(path, name), rtol=rtol)
        else:
            assert np.isnan(getattr(found, name)).all()


def test_coarsened_sums_are_those_of_coarser_cells():
    features = MondrianFeatures(0.5, 10, random_state=0).fit(ROWS)
    blocks = Blocks(in_blocks(ROWS), in_blocks(TARGETS), in_blocks(WEIGHTS))
    target = Centred(TARGETS.mean(axis=0))
    cells = cells_of(blocks, features, target)
    expected = sum_rows(cells_of(blocks, coarse_fit(0.2), target))
    found = sum_rows(cells).joined(join_matrix(features.at(0.2).levels_, cells.node))
    for name in "A", "b", "phi":
        assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-10)


def coarse_fit(lifetime):
    return MondrianFeatures(lifetime, 10, random_state=0).fit(ROWS)


def cells_of(blocks, features, target):
    return CellBlocks(blocks, features.trees_, features.levels_, target, keep=False)


@pytest.mark.parametrize("panel", [2**22, 2000, 1])
def test_sums_are_those_of_dense_features(panel):
    features = coarse_fit(0.5)
    Phi = features.transform(ROWS).toarray()
    total = WEIGHTS.sum()
    Psi, Y = Phi - WEIGHTS @ Phi / total, TARGETS - WEIGHTS @ TARGETS / total
    blocks = Blocks(in_blocks(ROWS), in_blocks(TARGETS), in_blocks(WEIGHTS))
    sums = sum_rows(cells_of(blocks, features, Centred(np.ones(2))), panel)
    assert_allclose(sums.A, Psi.T @ (WEIGHTS[:, None] * Psi), atol=1e-10)
    assert_allclose(sums.b, Psi.T @ (WEIGHTS[:, None] * Y), atol=1e-10)
    assert_allclose(sums.square, WEIGHTS @ Y**2)
    assert_allclose(sums.mean, WEIGHTS @ TARGETS / total - 1.0)


def test_bad_input():
    X, y = in_blocks(ROWS), in_blocks(TARGETS)
    with pytest.raises(ValueError, match="3 columns and validation has 2"):
        path_on_blocks(X, y, validation=(X[:, :2], y), lifetimes=LIFETIMES)
    with pytest.raises(ValueError, match="alphas"):
        path_on_blocks(X, y, validation=(X, y), lifetimes=LIFETIMES, alphas=[0.0])
    with pytest.raises(TypeError, match="dask array"):
        path_on_blocks(ROWS, TARGETS, validation=(X, y), lifetimes=LIFETIMES)
