"""Memory: slabs of rows, and warnings before it runs out."""

import contextlib

import dask.array as da
import numpy as np
import pytest

from mondrian_kernel import _settings as settings
from mondrian_kernel.dask import DaskMondrianFeatures, cluster

pytest.importorskip("distributed")


@pytest.mark.parametrize(("n_rows", "n_each"), [(0, 5), (1, 5), (100, 5), (100, 1), (7, 1000)])
def test_slabs_cover_the_rows(n_rows, n_each, monkeypatch):
    monkeypatch.setattr(settings, "SLAB_NUMBERS", 60)
    slabs = cluster.slabs(n_rows, n_each)
    assert np.concatenate([np.arange(n_rows)[s] for s in slabs]).tolist() == list(range(n_rows))
    assert all(s.stop - s.start <= max(1, 60 // n_each) for s in slabs)


@pytest.mark.parametrize(("used", "cramped"), [(300_000_000, True), (100_000_000, False)])
def test_little_memory_is_told_of(used, cramped, monkeypatch):
    """Of 500 MB, Dask pauses at 400 MB."""
    monkeypatch.setattr(cluster, "_workers", lambda: [(500_000_000, used), (9e9, 0)])
    X = da.zeros((90, 2), chunks=(30, 2))
    warned = pytest.warns(UserWarning, match="100 MB free before Dask pauses it, at 80% of its")
    monkeypatch.setattr(settings, "CODE_BYTES", 150_000_000)
    with warned if cramped else contextlib.nullcontext():
        DaskMondrianFeatures(1.0, 5).fit(X)


def test_free_memory(monkeypatch):
    monkeypatch.setattr(cluster, "_workers", lambda: [(500, 100), (500, 400)])
    assert cluster.free_bytes() == 200  # 60 % of 500, less 100
    monkeypatch.setattr(cluster, "_workers", lambda: None)
    assert cluster.free_bytes() > 2**28  # of this machine
