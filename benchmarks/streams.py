"""Streams with and without drift: prequential error, recovery and speed, beside river's models.

Every row is predicted before it is learnt, in the order of the stream. One row at a time the model
has learnt all rows before; in batches of 100 it has learnt those of earlier batches. River's models
learn row by row in both cases. Times are of the processor. Streams of files have the order of the
file; the others are drawn by river's generators with a drift after half of the rows. The split is
the seed of the model and of the generator.
"""

import time
from functools import partial
from itertools import chain, islice

import numpy as np
import pandas as pd
from sklearn.base import clone

from benchmarks import data
from benchmarks.measure import resident_mb
from benchmarks.methods import OURS
from benchmarks.record import Cell, Key
from benchmarks.tables import frame_of, shown, table
from mondrian_kernel import MondrianKernelClassifier, MondrianKernelRegressor

FILES = ("phishing", "elec2", "bike", "nycflights_delay", "cpu_act")
ABRUPT = ("friedman_abrupt", "sea_abrupt", "agrawal_abrupt")
STREAMS = (*FILES, *ABRUPT, "agrawal_gradual", "hyperplane")
RIVALS = ("AMF", "ARF", "SRP", "Hoeffding tree")
BATCH, TREES = 100, 10
FEW, CLASS, LONG = f"{OURS}, 10 trees", f"{OURS}, river class", "a million rows"
METHODS = (*RIVALS, FEW, OURS)
NEAR, WINDOW, STEP = 1.1, 500, 50  # when a model is back after a drift; see recovery


def plan(options):
    """Cells of each stream, seed and method."""
    cells = {}
    for name in options.some(STREAMS, 1):
        for seed in options.seeds:
            stream = (str(options.data), name, options.rows, seed)
            for rival in RIVALS:
                cells[Key(name, seed, rival)] = Cell(run_river, (*stream, rival))
            cells[Key(name, seed, OURS)] = Cell(run_ours, (*stream, "auto"))
            cells[Key(name, seed, FEW)] = Cell(run_ours, (*stream, TREES))
        first = (str(options.data), name, options.rows, options.seed)
        cells[Key(name, options.seed, CLASS)] = Cell(run_class, first)
    n_rows = 20_000 if options.quick else 1_000_000
    cells[Key(LONG, 0, OURS)] = Cell(long_stream, (n_rows,))
    return cells


def read(folder, name, n_rows, seed):
    """Rows and targets of a stream, and whether these are classes."""
    X, y = data.read(folder, name) if name in FILES else drawn(name, n_rows, seed)
    return np.ascontiguousarray(X[:n_rows]), y[:n_rows], data.is_classes(y)


def drawn(name, n_rows, seed):
    """Rows and targets of a generator of river's, whose concept changes after half of the rows."""
    from river.datasets import synth

    half, sea = n_rows // 2, partial(synth.SEA, noise=0.1, seed=seed)
    before, after = (synth.Agrawal(k, seed, perturbation=0.05) for k in (0, 4))
    streams = {
        "friedman_abrupt": synth.FriedmanDrift("gra", (half, n_rows), seed=seed).take(n_rows),
        "sea_abrupt": chain(sea(0).take(half), islice(sea(3), half, n_rows)),
        "agrawal_abrupt": chain(before.take(half), islice(after, half, n_rows)),
        "agrawal_gradual": synth.ConceptDriftStream(
            before, after, position=half, width=n_rows // 5, seed=seed
        ).take(n_rows),
        "hyperplane": synth.Hyperplane(seed, n_drift_features=5, mag_change=0.001).take(n_rows),
    }
    X, y = zip(*(([*x.values()], y) for x, y in streams[name]), strict=True)
    return np.array(X, float), np.array(y, float)


def prequential(X, y, classes, name, predict, learn, ahead=None):
    """Error, recovery and times of predicting rows before they are learnt.

    ``predict`` and ``learn`` take as many rows as they get: ``X`` and ``y`` are lists of batches.
    ``ahead`` predicts 100 rows at a time of a model that learns row by row. The error is without
    the first 100 rows, of which a batch knows nothing.
    """
    n_rows = sum(map(len, y))
    predicted, early, spent, begin = np.zeros(n_rows), np.zeros(n_rows), np.zeros(2), 0
    for rows, targets in zip(X, y, strict=True):
        end = begin + len(targets)
        if ahead is not None and begin and begin % BATCH == 0:
            early[begin : begin + BATCH] = ahead(X[begin : begin + BATCH])
        start = time.process_time()
        predicted[begin:end] = predict(rows) if begin else 0.0
        middle = time.process_time()
        learn(rows, targets)
        spent += middle - start, time.process_time() - middle
        begin = end
    found = judged(np.concatenate(y), predicted, classes, name)
    if ahead is not None:
        found["batch_error"] = judged(np.concatenate(y), early, classes, "")["error"]
    times = {"predict_us": 1e6 * spent[0] / n_rows, "learn_us": 1e6 * spent[1] / n_rows}
    return {"rows": n_rows} | found | times


