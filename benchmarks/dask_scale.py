"""Rows a second, rounds, bytes and memory of a fit on two Dask workers, beside one place.

    python benchmarks/dask_scale.py work       # processor time of each kind of pass
    python benchmarks/dask_scale.py speed      # rows a second, rounds, bytes a round
    python benchmarks/dask_scale.py memory     # more data than the workers' memory, from Parquet
    python benchmarks/dask_scale.py arrays     # the same, smaller workers, from files of arrays

Each part updates its entry of ``benchmarks/results/dask_scale.json``. Data are drawn block by
block, so that any number of rows can be asked for. Workers begin by importing this script: what
they need not is imported by the functions that do.
"""

import argparse
import json
import logging
import os
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results" / "dask_scale.json"
LIFETIME, ALPHA = 0.2, 1.0


def draw(block, n_rows, n_dims):
    """Rows and targets of a block, shape (n_rows, n_dims + 1)."""
    rng = np.random.default_rng(block)
    X = rng.normal(size=(n_rows, n_dims))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows)
    return np.c_[X, y]


def as_parquet(folder, n_blocks, size, n_dims):
    """Write files of Parquet; return rows and targets as lazy frames."""
    import dask.dataframe as dd
    import pandas as pd

    names = [f"x{d}" for d in range(n_dims)]
    for k in range(n_blocks):
        frame = pd.DataFrame(draw(k, size, n_dims), columns=[*names, "y"])
        frame.to_parquet(f"{folder}/part{k:05d}.parquet")
    frame = dd.read_parquet(folder)
    return frame[names], frame["y"]


def as_arrays(folder, n_blocks, size, n_dims):
    """Write files of arrays; return rows and targets as lazy arrays."""
    import dask
    import dask.array as da

    def read(k):
        return np.load(f"{folder}/{k}.npy")

    for k in range(n_blocks):
        np.save(f"{folder}/{k}.npy", draw(k, size, n_dims))
    shape = size, n_dims + 1
    data = da.concatenate(
        [da.from_delayed(dask.delayed(read)(k), shape, float) for k in range(n_blocks)]
    )
    return data[:, :-1], data[:, -1]


