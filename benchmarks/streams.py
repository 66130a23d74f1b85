"""Streams: prequential error, speed and memory, beside river's forests.

Every model predicts rows before it learns from them, in the order of the file, one row at a time or
in batches. Times are of the processor; memory is what the process has grown by.
"""

import time

import numpy as np
from sklearn.base import clone

from benchmarks import data
from benchmarks.measure import resident_mb
from benchmarks.methods import OURS
from benchmarks.record import Cell, Key
from benchmarks.tables import table
from mondrian_kernel import MondrianKernelClassifier, MondrianKernelRegressor

STREAMS = ("phishing", "elec2", "bike", "nycflights_delay", "cpu_act")
BATCH, TREES, MANY_TREES = 100, 10, 1000
BATCHES, EQUAL, LONG = f"{OURS}, batches", f"{OURS}, time of AMF", "a million rows"


def plan(options):
    """Cells of each stream and method; the split is not used."""
    cells = {}
    for name in options.some(STREAMS, 1):
        arguments = (str(options.data), name, options.rows)
        for kind in ("AMF", "ARF"):
            cells[Key(name, 0, kind)] = Cell(run_river, (*arguments, kind))
        cells[Key(name, 0, OURS)] = Cell(run_ours, (*arguments, TREES, 1))
        cells[Key(name, 0, BATCHES)] = Cell(run_ours, (*arguments, TREES, BATCH))
        needs = (Key(name, 0, "AMF"), Key(name, 0, OURS))
        cells[Key(name, 0, EQUAL)] = Cell(run_equal, arguments, needs)
    cells[Key(LONG, 0, OURS)] = Cell(long_stream, (20_000 if options.quick else 1_000_000,))
    return cells


def read(folder, name, n_rows):
    X, y = data.read(folder, name)
    return np.ascontiguousarray(X[:n_rows]), y[:n_rows], data.is_classes(y)


def prequential(X, y, classes, batch, predict, learn):
    """Error, times and memory of predicting each batch before it is learnt.

    The error is without the first 100 rows, of which a batch knows nothing.
    """
    predicted, spent, before = np.zeros(y.size), np.zeros(2), resident_mb()
    for begin in range(0, y.size, batch):
        rows = slice(begin, begin + batch)
        start = time.process_time()
        predicted[rows] = predict(X[rows]) if begin else 0.0
        middle = time.process_time()
        learn(X[rows], y[rows])
        spent += middle - start, time.process_time() - middle
    task = "classification" if classes else "regression"
    problem = data.Split(task, None, y[BATCH:], None, y[BATCH:])
    return {
        "error": data.error(problem, predicted[BATCH:]),
        "rows": y.size,
        "predict_us": 1e6 * spent[0] / y.size,
        "learn_us": 1e6 * spent[1] / y.size,
        "grown_by_mb": resident_mb() - before,
    }


def learn(X, y, classes, n_trees, batch):
    """Our model on a stream."""
    kind = MondrianKernelClassifier if classes else MondrianKernelRegressor
    model = kind(n_estimators=n_trees, random_state=0, n_jobs=1)
    told = {"classes": np.unique(y)} if classes else {}
    found = prequential(
        X, y, classes, batch, model.predict, lambda x, t: model.partial_fit(x, t, **told)
    )
    return {"trees": n_trees} | found


def run_ours(folder, name, n_rows, n_trees, batch):
    """Our model; a part of the stream before compiles or loads what a stream will call."""
    X, y, classes = read(folder, name, n_rows)
    learn(X[:5000], y[:5000], classes, TREES, batch)
    return learn(X, y, classes, n_trees, batch)


def run_river(folder, name, n_rows, kind):
    """River's AMF (aggregated Mondrian forest) or ARF (adaptive random forest), row by row."""
    from river import forest

    X, y, classes = read(folder, name, n_rows)
    cls = getattr(forest, f"{kind}{'Classifier' if classes else 'Regressor'}")
    model = cls(**{"n_estimators" if kind == "AMF" else "n_models": TREES}, seed=1)
    rows = [dict(enumerate(row)) for row in X.tolist()]  # as river wants them, not on its time
    targets = y.astype(int).tolist() if classes else y.tolist()
    found = prequential(
        rows, np.array(targets), classes, 1,
        lambda x: model.predict_one(x[0]) or 0.0, lambda x, t: model.learn_one(x[0], t[0].item()),
    )  # fmt: skip
    return {"trees": TREES} | found