def judged(y, predicted, classes, name):
    """Error of a stream and, with an abrupt drift, how the model got over it."""
    lost = (predicted != y).astype(float) if classes else (predicted - y) ** 2 / y[BATCH:].var()
    mean = np.mean if classes else lambda part: np.sqrt(np.mean(part))
    found = {"error": float(mean(lost[BATCH:]))}
    if name in ABRUPT:
        found |= recovery(lost, mean)
    return found


def recovery(lost, mean):
    """Rows after the drift until the error of 500 rows is within 10 % of that before the drift.

    The error before is that of a quarter of the rows. Also the error of the tenth of the rows after
    the drift, which all models can be compared by.
    """
    half = lost.size // 2
    before = mean(lost[half // 2 : half])
    back = None
    for end in range(half + WINDOW, lost.size, STEP):
        if mean(lost[end - WINDOW : end]) <= NEAR * before:
            back = end - half
            break
    after = mean(lost[half : half + lost.size // 10])
    return {"before": float(before), "after": float(after), "back_after": back}


def batches(X, y, size):
    """Lists of parts of ``size`` rows."""
    return [[a[i : i + size] for i in range(0, len(y), size)] for a in (X, y)]


def learn(X, y, classes, name, n_trees, seed, size):
    """Our model on a stream."""
    kind = MondrianKernelClassifier if classes else MondrianKernelRegressor
    model = kind(n_estimators=n_trees, random_state=seed, n_jobs=1)
    told = {"classes": np.unique(y)} if classes else {}
    return prequential(
        *batches(X, y, size),
        classes,
        name,
        model.predict,
        lambda x, t: model.partial_fit(x, t, **told),
    )


def run_ours(folder, name, n_rows, seed, n_trees):
    """Our model, row by row and in batches; a part before compiles what a stream will call."""
    X, y, classes = read(folder, name, n_rows, seed)
    for size in (1, BATCH):
        learn(X[:3000], y[:3000], classes, "", n_trees, seed, size)
    single = learn(X, y, classes, name, n_trees, seed, 1)
    many = learn(X, y, classes, name, n_trees, seed, BATCH)
    return single | {f"batch_{what}": many[what] for what in ("error", "predict_us", "learn_us")}


def river_model(kind, classes, seed):
    """A model of river's with its defaults: ten trees, or one of Hoeffding's."""
    from river import ensemble, forest, tree

    word = "Classifier" if classes else "Regressor"
    if kind == "Hoeffding tree":
        return getattr(tree, f"HoeffdingAdaptiveTree{word}")(seed=seed)
    if kind == "SRP":
        return getattr(ensemble, f"SRP{word}")(n_models=TREES, seed=seed)
    n_trees = {"n_estimators" if kind == "AMF" else "n_models": TREES}
    return getattr(forest, f"{kind}{word}")(**n_trees, seed=seed)


def run_river(folder, name, n_rows, seed, kind):
    """One of river's models."""
    return one_by_one(river_model, folder, name, n_rows, seed, kind)


def run_class(folder, name, n_rows, seed):
    """Our model through its class for river, with ten trees."""
    for some in (min(n_rows, 3000), n_rows):  # the first one compiles
        found = one_by_one(our_class, folder, name, some, seed, None)
    return found


def our_class(_, classes, seed):
    from mondrian_kernel import river

    word = "Classifier" if classes else "Regressor"
    return getattr(river, f"MondrianKernel{word}")(n_estimators=TREES, seed=seed)


def one_by_one(make, folder, name, n_rows, seed, kind):
    """A model with river's methods on a stream."""
    X, y, classes = read(folder, name, n_rows, seed)
    model = make(kind, classes, seed)
    rows = [dict(enumerate(row)) for row in X.tolist()]  # as river wants them, not on its time
    targets = y.astype(int).tolist() if classes else y.tolist()
    return prequential(
        rows,
        [[t] for t in targets],
        classes,
        name,
        lambda x: model.predict_one(x) or 0.0,
        lambda x, t: model.learn_one(x, t[0]),
        ahead=lambda some: [model.predict_one(x) or 0.0 for x in some],
    )


def long_stream(n_rows, batch=1000):
    """Learn a long stream with the defaults but ten trees; speed and memory along the way."""
    model = MondrianKernelRegressor(n_estimators=TREES, random_state=0)
    X, y = data.smooth(4000)  # compiled or loaded before anything is measured
    clone(model).partial_fit(X, y).partial_fit(X, y).predict(X)
    steps, before = [], resident_mb()
    spent, squares = 0.0, []
    for begin in range(0, n_rows, batch):
        X, y = data.smooth(batch, seed=begin)
        start = time.process_time()
        if begin:
            squares.append(np.mean((model.predict(X) - y) ** 2))
        model.partial_fit(X, y)
        spent += time.process_time() - start
        if (begin + batch) % (n_rows // 10) == 0:
            steps.append(
                {
                    "rows": begin + batch,
                    "rows_a_second": n_rows / 10 / spent,
                    "grown_by_mb": resident_mb() - before,
                    "cells": int(model.features_.n_cells_),
                    "rmse": float(np.sqrt(np.mean(squares))),
                }
            )
            spent, squares = 0.0, []
    return {"steps": steps}


def with_spread(values):
    """Mean and, of several seeds, standard deviation."""
    mean, std = values.mean(), values.std()
    return shown(mean) if len(values) < 2 else f"{shown(mean)} ± {shown(std, 2)}"


def by_method(cells, what, sets, methods):
    """One line a stream where ours are known, with a dash for a method that was not run."""
    found = frame_of(cells)
    rows = []
    for name in sets if what in found else ():
        here = found[found["set"] == name]
        values = {m: here.loc[here["method"] == m, what].dropna() for m in methods}
        if len(values[FEW]):
            each = {m: with_spread(found) if len(found) else None for m, found in values.items()}
            rows.append({"stream": name, "rows": int(here["rows"].max())} | each)
    return table(rows)


def recovered(cells):
    """Rows until a model is back, and the error of the tenth of the rows after the drift."""
    rows = []
    for name in ABRUPT:
        line = {"stream": name}
        for method in (*RIVALS, FEW):
            here = [c for k, c in cells.items() if k.set == name and k.method == method]
            here = [c for c in here if "after" in c]
            if here:
                back = [c["back_after"] for c in here]
                never = any(b is None for b in back)
                line[f"{method}, rows"] = "never" if never else f"{np.mean(back):.0f}"
                line[f"{method}, error"] = with_spread(pd.Series([c["after"] for c in here]))
        if len(line) > 1:
            rows.append(line)
    return table(rows)


def speed(cells):
    """Rows a second of AMF, and how many times as fast ours is with as many trees."""
    found, rows = frame_of(cells), []
    for name in STREAMS:
        try:
            amf, ours, single = (
                found[(found["set"] == name) & (found["method"] == m)].mean(numeric_only=True)
                for m in ("AMF", FEW, CLASS)
            )
            rows.append(
                {
                    "stream": name,
                    "AMF learns": 1e6 / amf["learn_us"],
                    "AMF predicts": 1e6 / amf["predict_us"],
                    "batches, × learning": amf["learn_us"] / ours["batch_learn_us"],
                    "batches, × predicting": amf["predict_us"] / ours["batch_predict_us"],
                    "rows, × learning": amf["learn_us"] / ours["learn_us"],
                    "rows, × predicting": amf["predict_us"] / ours["predict_us"],
                    "river class, × learning": amf["learn_us"] / single["learn_us"],
                    "river class, × predicting": amf["predict_us"] / single["predict_us"],
                }
            )
        except KeyError:
            continue
    rows = [row for row in rows if not any(v != v for v in row.values())]
    return table(rows)


def along(cells):
    """Speed and memory along the long stream."""
    steps = cells.get(Key(LONG, 0, OURS), {}).get("steps", [])
    names = {
        "rows": "rows",
        "rows_a_second": "rows a second",
        "grown_by_mb": "MB",
        "cells": "cells",
        "rmse": "error",
    }
    return table([{title: step[name] for name, title in names.items()} for step in steps])


TABLES = {
    "streams": partial(by_method, what="error", sets=STREAMS, methods=METHODS),
    "streams_in_batches": partial(by_method, what="batch_error", sets=STREAMS, methods=METHODS),
    "drift": recovered,
    "stream_speed": speed,
    "long_stream": along,
}
