"""The commands fit, update, inspect and path."""

from __future__ import annotations

import dataclasses
import io
import os
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel.app.console import Console, check_output, two_columns
from mondrian_kernel.app.measure import (
    Measured,
    fitted_importance,
    importance_values,
    importance_words,
)
from mondrian_kernel.app.table_model import (
    Choices,
    TableModel,
    fit_table,
    guess_task,
    load_table_model,
    read_targets,
    rows_to_learn,
)
from mondrian_kernel.app.tables import Table, read_table
from mondrian_kernel.encoder import TableEncoder
from mondrian_kernel.persistence import load, save
from mondrian_kernel.persistence.container import write_file

_PICTURES = (".png", ".svg", ".pdf")


def fit(args: Namespace, console: Console) -> None:
    """Fit a table, measure the model, save it, and write a report."""
    check_output(args.output, keep=[args.data, args.report])
    check_output(args.report, keep=[args.data])
    if args.report is not None and not args.holdout:
        raise ValueError("A report needs rows that are held out: raise --holdout.")
    progress = console.progress
    progress.stage("reading the table")
    table = read_table(args.data, args.decimal)
    choices = choices_from(args, table)
    model, measured = fit_table(table, choices, progress)
    progress.stage("saving the model")
    save(model, args.output)
    console.saved = args.output
    if args.report is not None:
        progress.stage("writing the report")
        _write_report(args, measured)
    result = _describe(model) | {
        "data": table.source,
        "rows_in_file": table.n_rows,
        "model": args.output,
        "model_bytes": os.path.getsize(args.output),
        "report": args.report,
    }
    console.result(result, _fit_words(result, guessed=args.task == "auto"))


def update(args: Namespace, console: Console) -> None:
    """Learn all rows of a table and save the model, or change nothing."""
    output = args.output or args.model
    check_output(output, keep=[args.data])
    console.progress.stage("reading model and table")
    model = load_table_model(args.model, args.jobs)
    table = read_table(args.data, args.decimal)
    X = model.frame(table)
    y = read_targets(table, model.target, model.task)
    if model.task == "classification":
        unknown = np.flatnonzero(~np.isin(y, model.estimator.classes_))
        if unknown.size:
            row = int(unknown[0])
            table.fail(row, model.target, f"is {str(y[row])!r}, a class the model does not know")
    console.progress.stage("learning")
    try:
        for begin in range(0, len(y), settings.LEARN_BLOCK_ROWS):
            end = min(begin + settings.LEARN_BLOCK_ROWS, len(y))
            model.estimator.partial_fit(X[begin:end], y[begin:end])
            console.progress(end, len(y))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Stopped; {output} is as it was.") from None
    model = dataclasses.replace(model, n_rows=model.n_rows + len(y))
    console.progress.stage("saving the model")
    save(model, output)
    console.saved = output
    console.result(
        {"rows_learnt": len(y), "rows": model.n_rows, "model": output},
        f"{output}: learnt {len(y)} more rows, {model.n_rows} in all",
    )


def inspect(args: Namespace, console: Console) -> None:
    """Describe a model of a table, or any other model of this library."""
    model = load(args.model)
    about = {"file": args.model, "bytes": os.path.getsize(args.model)}
    if isinstance(model, TableModel):
        described = about | _describe(model)
        console.result(described, _model_words(described))
        return
    # Class and plain attributes of a model that was saved by itself.
    names = "lifetime_ alpha_ n_estimators n_cells_ n_features_in_ best_lifetime best_alpha"
    found = {n: getattr(model, n) for n in (*names.split(), "criterion") if hasattr(model, n)}
    if hasattr(model, "features_"):
        found["n_estimators"] = model.features_.n_estimators
    described = about | {"class": type(model).__name__} | found
    shown = {n: f"{v:.6g}" if isinstance(v, float) else str(v) for n, v in described.items()}
    console.result(described, two_columns(list(shown.items())))


