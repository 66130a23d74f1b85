"""The command that fits a table and saves the model."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from typing import Any

from mondrian_kernel.app.cli.console import Console, lines
from mondrian_kernel.app.cli.describe import describe, held_out_words, relevance_words
from mondrian_kernel.app.cli.files import require_place
from mondrian_kernel.app.table.reading import Table, read_table
from mondrian_kernel.app.table.targets import guess_task
from mondrian_kernel.app.table.training import Choices, Training, fit_table
from mondrian_kernel.persistence import save


def run(args: Namespace, console: Console) -> None:
    """Fit, measure, save and report."""
    for file in (args.output, args.report):
        require_place(file)
    if args.report is not None and not args.holdout:
        raise ValueError("A report needs rows that are held out: raise --holdout.")
    begin = time.perf_counter()
    console.progress.stage(f"reading {args.data}")
    table = read_table(args.data)
    choices = choices_from(args, table)
    training = fit_table(table, choices, stage=console.progress.stage, callback=console.progress)
    seconds = time.perf_counter() - begin
    save(training.model, args.output)
    if args.report is not None:
        console.progress.stage("writing the report")
        try:
            _write_report(args.report, training, title=f"{choices.target} of {table.source}")
        except KeyboardInterrupt:
            saved = f"Stopped; the model is saved in {args.output}, no report was written."
            raise KeyboardInterrupt(saved) from None
    result = _result(table, training, seconds, args)
    console.result(result, _words(result, args))


def choices_from(args: Namespace, table: Table) -> Choices:
    """Return what the user has chosen, with the task guessed where it was left open."""
    task = guess_task(table, args.target) if args.task == "auto" else args.task
    return Choices(
        args.target, task, args.drop, args.categorical, holdout=getattr(args, "holdout", 0.0),
        n_trees=args.trees, seed=args.seed, n_jobs=args.jobs,
    )  # fmt: skip


def _write_report(file: str, training: Training, *, title: str) -> None:
    """Write the report on the estimator that was measured."""
    from mondrian_kernel.app.report import write_report

    write_report(
        file, training.measured, training.X_train, training.y_train, training.X_test,
        training.y_test, title=title, target=training.model.target,
        feature_names=training.columns.dims,
    )  # fmt: skip


def _result(table: Table, training: Training, seconds: float, args: Namespace) -> dict[str, Any]:
    path = training.measured.path_
    return describe(training.model) | {
        "data": table.source,
        "rows_in_file": table.n_rows,
        "rows_measured_from": len(training.y_train),
        "path_complete": bool(getattr(path, "complete", True)),
        "seconds": seconds,
        "model": args.output,
        "model_bytes": os.path.getsize(args.output),
        "report": args.report,
    }


def _words(result: dict[str, Any], args: Namespace) -> str:
    guessed = ", guessed; change it with --task" if args.task == "auto" else ""
    fitted = [
        ("rows, dims", f"{result['rows']}, {result['dims']}"),
        ("lifetime", f"{result['lifetime']:.4g}   (the kernel's width is 1/lifetime)"),
        ("dims that count most", relevance_words(result["relevance"])),
        ("penalty alpha", f"{result['alpha']:.3g}"),
        ("trees, cells", f"{result['trees']}, {result['cells']}"),
        ("time", f"{result['seconds']:.1f} s"),
    ]
    said = [
        f"{result['data']}: {result['rows_in_file']} rows, predicting {result['target']!r} "
        f"({result['task']}{guessed})",
        lines(fitted),
        held_out_words(result["task"], result["held_out"]),
    ]
    if result["rows"] > result["rows_measured_from"]:
        said.append(
            f"  measured with {result['rows_measured_from']} rows fitted; the saved model has "
            "learnt all of them"
        )
    if not result["path_complete"]:
        said.append("  stopped early: the best of the widths that had been looked at")
    saved = f"  saved to {result['model']} ({result['model_bytes'] / 1e6:.1f} MB)"
    if result["report"] is not None:
        saved += f"\n  report in {result['report']}"
    return "\n\n".join([*said, saved])
