"""The command that predicts the rows of a table."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from argparse import Namespace
from typing import Any

from numpy.typing import NDArray

from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.cli.console import Console
from mondrian_kernel.app.cli.files import load_table_model, require_place
from mondrian_kernel.app.table.model import TableModel, in_blocks
from mondrian_kernel.app.table.reading import read_table
from mondrian_kernel.persistence.container import write_atomically

_PIPE = 2**16  # bytes


def run(args: Namespace, console: Console) -> None:
    """Predict and write."""
    if args.output != "-":
        require_place(args.output)
    model = load_table_model(args.model, args.jobs)
    if args.interval is not None and model.task != "regression":
        raise ValueError(f"{args.model}: it predicts classes, which have no intervals.")
    console.progress.stage(f"reading {args.data}")
    X = model.columns.encode(read_table(args.data))
    console.progress.stage("predicting")
    predicted = _predict(model, X, args.interval, console)
    contents = _json(predicted) if args.json else _file(predicted, args.output)
    console.progress.clear()
    if args.output == "-":
        for begin in range(0, len(contents), _PIPE):
            # An unbuffered stream may take less than it is given when its reader leaves.
            sys.stdout.buffer.write(contents[begin : begin + _PIPE])
        sys.stdout.buffer.flush()
    else:
        write_atomically(args.output, [contents])


def _predict(
    model: TableModel, X: FloatArray, coverage: float | None, console: Console
) -> dict[str, NDArray[Any]]:
    """Columns of predictions."""
    estimator, progress = model.estimator, console.progress
    if model.task == "classification":
        P = in_blocks(estimator.predict_proba, X, progress)
        names = (f"P({model.target}={c})" for c in estimator.classes_)
        best = estimator.classes_[P.argmax(axis=1)]
        return {model.target: best} | dict(zip(names, P.T, strict=True))
    columns = {model.target: in_blocks(estimator.predict, X, progress)}
    if coverage is not None:
        console.progress.stage("finding intervals")
        interval = in_blocks(lambda rows: model.predict_interval(rows, coverage), X, progress)
        columns["lower"], columns["upper"] = interval.T
    return columns


def _json(columns: dict[str, NDArray[Any]]) -> bytes:
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    rows = [dict(zip(columns, row, strict=True)) for row in values]
    return json.dumps(rows, ensure_ascii=False, indent=1).encode() + b"\n"


def _file(columns: dict[str, NDArray[Any]], name: str) -> bytes:
    """Contents of a file of the kind that its name says, CSV if nothing."""
    if name.endswith((".parquet", ".pq")):
        return _parquet(columns)
    text = io.StringIO(newline="")
    separator = "\t" if name.removesuffix(".gz").endswith((".tsv", ".tab")) else ","
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    contents = text.getvalue().encode()
    return gzip.compress(contents) if name.endswith(".gz") else contents


def _parquet(columns: dict[str, NDArray[Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table(columns), sink)
    contents: bytes = sink.getvalue().to_pybytes()
    return contents