def choices_from(args: Namespace, table: Table) -> Choices:
    """Return the user's choices, with the task guessed if it was left open."""
    task = guess_task(table, args.target) if args.task == "auto" else args.task
    holdout = getattr(args, "holdout", 0.0)
    columns = (args.target, task, args.drop, args.categorical)
    return Choices(*columns, holdout, n_trees=args.trees, seed=args.seed, n_jobs=args.jobs)


def _write_report(args: Namespace, measured: Measured | None) -> None:
    """Write the report on the model that was measured; if it fails the saved one is still there."""
    from mondrian_kernel.app.report import write_page

    saved = f"the model is saved in {args.output}, no report was written"
    if measured is None:
        raise ValueError(f"The rows held out have no class that was fitted; {saved}.")
    title = "standard input" if args.data == "-" else Path(args.data).name
    try:
        write_page(args.report, measured, title=title, target=args.target)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Stopped; {saved}.") from None
    except Exception as error:
        raise ValueError(f"{str(error).rstrip('.')}; {saved}.") from error


def _describe(model: TableModel) -> dict[str, Any]:
    estimator = model.estimator
    return {
        "task": model.task,
        "target": model.target,
        "columns": model.categories,
        "rows": model.n_rows,
        "trees": estimator.features_.n_estimators,
        "cells": estimator.features_.n_cells_,
        "lifetimes": estimator.lifetimes_.tolist(),
        "lifetime_weights": estimator.lifetime_weights_.tolist(),
        "alpha": estimator.alpha_,
        "held_out": model.held_out,
        **importance_values(fitted_importance(estimator), list(model.categories)),
    }


def _fit_words(result: dict[str, Any], *, guessed: bool) -> str:
    how = ", guessed; change it with --task" if guessed else ""
    saved = f"  saved to {result['model']} ({result['model_bytes'] / 1e6:.1f} MB)"
    if result["held_out"]:
        saved += ", fitted to all rows, also those held out"
    if result["report"] is not None:
        saved += f"\n  report in {result['report']}"
    rows = f"{result['data']}: {result['rows_in_file']} rows"
    return _about(result, f"{rows}, predicting {result['target']!r} ({result['task']}{how})", saved)


def _model_words(about: dict[str, Any]) -> str:
    columns = []
    for name, words in about["columns"].items():
        kind = "number"
        if words is not None:
            more = ", ..." if len(words) > settings.CATEGORIES_SHOWN else ""
            kind = f"{len(words)} categories: {', '.join(words[: settings.CATEGORIES_SHOWN])}{more}"
        columns.append((name, kind))
    size = f"{about['bytes'] / 1e6:.1f} MB"
    first = f"{about['file']} ({size}): {about['task']} of {about['target']!r}"
    return _about(about, first, f"  columns\n{two_columns(columns, '    ')}")


def _about(about: dict[str, Any], first: str, last: str) -> str:
    """Say what a model has learnt, and how good it was, between two other paragraphs."""
    parts = _fitted_words(about), _held_out_words(about), *importance_words(about)
    return "\n\n".join([first, *parts, last])


def _fitted_words(about: dict[str, Any]) -> str:
    lifetimes = [f"{t:.3g}" for t in about["lifetimes"]]
    shares = [f"{100 * w:.0f} %" for w in about["lifetime_weights"]]
    return two_columns(
        [
            ("rows learnt", str(about["rows"])),
            ("columns", str(len(about["columns"]))),
            ("lifetimes", f"{', '.join(lifetimes)}   (a kernel's width is 1/lifetime)"),
            ("their weights", ", ".join(shares)),
            ("penalty alpha", f"{about['alpha']:.3g}"),
            ("trees, cells", f"{about['trees']}, {about['cells']}"),
        ]
    )


