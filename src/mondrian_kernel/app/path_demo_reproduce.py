"""The commands that show the method at work: path, demo, reproduce."""

from __future__ import annotations

import io
import time
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mondrian_kernel._settings import COVERAGE, DEMO_COLUMNS, DEMO_LIFETIME, DEMO_NOISE, DEMO_ROWS
from mondrian_kernel.app.columns import learn_columns, read_targets, require_variety
from mondrian_kernel.app.console import Console, check_output, two_columns
from mondrian_kernel.app.fit_update_inspect import choices_from
from mondrian_kernel.app.table_model import Choices, coverage_of, split_rows, used_columns
from mondrian_kernel.app.tables import Table, read_table
from mondrian_kernel.persistence.file_writing import write_file

_PICTURES = (".png", ".svg", ".pdf")


def path(args: Namespace, console: Console) -> None:
    """Follow the lifetime path of a table and show it."""
    if args.plot is not None and Path(args.plot).suffix.lower() not in _PICTURES:
        raise ValueError(f"{args.plot}: a picture is a file {', '.join(_PICTURES)}.")
    check_output(args.plot, keep=[args.data])
    console.progress.stage(f"reading {args.data}")
    table = read_table(args.data, args.decimal)
    choices = choices_from(args, table)
    console.progress.stage("following the path")
    found = _follow_path(table, choices, args, console)
    if not found.complete:
        console.note(f"stopped: this is the path up to lifetime {found.lifetimes[-1]:.4g}.")
    rows = _path_rows(found)
    result: dict[str, Any] = {
        "task": choices.task,
        "best_lifetime": found.best_lifetime,
        "best_alpha": found.best_alpha,
        "complete": found.complete,
        "path": rows,
    }
    if args.plot is not None:
        _draw_path(found, args.plot)
        result["plot"] = args.plot
        console.result(result, f"drawn in {args.plot}; best lifetime {found.best_lifetime:.4g}")
    else:
        console.result(result, _path_words(rows, found.best_lifetime))


def demo(args: Namespace, console: Console) -> None:
    """Learn the width of a function that was drawn with a known width, and compare errors."""
    from mondrian_kernel.app.report import write_report
    from mondrian_kernel.datasets import make_laplace_gp
    from mondrian_kernel.regressor import MondrianKernelRegressor

    check_output(args.report)
    known = {"lifetime": DEMO_LIFETIME, "noise": DEMO_NOISE}
    X, y = make_laplace_gp(2 * DEMO_ROWS, DEMO_COLUMNS, **known, random_state=args.seed)
    rows = X_train, y_train, X_test, y_test = X[::2], y[::2], X[1::2], y[1::2]
    console.say(
        f"A function of {DEMO_COLUMNS} columns, drawn with the Laplace kernel "
        f"exp(-{DEMO_LIFETIME:g}·|x-x'|) and noise {DEMO_NOISE};\n"
        f"{len(y_train)} rows to learn from, {len(y_test)} to test on.\n"
    )
    model = MondrianKernelRegressor(
        scale=None, random_state=args.seed, n_jobs=args.jobs, verbose=console.progress
    )
    errors = {}
    methods = {"Mondrian kernel": model} | _other_methods(args)
    for name, method in methods.items():
        console.progress.stage(f"fitting: {name}")
        begin = time.perf_counter()
        method.fit(X_train, y_train)
        seconds = time.perf_counter() - begin
        errors[name] = [float(np.sqrt(np.mean((method.predict(X_test) - y_test) ** 2))), seconds]
    model.set_params(verbose=0)
    result = _demo_result(model, X_test, y_test) | {"rows": len(y_train), "rmse": errors}
    console.progress.stage("writing the report")
    title, names = (
        "A function with a known kernel width",
        [f"x{d + 1}" for d in range(DEMO_COLUMNS)],
    )
    write_report(args.report, model, *rows, title=title, target="y", feature_names=names)
    result["report"] = args.report
    console.result(result, _demo_words(result))


