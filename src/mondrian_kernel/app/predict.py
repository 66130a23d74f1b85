"""The command that predicts the rows of a table, and the files it writes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel.app.console import STANDARD_OUTPUT, Console, check_output, printable
from mondrian_kernel.app.measure import predict_blocks
from mondrian_kernel.app.table_model import TableModel, load_table_model
from mondrian_kernel.app.tables import read_table
from mondrian_kernel.persistence.container import write_file

_TO_STANDARD_OUTPUT = ("-", "/dev/stdout")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def predict(args: Namespace, console: Console) -> None:
    """Predict the rows of a table and write them."""
    to_file = args.output not in _TO_STANDARD_OUTPUT
    if to_file:
        check_output(args.output, keep=[args.model, args.data])
    elif sys.stdout is None:
        raise ValueError("The standard output is closed: give the name of a file with -o.")
    model = load_table_model(args.model, args.jobs)
    if args.interval is not None and model.task != "regression":
        raise ValueError(f"{args.model}: it predicts classes, which have no intervals.")
    console.progress.stage("reading the table")
    X = model.frame(read_table(args.data, args.decimal))
    console.progress.stage("predicting")
    columns = _predict(model, X, args.interval or settings.COVERAGE, console)
    contents = _json_bytes(columns) if args.json else _file_bytes(columns, args.output)
    console.progress.clear()
    if to_file:
        write_file(args.output, [contents])
    else:
        _write_to_standard_output(contents)


def _predict(model: TableModel, X: Any, coverage: float, console: Console) -> dict[str, Any]:
    """Return columns of predictions by name."""
    estimator, target, progress = model.estimator, model.target, console.progress
    if model.task == "classification":
        P = predict_blocks(estimator.predict_proba, X, progress)
        best = estimator.classes_[P.argmax(axis=1)]
        shares = zip(estimator.classes_, P.T, strict=True)
        return {target: best} | {f"P({target}={c})": share for c, share in shares}

    def mean_and_ends(rows: Any) -> NDArray[Any]:
        interval = estimator.predict_interval(rows, coverage)
        return np.column_stack([estimator.predict(rows), interval])

    # The prediction keeps the name of the target, so the ends must have others.
    prefix = f"{target}_" if target in ("lower", "upper") else ""
    names = (target, f"{prefix}lower", f"{prefix}upper")
    return dict(zip(names, predict_blocks(mean_and_ends, X, progress).T, strict=True))


def _write_to_standard_output(contents: bytes) -> None:
    if sys.stdout.isatty():
        contents = printable(contents.decode()).encode()
    try:
        for begin in range(0, len(contents), settings.PIPE_BYTES):
            # An unbuffered stream may take less than it is given when its reader leaves.
            sys.stdout.buffer.write(contents[begin : begin + settings.PIPE_BYTES])
        sys.stdout.buffer.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from error


def _json_bytes(columns: dict[str, NDArray[Any]]) -> bytes:
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    rows = [dict(zip(columns, row, strict=True)) for row in values]
    return json.dumps(rows, indent=1).encode() + b"\n"


def _file_bytes(columns: dict[str, NDArray[Any]], name: str) -> bytes:
    """Return the contents of a file of the kind that its name says, CSV by default."""
    if name.endswith((".parquet", ".pq")):
        return _parquet_bytes(columns)
    text = io.StringIO(newline="")
    separator = "\t" if name.removesuffix(".gz").endswith((".tsv", ".tab")) else ","
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow([_not_a_formula(name) for name in columns])
    cells = ([_not_a_formula(v) for v in column.tolist()] for column in columns.values())
    writer.writerows(zip(*cells, strict=True))
    contents = text.getvalue().encode()
    return gzip.compress(contents) if name.endswith(".gz") else contents


def _not_a_formula(value: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would run; numbers stay as they are."""
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def _parquet_bytes(columns: dict[str, NDArray[Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    sink = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()
