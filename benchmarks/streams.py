"""Streams: prequential error, speed and memory beside river's aggregated Mondrian forests.

Run ``python benchmarks/streams.py --data DIR [--rows N] [--only NAME ...] [--million] [--out
FILE]``. Every model predicts rows before it learns from them, in the order of the file: one row at
a time and in batches of 100, with 10 trees; and then one row at a time with as many trees as fit
into the time of river's 10. Times are of the processor, on one thread; memory is what a process has
grown by. ``--million`` adds a stream of a million rows with a bound on the cells.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from river import forest
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from mondrian_kernel import MondrianKernelRegressor
from mondrian_kernel.classifier import MondrianKernelClassifier

RESULTS = Path(__file__).parent / "results"
STREAMS = {  # name: (task, rows at most)
    "elec2": ("classification", 50_000),
    "bike": ("regression", 50_000),
    "phishing": ("classification", 50_000),
    "nycflights_delay": ("regression", 50_000),
    "cpu_act": ("regression", 50_000),
}
BATCH = 100
MANY_TREES = 1000


def read(folder, name, n_rows):
    path = Path(folder) / f"{name}.csv.gz"
    table = np.loadtxt(path, delimiter=",", skiprows=1, max_rows=min(n_rows, STREAMS[name][1]))
    return np.ascontiguousarray(table[:, :-1]), table[:, -1]


def error(task, y, predicted):
    """Share of wrong classes, or root mean squared error over the standard deviation of y.

    Without the first rows, of which a batch knows nothing.
    """
    y, predicted = y[BATCH:], predicted[BATCH:]
    if task == "classification":
        return float((predicted != y).mean())
    return float(np.sqrt(((predicted - y) ** 2).mean()) / y.std())


def ours(task, n_trees):
    if task == "classification":
        return MondrianKernelClassifier(n_estimators=n_trees, random_state=0, n_jobs=1)
    return MondrianKernelRegressor(n_estimators=n_trees, random_state=0, n_jobs=1)


def run_ours(task, X, y, n_trees, batch):
    """Predict, then learn, batch by batch; the first batch is predicted as 0."""
    model = ours(task, n_trees)
    told = {"classes": np.unique(y)} if task == "classification" else {}
    predicted, predicting, learning = np.zeros(y.size), 0.0, 0.0
    for begin in range(0, y.size, batch):
        rows = slice(begin, begin + batch)
        start = time.process_time()
        if begin:
            predicted[rows] = model.predict(X[rows])
        middle = time.process_time()
        model.partial_fit(X[rows], y[rows], **(told if begin == 0 else {}))
        predicting += middle - start
        learning += time.process_time() - middle
    return {
        "trees": n_trees,
        "batch": batch,
        "error": error(task, y, predicted),
        "learn_us": 1e6 * learning / y.size,
        "predict_us": 1e6 * predicting / y.size,
        "cells": model.features_.n_cells_,
        "lifetime": model.lifetime_,
    }


def rivers(task, n_trees=10):
    if task == "classification":
        return forest.AMFClassifier(n_estimators=n_trees, seed=1)
    return forest.AMFRegressor(n_estimators=n_trees, seed=1)


def run_river(task, X, y, model=None):
    model = rivers(task) if model is None else model
    rows = [dict(enumerate(row)) for row in X.tolist()]
    targets = [int(t) for t in y] if task == "classification" else y.tolist()
    predicted, predicting, learning = np.zeros(y.size), 0.0, 0.0
    for i, (row, target) in enumerate(zip(rows, targets, strict=True)):
        start = time.process_time()
        answer = model.predict_one(row)
        middle = time.process_time()
        model.learn_one(row, target)
        predicting += middle - start
        learning += time.process_time() - middle
        predicted[i] = 0.0 if answer is None else answer
    return {
        "trees": 10,
        "error": error(task, y, predicted),
        "learn_us": 1e6 * learning / y.size,
        "predict_us": 1e6 * predicting / y.size,
    }


def trees_in(task, X, y, microseconds):
    """Return as many trees as take this time a row, by the last rows of a quarter of the stream."""
    n = max(y.size // 4, min(y.size, 1000))
    costs = []
    for n_trees in (10, 100):
        run = run_ours(task, X[:n], y[:n], n_trees, 1)
        costs.append(run["learn_us"] + run["predict_us"])
    each = max((costs[1] - costs[0]) / 90, 1e-3)
    return int(np.clip(10 + (microseconds - costs[0]) / each, 10, MANY_TREES))


def one_stream(folder, name, n_rows):
    task = STREAMS[name][0]
    X, y = read(folder, name, n_rows)
    run_ours(task, X[:300], y[:300], 10, BATCH)  # compiled or loaded before anything is timed
    found = {"rows": y.size, "dims": X.shape[1], "river": run_river(task, X, y)}
    river = found["river"]
    found["single rows"] = run_ours(task, X, y, 10, 1)
    found["batches"] = run_ours(task, X, y, 10, BATCH)
    microseconds = river["learn_us"] + river["predict_us"]
    n_trees = trees_in(task, X, y, microseconds)
    for _ in range(3):  # fewer where the estimate was too high
        equal = run_ours(task, X, y, n_trees, 1)
        equal["time_over_rivers"] = (equal["learn_us"] + equal["predict_us"]) / microseconds
        if equal["time_over_rivers"] <= 1.0 or n_trees == 10:
            break
        n_trees = max(10, int(0.95 * n_trees / equal["time_over_rivers"]))
    found["equal time"] = equal
    for kind in ("single rows", "batches"):
        for what in ("learn", "predict"):
            found[kind][f"{what}_times_faster"] = river[f"{what}_us"] / found[kind][f"{what}_us"]
    return found


def resident():
    """Memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def grown_by(folder, name, n_rows, who):
    """Bytes by which learning a stream makes a process grow; to be run in one of its own."""
    task = STREAMS[name][0]
    X, y = read(folder, name, n_rows)
    if who == "river":
        model, before = rivers(task), resident()
        for row, target in zip(X, y.tolist(), strict=True):
            answer = int(target) if task == "classification" else target
            model.learn_one(dict(enumerate(row.tolist())), answer)
        return resident() - before
    told = {"classes": np.unique(y)} if task == "classification" else {}
    ours(task, 10).partial_fit(X[:300], y[:300], **told).predict(X[:10])
    model, before = ours(task, 10), resident()
    for begin in range(0, y.size, BATCH):
        model.partial_fit(X[begin : begin + BATCH], y[begin : begin + BATCH], **told)
    return resident() - before


