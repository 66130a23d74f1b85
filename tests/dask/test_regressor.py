"""The regressor on blocks is the regressor in one place."""

import pickle
from functools import cache

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from mondrian_kernel import MondrianKernelRegressor
from mondrian_kernel import _settings as settings
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel.dask import DaskMondrianKernelRegressor

rng = np.random.default_rng(0)
SIZES = [1.0, 30.0, 0.01]
ROWS, NEW = rng.normal(size=(600, 3)) * SIZES, rng.normal(size=(90, 3)) * SIZES
TARGETS = 40.0 + np.sin(ROWS[:, 0]) + ROWS[:, 1] / 30 + 0.1 * rng.normal(size=600)
WEIGHTS = rng.integers(0, 4, size=600).astype(float)


def in_chunks(a, n_chunks):
    return da.from_array(a, chunks=(-(-len(a) // n_chunks),) + (-1,) * (a.ndim - 1))


@cache
def local(lifetime=0.5, alpha=0.05, weighted=False):
    model = MondrianKernelRegressor(lifetime, alpha, 20, random_state=5)
    return model.fit(ROWS, TARGETS, WEIGHTS if weighted else None)


def on_blocks(lifetime=0.5, alpha=0.05, n_chunks=3, weighted=False, **options):
    model = DaskMondrianKernelRegressor(lifetime, alpha, 20, random_state=5, **options)
    weight = in_chunks(WEIGHTS, n_chunks) if weighted else None
    return model.fit(in_chunks(ROWS, n_chunks), in_chunks(TARGETS, n_chunks), weight)


def posterior(model):
    """Mean and standard deviation of the Gaussian process, which is what blocks give."""
    mean, cov = model.predict(NEW, return_cov=True)
    return mean, np.sqrt(np.einsum("ii...->i...", cov))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_chunks", [1, 3, 7])
def test_dense_fit_is_that_in_one_place(n_chunks, weighted):
    one, blocks = local(weighted=weighted), on_blocks(n_chunks=n_chunks, weighted=weighted)
    assert_array_equal(blocks.scale_, one.scale_)
    assert_array_equal(blocks.features_.trees_.loc, one.features_.trees_.loc)
    assert_allclose(blocks.cell_weights_, one.cell_weights_, atol=1e-9)
    assert_allclose(blocks.intercept_, one.intercept_, rtol=1e-10)
    assert_allclose(blocks.signal_variance_, one.signal_variance_, rtol=1e-8)
    mean, std = blocks.predict(in_chunks(NEW, 4), return_std=True)
    expected = posterior(one)
    assert mean.chunks == std.chunks == ((23, 23, 23, 21),)
    assert_allclose(mean.compute(), expected[0], rtol=1e-8)
    assert_allclose(std.compute(), expected[1], rtol=1e-8)
    assert_allclose(blocks.predict(NEW), expected[0], rtol=1e-8)


@pytest.mark.parametrize("keep_cells", [True, False])
def test_lanczos_comes_to_the_same(keep_cells):
    one = local(weighted=True)
    blocks = on_blocks(weighted=True, solver="lanczos", keep_cells=keep_cells)
    assert_allclose(blocks.predict(NEW), one.predict(NEW), atol=1e-7)
    assert_allclose(blocks.signal_variance_, one.signal_variance_, rtol=1e-6)
    with pytest.raises(ValueError, match="return_std=True needs the matrix"):
        blocks.predict(NEW, return_std=True)
    with pytest.raises(ValueError, match=r"at\(lifetime\) needs the matrix"):
        blocks.at(0.1)


def test_smaller_lifetimes_need_no_rows():
    one, blocks = local(), on_blocks()
    for lifetime in 0.0, 0.2, 0.5:
        other = blocks.at(lifetime)
        assert_allclose(other.predict(NEW), one.at(lifetime).predict(NEW), rtol=1e-8)
        assert other.lifetime_ == lifetime
    twice = blocks.at(0.4).at(0.2)
    assert_allclose(twice.predict(NEW), one.at(0.2).predict(NEW), rtol=1e-8)
    assert blocks.lifetime_ == 0.5


def test_several_targets():
    Y = np.c_[TARGETS, ROWS[:, 1]]
    one = MondrianKernelRegressor(0.5, 0.05, 20, random_state=5).fit(ROWS, Y)
    expected = posterior(one)
    for solver, tol in ("dense", 1e-8), ("lanczos", 1e-6):
        blocks = DaskMondrianKernelRegressor(0.5, 0.05, 20, random_state=5, solver=solver)
        blocks.fit(in_chunks(ROWS, 3), in_chunks(Y, 2))
        mean = blocks.predict(in_chunks(NEW, 4))
        assert mean.chunks == ((23, 23, 23, 21), (2,))
        assert_allclose(mean.compute(), expected[0], rtol=tol, atol=tol)
        if solver == "dense":
            std = blocks.predict(in_chunks(NEW, 4), return_std=True)[1].compute()
            assert_allclose(std, expected[1], rtol=1e-8)


def test_frames_with_an_empty_part():
    frame = pd.DataFrame(np.c_[ROWS, TARGETS], columns=["a", "b", "c", "y"])
    parts = dd.from_map(frame.iloc.__getitem__, [slice(0, 0), slice(0, 250), slice(250, 600)])
    blocks = DaskMondrianKernelRegressor(0.5, 0.05, 20, random_state=5)
    blocks.fit(parts[["a", "b", "c"]], parts["y"])
    assert_allclose(blocks.cell_weights_, local().cell_weights_, atol=1e-9)
    assert list(blocks.feature_names_in_) == ["a", "b", "c"]
    mean = blocks.predict(parts[["a", "b", "c"]])
    assert_allclose(mean.compute(), local().predict(ROWS), rtol=1e-8)


@pytest.mark.parametrize("scale", [None, [1.0, 10.0, 0.1]])
def test_other_scales(scale):
    one = MondrianKernelRegressor(0.5, 0.05, 10, scale=scale, random_state=5).fit(ROWS, TARGETS)
    blocks = DaskMondrianKernelRegressor(0.5, 0.05, 10, scale=scale, random_state=5)
    blocks.fit(in_chunks(ROWS, 3), in_chunks(TARGETS, 3))
    assert_array_equal(blocks.scale_, one.scale_)
    assert_allclose(blocks.predict(NEW), one.predict(NEW), rtol=1e-8)


def test_few_rows_choose_as_in_one_place():
    one, blocks = local("path", "auto", True), on_blocks("path", "auto", weighted=True)
    assert (blocks.lifetime_, blocks.alpha_) == (one.lifetime_, one.alpha_)
    assert_array_equal(blocks.relevance_, one.relevance_)
    assert isinstance(blocks.path_, LifetimePath)
    assert_allclose(blocks.path_.score, one.path_.score, rtol=1e-8)
    assert_allclose(blocks.predict(NEW), one.predict(NEW), rtol=1e-6)


def test_joint_covariance_of_rows_in_one_place():
    one, blocks = local(), on_blocks()
    cov = blocks.predict(NEW, return_cov=True)[1]
    assert_allclose(cov, one.predict(NEW, return_cov=True)[1], rtol=1e-7, atol=1e-10)
    with pytest.raises(ValueError, match="return_cov=True needs X in one place"):
        blocks.predict(in_chunks(NEW, 2), return_cov=True)


@pytest.mark.parametrize(("lifetime", "alpha"), [("path", "auto"), (0.3, "auto"), ("path", 0.1)])
def test_many_rows_choose_the_same_through_blocks(lifetime, alpha, monkeypatch):
    """Only a sample is fetched where rows are many, and held out from; the same in one place."""
    monkeypatch.setattr(settings, "CHOICE_ROWS", 500)
    monkeypatch.setattr(settings, "EXACT_ROWS", 400)
    n = 700
    X = rng.normal(size=(n, 2))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)
    one = MondrianKernelRegressor(lifetime, alpha, 8, random_state=1).fit(X, y)
    blocks = DaskMondrianKernelRegressor(lifetime, alpha, 8, random_state=1)
    blocks.fit(in_chunks(X, 5), in_chunks(y, 5))
    assert isinstance(blocks.path_, LifetimePath)
    assert blocks.path_.criterion == "holdout"
    assert blocks.lifetime_ == one.lifetime_
    assert blocks.alpha_ == one.alpha_
    assert_allclose(blocks.path_.score, one.path_.score, rtol=1e-8)


def test_pickles_and_clones():
    blocks = on_blocks()
    again = pickle.loads(pickle.dumps(blocks))
    assert_array_equal(again.predict(in_chunks(NEW, 2)).compute(), blocks.predict(NEW))
    assert clone(blocks).get_params() == blocks.get_params()


def test_a_failed_fit_changes_nothing():
    blocks = on_blocks()
    before = blocks.predict(NEW)
    bad = da.where(in_chunks(ROWS, 3) > 2.0, np.nan, in_chunks(ROWS, 3))
    with pytest.raises(ValueError, match="NaN"):
        blocks.fit(bad, in_chunks(TARGETS, 3))
    assert_array_equal(blocks.predict(NEW), before)


def test_whole_numbers_that_no_float_holds_are_refused():
    y = np.arange(20).astype(object)
    y[3] = 10**400
    X = da.zeros((20, 1), chunks=(10, 1))
    with pytest.raises(ValueError, match="y holds a whole number that is too large"):
        DaskMondrianKernelRegressor(1.0, 0.1, 5).fit(X, da.from_array(y, chunks=10))


def test_far_from_zero_no_digits_are_lost():
    far = 1e6 + TARGETS
    one = MondrianKernelRegressor(0.5, 0.05, 20, random_state=5).fit(ROWS, far)
    blocks = DaskMondrianKernelRegressor(0.5, 0.05, 20, random_state=5)
    blocks.fit(in_chunks(ROWS, 3), in_chunks(far, 3))
    assert_allclose(blocks.predict(NEW) - 1e6, one.predict(NEW) - 1e6, atol=1e-7)
    assert_allclose(blocks.signal_variance_, one.signal_variance_, rtol=1e-6)


def test_as_many_trees_as_in_one_place(monkeypatch):
    monkeypatch.setattr(settings, "TREES_LEAST", 5)
    monkeypatch.setattr(settings, "MODEL_BYTES", 3e5)
    one = MondrianKernelRegressor(0.5, 0.05, random_state=5).fit(ROWS, TARGETS)
    blocks = DaskMondrianKernelRegressor(0.5, 0.05, random_state=5)
    blocks.fit(in_chunks(ROWS, 3), in_chunks(TARGETS, 3))
    assert 5 < blocks.features_.n_estimators < 200
    assert blocks.features_.n_estimators == one.features_.n_estimators
    assert_allclose(blocks.predict(NEW), one.predict(NEW), rtol=1e-8)
