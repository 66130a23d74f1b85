"""The same models from a cluster of processes, and what happens when parts of it are lost."""

import logging
import os
import signal
import threading

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import MondrianFeatures, MondrianKernelClassifier, MondrianKernelRegressor
from mondrian_kernel.dask import (
    DaskMondrianFeatures,
    DaskMondrianKernelClassifier,
    DaskMondrianKernelRegressor,
)
from mondrian_kernel.dask.cluster import Recipe, by_worker, compute, free_bytes, parts_of, persist

distributed = pytest.importorskip("distributed")

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(900, 3))
TARGETS = np.sin(ROWS[:, 0]) + ROWS[:, 1] + 0.1 * rng.normal(size=900)


def in_chunks(a, n_chunks):
    return da.from_array(a, chunks=(-(-len(a) // n_chunks),) + (-1,) * (a.ndim - 1))


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "60s"}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("way", ["shares", "rounds", "rounds without memory"])
@pytest.mark.parametrize("n_chunks", [1, 3, 7])
def test_same_trees_from_processes(client, n_chunks, way, monkeypatch):
    from mondrian_kernel.dask import growth, shares

    monkeypatch.setattr(shares, "fits_worker", lambda n_bytes: way == "shares")
    if way == "rounds without memory":
        monkeypatch.setattr(growth, "free_bytes", lambda: 0.0)
    local = MondrianFeatures(0.7, 10, random_state=0).fit(ROWS)
    features = DaskMondrianFeatures(0.7, 10, random_state=0).fit(in_chunks(ROWS, n_chunks))
    for name in "left", "dim", "loc", "time", "lower", "upper", "count":
        assert_array_equal(getattr(features.trees_, name), getattr(local.trees_, name))
    Phi = features.transform(in_chunks(ROWS, n_chunks)).compute()
    assert (Phi != local.transform(ROWS)).nnz == 0


@pytest.mark.parametrize("solver", ["dense", "lanczos"])
def test_same_regression_from_processes(client, solver):
    local = MondrianKernelRegressor(0.3, 5.0, 10, random_state=0).fit(ROWS, TARGETS)
    model = DaskMondrianKernelRegressor(0.3, 5.0, 10, solver=solver, random_state=0)
    model.fit(in_chunks(ROWS, 4), in_chunks(TARGETS, 4))
    tol = 1e-8 if solver == "dense" else 1e-6
    assert_allclose(model.predict(in_chunks(ROWS, 3)).compute(), local.predict(ROWS), atol=tol)


def test_same_classes_from_processes(client):
    y = TARGETS > 0
    local = MondrianKernelClassifier(0.5, 0.1, 10, random_state=0).fit(ROWS, y)
    model = DaskMondrianKernelClassifier(0.5, 0.1, 10, random_state=0)
    P = model.fit(in_chunks(ROWS, 4), in_chunks(y, 4)).predict_proba(in_chunks(ROWS, 3))
    assert_allclose(P.compute(), local.predict_proba(ROWS), atol=0.02)


@pytest.mark.parametrize(
    ("solver", "way", "kill_at"),
    [("dense", "rounds", 4), ("lanczos", "rounds", 14)] + [("dense", "shares", k) for k in (2, 3)],
)
def test_a_killed_worker_changes_nothing(client, solver, way, kill_at, monkeypatch):
    """A worker is killed in the middle, with its share of all that is kept on workers."""
    from mondrian_kernel.dask import blocks, cluster, shares

    monkeypatch.setattr(shares, "fits_worker", lambda n_bytes: way == "shares")
    model = DaskMondrianKernelRegressor(0.3, 5.0, 10, solver=solver, random_state=0)
    X, y = in_chunks(ROWS, 5), in_chunks(TARGETS, 5)
    expected = model.fit(X, y).cell_weights_
    compute, n_passes, victims = blocks.compute, 0, []

    def compute_and_kill(parts):
        nonlocal n_passes
        n_passes += 1
        if n_passes == kill_at:
            address, pid = next(iter(client.run(os.getpid).items()))
            os.kill(pid, signal.SIGKILL)
            victims.append(address)
        return compute(parts)

    for module in (blocks, cluster, shares):
        monkeypatch.setattr(module, "compute", compute_and_kill)
    assert_array_equal(model.fit(X, y).cell_weights_, expected)
    assert len(victims) == 1
    assert n_passes > kill_at + (way == "rounds")
    client.wait_for_workers(2, timeout=60)
    assert victims[0] not in client.run(os.getpid)


def test_free_memory_of_workers(client):
    """Less than what they have before they spill, and more than if each had filled a gigabyte."""
    limits = [w["memory_limit"] for w in client.scheduler_info()["workers"].values()]
    target = dask.config.get("distributed.worker.memory.target")
    assert target * sum(limits) - 2 * 2**30 < free_bytes() < target * sum(limits)


@pytest.mark.parametrize("then", [np.positive, np.negative])
def test_blocks_on_workers_stay_there(client, then):
    """They are used as they are, and not made again, whatever is done with them then."""
    X = in_chunks(ROWS, 4).map_blocks(then).persist()
    X = X if then is np.positive else -X
    assert not any(isinstance(part, Recipe) for part in parts_of(X))
    local = MondrianFeatures(0.7, 10, random_state=0).fit(ROWS)
    features = DaskMondrianFeatures(0.7, 10, random_state=0).fit(X)
    assert_array_equal(features.trees_.loc, local.trees_.loc)


def test_what_does_not_pickle_is_named(client, caplog):
    caplog.set_level(logging.CRITICAL + 1, logger="distributed.protocol.pickle")
    lock = threading.Lock()
    X = in_chunks(ROWS, 3).map_blocks(lambda block: block if lock else None, dtype=float)
    with pytest.raises(TypeError, match=r"cannot be sent to workers: cannot pickle '_thread.lock'"):
        DaskMondrianFeatures().fit(X)


def test_errors_of_the_rows_come_through(client):
    X = da.where(in_chunks(ROWS, 3) > 2.0, np.nan, in_chunks(ROWS, 3))
    with pytest.raises(ValueError, match="X holds NaN"):
        DaskMondrianFeatures().fit(X)


def test_dask_ml_maps_blocks(client):
    wrappers = pytest.importorskip("dask_ml.wrappers")
    local = MondrianKernelRegressor(0.5, 0.1, 10, random_state=0)
    model = wrappers.ParallelPostFit(local).fit(ROWS, TARGETS)
    lazy = model.predict(in_chunks(ROWS, 3))
    assert_array_equal(lazy.compute(), local.fit(ROWS, TARGETS).predict(ROWS))


def test_joblib_sends_fits_to_the_cluster(client):
    import joblib
    from sklearn.model_selection import cross_val_score

    model = MondrianKernelRegressor(0.5, 0.1, 10, random_state=0)
    expected = cross_val_score(model, ROWS, TARGETS, cv=3)
    with joblib.parallel_config(backend="dask"):
        found = cross_val_score(model, ROWS, TARGETS, cv=3, n_jobs=-1)
        assert_allclose(found, expected, rtol=1e-9)  # workers have other threads for sums
        trees = MondrianFeatures(0.7, 10, random_state=0, n_jobs=-1).fit(ROWS).trees_
    assert_array_equal(trees.loc, MondrianFeatures(0.7, 10, random_state=0).fit(ROWS).trees_.loc)


def test_what_a_worker_keeps_is_joined_there(client):
    """The parts of a worker stand together, each part once; without a cluster, all of them."""
    parts = persist([dask.delayed(np.zeros, pure=False)(k) for k in range(1, 9)])
    groups = by_worker(parts)
    held = client.who_has()
    found = [[distributed.futures_of(part)[0].key for part in group] for group in groups]
    homes = [{held[key] for key in group} for group in found]
    assert all(len(home) == 1 for home in homes)
    assert len(homes) == len(set.union(*homes))
    assert sorted(map(len, compute([part for group in groups for part in group]))) == [*range(1, 9)]
    with dask.config.set(scheduler="sync"):
        local = persist([dask.delayed(np.zeros)(1)] * 2)
    assert by_worker(local) == [local]