def peak_memory():
    """Process, and its largest resident memory so far, in bytes."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return os.getpid(), int(line.split()[1]) * 1024


class Watch:
    """Counts passes over the data and what growing sends, while a model is fitted."""

    def __init__(self):
        self.passes, self.seconds, self.growths = 0, 0.0, []

    def __enter__(self):
        from mondrian_kernel.dask import blocks
        from mondrian_kernel.dask.growth import BlockGrowth

        self._compute, self._init = blocks.compute, BlockGrowth.__init__

        def compute(parts):
            begin = time.perf_counter()
            out = self._compute(parts)
            self.passes, self.seconds = self.passes + 1, self.seconds + time.perf_counter() - begin
            return out

        def init(growth, *args, **kwargs):
            self._init(growth, *args, **kwargs)
            self.growths.append(growth)

        blocks.compute, BlockGrowth.__init__ = compute, init
        return self

    def __exit__(self, *_):
        from mondrian_kernel.dask import blocks
        from mondrian_kernel.dask.growth import BlockGrowth

        blocks.compute, BlockGrowth.__init__ = self._compute, self._init


def processor_seconds(client):
    """Of the workers and of this process so far."""
    return time.process_time() + sum(client.run(time.process_time).values())


def fit(client, model, X, y):
    with Watch() as watch:
        begin, busy = time.perf_counter(), processor_seconds(client)
        model.fit(X, y)
        seconds, busy = time.perf_counter() - begin, processor_seconds(client) - busy
    growth, n_cells = watch.growths[-1], int(model.features_.n_cells_)
    n_rows = int(growth._count[0])
    return {
        "rows": n_rows,
        "seconds": seconds,
        "rows a second": n_rows / seconds,
        "rows a processor second": n_rows / busy,
        "cells": n_cells,
        "passes": watch.passes,
        "seconds a pass": watch.seconds / watch.passes,
        "rounds of growing": growth.n_rounds,
        "bytes to a worker in a round": growth.n_bytes[0] / growth.n_rounds,
        "bytes from a block in a round": growth.n_bytes[1] / growth.n_rounds,
        "bytes from a block to solve": 8 * n_cells * (n_cells if model._sums is not None else 1),
    }


def speed(n_rows, n_dims, n_trees, n_chunks):
    import dask.array as da

    from mondrian_kernel import MondrianKernelRegressor
    from mondrian_kernel.dask import DaskMondrianKernelRegressor

    size = n_rows // n_chunks
    data = np.vstack([draw(k, size, n_dims) for k in range(n_chunks)])
    X, y = data[:, :-1].copy(), data[:, -1].copy()
    out = {"rows": n_rows, "dims": n_dims, "trees": n_trees, "blocks": n_chunks}
    local = MondrianKernelRegressor(LIFETIME, ALPHA, n_trees, random_state=0)
    local.fit(X[:500], y[:500])  # compiles
    begin, busy = time.perf_counter(), time.process_time()
    local.fit(X, y)
    out["one place, one thread, rows a second"] = n_rows / (time.perf_counter() - begin)
    out["one place, rows a processor second"] = n_rows / (time.process_time() - busy)
    with workers("4GB") as client:
        rows = da.from_array(X, chunks=(size, -1)).persist()
        targets = da.from_array(y, chunks=size).persist()
        for solver in "dense", "lanczos":
            model = DaskMondrianKernelRegressor(
                LIFETIME, ALPHA, n_trees, solver=solver, random_state=0
            )
            model.fit(rows[: 2 * size], targets[: 2 * size])  # compiles
            out[solver] = fit(client, model, rows, targets)
            difference = np.abs(model.predict(X[:1000]) - local.predict(X[:1000])).max()
            out[solver]["largest difference of predictions"] = float(difference)
    return out


def work(n_rows, n_dims, n_trees):
    """Processor time of one row in one tree, of each kind of pass over a block."""
    import dask
    import dask.array as da

    from mondrian_kernel import MondrianFeatures
    from mondrian_kernel._kernels.rounds import find_leaves
    from mondrian_kernel.dask import DaskMondrianFeatures
    from mondrian_kernel.dask.cells import Cuts, Part, _gram, _pairs

    data = draw(0, n_rows, n_dims)
    X, y = data[:, :-1].copy(), data[:, -1:].copy()
    features = MondrianFeatures(LIFETIME, n_trees, random_state=0).fit(X)
    trees = features.trees_
    cuts = Cuts(trees.root, trees.left, trees.right, trees.dim, trees.loc)
    part = Part(features.apply(X), y, np.ones(n_rows))
    leaf, W = np.empty((n_rows, n_trees), np.int32), np.ones((features.n_cells_, 1))
    blocks = DaskMondrianFeatures(LIFETIME, n_trees, random_state=0)
    passes = {
        "all of growing, in rounds": lambda: blocks.fit(da.from_array(X, chunks=(-1, -1))),
        "finding the cells": lambda: find_leaves(X, cuts, leaf),
        "summing the matrix": lambda: _pairs(part, 0, n_trees, 0, features.n_cells_),
        "a step of Lanczos": lambda: _gram(part, W),
        "all of growing, in one place": lambda: features.fit(X),
    }
    out = {"rows": n_rows, "dims": n_dims, "trees": n_trees, "cells": features.n_cells_}
    with dask.config.set(scheduler="sync"):
        for name, run in passes.items():
            run()
            begin = time.process_time()
            run()
            seconds = time.process_time() - begin
            out[f"{name}, ns a row and tree"] = 1e9 * seconds / n_rows / n_trees
    out["a round of growing, ns a row and tree"] = (
        out["all of growing, in rounds, ns a row and tree"] / blocks.n_rounds_
    )
    with tempfile.TemporaryDirectory() as folder:
        frame, _ = as_parquet(folder, 1, n_rows, 20)
        frame.compute(scheduler="sync")
        begin = time.process_time()
        frame.compute(scheduler="sync")
        out["reading 20 columns of Parquet, ns a row"] = (
            1e9 * (time.process_time() - begin) / n_rows
        )
    return out


def memory(write, n_blocks, size, n_dims, n_trees, limit):
    import dask

    from mondrian_kernel.dask import DaskMondrianKernelRegressor

    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    with tempfile.TemporaryDirectory() as folder:
        X, y = write(folder, n_blocks, size, n_dims)
        with workers(limit) as client:
            started = client.run(peak_memory)
            model = DaskMondrianKernelRegressor(
                LIFETIME / 5, ALPHA, n_trees, solver="dense", random_state=0
            )
            out = fit(client, model, X, y)
            fitted = client.run(peak_memory)
            model.predict(X).sum().compute()
            peaks = client.run(peak_memory)
    new = draw(n_blocks, 10_000, n_dims)
    error = np.sqrt(np.mean((model.predict(new[:, :-1]) - new[:, -1]) ** 2))
    pids = {pid for pid, _ in started.values()}
    return out | {
        "trees": n_trees,
        "blocks": n_blocks,
        "bytes of data": n_blocks * size * (n_dims + 1) * 8,
        "bytes of a block": size * (n_dims + 1) * 8,
        "memory limit of a worker": dask.utils.parse_bytes(limit),
        "memory of a worker at the start": max(n for _, n in started.values()),
        "peak memory of each worker, fit": sorted(n for _, n in fitted.values()),
        "peak memory of each worker, with predictions": sorted(n for _, n in peaks.values()),
        "workers lost": len(pids - {pid for pid, _ in peaks.values()}),
        "error on new rows": float(error),
    }


@contextmanager
def workers(limit):
    """Two workers of one thread each."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit=limit,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["work", "speed", "memory", "arrays"])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--trees", type=int)
    parser.add_argument("--limit", help="memory of a worker, 1GB say")
    args = parser.parse_args()
    if args.part == "speed":
        result = speed(args.rows or 100_000, 5, args.trees or 30, 8)
    elif args.part == "work":
        result = work(args.rows or 100_000, 5, args.trees or 50)
    elif args.part == "memory":
        n_blocks = (args.rows or 13_000_000) // 50_000
        result = memory(as_parquet, n_blocks, 50_000, 20, args.trees or 10, args.limit or "1GB")
    else:
        n_blocks = (args.rows or 7_000_000) // 50_000
        result = memory(as_arrays, n_blocks, 50_000, 20, args.trees or 10, args.limit or "500MB")
    print(json.dumps(result, indent=1))
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(results | {args.part: result}, indent=1) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
