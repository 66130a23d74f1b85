"""The command that shows the error at every kernel width."""

from __future__ import annotations

import io
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from mondrian_kernel._path.loss_path import loss_path
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel.app.cli.console import Console
from mondrian_kernel.app.cli.files import require_place
from mondrian_kernel.app.cli.fit import choices_from
from mondrian_kernel.app.table.columns import learn_columns
from mondrian_kernel.app.table.reading import Table, read_table
from mondrian_kernel.app.table.targets import read_targets, require_variety
from mondrian_kernel.app.table.training import Choices, split_rows, used_columns
from mondrian_kernel.paths import lifetime_path
from mondrian_kernel.persistence.container import write_atomically

_PICTURES = (".png", ".svg", ".pdf")


def run(args: Namespace, console: Console) -> None:
    """Follow the path and show it."""
    if args.plot is not None and Path(args.plot).suffix.lower() not in _PICTURES:
        raise ValueError(f"{args.plot}: a picture is a file {', '.join(_PICTURES)}.")
    require_place(args.plot)
    console.progress.stage(f"reading {args.data}")
    table = read_table(args.data)
    choices = choices_from(args, table)
    console.progress.stage("following the path")
    path = _follow(table, choices, args, console)
    if not path.complete:
        console.note(f"stopped: this is the path up to lifetime {path.lifetimes[-1]:.4g}.")
    rows = _rows(path)
    result: dict[str, Any] = {
        "task": choices.task,
        "best_lifetime": path.best_lifetime,
        "best_alpha": path.best_alpha,
        "complete": path.complete,
        "path": rows,
    }
    if args.plot is not None:
        _draw(path, args.plot)
        result["plot"] = args.plot
        console.result(result, f"drawn in {args.plot}; best lifetime {path.best_lifetime:.4g}")
    else:
        console.result(result, _words(rows, path.best_lifetime))


def _follow(table: Table, choices: Choices, args: Namespace, console: Console) -> LifetimePath:
    """Run the path on all rows, or on a sample."""
    names = used_columns(table, choices)
    y = read_targets(table, choices.target, choices.task)
    require_variety(table, choices.target, y)
    rows = split_rows(table.n_rows, choices)[0][: args.max_rows]
    y = y[rows]
    require_variety(table, choices.target, y)
    columns = learn_columns(table, names, choices.categorical, rows)
    X = columns.encode(table, rows) / columns.scale
    if choices.task == "regression":
        return lifetime_path(
            X, y, n_estimators=args.trees, random_state=choices.seed,
            n_jobs=choices.n_jobs, callback=console.progress,
        )  # fmt: skip
    classes, labels = np.unique(y, return_inverse=True)
    return loss_path(
        X, labels, classes.size, "log_loss", n_estimators=args.trees, seed=choices.seed,
        n_jobs=choices.n_jobs, callback=console.progress,
    )  # fmt: skip


def _rows(path: LifetimePath) -> list[dict[str, Any]]:
    """Return what was found at each lifetime, with the penalty that is best there."""
    rows = []
    for k, a in enumerate(np.nanargmin(path.score, axis=1)):
        row = {
            "lifetime": path.lifetimes[k],
            "cells": path.n_cells[k],
            "alpha": path.alphas[a],
        }
        if "train_error" in path.curves:
            row["rmse_fitted"] = np.sqrt(path.train_error[k, a])
            row["rmse_left_out"] = np.sqrt(path.loo_error[k, a])
            row["log_evidence"] = path.log_marginal_likelihood[k, a]
        else:
            row["log_loss_fitted"] = path.curves["train_loss"][k, a]
            row["log_loss_held_out"] = path.curves["validation_loss"][k, a]
        rows.append(row)
    return rows


def _words(rows: list[dict[str, Any]], best: float) -> str:
    """Lay out the rows with a star at the best one."""
    names = [name.replace("_", " ") for name in rows[0]]
    widths = [max(10, len(name)) for name in names]
    said = ["  ".join(f"{name:>{w}}" for name, w in zip(names, widths, strict=True))]
    for row in rows:
        values = zip(row.values(), widths, strict=True)
        line = "  ".join(f"{value:>{w}.5g}" for value, w in values)
        said.append(line + (" *" if row["lifetime"] == best else ""))
    return "\n".join(said)


def _draw(path: LifetimePath, file: str) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from mondrian_kernel.plotting import LifetimePathDisplay

    picture = io.BytesIO()
    figure: Any = LifetimePathDisplay.from_path(path).figure_
    figure.savefig(picture, format=Path(file).suffix[1:].lower(), bbox_inches="tight", dpi=150)
    write_atomically(file, [picture.getvalue()])
