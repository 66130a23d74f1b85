"""What the columns of a table are for: the target, and numbers or categories to learn from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._settings import MAX_CATEGORIES
from mondrian_kernel.app.tables import Table, TableError


def frame_to_learn(table: Table, names: list[str], categorical: list[str]) -> Any:
    """Return columns as a pyarrow table of numbers and, for categories, text.

    Parameters
    ----------
    table : Table
        The table.
    names : list of str
        Columns to use. If most values of one are numbers, all of them must be.
    categorical : list of str
        Columns whose numbers are categories.

    Returns
    -------
    frame : pyarrow.Table
        Columns of float64 and of text, with nulls where values are missing.
    """
    text = dict.fromkeys(names, True)
    for name in names:
        if name not in categorical:
            text[name] = table.share_of_numbers(name) < 0.5
            if text[name]:
                advice = f"if these are categories, say --categorical {name!r}"
                table.refuse_disguised_numbers(name, advice)
    return table.frame(text)


def refuse_useless_columns(table: Table, frame: Any) -> None:
    """Raise an error if a column of the rows to learn from has no values, or is an identifier."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(frame.column_names, frame.columns, strict=True):
        n_values, n_words = len(column) - column.null_count, 0
        if pa.types.is_string(column.type):
            n_words = pc.count_distinct(column).as_py()
        if n_values == 0:
            raise TableError(
                f"{table.source}: column {name!r} has no values in the {len(column)} rows to learn "
                "from; leave it out (--drop)."
            )
        if n_words > MAX_CATEGORIES and 2 * n_words > n_values:
            raise TableError(
                f"{table.source}: column {name!r} has {n_words} different texts in {n_values} "
                "rows, like a name or an identifier; leave it out (--drop) or turn it into numbers."
            )


def guess_task(table: Table, target: str) -> str:
    """Classification if the target is text or has two values, else regression."""
    table.require([target])
    if table.share_of_numbers(target) < 0.5:
        table.refuse_disguised_numbers(target, "if these are classes, say --task classification")
        return "classification"
    numbers = table.numbers(target)
    return "classification" if np.unique(numbers[~np.isnan(numbers)]).size == 2 else "regression"


def read_targets(table: Table, target: str, task: str) -> NDArray[Any]:
    """Return the numbers or classes to predict; none may be missing.

    Classes are text, even if they are numbers in the file.
    """
    table.require([target])
    if task == "regression":
        values: NDArray[Any] = table.numbers(target)
        missing = np.isnan(values)
    else:
        values = table.texts(target)
        missing = values == None  # noqa: E711 - by element
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        table.fail(row, target, "is missing, but it is the target; take the row out")
    return values if task == "regression" else values.astype(str)


def require_variety(table: Table, target: str, values: NDArray[Any]) -> None:
    """Raise an error if all targets are the same."""
    if (values == values[0]).all():
        raise TableError(
            f"{table.source}: column {target!r} is {values[0]} in every row: there is nothing to "
            "learn."
        )
