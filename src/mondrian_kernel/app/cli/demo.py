"""The command that shows on built-in data what this is good for."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

import numpy as np

from mondrian_kernel.app.cli.console import Console, lines
from mondrian_kernel.app.cli.files import require_place

_TRUTH, _NOISE = 5.0, 0.1
_DIMS, _ROWS = 2, 1000


def run(args: Namespace, console: Console) -> None:
    """Learn the width of a function drawn with a known one, beside what is usual."""
    from mondrian_kernel import MondrianKernelRegressor
    from mondrian_kernel.app.report import write_report
    from mondrian_kernel.datasets import make_laplace_gp

    require_place(args.report)
    X, y = make_laplace_gp(2 * _ROWS, _DIMS, lifetime=_TRUTH, noise=_NOISE, random_state=args.seed)
    X_train, X_test, y_train, y_test = X[::2], X[1::2], y[::2], y[1::2]
    console.say(
        f"A function of {_DIMS} dims, drawn with the Laplace kernel exp(-{_TRUTH:g}·|x-x'|) "
        f"and noise {_NOISE};\n{len(y_train)} rows to learn from, {len(y_test)} to test on.\n"
    )
    console.progress.stage("learning the width")
    model = MondrianKernelRegressor(
        scale=None, random_state=args.seed, n_jobs=args.jobs, verbose=console.progress
    )
    begin = time.perf_counter()
    model.fit(X_train, y_train)
    model.set_params(verbose=0)
    seconds = time.perf_counter() - begin
    result = _found(model, X_test, y_test) | {"rows": len(y_train), "dims": _DIMS}
    result |= {"true_lifetime": _TRUTH, "noise": _NOISE}

    result["rmse"] = {"Mondrian kernel": [_rmse(model.predict(X_test), y_test), seconds]}
    for name, rival in _rivals(args).items():
        console.progress.stage(f"fitting the rivals: {name}")
        begin = time.perf_counter()
        rival.fit(X_train, y_train)
        seconds = time.perf_counter() - begin
        result["rmse"][name] = [_rmse(rival.predict(X_test), y_test), seconds]
    console.progress.stage("writing the report")
    result["report"] = str(
        write_report(
            args.report, model, X_train, y_train, X_test, y_test,
            title="A function with a known kernel width", target="y",
            feature_names=[f"x{d + 1}" for d in range(_DIMS)],
        )
    )  # fmt: skip
    console.result(result, _words(result))


def _rivals(args: Namespace) -> dict[str, Any]:
    """Return what one would try instead, tuned where there is something to tune."""
    from sklearn.dummy import DummyRegressor
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GridSearchCV

    exact = {"gamma": np.geomspace(0.5, 32, 7), "alpha": np.logspace(-3, 0, 4)}
    leaves = {"min_samples_leaf": [1, 2, 4, 8]}
    trees = ExtraTreesRegressor(200, random_state=args.seed, n_jobs=args.jobs)
    return {
        "exact Laplace kernel, 28 pairs searched": GridSearchCV(
            KernelRidge(kernel="laplacian"), exact, scoring="neg_mean_squared_error"
        ),
        "200 extra trees, leaf size searched": GridSearchCV(
            trees, leaves, scoring="neg_mean_squared_error"
        ),
        "linear ridge": RidgeCV(np.logspace(-4, 4, 9)),
        "mean of y": DummyRegressor(),
    }


def _found(model: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Return what was learnt: the width with its interval, and how the error bars hold."""
    from mondrian_kernel._path.posterior import width_posterior
    from mondrian_kernel.app.table.model import coverage_of

    path = model.path_
    return {
        "lifetime": model.lifetime_,
        "lifetime_interval": width_posterior(path).interval(0.9),
        "alpha": model.alpha_,
        "trees": model.features_.n_estimators,
        "cells": model.features_.n_cells_,
        "widths": path.lifetimes.size,
        "alphas": path.alphas.size,
        "coverage": coverage_of(model.predict_interval(X_test, 0.9), y_test)["coverage"],
    }


def _rmse(prediction: Any, y: Any) -> float:
    return float(np.sqrt(np.mean((prediction - y) ** 2)))


def _words(result: dict[str, Any]) -> str:
    low, high = result["lifetime_interval"]
    found = [
        (
            f"lifetime (true {result['true_lifetime']:g})",
            f"{result['lifetime']:.3g}   (by leave-one-out error)",
        ),
        ("  90 % posterior", f"{low:.3g} to {high:.3g}   (by the evidence)"),
        ("penalty alpha", f"{result['alpha']:.3g}"),
        ("trees, cells", f"{result['trees']}, {result['cells']}"),
        ("widths × alphas tried", f"{result['widths']} × {result['alphas']}"),
        ("90 % intervals cover", f"{100 * result['coverage']:.0f} %"),
    ]
    errors = [(name, f"{rmse:.3f}  {s:6.1f} s") for name, (rmse, s) in result["rmse"].items()]
    return (
        f"{lines(found)}\n\n  root mean squared error on the test rows (the noise alone: "
        f"{result['noise']:g}), and time, choice included\n{lines(errors, '    ')}\n\n"
        "  The exact kernel is quick on so few rows, but its time grows with their cube, and it\n"
        "  has no error bar.\n\n"
        f"  report in {result['report']}; open it in a browser.\n"
        "  Your own data: mondrian-kernel fit DATA.csv --target COLUMN"
    )
