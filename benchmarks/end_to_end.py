"""Regressor and classifier with defaults beside rivals, on every data set of the folder."""

import numpy as np
from joblib import cpu_count
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from benchmarks import data, ranks
from benchmarks.measure import clocked, in_child, peak_mb
from benchmarks.rivals import OURS, classifiers, regressors


def one_fit(split, name, task, seed, threads):
    """Error, time and memory of one model on one split; for a child."""
    make = classifiers if task == "classification" else regressors
    X, y, X_test, y_test = split
    if name == OURS:  # compiled code is loaded before the clock runs
        small = make(0, seed, threads)[name].set_params(n_estimators=20)
        small.fit(X[:200], y[:200]).predict(X[:10])
    model = make(len(y), seed, threads)[name]
    with threadpool_limits(threads):
        before = peak_mb()
        _, fit = clocked(lambda: model.fit(X, y))
        predicted, predict = clocked(lambda: model.predict(X_test))
        found = {"fit": fit, "predict": predict, "grown_by_mb": peak_mb() - before}
        found["error"] = data.error(task, split, predicted)
        if task == "classification" and name != "exact kernel" and hasattr(model, "predict_proba"):
            probabilities = model.predict_proba(X_test)
            found["log_loss"] = float(log_loss(y_test, probabilities, labels=np.unique(y)))
        if name == OURS:
            found |= {"lifetime": model.lifetime_, "alpha": model.alpha_}
            if task == "regression":
                # Above 10 000 rows an error bar takes longer than a prediction by far.
                some = slice(0, 1000 if len(y) <= 10_000 else 500)
                low, high = model.predict_interval(X_test[some], 0.9).T
                found["coverage"] = float(np.mean((low <= y_test[some]) & (y_test[some] <= high)))
    return found


def n_splits(run, n_rows):
    """Number of splits: what was asked for, or more where rows are few and luck decides more."""
    if run.splits:
        return run.splits
    return 1 if run.quick or n_rows > 2_000 else 3


def measure(run):
    section = run.section("end_to_end", keep=run.methods is not None)
    threads, limit, max_train = (1, 10, 300) if run.quick else (cpu_count(), 300, 8_000)
    max_train = run.rows or max_train
    section.put(threads, "threads")
    for name in data.names(run.data)[: 4 if run.quick else None]:
        X, y = data.read(run.data, name)
        task = "classification" if data.is_classes(y) else "regression"
        make = classifiers if task == "classification" else regressors
        for key, value in (("task", task), ("rows", y.size), ("dims", X.shape[1])):
            section.put(value, "sets", name, key)
        fits = {}
        methods = make(0, run.seed, threads)
        if unknown := set(run.methods or ()) - set(methods):
            raise SystemExit(f"unknown method {min(unknown)!r}; there are {', '.join(methods)}")
        for seed in range(run.seed, run.seed + n_splits(run, y.size)):
            split = data.random_split(X, y, seed, max_train)
            section.put(len(split.y), "sets", name, "n_train")
            for method in make(len(split.y), seed, threads):
                if run.methods and method not in run.methods:
                    continue
                found = in_child(one_fit, split, method, task, seed, threads, limit=limit)
                found = {"over_seconds": limit} if found is None else found
                fits.setdefault(method, []).append({"seed": seed, **found})
                section.put(fits[method], "sets", name, "fits", method)
    ranks.draw(section, run.out)