def run_equal(folder, name, n_rows, river, few):
    """Our model with as many trees as fit into the time of river's AMF."""
    X, y, classes = read(folder, name, n_rows)
    part = max(y.size // 4, min(y.size, 1000))
    parts = [learn(X[:part], y[:part], classes, n, 1) for n in (TREES, TREES, 10 * TREES)]
    n_trees = trees_in(cost(river), few, *parts[1:])  # the first one compiled
    found = learn(X, y, classes, n_trees, 1)
    return found | {"time_over_rivers": cost(found) / cost(river)}


def cost(run):
    """Microseconds of a row, predicted and learnt."""
    return run["learn_us"] + run["predict_us"]


def trees_in(microseconds, few, part_few, part_many):
    """Return as many trees as take nine tenths of this time a row.

    ``few`` is a run of the whole stream with few trees; the other two are runs of a part of it with
    few and with many trees, which tell what a tree more costs.
    """
    more = part_many["trees"] - part_few["trees"]
    each = (cost(part_many) - cost(part_few)) / more * cost(few) / cost(part_few)
    return int(np.clip(few["trees"] + 0.9 * (microseconds - cost(few)) / each, 1, MANY_TREES))


def long_stream(n_rows, batch=1000, max_cells=20_000):
    """Learn a long stream with a bound on the cells; speed and memory along the way."""
    model = MondrianKernelRegressor(n_estimators=TREES, max_cells=max_cells, random_state=0)
    X, y = data.smooth(4000)  # compiled or loaded before anything is measured
    clone(model).partial_fit(X, y).partial_fit(X, y).predict(X)
    steps, before = [], resident_mb()
    start, squares = time.process_time(), []
    for begin in range(0, n_rows, batch):
        X, y = data.smooth(batch, seed=begin)
        if begin:
            squares.append(np.mean((model.predict(X) - y) ** 2))
        model.partial_fit(X, y)
        if (begin + batch) % (n_rows // 10) == 0:
            seconds = time.process_time() - start
            steps.append({
                "rows": begin + batch, "rows_a_second": n_rows / 10 / seconds,
                "grown_by_mb": resident_mb() - before, "cells": int(model.features_.n_cells_),
                "rmse": float(np.sqrt(np.mean(squares))),
            })  # fmt: skip
            start, squares = time.process_time(), []
    return {"steps": steps}


def beside_river(cells):
    """Streams beside river's forests of ten trees."""
    rows = []
    for name in STREAMS:
        found = [cells.get(Key(name, 0, m), {}) for m in ("AMF", "ARF", OURS, BATCHES, EQUAL)]
        if all("error" in run for run in found):
            river, adaptive, single, batches, equal = found
            rows.append({
                "stream": name, "rows": river["rows"], "error of AMF": river["error"],
                "of ARF": adaptive["error"], "ours, 10 trees": single["error"],
                "in batches": batches["error"], "ours in AMF's time": equal["error"],
                "time over AMF's": equal["time_over_rivers"],
                "learns × faster row by row": river["learn_us"] / single["learn_us"],
                "learns × faster in batches": river["learn_us"] / batches["learn_us"],
                "predicts × faster in batches": river["predict_us"] / batches["predict_us"],
                "× smaller": river["grown_by_mb"] / max(batches["grown_by_mb"], 0.1),
            })  # fmt: skip
    return table(rows)


def along(cells):
    """Speed and memory along the long stream."""
    steps = cells.get(Key(LONG, 0, OURS), {}).get("steps", [])
    names = {"rows": "rows", "rows_a_second": "rows a second", "grown_by_mb": "MB",
             "cells": "cells", "rmse": "error"}  # fmt: skip
    return table([{title: step[name] for name, title in names.items()} for step in steps])


TABLES = {"streams": beside_river, "long_stream": along}
