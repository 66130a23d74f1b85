"""What learning how much each input counts is worth: errors and times with it and without."""

import numpy as np
from joblib import cpu_count
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.measure import clocked
from mondrian_kernel import MondrianKernelClassifier, MondrianKernelRegressor

MAX_ROWS = 8_000


def one_fit(task, split, relevance, seed, threads):
    """Error and time of a fit, and the relevances in order."""
    kind = MondrianKernelClassifier if task == "classification" else MondrianKernelRegressor
    model = kind(relevance=relevance, random_state=seed, n_jobs=threads)
    _, fit = clocked(lambda: model.fit(split.X, split.y))
    error = data.error(task, split, model.predict(split.X_test))
    return {"error": error, "fit": fit, "relevance": np.sort(model.relevance_).tolist()}


def measure(run):
    section = run.section("relevance")
    rows, threads = (300, 1) if run.quick else (MAX_ROWS, cpu_count())
    with threadpool_limits(threads):
        for name in data.names(run.data)[: 2 if run.quick else None]:
            X, y = data.read(run.data, name)
            split = data.random_split(X, y, run.seed, rows)
            task = "classification" if data.is_classes(y) else "regression"
            found = {"task": task, "rows": len(split.y), "dims": X.shape[1]}
            for relevance in ("equal", "learn"):
                found[relevance] = one_fit(task, split, relevance, run.seed, threads)
            section.put(found, "sets", name)
