"""The command that describes a saved model."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import Any

from mondrian_kernel.app.cli.console import Console, lines
from mondrian_kernel.app.cli.describe import describe, held_out_words, relevance_words
from mondrian_kernel.app.table.model import TableModel
from mondrian_kernel.persistence import load

_SHOWN = 6  # categories of a column


def run(args: Namespace, console: Console) -> None:
    """Describe a model of a table, or any other of this library."""
    model = load(args.model)
    about = {"file": args.model, "bytes": os.path.getsize(args.model)}
    if isinstance(model, TableModel):
        described = about | describe(model)
        console.result(described, _table_words(described))
    else:
        described = about | _estimator(model)
        told = [(name, f"{value:.6g}" if isinstance(value, float) else str(value))
                for name, value in described.items()]  # fmt: skip
        console.result(described, lines(told))


def _estimator(model: Any) -> dict[str, Any]:
    """Class and plain attributes of a model which was saved by itself."""
    names = ("lifetime_", "alpha_", "n_estimators", "n_cells_", "n_features_in_", "best_lifetime",
             "best_alpha", "criterion")  # fmt: skip
    found = {name: getattr(model, name) for name in names if hasattr(model, name)}
    if hasattr(model, "features_"):
        found["n_estimators"] = model.features_.n_estimators
    return {"class": type(model).__name__} | found


def _table_words(about: dict[str, Any]) -> str:
    columns = []
    for name, words in about["columns"].items():
        kind = "number"
        if words is not None:
            more = ", ..." if len(words) > _SHOWN else ""
            kind = f"{len(words)} categories: {', '.join(words[:_SHOWN])}{more}"
        columns.append((name, kind))
    told = [
        ("rows learnt, dims", f"{about['rows']}, {about['dims']}"),
        ("lifetime", f"{about['lifetime']:.4g}"),
        ("dims that count most", relevance_words(about["relevance"])),
        ("penalty alpha", f"{about['alpha']:.3g}"),
        ("trees, cells", f"{about['trees']}, {about['cells']}"),
    ]
    return "\n\n".join(
        [
            f"{about['file']} ({about['bytes'] / 1e6:.1f} MB): {about['task']} of "
            f"{about['target']!r}",
            lines(told),
            held_out_words(about["task"], about["held_out"]),
            f"  columns\n{lines(columns, '    ')}",
        ]
    )
