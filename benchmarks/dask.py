"""Rows a second and memory of a fit on two Dask workers of one thread each.

Blocks are drawn anew in every pass, so that there may be more data than memory.
"""

import logging
import os
import time

import numpy as np

from benchmarks.record import Cell, Key
from benchmarks.tables import of_cells

N_DIMS, SETTINGS = 20, {"lifetime": 0.04, "alpha": 1.0, "random_state": 0}


def plan(options):
    """Cells by number of rows and solver; the last one has more data than the workers' memory."""
    size, n_blocks, limit = (1_000, 8, "4GB") if options.quick else (50_000, 4, "1GB")
    cells = {
        Key(f"{n_blocks * size} rows", 0, solver): Cell(one_fit, (n_blocks, size, solver, limit))
        for solver in ("one place", "dense", "lanczos")
    }
    many = n_blocks if options.quick else 260
    cells[Key("more data than memory", 0, "dense")] = Cell(one_fit, (many, size, "dense", limit))
    return cells


def draw(block, n_rows):
    """Rows and targets of a block, shape (n_rows, N_DIMS + 1)."""
    rng = np.random.default_rng(block)
    X = rng.normal(size=(n_rows, N_DIMS))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows)
    return np.c_[X, y]


def spent():
    """Process, its CPU seconds and its largest memory so far, in MB."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return os.getpid(), time.process_time(), int(line.split()[1]) / 1024


def one_fit(n_blocks, size, solver, limit):
    """Time and memory of a fit; a smaller one before compiles."""
    if solver == "one place":
        return measured(local_fit, n_blocks, size, lambda: [spent()])
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=limit,
                     dashboard_address=":0", silence_logs=logging.CRITICAL) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip

        def on_workers():
            return list(client.run(spent).values())

        return measured(
            lambda *sizes: dask_fit(solver, *sizes), n_blocks, size,
            lambda: [*on_workers(), spent()], on_workers,
        )  # fmt: skip


def measured(fit, n_blocks, size, clocks, workers=None):
    """Rows a second of wall and CPU time, and the largest memory of a worker."""
    fit(2, size)
    before, begin = clocks(), time.perf_counter()
    model = fit(n_blocks, size)
    wall, after = time.perf_counter() - begin, clocks()
    cpu = sum(c for _, c, _ in after) - sum(c for _, c, _ in before)
    held = (workers or clocks)()
    return {
        "rows": n_blocks * size,
        "cells": int(model.features_.n_cells_),
        "data_mb": n_blocks * size * (N_DIMS + 1) * 8 / 2**20,
        "rows_a_second": n_blocks * size / wall,
        "rows_a_cpu_second": n_blocks * size / cpu,
        "peak_mb": max(mb for _, _, mb in held),
        "lost": len({pid for pid, *_ in before} - {pid for pid, *_ in after}),
    }


def local_fit(n_blocks, size):
    from mondrian_kernel import MondrianKernelRegressor

    data = np.vstack([draw(k, size) for k in range(n_blocks)])
    return MondrianKernelRegressor(n_estimators=10, **SETTINGS).fit(data[:, :-1], data[:, -1])


def dask_fit(solver, n_blocks, size):
    import dask
    import dask.array as da

    from mondrian_kernel.dask import DaskMondrianKernelRegressor

    shape = size, N_DIMS + 1
    drawn = [da.from_delayed(dask.delayed(draw)(k, size), shape, float) for k in range(n_blocks)]
    data = da.concatenate(drawn)
    model = DaskMondrianKernelRegressor(n_estimators=10, solver=solver, **SETTINGS)
    return model.fit(data[:, :-1], data[:, -1])


TABLES = {
    "dask": lambda cells: of_cells(cells, {
        "set": "what", "method": "solver", "rows": "rows", "cells": "cells", "data_mb": "data, MB",
        "rows_a_second": "rows a second", "rows_a_cpu_second": "rows a CPU second",
        "peak_mb": "peak of a worker, MB", "lost": "workers lost",
    })
}  # fmt: skip
