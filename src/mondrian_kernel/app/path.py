"""The command that shows the error at every kernel width."""

from __future__ import annotations

import io
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from mondrian_kernel.app.console import Console, check_output
from mondrian_kernel.app.fit_update_inspect import choices_from
from mondrian_kernel.app.roles import (
    frame_to_learn,
    read_targets,
    refuse_useless_columns,
    require_variety,
)
from mondrian_kernel.app.table_model import Choices, split_rows, used_columns
from mondrian_kernel.app.tables import Table, read_table
from mondrian_kernel.encoder import TableEncoder
from mondrian_kernel.persistence.file_writing import write_file

_PICTURES = (".png", ".svg", ".pdf")


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
    if args.plot is not None:
        _draw_path(found, args.plot)
        result["plot"] = args.plot
        console.result(result, f"drawn in {args.plot}; best lifetime {found.best_lifetime:.4g}")
    else:
        console.result(result, _path_words(rows, found.best_lifetime))


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
    frame = frame_to_learn(table, names, choices.categorical).take(rows)
    refuse_useless_columns(table, frame)
    encoder = TableEncoder()
    X = encoder.fit_transform(frame, y)
    spread = X.std(axis=0)
    X = X / np.where(encoder.is_number_ & (spread > 0), spread, 1.0)
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
