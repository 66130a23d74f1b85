"""The command that lets a saved model learn further rows."""

from __future__ import annotations

import dataclasses
from argparse import Namespace

import numpy as np

from mondrian_kernel.app.cli.console import Console
from mondrian_kernel.app.cli.files import load_table_model, require_place
from mondrian_kernel.app.table.reading import read_table
from mondrian_kernel.app.table.targets import read_targets
from mondrian_kernel.app.table.training import learn_further
from mondrian_kernel.persistence import save


def run(args: Namespace, console: Console) -> None:
    """Learn all rows and replace the model, or change nothing."""
    output = args.output or args.model
    require_place(output)
    model = load_table_model(args.model, args.jobs)
    table = read_table(args.data)
    X = model.columns.encode(table)
    y = read_targets(table, model.target, model.task)
    if model.task == "classification":
        unknown = np.flatnonzero(~np.isin(y, model.estimator.classes_))
        if unknown.size:
            row = int(unknown[0])
            table.fail(row, model.target, f"is {str(y[row])!r}, a class the model does not know")
    console.progress.stage("learning")
    try:
        learn_further(model.estimator, X, y, console.progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Stopped; {output} is as it was.") from None
    model = dataclasses.replace(model, n_rows=model.n_rows + len(y))
    save(model, output)
    console.result(
        {"rows_learnt": len(y), "rows": model.n_rows, "model": output},
        f"{output}: learnt {len(y)} more rows, {model.n_rows} in all",
    )
