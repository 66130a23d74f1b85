"""The command demo: generated data, our defaults beside other methods, and a report."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.console import Console, check_output, two_columns
from mondrian_kernel.app.measure import Measured, coverage_of, importance_values, importance_words

_OURS = "Mondrian kernel, defaults"


def demo(args: Namespace, console: Console) -> None:
    """Compare the regressor with other methods on generated data, and write a report."""
    from numba.core import event

    from mondrian_kernel import MondrianKernelRegressor
    from mondrian_kernel.app.report import write_page
    from mondrian_kernel.datasets import make_skewed

    check_output(args.report)
    X, y, noise = make_skewed(2 * settings.DEMO_ROWS, random_state=args.seed)
    X_train, X_test, y_train, y_test = X[::2], X[1::2], y[::2], y[1::2]
    console.say(
        f"Generated data: {X.shape[1]} columns, {len(y_train)} rows to learn from and "
        f"{len(y_test)} to test on.\n"
        "y has smooth interactions of x1, x2 and x3, a jump along x3, and noise that grows\n"
        "fivefold along x5. Only the rank of the skewed x4 matters. x6 has no effect.\n"
    )
    options: dict[str, Any] = {"random_state": args.seed, "n_jobs": args.jobs}
    ours = MondrianKernelRegressor(**options)
    console.progress.stage("a first fit, which compiles")
    compiling = event.TimingListener()
    with event.install_listener("numba:compile", compiling):
        few = [part[: settings.DEMO_COMPILE_ROWS] for part in (X_train, y_train, X_test)]
        _seconds(ours, *few)
    if compiling.done:
        console.say(f"Compiled in {compiling.duration:.1f} s; this happens once on a machine.\n")
    console.progress.stage("comparing methods")
    methods = {}
    for name, method in {_OURS: ours, **_other_methods(options)}.items():
        seconds, predicted = _seconds(method, X_train, y_train, X_test)
        error = float(np.sqrt(np.mean((predicted - y_test) ** 2)))
        methods[name] = {"rmse": error, "seconds": seconds}
    console.progress.stage("measuring and writing the report")
    names = [f"x{d + 1}" for d in range(X.shape[1])]
    measured = Measured(ours, X_train, y_train, X_test, y_test, feature_names=names)
    title = "Generated data with a skewed column and local noise"
    write_page(args.report, measured, title=title, target="y")
    result = {
        "rows": len(y_train),
        "columns": X.shape[1],
        "noise": float(np.sqrt(np.mean(noise[1::2] ** 2))),
        "methods": methods,
        "intervals": _intervals(measured, noise[1::2]),
        "lifetimes": ours.lifetimes_,
        "lifetime_weights": ours.lifetime_weights_,
        **importance_values(measured.importance, names),
        "report": args.report,
    }
    console.result(result, _words(result))


def _seconds(
    method: Any, X: FloatArray, y: FloatArray, X_test: FloatArray
) -> tuple[float, FloatArray]:
    """Fit and predict; return the seconds that both took, and the predictions."""
    begin = time.perf_counter()
    predicted: FloatArray = method.fit(X, y).predict(X_test)
    return time.perf_counter() - begin, predicted


def _other_methods(options: dict[str, Any]) -> dict[str, Any]:
    """Return other methods; those that have a width or a penalty search it."""
    from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GridSearchCV, ShuffleSplit
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    seed = options["random_state"]
    exact = GridSearchCV(
        make_pipeline(StandardScaler(), KernelRidge(kernel="laplacian")),
        {
            "kernelridge__gamma": np.geomspace(0.02, 0.5, 4),
            "kernelridge__alpha": np.geomspace(0.003, 0.3, 3),
        },
        scoring="neg_mean_squared_error",
        cv=ShuffleSplit(1, test_size=0.2, random_state=seed),
    )
    return {
        "exact Laplace kernel, 12 pairs searched": exact,
        "HistGradientBoosting": HistGradientBoostingRegressor(random_state=seed),
        "ExtraTrees, 200 trees": ExtraTreesRegressor(200, **options),
        "RidgeCV": RidgeCV(np.logspace(-4, 4, 9)),
    }


def _intervals(measured: Measured, noise: FloatArray) -> dict[str, Any]:
    """Return coverage and mean width of the intervals, in all rows and in two fifths of them."""
    ends, y = measured.interval, measured.y_test
    order, fifth = np.argsort(noise), len(noise) // 5
    parts = {
        "all test rows": order,
        "fifth with the least noise": order[:fifth],
        "fifth with the most noise": order[-fifth:],
    }
    return {name: coverage_of(ends[part], y[part]) for name, part in parts.items()}


def _words(result: dict[str, Any]) -> str:
    methods = sorted(result["methods"].items(), key=lambda item: item[1]["rmse"])
    errors = [(name, f"{found['rmse']:.3f}  {found['seconds']:6.1f} s") for name, found in methods]
    intervals = [
        (name, f"{100 * part['coverage']:.0f} %   mean width {part['interval_width']:.2f}")
        for name, part in result["intervals"].items()
    ]
    widths = zip(result["lifetimes"], result["lifetime_weights"], strict=True)
    learnt = [(f"width {1 / t:.3g}", f"{100 * w:.0f} %") for t, w in widths]
    (importance,) = importance_words(result)
    return (
        f"  root mean squared error on the {result['rows']} test rows (the noise alone has "
        f"{result['noise']:.3f}),\n  and seconds to fit and predict\n"
        f"{two_columns(errors, '    ')}\n\n"
        f"  {100 * settings.COVERAGE:.0f} % intervals of the Mondrian kernel cover\n"
        f"{two_columns(intervals, '    ')}\n\n"
        f"  widths of the kernel and their weights, learnt\n{two_columns(learnt, '    ')}\n\n"
        f"{importance}\n\n"
        f"  report in {result['report']}; open it in a browser\n"
        "  your own data: mondrian-kernel fit DATA.csv --target COLUMN"
    )
