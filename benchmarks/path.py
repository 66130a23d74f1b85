"""The lifetime path on the paper's CPU data beside one exact kernel ridge fit, and its growth."""

from functools import partial

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.measure import best_of, clocked, in_child, peak_mb, slope
from mondrian_kernel import every_cut_path, lifetime_path

TREES, LIFETIMES, END = 350, 50, 0.03
ALPHAS = np.logspace(-2, 1, 10)
# One epoch of SGD after every cut, the published procedure, over the cuts up to RAW_LIFETIME.
PUBLISHED_CPU_SECONDS, RAW_LIFETIME, RAW_ALPHA = 133.0, 1e-6, 1e-4


def against_kernel_ridge(splits, criterion, threads, n_lifetimes, repeats, seed):
    """Rows to chosen width, beside KernelRidge at one width and penalty, on the same threads."""
    (X, y, X_val, y_val), (_, _, X_test, y_test) = splits
    held_out = {"validation": (X_val, y_val)} if criterion == "holdout" else {}

    def path(alphas=ALPHAS, **settings):
        return lifetime_path(
            X, y, n_estimators=TREES, alphas=alphas, tol=1e-3, criterion=criterion,
            random_state=seed, n_jobs=threads, **held_out, **settings,
        )  # fmt: skip

    def single(alphas=None):
        whole = kept["path"]
        alphas = [whole.best_alpha] if alphas is None else alphas
        return path(alphas, lifetimes=[END], solver=str(whole.solver[-1]))

    calls = {
        "kernel_ridge": lambda: KernelRidge(alpha=1e-2, kernel="laplacian", gamma=0.01).fit(X, y),
        "path": lambda: path(max_lifetime=END, n_lifetimes=n_lifetimes),
        "open_end": lambda: path(n_lifetimes=n_lifetimes),
        "one_fit": single,
        "one_width": lambda: single(ALPHAS),
    }
    kept = {}
    with threadpool_limits(threads):
        times = best_of(repeats, *(partial(keep, kept, name, calls[name]) for name in calls))
    named, found = dict(zip(calls, times, strict=True)), kept["path"]
    wall = {name: t["wall_seconds"] for name, t in named.items()}
    return {
        "threads": threads,
        "criterion": criterion,
        "trees": TREES,
        "rows": len(X),
        "lifetimes": found.lifetimes.size,
        "alphas": found.alphas.size,
        "solvers": sorted(set(found.solver.tolist())),
        **named,
        "path_over_kernel_ridge": wall["path"] / wall["kernel_ridge"],
        "open_end_over_kernel_ridge": wall["open_end"] / wall["kernel_ridge"],
        "path_over_one_fit": wall["path"] / wall["one_fit"],
        "path_over_one_width": wall["path"] / wall["one_width"],
        "chosen_lifetime": found.best_lifetime,
        "chosen_alpha": found.best_alpha,
        "test_error_percent": data.percent(found.predict(X_test), y_test),
        "open_end_lifetimes": kept["open_end"].lifetimes.size,
        "open_end_test_error_percent": data.percent(kept["open_end"].predict(X_test), y_test),
        "kernel_ridge_test_error_percent": data.percent(
            kept["kernel_ridge"].predict(X_test), y_test
        ),
    }


def keep(kept, name, call):
    kept[name] = call()


def every_cut(X, y, X_val, y_val, n_trees, seed):
    """Exact ridge after each cut on raw inputs, beside one exact fit after the last; for a child.

    And how far it is from solving afresh.
    """
    arguments = {"max_lifetime": RAW_LIFETIME, "alphas": [RAW_ALPHA]}

    def path(n_rows, n_trees):
        return every_cut_path(
            X[:n_rows], y[:n_rows], n_estimators=n_trees, validation=(X_val, y_val),
            criterion="holdout", random_state=seed, n_jobs=1, **arguments,
        )  # fmt: skip

    with threadpool_limits(1):
        path(200, 10)  # compiles
        before = peak_mb()
        found, times = clocked(lambda: path(len(X), n_trees))
        grown = peak_mb() - before
        deviations = []
        for k in np.linspace(0, found.lifetimes.size - 1, 4).astype(int)[1:]:
            fresh = found.predict(X_val, found.lifetimes[k])
            deviations.append(abs(found.validation_error[k, 0] / np.mean((fresh - y_val) ** 2) - 1))
        features = found.features(found.lifetimes[-1]).transform(X).toarray()
        _, one_fit = clocked(lambda: Ridge(RAW_ALPHA, solver="cholesky").fit(features, y))
    best = found.best_index[0]
    return {
        "trees": n_trees,
        "cuts": found.lifetimes.size - 1,
        "cells": int(found.n_cells[-1]),
        **times,
        "grown_by_mb": grown,
        "largest_deviation": float(max(deviations)),
        "one_fit": one_fit,
        "over_one_fit": times["cpu_seconds"] / one_fit["cpu_seconds"],
        "best_lifetime": found.best_lifetime,
        "validation_error_percent": float(
            100 * np.sqrt(found.validation_error[best, 0] / np.mean(y_val**2))
        ),
    }


def grid_path(n_rows, seed):
    """Time and memory of a path on so many rows; for a child."""
    X, y = data.curve(n_rows, seed=seed)
    small = {"n_estimators": 10, "n_lifetimes": 3, "solver": "lanczos", "alphas": [0.3, 1.0]}
    lifetime_path(X[:300], y[:300], random_state=seed, n_jobs=2, **small)  # compiles
    before = peak_mb()
    path, times = clocked(
        lambda: lifetime_path(
            X, y, n_estimators=100, n_lifetimes=25, alphas=[0.1, 0.3, 1.0, 3.0], tol=1e-3,
            random_state=seed, n_jobs=2,
        )
    )  # fmt: skip
    return {
        "rows": n_rows, **times, "peak_mb": peak_mb(), "grown_by_mb": peak_mb() - before,
        "lifetimes": path.lifetimes.size, "cells": int(path.n_cells[-1]),
        "chosen_lifetime": path.best_lifetime,
    }  # fmt: skip


def measure(run):
    section = run.section("path")
    X, y, train, val, test = data.cpu_act(run.data)
    if run.quick:
        train = train & (np.arange(y.size) % 8 == 0)
    splits = data.scaled(X, y, train, val), data.scaled(X, y, train, test)
    lifetime_path(*splits[0][:2], n_estimators=10, n_lifetimes=3, solver="lanczos", tol=0.1)
    for criterion in ("holdout", "loo"):
        for threads in (1, 2):
            found = against_kernel_ridge(
                splits, criterion, threads, *((6, 1) if run.quick else (LIFETIMES, 2)), run.seed
            )
            section.put(found, "cpu_act", f"{criterion}, threads {threads}")
    found = in_child(
        every_cut, X[train], y[train], X[val], y[val], 50 if run.quick else TREES, run.seed
    )
    if not run.quick:  # the same rows and trees
        found["published_cpu_seconds"] = PUBLISHED_CPU_SECONDS
        found["times_faster"] = PUBLISHED_CPU_SECONDS / found["cpu_seconds"]
    section.put(found, "every cut")
    steps = []
    for n_rows in (1_000, 3_000) if run.quick else (10_000, 30_000, 100_000):
        steps.append(in_child(grid_path, n_rows, run.seed))
        section.put(steps[-1], "rows", str(n_rows))
    sizes = [step["rows"] for step in steps]
    for what in ("cpu_seconds", "grown_by_mb"):
        section.put(slope(sizes, [step[what] for step in steps]), "slopes", what)
