"""Streams: prequential error, speed and memory of one model on one stream.

Every model predicts rows before it learns from them, in the order of the file, one row at a time or
in batches. Times are of the processor; memory is what the process has grown by. Each run is to be
made in a process of its own, on one thread.
"""

import os
import time
from pathlib import Path

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from benchmarks import data
from mondrian_kernel import MondrianKernelRegressor
from mondrian_kernel.classifier import MondrianKernelClassifier

STREAMS = {
    "elec2": "classification",
    "bike": "regression",
    "phishing": "classification",
    "nycflights_delay": "regression",
    "cpu_act": "regression",
}
MAX_ROWS = 50_000
BATCH = 100
TREES, MANY_TREES = 10, 1000


def read(folder, name, n_rows=MAX_ROWS):
    X, y = data.read(folder, name)
    return np.ascontiguousarray(X[:n_rows]), y[:n_rows]


def error(task, y, predicted):
    """Share of wrong classes, or root mean squared error over the standard deviation of y.

    Without the first rows, of which a batch knows nothing.
    """
    y, predicted = y[BATCH:], predicted[BATCH:]
    if task == "classification":
        return float((predicted != y).mean())
    return float(np.sqrt(((predicted - y) ** 2).mean()) / y.std())


def resident():
    """Memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Clock:
    """Sums of the times of predicting and of learning, and the memory since it was made."""

    def __init__(self):
        self.predicting = self.learning = 0.0
        self._before = resident()

    def __call__(self, predict, learn):
        start = time.process_time()
        answer = predict()
        middle = time.process_time()
        learn()
        self.learning += time.process_time() - middle
        self.predicting += middle - start
        return answer

    def found(self, task, y, predicted):
        return {
            "error": error(task, y, predicted),
            "learn_us": 1e6 * self.learning / y.size,
            "predict_us": 1e6 * self.predicting / y.size,
            "grown_by_mb": (resident() - self._before) / 2**20,
        }


def model_of(task, n_trees):
    kind = MondrianKernelClassifier if task == "classification" else MondrianKernelRegressor
    return kind(n_estimators=n_trees, random_state=0, n_jobs=1)


def warm_up(task, X, y, batch):
    """Compile or load, before anything is timed, what a stream that climbs will call."""
    told = {"classes": np.unique(y)} if task == "classification" else {}
    model = model_of(task, TREES)
    for begin in range(0, min(y.size, 5000), batch):
        model.partial_fit(X[begin : begin + batch], y[begin : begin + batch], **told)
        model.predict(X[begin : begin + batch])


def run_ours(folder, name, n_rows, n_trees, batch):
    """Predict, then learn, batch by batch; the first batch is predicted as 0."""
    task, (X, y) = STREAMS[name], read(folder, name, n_rows)
    told = {"classes": np.unique(y)} if task == "classification" else {}
    with threadpool_limits(1):
        warm_up(task, X, y, batch)
        model, predicted, clock = model_of(task, n_trees), np.zeros(y.size), Clock()
        for begin in range(0, y.size, batch):
            rows = slice(begin, begin + batch)
            predicted[rows] = clock(
                lambda x=X[rows], begin=begin: model.predict(x) if begin else 0.0,
                lambda x=X[rows], t=y[rows], told=told: model.partial_fit(x, t, **told),
            )
            told = {}
    return {
        "trees": n_trees, "batch": batch, "cells": model.features_.n_cells_,
        "lifetime": model.lifetime_, **clock.found(task, y, predicted),
    }  # fmt: skip


def run_river(folder, name, n_rows, kind, n_trees):
    """River's AMF or ARF, one row at a time."""
    from river import forest

    task, (X, y) = STREAMS[name], read(folder, name, n_rows)
    cls = getattr(forest, f"{kind}{'Classifier' if task == 'classification' else 'Regressor'}")
    model = cls(**{"n_estimators" if kind == "AMF" else "n_models": n_trees}, seed=1)
    predicted, clock = np.zeros(y.size), Clock()
    for i, (row, target) in enumerate(zip(X, y.tolist(), strict=True)):
        x, t = dict(enumerate(row.tolist())), int(target) if task == "classification" else target
        answer = clock(lambda x=x: model.predict_one(x), lambda x=x, t=t: model.learn_one(x, t))
        predicted[i] = 0.0 if answer is None else answer
    return {"trees": n_trees, "rows": y.size, "dims": X.shape[1],
            **clock.found(task, y, predicted)}  # fmt: skip


def cost(run):
    """Microseconds of a row, predicted and learnt."""
    return run["learn_us"] + run["predict_us"]


def trees_in(microseconds, few, part_few, part_many):
    """Return as many trees as take this time a row.

    ``few`` is a run of the whole stream with few trees; the other two are runs of a part of it with
    few and with many trees, which tell what a tree more costs.
    """
    more = part_many["trees"] - part_few["trees"]
    each = (cost(part_many) - cost(part_few)) / more * cost(few) / cost(part_few)
    return int(np.clip(few["trees"] + 0.9 * (microseconds - cost(few)) / each, 1, MANY_TREES))


def million(n_rows=1_000_000, batch=1000, max_cells=20_000):
    """Learn a long stream with a bound on the cells; speed and memory along the way."""
    rng = np.random.default_rng(0)
    model = MondrianKernelRegressor(
        n_estimators=TREES, max_cells=max_cells, random_state=0, n_jobs=1
    )
    X = rng.uniform(size=(4000, 10))  # compiled or loaded before anything is measured
    clone(model).partial_fit(X, X[:, 0]).partial_fit(X, X[:, 0]).predict(X)
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