def memory(folder, name, n_rows):
    found = {}
    for who in ("river", "ours"):
        line = [sys.executable, __file__, "--data", folder, "--rows", str(n_rows)]
        done = subprocess.run(
            [*line, "--grown-by", name, who], capture_output=True, text=True, check=True
        )
        found[f"{who}_bytes"] = int(done.stdout.split()[-1])
    found["times_smaller"] = found["river_bytes"] / max(found["ours_bytes"], 1)
    return found


def million(n_rows=1_000_000, batch=1000, max_cells=20_000):
    """Learn a long stream with a bound on the cells; speed and memory along the way."""
    rng = np.random.default_rng(0)
    model = MondrianKernelRegressor(n_estimators=10, max_cells=max_cells, random_state=0)
    X = rng.uniform(size=(2000, 10))  # compiled or loaded before anything is measured
    clone(model).partial_fit(X, X[:, 0]).predict(X)
    steps, start, before, squares = [], time.process_time(), resident(), []
    for begin in range(0, n_rows, batch):
        X = rng.uniform(size=(batch, 10))
        y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=batch)
        if begin:
            squares.append(np.mean((model.predict(X) - y) ** 2))
        model.partial_fit(X, y)
        if (begin + batch) % (n_rows // 10) == 0:
            seconds = time.process_time() - start
            steps.append({
                "rows": begin + batch,
                "rows_a_second": n_rows / 10 / seconds,
                "grown_by_mb": (resident() - before) / 2**20,
                "cells": int(model._stream.online.n_cells[-1]),
                "rmse": float(np.sqrt(np.mean(squares))),
            })  # fmt: skip
            print("  ".join(f"{name} {value:.6g}" for name, value in steps[-1].items()), flush=True)
            start, squares = time.process_time(), []
    return steps


def machine():
    cpu = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    packages = ("mondrian-kernel", "river", "numpy", "scipy", "scikit-learn", "numba")
    return {
        "cpu": cpu,
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "load_at_start": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("MONDRIAN_KERNEL_DATA", "data"))
    parser.add_argument("--rows", type=int, default=50_000, help="of each stream at most")
    parser.add_argument("--only", nargs="+", default=list(STREAMS), choices=STREAMS)
    parser.add_argument("--million", action="store_true", help="and the long stream with a cap")
    parser.add_argument("--out", type=Path, default=RESULTS / "streams.json")
    parser.add_argument("--grown-by", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.grown_by:
        print(
            grown_by(arguments.data, arguments.grown_by[0], arguments.rows, arguments.grown_by[1])
        )
        return
    found = {"machine": machine(), "streams": {}, "memory": {}}
    with threadpool_limits(1):
        for name in arguments.only:
            found["streams"][name] = stream = one_stream(arguments.data, name, arguments.rows)
            found["memory"][name] = memory(arguments.data, name, arguments.rows)
            print(f"{name}, {stream['rows']} rows")
            for kind in ("river", "single rows", "batches", "equal time"):
                numbers = "  ".join(f"{k} {v:.4g}" for k, v in stream[kind].items())
                print(f"  {kind:<12}{numbers}", flush=True)
            print(f"  memory      {found['memory'][name]}", flush=True)
        if arguments.million:
            found["million rows"] = million()
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