def reproduce(args: Namespace, console: Console) -> None:
    """Run the experiments of the paper and compare its claims with the results."""
    from mondrian_kernel import experiments

    def progress(done: int, total: int, words: str) -> None:
        console.progress.rename(words)
        console.progress(done, total)

    console.progress.stage("starting")
    try:
        outcomes = experiments.run(
            None if args.names == ["all"] else args.names,
            data=None if args.data is None else Path(args.data),
            out=Path(args.out),
            quick=args.quick,
            seed=args.seed,
            progress=progress,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Stopped; finished experiments are in {args.out}.") from None
    result = {"out": args.out, "experiments": [asdict(outcome) for outcome in outcomes]}
    console.result(result, "\n".join([*map(_claim_words, outcomes), f"results in {args.out}"]))


def _follow_path(table: Table, choices: Choices, args: Namespace, console: Console) -> Any:
    """Return the lifetime path on all rows, or on a sample."""
    from mondrian_kernel import lifetime_path
    from mondrian_kernel._path.loss_path import loss_path

    names = used_columns(table, choices)
    y = read_targets(table, choices.target, choices.task)
    require_variety(table, choices.target, y)
    rows = split_rows(table.n_rows, choices)[0][: args.max_rows]
    y = y[rows]
    require_variety(table, choices.target, y)
    columns = learn_columns(table, names, choices.categorical, rows)
    X = columns.encode(table, rows) / columns.scale
    options: dict[str, Any] = {"n_estimators": args.trees, "n_jobs": choices.n_jobs}
    options["callback"] = console.progress
    if choices.task == "regression":
        return lifetime_path(X, y, random_state=choices.seed, **options)
    classes, labels = np.unique(y, return_inverse=True)
    return loss_path(X, labels, classes.size, "log_loss", seed=choices.seed, **options)


def _path_rows(path: Any) -> list[dict[str, Any]]:
    """Return the results at each lifetime, with the penalty that is best there."""
    rows = []
    for k, a in enumerate(np.nanargmin(path.score, axis=1)):
        row = {"lifetime": path.lifetimes[k], "cells": path.n_cells[k], "alpha": path.alphas[a]}
        if "loo_error" in path.curves:
            row["rmse_fitted"] = np.sqrt(path.train_error[k, a])
            row["rmse_left_out"] = np.sqrt(path.loo_error[k, a])
            row["log_evidence"] = path.log_marginal_likelihood[k, a]
        else:
            row["log_loss_fitted"] = path.curves["train_loss"][k, a]
            row["log_loss_held_out"] = path.curves["validation_loss"][k, a]
        rows.append(row)
    return rows


def _path_words(rows: list[dict[str, Any]], best: float) -> str:
    """Lay out the rows with a star at the best one."""
    names = [name.replace("_", " ") for name in rows[0]]
    widths = [max(10, len(name)) for name in names]
    said = ["  ".join(f"{name:>{w}}" for name, w in zip(names, widths, strict=True))]
    for row in rows:
        values = zip(row.values(), widths, strict=True)
        line = "  ".join(f"{value:>{w}.5g}" for value, w in values)
        said.append(line + (" *" if row["lifetime"] == best else ""))
    return "\n".join(said)


def _draw_path(path: Any, file: str) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from mondrian_kernel.plotting import LifetimePathDisplay

    picture = io.BytesIO()
    figure: Any = LifetimePathDisplay.from_path(path).figure_
    figure.savefig(picture, format=Path(file).suffix[1:].lower(), bbox_inches="tight", dpi=150)
    write_file(file, [picture.getvalue()])


def _other_methods(args: Namespace) -> dict[str, Any]:
    """Return common alternatives, tuned if they have something to tune."""
    from sklearn.dummy import DummyRegressor
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GridSearchCV

    exact = {"gamma": np.geomspace(0.5, 32, 7), "alpha": np.logspace(-3, 0, 4)}
    leaves = {"min_samples_leaf": [1, 2, 4, 8]}
    trees = ExtraTreesRegressor(200, random_state=args.seed, n_jobs=args.jobs)
    score = "neg_mean_squared_error"
    return {
        "exact Laplace kernel, 28 pairs searched": GridSearchCV(
            KernelRidge(kernel="laplacian"), exact, scoring=score
        ),
        "200 extra trees, leaf size searched": GridSearchCV(trees, leaves, scoring=score),
        "linear ridge": RidgeCV(np.logspace(-4, 4, 9)),
        "mean of y": DummyRegressor(),
    }


def _demo_result(model: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Return the width that was learnt, its interval, and the coverage of the error bars."""
    from mondrian_kernel.app.report.lifetimes import width_posterior

    path = model.path_
    return {
        "columns": DEMO_COLUMNS,
        "true_lifetime": DEMO_LIFETIME,
        "noise": DEMO_NOISE,
        "lifetime": model.lifetime_,
        "lifetime_interval": width_posterior(path).interval(0.9),
        "alpha": model.alpha_,
        "trees": model.features_.n_estimators,
        "cells": model.features_.n_cells_,
        "widths": path.lifetimes.size,
        "alphas": path.alphas.size,
        "coverage": coverage_of(model.predict_interval(X_test, COVERAGE), y_test)["coverage"],
    }


def _demo_words(result: dict[str, Any]) -> str:
    low, high = result["lifetime_interval"]
    lifetime = f"lifetime (true {result['true_lifetime']:g})"
    pairs = [
        (lifetime, f"{result['lifetime']:.3g}   (by leave-one-out error)"),
        ("  90 % posterior", f"{low:.3g} to {high:.3g}   (by the evidence)"),
        ("penalty alpha", f"{result['alpha']:.3g}"),
        ("trees, cells", f"{result['trees']}, {result['cells']}"),
        ("widths × alphas tried", f"{result['widths']} × {result['alphas']}"),
        (f"{100 * COVERAGE:.0f} % intervals cover", f"{100 * result['coverage']:.0f} %"),
    ]
    errors = [(name, f"{rmse:.3f}  {s:6.1f} s") for name, (rmse, s) in result["rmse"].items()]
    return (
        f"{two_columns(pairs)}\n\n  root mean squared error on the test rows (noise alone: "
        f"{result['noise']:g}), and time with all choices\n{two_columns(errors, '    ')}\n\n"
        "  The exact kernel is quick on so few rows, but its time grows with their cube, and it\n"
        "  has no error bar.\n\n"
        f"  report in {result['report']}; open it in a browser.\n"
        "  Your own data: mondrian-kernel fit DATA.csv --target COLUMN"
    )


def _claim_words(outcome: Any) -> str:
    """Say for each claim whether it held and what was measured."""
    if outcome.skipped is not None:
        return f"{outcome.name}\n  skipped: {outcome.skipped}\n"
    said = [outcome.name]
    for claim in outcome.claims:
        said.append(f"  {'held' if claim.held else 'NOT HELD'}: {claim.text}")
        said += [f"      {name}: {value:.4g}" for name, value in claim.measured.items()]
        if claim.remark:
            said.append(f"      ({claim.remark})")
    return "\n".join(said) + "\n"
