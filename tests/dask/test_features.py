"""Lazy features of collections."""

import pickle
import weakref

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone

from mondrian_kernel import MondrianFeatures
from mondrian_kernel.dask import DaskMondrianFeatures, shares

rng = np.random.default_rng(1)
ROWS, NEW = rng.normal(size=(300, 3)), rng.normal(size=(80, 3))
X = da.from_array(ROWS, chunks=(110, 2))
LOCAL = MondrianFeatures(1.0, 20, random_state=0).fit(ROWS)
FITTED = DaskMondrianFeatures(1.0, 20, random_state=0).fit(X)


def same(a, b):
    return a.shape == b.shape and (a != b).nnz == 0


def test_transform_is_that_in_one_place():
    Phi = FITTED.transform(da.from_array(NEW, chunks=(30, 3)))
    assert Phi.chunks == ((30, 30, 20), (FITTED.n_cells_,))
    assert isinstance(Phi._meta, sparse.csr_matrix)
    assert Phi.dtype == np.float64
    assert same(Phi.compute(), LOCAL.transform(NEW))
    assert same(FITTED.transform(NEW), LOCAL.transform(NEW))
    assert same(FITTED.fit_transform(X).compute(), LOCAL.transform(ROWS))


def test_transform_is_lazy():
    def fail(block):
        raise AssertionError("was computed")

    Z = X.map_blocks(fail, meta=np.empty((0, 0)))
    Phi = FITTED.transform(Z)
    with pytest.raises(AssertionError, match="was computed"):
        Phi.compute()


def test_blocks_are_read_one_after_the_other(monkeypatch):
    """Rows do not pile up where no worker has room for all: there may be more than memory."""
    monkeypatch.setattr(shares, "fits_worker", lambda n_bytes: False)
    alive, most = 0, 0

    def forget():
        nonlocal alive
        alive -= 1

    def read(block_id):
        nonlocal alive, most
        rows = np.random.default_rng(block_id[0]).normal(size=(100, 2))
        weakref.finalize(rows, forget)
        alive += 1
        most = max(most, alive)
        return rows

    Z = da.map_blocks(read, chunks=((100,) * 30, (2,)), meta=np.empty((0, 0)))
    with dask.config.set(scheduler="threads", num_workers=2):
        features = DaskMondrianFeatures(1.0, 5, random_state=0).fit(Z)
    assert features.n_rounds_ > 3
    assert 0 < most <= 6


def test_apply_and_kernel():
    Z = da.from_array(NEW, chunks=30)
    assert FITTED.apply(Z).dtype == np.int32
    assert_array_equal(FITTED.apply(Z).compute(), LOCAL.apply(NEW))
    assert_array_equal(FITTED.apply(NEW), LOCAL.apply(NEW))
    assert_array_equal(FITTED.kernel(Z, NEW), LOCAL.kernel(NEW))


def test_a_wider_kernel():
    Phi = FITTED.at(0.3).transform(da.from_array(NEW, chunks=30))
    assert same(Phi.compute(), LOCAL.at(0.3).transform(NEW))


def test_dataframes():
    """Sizes of partitions are not known; one of them is empty."""
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    parts = dd.from_map(frame.iloc.__getitem__, [slice(0, 90), slice(90, 90), slice(90, 300)])
    features = DaskMondrianFeatures(1.0, 20, random_state=0).fit(parts)
    assert_array_equal(features.trees_.loc, LOCAL.trees_.loc)
    assert list(features.feature_names_in_) == ["a", "b", "c"]
    Phi = features.transform(parts)
    assert np.isnan(Phi.shape[0])
    assert same(Phi.compute(), LOCAL.transform(ROWS))
    with pytest.raises(ValueError, match="was fitted on \\['a', 'b', 'c'\\]"):
        features.transform(parts[["b", "a", "c"]])
    assert not hasattr(features.fit(X), "feature_names_in_")


def test_pickles_and_clones():
    again = pickle.loads(pickle.dumps(FITTED))
    assert same(again.transform(X).compute(), LOCAL.transform(ROWS))
    assert clone(FITTED).get_params() == FITTED.get_params()


def test_a_budget_of_cells():
    with pytest.warns(UserWarning, match="max_cells=50 was reached"):
        local = MondrianFeatures(9.0, 20, max_cells=50, random_state=0).fit(ROWS)
    with pytest.warns(UserWarning, match="max_cells=50 was reached"):
        blocks = DaskMondrianFeatures(9.0, 20, max_cells=50, random_state=0).fit(X)
    assert blocks.lifetime_ == local.lifetime_
    assert blocks.n_cells_ == 50
    with pytest.raises(ValueError, match="less than n_estimators"):
        DaskMondrianFeatures(1.0, 20, max_cells=5).fit(X)
