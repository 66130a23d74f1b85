"""The column to predict: which task it sets, and its values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel.app.table.reading import Table, TableError


def guess_task(table: Table, target: str) -> str:
    """Classification where the target is text or has two values, else regression."""
    table.require([target])
    if table.share_of_numbers(target) < 0.5:
        return "classification"
    numbers = table.numbers(target)
    return "classification" if np.unique(numbers[~np.isnan(numbers)]).size == 2 else "regression"


def read_targets(table: Table, target: str, task: str) -> NDArray[Any]:
    """Return the numbers or the classes to predict, none of them missing.

    Classes are text, also where they are numbers in the file.
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
        table.fail(row, target, "is missing, and it is what is to be learnt; take the row out")
    return values if task == "regression" else values.astype(str)


def require_variety(table: Table, target: str, values: NDArray[Any]) -> None:
    """Refuse targets that are all the same."""
    if (values == values[0]).all():
        raise TableError(
            f"{table.source}: column {target!r} is {values[0]} in every row: there is nothing to "
            "learn."
        )