def _held_out_words(about: dict[str, Any]) -> str:
    scores = about["held_out"]
    if not scores:
        return "  no rows were held out"
    if about["task"] == "regression":
        mean, width = f"{scores['rmse_of_the_mean']:.4g}", f"{scores['interval_width']:.4g}"
        r2 = f"{scores['r2']:.3f}" if np.isfinite(scores["r2"]) else "not defined"
        fifths = ", ".join(f"{100 * share:.0f}" for share in scores["coverage_by_fifth"])
        covered = f"{100 * scores['coverage']:.1f} %   (mean width {width})"
        pairs = [
            ("root mean squared error", f"{scores['rmse']:.4g}   (guessing the mean: {mean})"),
            ("R²", r2),
            (f"{100 * settings.COVERAGE:.0f} % intervals cover", covered),
            ("by fifths of the prediction", f"{fifths} %"),
        ]
    else:
        commonest = f"{scores['accuracy_of_the_commonest']:.3f}"
        frequencies = f"{scores['log_loss_of_the_frequencies']:.4g}"
        pairs = [
            ("accuracy", f"{scores['accuracy']:.3f}   (guessing the commonest class: {commonest})"),
            ("log loss", f"{scores['log_loss']:.4g}   (guessing class frequencies: {frequencies})"),
        ]
    rows = "1 row" if scores["rows"] == 1 else f"{scores['rows']} rows"
    return f"  on {rows} held out, by a model that had not seen them\n{two_columns(pairs, '    ')}"


def path(args: Namespace, console: Console) -> None:
    """Follow the lifetime path of a table and show it."""
    if args.plot is not None and Path(args.plot).suffix.lower() not in _PICTURES:
        raise ValueError(f"{args.plot}: a picture is a file {', '.join(_PICTURES)}.")
    check_output(args.plot, keep=[args.data])
    console.progress.stage("reading the table")
    table = read_table(args.data, args.decimal)
    choices = choices_from(args, table)
    console.progress.stage("following the path")
    if table.n_rows > args.max_rows:
        sample = f"a random sample of {args.max_rows} of {table.n_rows} rows is used"
        console.note(f"{sample}; change it with --max-rows.")
    found = _follow_path(table, choices, args, console)
    if not found.complete:
        console.note(f"stopped: this is the path up to lifetime {found.lifetimes[-1]:.4g}.")
    rows = _path_rows(found)
    result: dict[str, Any] = {
        "task": choices.task,
        "rows": min(table.n_rows, args.max_rows),
        "best_lifetime": found.best_lifetime,
        "best_alpha": found.best_alpha,
        "complete": found.complete,
        "path": rows,
    }
    words = _path_words(rows, found.best_lifetime)
    if args.plot is not None:
        _draw_path(found, args.plot)
        result["plot"] = args.plot
        words = f"drawn in {args.plot}; best lifetime {found.best_lifetime:.4g}"
    console.result(result, words)


def _follow_path(table: Table, choices: Choices, args: Namespace, console: Console) -> Any:
    """Return the lifetime path on all rows, or on a sample."""
    from mondrian_kernel import lifetime_path

    frame, y, rows, _ = rows_to_learn(table, choices)
    rows, encoder = np.sort(rows[: args.max_rows]), TableEncoder()
    y, X = y[rows], encoder.fit_transform(frame.take(rows), y[rows])
    spread = X.std(axis=0)
    X = X / np.where(encoder.is_number_ & (spread > 0), spread, 1.0)
    options: dict[str, Any] = {}
    if choices.task == "classification":
        options = {"loss": "log_loss", "n_lifetimes": settings.SAMPLE_LIFETIMES}
    return lifetime_path(
        X,
        y,
        n_estimators=args.trees,
        random_state=choices.seed,
        n_jobs=choices.n_jobs,
        callback=console.progress,
        **options,
    )


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
    said = ["  ".join(f"{name.replace('_', ' '):>10}" for name in rows[0])]
    for row in rows:
        line = "  ".join(f"{value:>{max(10, len(name))}.5g}" for name, value in row.items())
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
